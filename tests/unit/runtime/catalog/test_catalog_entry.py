"""The entry of a table against what classes of Hudi 1.2.0 make of an equal schema.

The expected values are output of SparkDataSourceTableUtils.getSparkTableProperties and
HiveSchemaUtil.convertSchemaToHiveSchema (support_timestamp=true), with the spaces of types taken out.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parquetry.runtime.catalog.entry import (
    CatalogTable,
    catalog_table,
    definition_digest,
    differences,
    merged,
    spark_parameters,
)
from parquetry.runtime.spec.table_spec import Column

COLUMNS = (
    Column(name="id", type="bigint", nullable=False),
    Column(name="Amount", type="decimal(10,2)", description="What it costs"),
    Column(name="day", type="string"),
    Column(name="small", type="smallint"),
    Column(name="f", type="float"),
    Column(name="d", type="double"),
    Column(name="ok", type="boolean"),
    Column(name="raw", type="binary"),
    Column(name="born", type="date"),
    Column(name="at", type="timestamp"),
    Column(name="ntz", type="timestamp_ntz"),
    Column(name="tags", type="array<string>"),
    Column(name="m", type="map<string,int>"),
    Column(name="st", type="struct<a:int,B:string not null>"),
)

HUDI_SCHEMA = r"""
{"type": "struct", "fields": [
{"name": "_hoodie_commit_time", "type": "string", "nullable": true, "metadata": {}},
{"name": "_hoodie_commit_seqno", "type": "string", "nullable": true, "metadata": {}},
{"name": "_hoodie_record_key", "type": "string", "nullable": true, "metadata": {}},
{"name": "_hoodie_partition_path", "type": "string", "nullable": true, "metadata": {}},
{"name": "_hoodie_file_name", "type": "string", "nullable": true, "metadata": {}},
{"name": "id", "type": "long", "nullable": false, "metadata": {}},
{"name": "Amount", "type": "decimal(10,2)", "nullable": true, "metadata": {}},
{"name": "small", "type": "integer", "nullable": true, "metadata": {}},
{"name": "f", "type": "float", "nullable": true, "metadata": {}},
{"name": "d", "type": "double", "nullable": true, "metadata": {}},
{"name": "ok", "type": "boolean", "nullable": true, "metadata": {}},
{"name": "raw", "type": "binary", "nullable": true, "metadata": {}},
{"name": "born", "type": "date", "nullable": true, "metadata": {}},
{"name": "at", "type": "timestamp", "nullable": true, "metadata": {}},
{"name": "ntz", "type": "timestamp_ntz", "nullable": true, "metadata": {}},
{"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": true}, "nullable": true, "metadata": {}},
{"name": "m", "type": {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": true}, "nullable": true, "metadata": {}},
{"name": "st", "type": {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": true, "metadata": {}}, {"name": "B", "type": "string", "nullable": false, "metadata": {}}]}, "nullable": true, "metadata": {}},
{"name": "day", "type": "string", "nullable": true, "metadata": {}}
]}
"""

AMOUNT = '{"name": "Amount", "type": "decimal(10,2)", "nullable": true, "metadata": {}}'

HIVE_TYPES = {
    "id": "bigint",
    "Amount": "decimal(10,2)",
    "small": "int",
    "f": "float",
    "d": "double",
    "ok": "boolean",
    "raw": "binary",
    "born": "date",
    "at": "timestamp",
    "ntz": "timestamp",
    "tags": "array<string>",
    "m": "map<string,int>",
    "st": "struct<a:int,B:string>",
}


def entry() -> CatalogTable:
    return catalog_table(COLUMNS, ["day"], "file:/t")


def test_the_schema_for_spark_is_what_hudi_writes() -> None:
    found = json.loads(entry().parameters["spark.sql.sources.schema.part.0"])
    amount = next(field for field in found["fields"] if field["name"] == "Amount")
    # Hudi drops comments.
    assert amount.pop("metadata") == {"comment": "What it costs"}
    assert found == json.loads(HUDI_SCHEMA.replace(AMOUNT, AMOUNT.replace(', "metadata": {}', "")))


def test_hive_types_are_what_hudi_writes() -> None:
    types = {column.name: column.type for column in entry().columns if not column.name.startswith("_hoodie_")}
    assert types == HIVE_TYPES
    assert [(key.name, key.type) for key in entry().partition_keys] == [("day", "string")]


def test_comments_arrive() -> None:
    assert {column.name: column.comment for column in entry().columns}["Amount"] == "What it costs"


def test_long_comments_are_cut_where_a_character_ends() -> None:
    column = Column(name="id", type="bigint", description="a" + "é" * 200)
    (found,) = (one for one in catalog_table([column], [], "file:/t").columns if one.name == "id")
    assert found.comment == "a" + "é" * 127


def test_a_long_schema_is_cut_into_parts_that_join_again() -> None:
    parameters = spark_parameters([Column(name=f"column_{n}", type="string") for n in range(200)], [])
    count = int(parameters["spark.sql.sources.schema.numParts"])
    parts = [parameters[f"spark.sql.sources.schema.part.{number}"] for number in range(count)]
    assert count > 1
    assert {len(part) for part in parts[:-1]} == {4000}
    assert len(json.loads("".join(parts))["fields"]) == 200
    assert "spark.sql.sources.schema.numPartCols" not in parameters


@pytest.mark.parametrize("name", ["path", "PATH"])
def test_a_path_of_spark_elsewhere_is_a_change(name) -> None:
    changed = replace(entry(), serde_parameters={**entry().serde_parameters, name: "file:///other"})
    assert changed.was_changed_by_others
    assert differences(changed, entry()) == (f"serde_parameters.{name}",)
    assert merged(changed, entry()) == entry()


@pytest.mark.parametrize("path", ["file:/t/", "file:///t", "/t"])
def test_another_spelling_of_the_path_is_no_change(path) -> None:
    changed = replace(entry(), serde_parameters={**entry().serde_parameters, "path": path})
    assert not changed.was_changed_by_others
    assert differences(changed, entry()) == ()


def test_the_digest_of_entries_stays() -> None:
    plain = catalog_table([Column(name="id", type="bigint")], (), "file:/t")
    assert (
        definition_digest(plain) == "sha256:18cab934d159e315eb9f19927fcc879954ea5078dad0ecf2cfebf9c5a097e660"
    )
