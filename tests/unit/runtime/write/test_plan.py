"""Which new files share a task."""

from __future__ import annotations

import pytest

from parquetry.runtime.base_file.model import Bucket
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.write.plan import PartitionChanges, plan_buckets
from tests.support.clustering_model import maximum_for

INSTANT = "20261121120000000"
ROWS = 10_000


def rows_of_buckets(*, is_record_size_known, **policy):
    work = PartitionChanges(
        partition="p=1", inserts=ROWS, record_size_bytes=100, is_record_size_known=is_record_size_known
    )
    limits = SizingPolicy(max_file_size_bytes=maximum_for(100_000), **policy)
    return [b.expected_inserts for b in plan_buckets(INSTANT, [work], policy=limits, tasks=2).buckets]


def test_new_files_of_a_guessed_record_size_share_tasks():
    assert rows_of_buckets(is_record_size_known=True) == [1_000] * 10
    assert rows_of_buckets(is_record_size_known=False) == [5_000] * 2


@pytest.mark.parametrize("is_record_size_known", [True, False])
def test_a_configured_number_of_rows_per_file_is_kept(is_record_size_known):
    assert rows_of_buckets(is_record_size_known=is_record_size_known, insert_split_size=400) == [400] * 25


def test_a_number_of_rows_that_the_maximum_is_not_thought_to_hold_is_a_guess_too():
    assert rows_of_buckets(is_record_size_known=False, insert_split_size=4_000) == [5_000] * 2


def test_bytes_of_a_base_file_and_of_new_rows_add_up():
    base = FileSlice(
        partition="p=1", file_id="f", instant=INSTANT, path=f"p=1/f_0_{INSTANT}.parquet", size_bytes=50_000
    )
    filled = Bucket(index=0, partition="p=1", file_id="f", base=base, expected_inserts=10)
    new = Bucket(index=1, partition="p=1", file_id="g", expected_inserts=1_000)
    assert (filled.file_bytes(100), new.file_bytes(100)) == (51_000, 100_000)
    assert sorted([filled, new], key=lambda bucket: -bucket.file_bytes(100)) == [new, filled]
