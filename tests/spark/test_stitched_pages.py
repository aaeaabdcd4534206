"""Spark reads files whose pages were copied, and skips by their page index as by any other."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.spec.table_spec import Column
from tests.support.base_files import FIRST, SECOND, Incoming, bucket, context, page_starts, slice_of, write

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="note", type="string"),
    Column(name="kind", type="string"),
    Column(name="x", type="double"),
    Column(name="price", type="decimal(12,2)"),
    Column(name="day", type="date"),
    Column(name="tags", type="array<string>"),
)
FILES, ROWS = 3, 2000
CONDITIONS = {
    "n between 2100 and 2110": lambda row: row["n"] is not None and 2100 <= row["n"] <= 2110,
    "n < 50 or n > 5990": lambda row: row["n"] is not None and (row["n"] < 50 or row["n"] > 5990),
    "n is null and kind = 'red'": lambda row: row["n"] is None and row["kind"] == "red",
    "note >= 'note 0005' and price < 0": lambda row: (
        row["note"] is not None and row["note"] >= "note 0005" and row["price"] < 0
    ),
    "x > 2.5D": lambda row: row["x"] > 2.5,
    "day = date'1960-01-05'": lambda row: row["day"] == date(1960, 1, 5),
    "price = 12.34 or n = 4321": lambda row: row["price"] == Decimal("12.34") or row["n"] == 4321,
    "n > 4100 and size(tags) = 2": lambda row: (
        row["n"] is not None and row["n"] > 4100 and len(row["tags"]) == 2
    ),
}


def some_rows(rnd: random.Random, number: int) -> list[Incoming]:
    """Numbers that grow from file to file, so that most pages hold no row of a condition."""
    first = number * ROWS
    return [
        Incoming(
            key=f"k{n:05}",
            values={
                "n": n if n % 97 else None,
                "note": f"note {rnd.randrange(10**9):09}" if n % 31 else None,
                "kind": rnd.choice(["red", "green"]),
                "x": rnd.gauss(0, 1),
                "price": Decimal(rnd.randrange(-(10**9), 10**9)) / 100,
                "day": date.fromordinal(date(1960, 1, 1).toordinal() + n),
                "tags": [f"t{rnd.random()}" for _ in range(rnd.randrange(4))],
            },
        )
        for n in range(first, first + ROWS)
    ]


def test_spark_finds_every_row_by_copied_pages(spark, tmp_path):
    rnd = random.Random(9)
    ctx = context(tmp_path, COLUMNS, instant=FIRST)
    rows = [some_rows(rnd, number) for number in range(FILES)]
    files = [write(ctx, bucket(ctx, number), rows[number]).files[0] for number in range(FILES)]
    group = GroupWork(
        index=0, partition="p=1", slices=tuple(map(slice_of, files)), target_bytes=ctx.max_file_size_bytes
    )
    (result,) = rewrite_group(context(tmp_path, COLUMNS, instant=SECOND), group).files
    path = tmp_path / result.stat.path
    chunks = {chunk.name: chunk for chunk in ParquetParts(pa.OSFile(str(path))).chunks(0)}
    assert page_starts(chunks["n"]) == page_starts(chunks["note"]) == [0, ROWS, 2 * ROWS]
    frame = spark.read.parquet(str(path))
    stored = [row.values for file in rows for row in file]
    for condition, holds in CONDITIONS.items():
        found = frame.where(condition).select("_hoodie_record_key", *(c.name for c in COLUMNS)).collect()
        expected = [row for row in stored if holds(row)]
        assert [row.asDict() for row in found] == [
            {"_hoodie_record_key": f"k{stored.index(row):05}", **row} for row in expected
        ], condition
        assert expected or condition.startswith("price"), condition
