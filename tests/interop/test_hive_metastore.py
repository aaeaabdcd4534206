"""Tables in a real Hive Metastore: Spark finds them by name, and Hudi's own sync registers the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from parquetry.runtime.catalog.sync import sync
from parquetry.runtime.spec.table_spec import Column, TableSpec
from tests.interop.environment import spark_environment, spark_python
from tests.support.arrow_writer import ArrowWriter
from tests.support.hive_metastore import CountedHive
from tests.support.hudi_spark import HudiSpark

pytestmark = [pytest.mark.interop, pytest.mark.spark]

DAYS = ("2020-01-01", "a b/c=%é")
ID = Column(name="id", type="bigint", nullable=False)
TYPED = (
    Column(name="Amount", type="decimal(10,2)", description="Cost in €"),
    Column(name="small", type="smallint"),
    Column(name="f", type="float"),
    Column(name="born", type="date"),
    Column(name="at", type="timestamp"),
    Column(name="raw", type="binary"),
    Column(name="tags", type="array<string>"),
    Column(name="m", type="map<string,int>"),
    Column(name="st", type="struct<a:int,B:string>"),
)
VALUES = {
    "Amount": Decimal("1.25"),
    "small": 3,
    "f": 0.5,
    "born": date(2020, 1, 2),
    "at": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
    "raw": b"x",
    "tags": ["a", None],
    "m": {"k": 1},
    "st": {"a": 1, "B": "z"},
}
DAY = Column(name="day", type="string")


@pytest.fixture(scope="module")
def hudi(hive_metastore, tmp_path_factory):
    """Spark with Hudi 1.2.0 and the metastore as its catalog."""
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": hive_metastore,
    }
    with HudiSpark("1.2.0", tmp_path_factory.mktemp("spark"), settings=settings) as session:
        yield session


def made(folder, *columns: Column, partition_by: tuple[str, ...] = ("day",)) -> ArrowWriter:
    spec = TableSpec(name="t", columns=columns, record_key=("id",), partition_by=partition_by)
    return ArrowWriter(folder / "t", spec)


def registered(table: ArrowWriter, uri: str, database: str) -> CountedHive:
    catalog = CountedHive(uri, database=database)
    assert sync(table.handle, catalog, restores=True).warnings == ()
    return catalog


def found(hudi: HudiSpark, name: str, *columns: str, where: str = "true") -> list[tuple[Any, ...]]:
    rows = hudi.sql(f"select {', '.join(columns)} from {name} where {where} order by id")
    return [tuple(row[column] for column in columns) for row in rows]


def test_a_table_without_partitions_is_read_by_name(hudi, hive_metastore, tmp_path) -> None:
    table = made(tmp_path, ID, DAY, partition_by=())
    table.insert([{"id": 1, "day": "x"}, {"id": 2, "day": "y"}])
    registered(table, hive_metastore, "plain")
    assert found(hudi, "plain.t", "id", "day") == [(1, "x"), (2, "y")]
    table.upsert([{"id": 2, "day": "z"}])
    hudi.sql("refresh table plain.t")  # a session of Spark keeps the files of a table that it has read
    assert found(hudi, "plain.t", "id", "day") == [(1, "x"), (2, "z")]


def test_partitions_are_read_by_name_and_pruned(hudi, hive_metastore, tmp_path) -> None:
    table = made(tmp_path, ID, *TYPED, DAY)
    table.insert([{"id": number, **VALUES, "day": day} for number, day in enumerate(DAYS)])
    registered(table, hive_metastore, "typed")
    for number, day in enumerate(DAYS):
        assert found(hudi, "typed.t", "id", "small", where=f"day = '{day}'") == [(number, 3)]
    shown = hudi.sql("describe typed.t")
    assert {row["col_name"]: row["comment"] for row in shown}["Amount"] == "Cost in €"
    assert len(hudi.sql("show partitions typed.t")) == 2
    (row,) = hudi.sql("select Amount, tags, m, st from typed.t where id = 0")
    assert row == {"Amount": "1.25", "tags": ["a", None], "m": {"k": 1}, "st": {"a": 1, "B": "z"}}


def test_an_evolved_table_is_read_by_name_in_old_and_new_partitions(hudi, hive_metastore, tmp_path) -> None:
    count, part = Column(name="count", type="int"), Column(name="part", type="struct<a:int>")
    table = made(tmp_path, ID, count, part, DAY)
    table.insert([{"id": 1, "count": 1, "part": {"a": 1}, "day": "old"}])
    catalog = registered(table, hive_metastore, "evolved")
    wider = (replace(count, type="bigint"), replace(part, type="struct<a:int,b:string>"))
    table.apply(columns=(ID, *wider, DAY, Column(name="note", type="string", description="New")))
    table.insert([{"id": 2, "count": 2**40, "part": {"a": 2, "b": "x"}, "day": "new", "note": "n"}])
    result = sync(table.handle, catalog, restores=False)
    assert (result.partitions_added, result.partitions_updated) == (1, 1)
    columns = ("id", "count", "part.b as b", "note")
    assert {part.columns for part in catalog.every_partition()} == {catalog.table().columns}
    rows = hudi.sql(f"select {', '.join(columns)} from evolved.t order by id")
    assert rows == [
        {"id": 1, "count": 1, "b": None, "note": None},
        {"id": 2, "count": 2**40, "b": "x", "note": "n"},
    ]


READS_WITHOUT_HUDI = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
settings = {
    "spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": sys.argv[1],
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.warehouse.dir": sys.argv[2],
}
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
print([row.col_name for row in spark.sql("describe without.t").collect()])
try:
    print(spark.sql("select * from without.t").collect())
except Exception as error:
    print(*str(error).splitlines())
"""


@pytest.mark.long
def test_spark_without_hudi_shows_the_columns_and_refuses_the_rows(hive_metastore, tmp_path) -> None:
    table = made(tmp_path, ID, DAY)
    table.insert([{"id": 1, "day": "x"}])
    registered(table, hive_metastore, "without")
    python = spark_python("3.5")
    command = [str(python), "-c", READS_WITHOUT_HUDI, hive_metastore, str(tmp_path / "warehouse")]
    done = subprocess.run(
        command, env=spark_environment(python), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    columns, rows = done.stdout.splitlines()
    assert "'id', 'day'" in columns
    assert "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: hudi" in rows


DIFFERENCES: Mapping[str, str] = {
    "owner": "Hudi registers its Hadoop user; parquetry names no user of the machine that syncs",
    "sd.cols.amount.comment": "parquetry registers the descriptions of columns, Hudi those in the Avro schema",
    "sd.cols.st.type": "Hudi writes names of fields in lower case; Hive compares them without case",
    "sd.serdeInfo.parameters.path": "Hudi writes the location as it was given, here without file:",
    "parameters.spark.sql.sources.schema.amount": "parquetry adds the comment, which Spark shows",
    "parameters.spark.sql.create.version": "the version of Spark: Hudi's that runs, parquetry's whose form it is",
    "parameters.last_commit_completion_time_sync": "only HiveSyncTool reads it, and does without it",
    "parameters.hudi_writer_version": "parquetry is not Hudi",
    "parameters.parquetry.definition": "by it, changes of other programs are known",
}
"""The fields of a table that HiveSyncTool registers differently, with reasons."""

PARTITION_DIFFERENCES: Mapping[str, str] = {
    name: DIFFERENCES[name]
    for name in ("sd.cols.amount.comment", "sd.cols.st.type", "sd.serdeInfo.parameters.path")
}
SPECIAL_DIFFERENCES: Mapping[str, str] = {
    **PARTITION_DIFFERENCES,
    "values": "Hudi registers the encoded text of the path; queries compare with values",
}
CLOCKS = ("createTime", "parameters.transient_lastDdlTime")


def test_hudis_own_sync_registers_the_same(hudi, hive_metastore, tmp_path) -> None:
    table = made(tmp_path, ID, *TYPED, DAY)
    table.insert([{"id": number, **VALUES, "day": day} for number, day in enumerate(DAYS)])
    ours = registered(table, hive_metastore, "ours")
    prefix = "hoodie.datasource.hive_sync"
    hudi.hive_sync(
        {
            f"{prefix}.mode": "hms",
            f"{prefix}.metastore.uris": hive_metastore,
            f"{prefix}.database": "theirs",
            f"{prefix}.table": "t",
            f"{prefix}.partition_fields": "day",
            f"{prefix}.partition_extractor_class": "org.apache.hudi.hive.HiveStylePartitionValueExtractor",
            f"{prefix}.support_timestamp": "true",
            f"{prefix}.sync_comment": "true",
            "hoodie.datasource.meta.sync.base.path": str(tmp_path / "t"),
            "hoodie.meta_sync.spark.version": hudi.hello["spark"],
        }
    )
    theirs = CountedHive(hive_metastore, database="theirs")
    assert differing(ours.raw, theirs.raw) == set(DIFFERENCES)
    plain, special = (sorted_partitions(catalog) for catalog in (ours, theirs))
    assert differing(plain[0], special[0]) == set(PARTITION_DIFFERENCES)
    assert differing(plain[1], special[1]) == set(SPECIAL_DIFFERENCES)
    assert found(hudi, "theirs.t", "id") == found(hudi, "ours.t", "id") == [(0,), (1,)]


def sorted_partitions(catalog: CountedHive) -> list[Any]:
    names = catalog._ask("get_partition_names", catalog._database, "t", -1)
    return sorted(catalog._named(names), key=lambda partition: partition.values)


def differing(one: Any, other: Any) -> set[str]:
    """The paths of fields that differ; databases and clocks do not count, nor no comment and an empty one."""
    first, second = dict(fields(one)), dict(fields(other))
    paths = {path for path in first.keys() | second.keys() if first.get(path) != second.get(path)}
    return paths - {"dbName", *CLOCKS}


def fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    prefix = f"{path}." if path else ""
    if hasattr(value, "thrift_spec"):
        for name, each in vars(value).items():
            yield from fields(each, f"{prefix}{name}")
    elif isinstance(value, dict):
        for name, each in value.items():
            if name.startswith("spark.sql.sources.schema.part."):
                for field in json.loads(each)["fields"]:
                    yield f"{prefix}spark.sql.sources.schema.{field['name'].lower()}", field
            else:
                yield from fields(each, f"{prefix}{name}")
    elif isinstance(value, list) and value and hasattr(value[0], "thrift_spec"):
        yield path, [each.name for each in value]
        for each in value:
            yield from fields(each, f"{prefix}{each.name}")
    else:
        yield path, value or None
