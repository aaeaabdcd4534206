"""Files put together from row groups that were copied byte by byte, before readers and writers that are not ours."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.spec import BloomFilter, FilesPolicy, TableSpec
from tests.interop.test_hudi_beside_us import Beside
from tests.support import our_table
from tests.support.judges import assert_history, assert_latest
from tests.support.our_table import OurReader
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SPEC = TableSpec(name="ours", columns=(), record_key=("id",), ordering="version", partition_by=("region",))


def test_files_of_copied_row_groups_are_read_and_written_by_real_hudi(spark, tmp_path, hudi, judges):
    bloom_filter = BloomFilter.EXACT if hudi.version.startswith("0") else BloomFilter.ALWAYS_TRUE
    rnd = random.Random(51)
    files = FilesPolicy(row_group_size_bytes=12_000, compression="snappy", bloom_filter=bloom_filter)
    ours = our_table.create(spark, tmp_path / "ours", spec=replace(SPEC, files=files))
    ours.upsert(ours.rows(rnd, range(400), 1))
    assert min(map(len, row_group_rows(ours.path))) >= 3
    ours.upsert(ours.rows(rnd, [*range(8), *range(400, 408)], 2))
    assert all(len(groups) >= 3 for groups in row_group_rows(ours.path))
    assert unsound(ours.path) == []
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)
    beside = Beside(hudi, ours)
    beside.upsert(ours.rows(rnd, range(100, 140), 3))
    beside.upsert(ours.rows(rnd, range(130, 150), 4), index="BLOOM")
    beside.delete(ours.rows(rnd, range(20, 28), 5))
    beside.cluster()
    ours.upsert(ours.rows(rnd, range(60, 70), 6))
    assert_latest([*judges, OurReader(spark)], str(ours.path), ours.model)


def row_group_rows(folder) -> list[list[int]]:
    """The rows of every row group of every file."""
    found = []
    for path in folder.glob("region*/*.parquet"):
        metadata = pq.read_metadata(path)
        found.append([metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)])
    return found
