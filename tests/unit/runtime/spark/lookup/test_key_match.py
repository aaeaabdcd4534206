"""Which batches every task can hold: by their rows, keys, partition paths and ordering values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parquetry.runtime.spark.lookup.key_match import SMALL_BYTES, SMALL_ROWS, is_small
from parquetry.runtime.stage.index import IndexBuilder
from parquetry.runtime.stage.location import LocalStage
from parquetry.runtime.stage.part import StageSpec
from parquetry.runtime.stage.staged import PartitionTotals, StagedRows

KINDS = {"n": pa.int64(), "price": pa.decimal128(9, 2), "on": pa.bool_(), "text": pa.string()}


def staged(rows, *, key="k", path="p", ordering=None):
    spec = StageSpec(
        location=LocalStage(folder=""),
        schema=pa.schema(KINDS),
        key_column="k",
        ordering=ordering,
        required=(),
        rows=True,
        keys=True,
    )
    totals = {path: PartitionTotals(rows=rows, text_bytes=rows * len(key.encode()))}
    return StagedRows(spec=spec, names={}, index=IndexBuilder().index(), totals=totals, faults=())


def test_rows_are_bounded_whatever_they_hold():
    assert is_small(staged(SMALL_ROWS))
    assert not is_small(staged(SMALL_ROWS + 1))


@pytest.mark.parametrize(
    ("batch", "row_bytes"),
    [
        ({}, 24 + 1),
        ({"key": 300 * "é"}, 600 + 1),
        ({"path": 200 * "é"}, 24 + 400),
        ({"path": 200 * "p", "ordering": "n"}, 24 + 200 + 8),
        ({"path": 200 * "p", "ordering": "price"}, 24 + 200 + 16),
        ({"path": 200 * "p", "ordering": "on"}, 24 + 200 + 1),
        ({"path": 200 * "p", "ordering": "text"}, 24 + 200 + 24),
    ],
)
def test_a_row_takes_its_key_its_partition_path_and_its_ordering_value(batch, row_bytes):
    most = min(SMALL_BYTES // row_bytes, SMALL_ROWS)
    assert is_small(staged(most, **batch))
    assert not is_small(staged(most + 1, **batch))
