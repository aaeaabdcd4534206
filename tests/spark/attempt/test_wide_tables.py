"""A table of many columns is written, clustered, tested and read as one of few is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquetry
from parquetry.runtime.spark.testing.checks import make_check
from parquetry.runtime.spark.testing.counting import TestedTable, count_failures
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.row_tests import OtherTable, RowTest, RowTestKind
from parquetry.runtime.spec.table_spec import Column, Extra, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support import hudi_rs

pytestmark = pytest.mark.spark

# An expression as deep as the table is wide ends in a StackOverflowError from about 400 on.
NAMES = tuple(f"column_{number:04}" for number in range(500))
COLUMNS = (
    Column(name="id", type="bigint", nullable=False),
    Column(name="p", type="string"),
    *(Column(name=name, type="bigint" if number % 7 == 3 else "string") for number, name in enumerate(NAMES)),
)

SORTED = ClusteringSpec(execution=ExecutionPolicy(strategy="sort", columns=("column_0003",)))


def value(number: int, key: int, version: int) -> object:
    if (number + key) % 11 == 0:
        return None
    return key * number + version if number % 7 == 3 else f"{version}-{key}-{number}"


def frame_of(spark, folder, version: int, keys: range):
    """Rows of a file that Spark filters, so that they take the way through it."""
    rows = [
        {"id": key, "p": f"p{key % 2}"}
        | {name: value(number, key, version) for number, name in enumerate(NAMES)}
        for key in keys
    ]
    file = folder / f"{version}-{keys.start}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file)
    return spark.read.parquet(str(file)).where("id >= 0")


def test_a_table_of_five_hundred_columns(spark, tmp_path):
    path = tmp_path / "t"
    spec = TableSpec(
        name="t", columns=COLUMNS, record_key=("id",), partition_by=("p",), extra=Extra(clustering=SORTED)
    )
    parquetry.create(str(path), spec)
    table = parquetry.open(path)
    table.insert(frame_of(spark, tmp_path, 1, range(8)))
    table.upsert(frame_of(spark, tmp_path, 2, range(4, 12)))
    table.delete(frame_of(spark, tmp_path, 2, range(2)))
    table.bulk_insert(frame_of(spark, tmp_path, 1, range(12, 14)))
    versions = {key: 2 if 4 <= key < 12 else 1 for key in range(2, 14)}
    wanted = {
        key: {name: value(number, key, version) for number, name in enumerate(NAMES)}
        for key, version in versions.items()
    }

    def found(rows) -> dict:
        return {row["id"]: {name: row[name] for name in NAMES} for row in rows}

    assert found(hudi_rs.read(str(path)).to_pylist()) == wanted
    assert found(row.asDict() for row in table.read(spark).collect()) == wanted
    (one,) = table.read(spark, where=f"{NAMES[-1]} = '2-9-499'").collect()
    assert one["id"] == 9

    assert table.cluster(spark).groups == 2
    assert found(hudi_rs.read(str(path)).to_pylist()) == wanted

    handle = open_table(open_store(str(path)))
    timeline = handle.timeline()
    tested = TestedTable(
        spark=spark,
        handle=handle,
        timeline=timeline,
        columns=COLUMNS,
        files=list(handle.view(timeline).all_slices()),
    )
    places = tuple(range(len(tested.files)))
    tests = [
        RowTest(name="n", kind=RowTestKind.NOT_NULL, files=places, columns=NAMES),
        RowTest(name="u", kind=RowTestKind.UNIQUE, files=places, columns=("id", "p")),
        RowTest(
            name="r",
            kind=RowTestKind.RELATIONSHIPS,
            files=places,
            columns=("id",),
            other=OtherTable(location=str(path), columns=("id",)),
        ),
    ]
    no_rows = tested.rows(())
    checks = [make_check(spark, test, no_rows, lambda _: handle) for test in tests]
    nulls = tuple(sum(row[name] is None for row in wanted.values()) for name in NAMES)
    assert count_failures(tested, checks).failures == (nulls, (0,), (0,))
