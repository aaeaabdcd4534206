"""The bytes that a new order of rows costs, against a plain rewrite of the same columns by pyarrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file.encoding import ZSTD_LEVEL, page_options
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS, USUAL_PAGE_ROWS
from parquetry.runtime.spec.table_spec import Column
from tests.support.base_files import FIRST, MIB, SECOND, bucket, context, slice_of

ROWS = 60_000
FILES = 4
COLUMNS = (
    Column(name="by", type="bigint"),
    Column(name="kind", type="string"),
    Column(name="amount", type="double"),
)
CONSTANTS = ("time", "partition", "file")
MOST_BYTES_A_ROW = 0.1
"""Sequence numbers, which the plain files lack, have bounds in the index of each of the finer pages."""


def in_order_of_arrival(rng):
    return [f"{number:08}" for number in range(ROWS)], rng.integers(0, 2**40, ROWS)


def random_keys(rng):
    return [rng.bytes(8).hex() for _ in range(ROWS)], rng.integers(0, 2**40, ROWS)


def few_values(rng):
    return [f"{number:08}" for number in range(ROWS)], rng.integers(0, 50, ROWS)


def nearly_sorted(rng):
    return [f"{number:08}" for number in range(ROWS)], np.arange(ROWS) + rng.integers(0, 500, ROWS)


def keys_of_a_pair(rng):
    orders = np.sort(rng.integers(0, ROWS, ROWS))
    return [f"order:{order},line:{line % 7}" for line, order in enumerate(orders)], rng.permutation(orders)


def own_columns(shape) -> pa.Table:
    rng = np.random.default_rng(1)
    keys, by = shape(rng)
    kinds = pa.array([f"kind {number}" for number in range(9)])
    return pa.table(
        {
            "_hoodie_record_key": pa.array(keys),
            "by": pa.array(by),
            "kind": kinds.take(pa.array(rng.integers(0, 9, ROWS))),
            "amount": pa.array(rng.integers(0, 10**6, ROWS) / 100),
        }
    )


def plain_bytes(rows: pa.Table, *, page_rows: int) -> int:
    """The bytes of the rows as pyarrow alone writes them in one file, with constant columns beside them."""
    sink = pa.BufferOutputStream()
    constant = pa.array([""] * rows.num_rows)
    for name in CONSTANTS:
        rows = rows.append_column(name, constant)
    pq.write_table(
        rows,
        sink,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=["kind", *CONSTANTS, *(["by"] if pc.count_distinct(rows["by"]).as_py() < 100 else [])],
        write_page_index=True,
        store_schema=False,
        **page_options(page_rows),
    )
    return int(sink.getvalue().size)


def incoming(rows: pa.Table) -> pa.RecordBatch:
    count = rows.num_rows
    own = {
        "__position": pa.nulls(count, pa.int64()),
        "__delete": pa.array(np.zeros(count, bool)),
        "__hash": pa.array(np.ones(count, np.int64)),
    }
    names = ["_hoodie_record_key", *own, *rows.column_names[1:]]
    every = {name: rows[name].combine_chunks() for name in rows.column_names} | own
    return pa.RecordBatch.from_arrays([every[name] for name in names], names=names)


def stored_bytes(files) -> int:
    return sum(file.stat.file_size_bytes for file in files)


@pytest.mark.parametrize(
    "shape", [in_order_of_arrival, random_keys, few_values, nearly_sorted, keys_of_a_pair]
)
def test_a_sort_costs_no_more_bytes_than_a_plain_rewrite(tmp_path, shape):
    rows = own_columns(shape)
    before = context(tmp_path, COLUMNS, instant=FIRST)
    share = ROWS // FILES
    files = [
        file
        for number in range(FILES)
        for file in write_bucket(
            before, bucket(before, number), [incoming(rows.slice(number * share, share))]
        ).files
    ]
    group = GroupWork(
        index=0,
        partition="p=1",
        slices=tuple(slice_of(file) for file in files),
        target_bytes=120 * MIB,
        order=RowOrder(strategy="sort", columns=("by",)),
    )
    sorted_files = rewrite_group(context(tmp_path, COLUMNS, instant=SECOND), group).files
    growth = stored_bytes(sorted_files) - stored_bytes(files)
    arrived = sum(
        plain_bytes(rows.slice(number * share, share), page_rows=USUAL_PAGE_ROWS) for number in range(FILES)
    )
    plain_growth = plain_bytes(rows.sort_by("by"), page_rows=ORDERED_PAGE_ROWS) - arrived
    assert growth <= plain_growth + MOST_BYTES_A_ROW * ROWS
