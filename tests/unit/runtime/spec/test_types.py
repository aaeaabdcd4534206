from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.avro import (
    AvroSchemaError,
    columns_declared_in_avro,
    columns_from_avro,
    table_avro_schema,
)
from parquetry.runtime.spec.rules import broken_type
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import TypeSyntaxError, field_type, holds_array, parse_type

EXAMPLE = "write a type such as bigint or array<string>"
CANONICAL = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(38,18)",
    "string",
    "binary",
    "date",
    "timestamp",
    "array<int>",
    "map<string,array<decimal(10,0)>>",
    "struct<a:int,b:struct<c:string>,d:array<struct<e:date>>>",
    "struct<a:int NOT NULL,b:struct<c:string NOT NULL>,d:array<struct<e:map<string,int> NOT NULL>>>",
]


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_types_stay(text):
    assert str(parse_type(text)) == text
    column = Column(name="c", type=text)
    stored = text.replace("tinyint", "int").replace("smallint", "int")
    assert columns_from_avro(table_avro_schema("t", (column,))) == (replace(column, type=stored),)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" INTEGER ", "int"),
        ("Long", "bigint"),
        ("byte", "tinyint"),
        ("real", "float"),
        ("numeric( 5 )", "decimal(5,0)"),
        ("DEC", "decimal(10,0)"),
        ("timestamp_ltz", "timestamp"),
        ("struct<a int not  null>", "struct<a:int NOT NULL>"),
        ("STRUCT< `a` : INT , B string >", "struct<a:int,B:string>"),
        ("map < string , map<string,int>>", "map<string,map<string,int>>"),
    ],
)
def test_other_spellings(text, canonical):
    assert str(parse_type(text)) == canonical


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", EXAMPLE),
        ("intt", EXAMPLE),
        ("varchar(10)", "use string"),
        ("array", EXAMPLE),
        ("array<>", EXAMPLE),
        ("array<int", EXAMPLE),
        ("array<int>>", EXAMPLE),
        ("array<int NOT NULL>", "only fields of structs can be NOT NULL"),
        ("map<string,int NOT NULL>", "only fields of structs can be NOT NULL"),
        ("int int", EXAMPLE),
        ("`int`", EXAMPLE),
        ("map<int,string>", "map keys are strings"),
        ("struct<a:int,>", EXAMPLE),
        ("struct<a:int,`>`", EXAMPLE),
        ("struct<a:int COMMENT 'x'>", "fields have no comments; use the description of the column"),
        ("decimal(0,0)", "the precision is 1 to 38, the scale at most the precision"),
        ("decimal(39)", "the precision is 1 to 38, the scale at most the precision"),
        ("decimal(5,6)", "the precision is 1 to 38, the scale at most the precision"),
        ("decimal(99999)", "the precision is 1 to 38, the scale at most the precision"),
        ("int; drop table x", EXAMPLE),
        ("array<" * 3000 + "int" + ">" * 3000, EXAMPLE),
    ],
)
def test_not_a_type(text, remedy):
    with pytest.raises(TypeSyntaxError) as caught:
        parse_type(text)
    assert caught.value.remedy == remedy
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("timestamp_ntz", "use timestamp, or bigint for a local time"),
        ("map<string,struct<a:array<timestamp_ntz>>>", "use timestamp, or bigint for a local time"),
        ("struct<>", "give it a field"),
        ("struct<a:int,A:int>", "rename one of them"),
        ("struct<`a b`:int>", "rename it"),
        ("struct<a:" * 49 + "int" + ">" * 49, "flatten it"),
    ],
)
def test_a_type_that_no_table_can_hold(text, remedy):
    assert broken_type(parse_type(text)).remedy == remedy
    with pytest.raises(InvalidDataError, match=f"{remedy}$"):
        table_avro_schema("t", (Column(name="c", type=text),))


def test_a_local_time_is_refused_for_what_is_true_of_every_version():
    assert (
        "hudi-rs cannot read a table with timestamp_ntz" in broken_type(parse_type("timestamp_ntz")).problem
    )


def test_the_deepest_type_that_a_table_can_hold_is_read_back():
    column = Column(name="c", type="struct<a:" * 47 + "int" + ">" * 47)
    assert broken_type(parse_type(column.type)) is None
    assert columns_from_avro(table_avro_schema("t", (column,))) == (column,)


def test_fields_of_structs():
    type_ = parse_type("struct<a:struct<b:int>,c:array<struct<d:int>>>")
    assert str(field_type(type_, ["a", "b"])) == "int"
    assert field_type(type_, ["a", "x"]) is None
    assert field_type(type_, ["c", "d"]) is None


def test_arrays_are_seen_at_any_depth():
    assert holds_array(parse_type("map<string,struct<a:array<int>>>"))
    assert not holds_array(parse_type("map<string,struct<a:int>>"))


def test_columns_of_an_avro_schema():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "string", "doc": "The key."},
            {
                "name": "at",
                "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
                "default": None,
            },
            {
                "name": "price",
                "type": {
                    "type": "fixed",
                    "name": "f",
                    "size": 5,
                    "logicalType": "decimal",
                    "precision": 10,
                    "scale": 2,
                },
            },
            {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["A"]}},
            {
                "name": "parts",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "p",
                        "fields": [{"name": "n", "type": ["int", "null"]}, {"name": "m", "type": "int"}],
                    },
                },
            },
            {"name": "marks", "type": {"type": "map", "values": {"type": "int", "logicalType": "date"}}},
            {"name": "wrapped", "type": {"type": {"type": "long"}}},
            {"name": "more", "type": {"type": "array", "items": "p"}},
        ],
    }
    assert columns_declared_in_avro(schema) == (
        Column(name="id", type="string", nullable=False, description="The key."),
        Column(name="at", type="timestamp"),
        Column(name="price", type="decimal(10,2)", nullable=False),
        Column(name="kind", type="string", nullable=False),
        Column(name="parts", type="array<struct<n:int,m:int NOT NULL>>", nullable=False),
        Column(name="marks", type="map<string,date>", nullable=False),
        Column(name="wrapped", type="bigint", nullable=False),
        Column(name="more", type="array<struct<n:int,m:int NOT NULL>>", nullable=False),
    )


@pytest.mark.parametrize(
    "field",
    [
        {"name": "x"},
        {"name": "x", "type": "nul"},
        {"name": "x", "type": "null"},
        {"name": "x", "type": ["null"]},
        {"name": "x", "type": ["int", "string"]},
        {"name": "x", "type": ["null", "int", "string"]},
        {"name": "x", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "x", "type": {"type": "record", "name": "r", "fields": []}},
        {"name": "x", "type": 5},
        {"type": "int"},
        {"name": "a b", "type": "int"},
        "x",
    ],
)
def test_avro_fields_without_a_column(field):
    with pytest.raises(AvroSchemaError):
        columns_declared_in_avro({"type": "record", "name": "r", "fields": [field]})


@pytest.mark.parametrize("schema", [None, [], "record", {"type": "array"}, {"type": "record"}])
def test_avro_schemas_that_are_no_record(schema):
    with pytest.raises(AvroSchemaError):
        columns_declared_in_avro(schema)
