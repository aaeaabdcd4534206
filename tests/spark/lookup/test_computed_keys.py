"""Tables whose files store no keys: rows are found by the texts of their key columns, as by stored keys."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

import parquetry
from parquetry.runtime.arrow.conform import conform
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.spark.session.keys import record_key_sql
from parquetry.runtime.spark.session.settings import expression_settings, session_settings
from parquetry.runtime.spec.meta_columns import META_COLUMNS, MetaColumns
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, KeyScope, TableSpec
from parquetry.runtime.table.partition_path import KeyRules
from parquetry.runtime.table.stored_keys import StoredKeys
from tests.support import hudi_rs
from tests.support.spark_writes import Way, looked_up

pytestmark = pytest.mark.spark

TYPES = {
    "s": "string",
    "i": "int",
    "l": "bigint",
    "b": "boolean",
    "day": "date",
    "at": "timestamp",
    "n": "struct<x:string,y:int>",
}
VALUES = {
    "s": ["k", "", None, "__null__", "__empty__", "a,b:c", "Ωmega 中文 🙂", " "],
    "i": [0, -1, 2**31 - 1, -(2**31), None],
    "l": [0, 7, 2**63 - 1, -(2**63), None],
    "b": [True, False, None],
    "day": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None],
    "at": [
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1899, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
        None,
    ],
    "n": [{"x": "in", "y": 1}, {"x": None, "y": None}, {"x": "", "y": -5}, None],
}


@pytest.mark.parametrize(
    "key", [("s",), ("l",), ("day",), ("at",), ("n.y",), ("s", "l"), ("n.x", "day"), ("b", "at", "i", "s")]
)
def test_tasks_spell_keys_as_spark_does(spark, key):
    columns = [Column(name=name, type=kind) for name, kind in TYPES.items()]
    rows = [
        tuple(VALUES[name][(number // (index + 1)) % len(VALUES[name])] for index, name in enumerate(TYPES))
        for number in range(120)
    ]
    ddl = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    rules = KeyRules(
        record_key=key, partition_by=(), hive_style=True, url_encode=True, named_key=len(key) > 1
    )
    # Dates beyond those of Python.
    frame = spark.createDataFrame(rows, ddl).unionAll(
        spark.sql(
            "SELECT 'x', 1, 2L, true, explode(array(date_from_unix_date(2932897), date_from_unix_date(-719529),"
            " date_from_unix_date(-1000000), date_from_unix_date(9000000))), timestamp_micros(1),"
            " named_struct('x', 'y', 'y', 1)"
        )
    )
    keys = StoredKeys(schema=arrow_schema(columns), rules=rules)
    assert keys.are_spelled_here
    with session_settings(spark, expression_settings(spark)):
        found = frame.selectExpr("*", f"{record_key_sql(rules, frame.schema)} AS expected").toArrow()
    stored = found.select([name for name in found.column_names if name != "expected"])
    for name in stored.column_names:
        values = conform(stored.column(name).combine_chunks(), keys.schema.field(name).type)
        stored = stored.set_column(stored.column_names.index(name), name, values)
    assert keys.of_rows(stored).to_pylist() == found.column("expected").to_pylist()


def some(kind, numbers):
    """Values of a type, a different one for each number."""
    match kind:
        case "double":
            return [[math.nan, -0.0, 0.0, math.inf][n] if n < 4 else n / 3 for n in numbers]
        case "decimal(20,8)":
            return [Decimal(n) / 10**8 for n in numbers]
        case "timestamp":
            return [dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC) + dt.timedelta(minutes=n) for n in numbers]
        case _:
            return [f"k{n}" if n else "Ω, a" for n in numbers]


def shown(value):
    """A text by which values are told apart as keys are: NaN equals itself, and -0.0 is not 0.0."""
    match value:
        case Decimal():
            return str(value.normalize())
        case dt.datetime():
            return repr(value.replace(tzinfo=dt.UTC))
    return repr(value)


@pytest.mark.parametrize(
    ("meta", "kind", "way", "scope"),
    [
        (MetaColumns.NONE, "double", Way.BY_SIZE, KeyScope.PARTITION),
        (MetaColumns.COMMIT_TIME, "timestamp", Way.BY_SIZE, KeyScope.PARTITION),
        (MetaColumns.NONE, "string", Way.BY_SIZE, KeyScope.TABLE),
        pytest.param(
            MetaColumns.COMMIT_TIME, "decimal(20,8)", Way.JOINED, KeyScope.TABLE, marks=pytest.mark.long
        ),
        pytest.param(
            MetaColumns.COMMIT_TIME, "string", Way.REGROUPED, KeyScope.PARTITION, marks=pytest.mark.long
        ),
        pytest.param(MetaColumns.NONE, "timestamp", Way.MATCHED, KeyScope.PARTITION, marks=pytest.mark.long),
    ],
)
def test_rows_are_updated_and_deleted_by_the_key_columns(spark, tmp_path, meta, kind, way, scope):
    path = tmp_path / "t"
    spec = TableSpec(
        name="t",
        columns=(
            Column(name="a", type=kind, nullable=False),
            Column(name="b", type="int", nullable=False),
            Column(name="v", type="bigint"),
            Column(name="p", type="string"),
        ),
        record_key=("a", "b"),
        partition_by=("p",),
        key_scope=scope,
        files=FilesPolicy(meta_columns=meta),
    )
    parquetry.create(path, spec)

    def frame(numbers, version, partition="x"):
        listed = [
            (value, n % 2, version, partition) for n, value in zip(numbers, some(kind, numbers), strict=True)
        ]
        return spark.createDataFrame(listed, f"a {kind}, b int, v bigint, p string")

    table = parquetry.open(path)
    expected = {}
    with looked_up(way):
        first = table.upsert(frame(range(30), 1)).instant
        second = table.upsert(frame(range(20, 40), 2)).instant
        expected |= dict.fromkeys(range(30), (1, "x", first)) | dict.fromkeys(range(20, 40), (2, "x", second))
        gone = table.delete(frame(range(0, 40, 4), 0).select("a", "b", "p"))
        expected = {n: row for n, row in expected.items() if n % 4}
        assert gone.unmatched_deletes == 0
        if scope is KeyScope.TABLE:
            moved = table.upsert(frame([1, 2, 50], 3, "y")).instant
            expected |= dict.fromkeys((1, 2, 50), (3, "y", moved))
        last = table.upsert(frame([3, 60], 4)).instant
        expected |= dict.fromkeys((3, 60), (4, "x", last))
        table.delete(spark.createDataFrame([(2,)], "v bigint"), match=["v"])
        expected = {n: row for n, row in expected.items() if row[0] != 2}
    names = {shown(value): n for n, value in enumerate(some(kind, range(70)))}
    read = [row.asDict() for row in table.read(spark, meta=True).collect()]
    times = {names[shown(row["a"])]: row for row in read}
    assert len(times) == len(read) == len(expected)
    for n, (value, partition, instant) in expected.items():
        assert (times[n]["v"], times[n]["p"]) == (value, partition)
        assert times[n]["_hoodie_commit_time"] == (instant if meta.has_commit_times else None)
    assert hudi_rs.read(str(path)).num_rows == len(expected)
    for file in path.glob("p=*/*.parquet"):
        stored = pq.read_table(file, partitioning=None)
        assert stored.column_names[:5] == list(META_COLUMNS)
        full = stored.num_rows if meta.has_commit_times else 0
        assert [stored.num_rows - stored.column(name).null_count for name in META_COLUMNS] == [
            full,
            0,
            0,
            0,
            0,
        ]
        footer = pq.read_metadata(file).metadata
        assert not [name for name in footer if b"record_key" in name or b"bloom" in name]
