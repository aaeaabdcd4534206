from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.arrow.schema import arrow_schema, columns_from_arrow
from parquetry.runtime.errors import CorruptTableError, InvalidDataError
from parquetry.runtime.spec.avro import columns_from_avro, table_avro_schema, with_meta_columns
from parquetry.runtime.spec.evolution import is_widening
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.rules import check_columns, check_new_columns
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import parse_type

# What Hudi 0.14 wrote for the hudi-rs fixture v6_complexkeygen_hivestyle, shortened to the telling columns.
R = "hoodie.v6_complexkeygen_hivestyle.v6_complexkeygen_hivestyle_record"
WRITTEN_BY_HUDI = (
    '{"type":"record","name":"v6_complexkeygen_hivestyle_record","namespace":"hoodie.v6_complexkeygen_hivestyle","fields":['
    '{"name":"id","type":["null","int"],"default":null},{"name":"isActive","type":["null","boolean"],"default":null},'
    '{"name":"longField","type":["null","long"],"default":null},{"name":"floatField","type":["null","float"],"default":null},'
    '{"name":"decimalField","type":["null",{"type":"fixed","name":"fixed","namespace":"' + R + '.decimalField",'
    '"size":5,"logicalType":"decimal","precision":10,"scale":5}],"default":null},'
    '{"name":"dateField","type":["null",{"type":"int","logicalType":"date"}],"default":null},'
    '{"name":"timestampField","type":["null",{"type":"long","logicalType":"timestamp-micros"}],"default":null},'
    '{"name":"binaryField","type":["null","bytes"],"default":null},'
    '{"name":"arrayField","type":["null",{"type":"array","items":["null",{"type":"record","name":"arrayField","namespace":"' + R + '",'
    '"fields":[{"name":"arr_struct_f1","type":["null","string"],"default":null}]}]}],"default":null},'
    '{"name":"mapField","type":["null",{"type":"map","values":["null",{"type":"record","name":"mapField","namespace":"' + R + '",'
    '"fields":[{"name":"map_field_value_struct_f1","type":["null","double"],"default":null}]}]}],"default":null},'
    '{"name":"structField","type":["null",{"type":"record","name":"structField","namespace":"' + R + '",'
    '"fields":[{"name":"field1","type":["null","string"],"default":null},'
    '{"name":"child_struct","type":["null",{"type":"record","name":"child_struct","namespace":"' + R + '.structField",'
    '"fields":[{"name":"child_field2","type":["null","boolean"],"default":null}]}],"default":null}]}],"default":null}]}'
)  # fmt: skip
DECLARED = (
    ("id", "int"), ("isActive", "boolean"), ("longField", "bigint"), ("floatField", "float"), ("decimalField", "decimal(10,5)"),
    ("dateField", "date"), ("timestampField", "timestamp"), ("binaryField", "binary"),
    ("arrayField", "array<struct<arr_struct_f1:string>>"), ("mapField", "map<string,struct<map_field_value_struct_f1:double>>"),
    ("structField", "struct<field1:string,child_struct:struct<child_field2:boolean>>"),
)  # fmt: skip

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not name.startswith("_hoodie_")
)
primitives = st.sampled_from(
    ["boolean", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp"]
)
decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))


def _struct(inner):
    fields = st.lists(
        st.tuples(names, inner, st.booleans()),
        min_size=1,
        max_size=3,
        unique_by=lambda field: field[0].lower(),
    )
    return fields.map(
        lambda fields: (
            f"struct<{','.join(f'{name}:{kind}' + ('' if null else ' NOT NULL') for name, kind, null in fields)}>"
        )
    )


types = st.recursive(
    primitives | decimals,
    lambda inner: st.one_of(
        inner.map("array<{}>".format), inner.map("map<string,{}>".format), _struct(inner)
    ),
    max_leaves=5,
)
tables = st.lists(
    st.builds(Column, name=names, type=types, nullable=st.booleans()),
    min_size=1,
    max_size=5,
    unique_by=lambda column: column.name.lower(),
).map(tuple)


def columns(*pairs):
    return tuple(Column(name=name, type=kind) for name, kind in pairs)


def test_the_schema_is_byte_for_byte_what_hudi_writes():
    assert table_avro_schema("v6_complexkeygen_hivestyle", columns(*DECLARED)) == WRITTEN_BY_HUDI
    assert columns_from_avro(WRITTEN_BY_HUDI) == columns(*DECLARED)


def test_decimals_inside_collections_are_named_by_their_path():
    schema = json.loads(
        table_avro_schema(
            "t", columns(("as", "array<struct<w:decimal(5,2)>>"), ("ad", "array<decimal(38,0)>"))
        )
    )
    as_items = schema["fields"][0]["type"][1]["items"][1]
    assert (as_items["namespace"], as_items["name"]) == ("hoodie.t.t_record", "as")
    decimal = as_items["fields"][0]["type"][1]
    assert (decimal["namespace"], decimal["name"], decimal["size"]) == ("hoodie.t.t_record.as.w", "fixed", 3)
    decimal = schema["fields"][1]["type"][1]["items"][1]
    assert (decimal["namespace"], decimal["size"]) == ("hoodie.t.t_record.ad", 16)


@pytest.mark.parametrize(
    ("table", "record"), [("a-b", "a__b_record"), ("1st.t", "__st__t_record"), ("_x", "_x_record")]
)
def test_table_names_are_made_avro_names_as_hudi_does(table, record):
    schema = json.loads(table_avro_schema(table, columns(("a", "int"))))
    assert schema["name"] == record
    assert schema["namespace"] == "hoodie." + record.removesuffix("_record")


@pytest.mark.parametrize(
    ("precision", "size"), [(1, 1), (2, 1), (3, 2), (5, 3), (9, 4), (10, 5), (18, 8), (19, 9), (38, 16)]
)
def test_decimals_take_the_fewest_bytes(precision, size):
    assert parse_type(f"decimal({precision},0)").fixed_size_bytes == size


def test_meta_columns_come_first_as_in_base_files():
    schema = json.loads(with_meta_columns(table_avro_schema("t", columns(("a", "int")))))
    assert [field["name"] for field in schema["fields"]] == [*META_COLUMNS, "a"]
    assert schema["fields"][0] == {
        "name": "_hoodie_commit_time",
        "type": ["null", "string"],
        "doc": "",
        "default": None,
    }
    assert columns_from_avro(json.dumps(schema)) == columns(("a", "int"))


@given(tables)
def test_columns_survive_avro(table):
    assert columns_from_avro(table_avro_schema("t", table)) == tuple(
        Column(name=column.name, type=str(parse_type(column.type)), nullable=column.nullable)
        for column in table
    )


@given(types)
def test_a_type_survives_its_text(text):
    assert parse_type(str(parse_type(text))) == parse_type(text)


@given(tables)
def test_columns_survive_a_parquet_file(table):
    sink = pa.BufferOutputStream()
    pq.write_table(arrow_schema(table).empty_table(), sink, store_schema=False)
    assert columns_from_arrow(pq.read_schema(pa.BufferReader(sink.getvalue()))) == columns_from_avro(
        table_avro_schema("t", table)
    )


def test_parquet_types_are_those_hudi_merges_right():
    table = columns(
        ("b", "tinyint"),
        ("d", "decimal(10,2)"),
        ("t", "timestamp"),
        ("a", "array<string>"),
        ("m", "map<string,int>"),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(arrow_schema(table).empty_table(), sink, store_schema=False)
    schema = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    leaves = {schema.column(i).path: schema.column(i) for i in range(len(schema))}
    assert (leaves["b"].physical_type, str(leaves["b"].logical_type)) == ("INT32", "None")
    assert (leaves["d"].physical_type, leaves["d"].length) == ("FIXED_LEN_BYTE_ARRAY", 5)
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(leaves["t"].logical_type)
    assert set(leaves) == {"b", "d", "t", "a.list.element", "m.key_value.key", "m.key_value.value"}


def test_small_integers_are_stored_as_ints():
    assert columns_from_avro(table_avro_schema("t", columns(("a", "tinyint"), ("b", "SMALLINT")))) == columns(
        ("a", "int"), ("b", "int")
    )


@pytest.mark.parametrize(
    ("avro", "expected"),
    [
        ('["string","null"]', "string"),
        ('{"type":"string","avro.java.string":"String"}', "string"),
        ('{"type":{"type":"long","logicalType":"timestamp-millis"}}', "timestamp"),
        ('{"type":"long","logicalType":"local-timestamp-micros"}', "timestamp_ntz"),
        ('{"type":"long","logicalType":"time-micros"}', "bigint"),
        ('{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}', "decimal(4,1)"),
        ('{"type":"enum","name":"e","symbols":["A"]}', "string"),
        ('{"type":"fixed","name":"f","size":4}', "binary"),
        ('["int","string"]', "struct<member0:int,member1:string>"),
        ('"int"', "int"),
    ],
)
def test_types_of_other_writers_are_read_as_spark_reads_them(avro, expected):
    text = f'{{"type":"record","name":"r","fields":[{{"name":"a","type":{avro}}}]}}'
    assert columns_from_avro(text)[0].type == expected


def test_named_types_may_be_used_again():
    inner = '{"type":"record","name":"point","fields":[{"name":"x","type":"int"}]}'
    text = f'{{"type":"record","name":"r","namespace":"n","fields":[{{"name":"a","type":{inner}}},{{"name":"b","type":["null","n.point"]}},{{"name":"c","type":"point"}}]}}'
    assert [column.type for column in columns_from_avro(text)] == ["struct<x:int NOT NULL>"] * 3


@pytest.mark.parametrize(
    "text",
    ["{", '"string"', '{"type":"record","name":"r","fields":[{"name":"a","type":"wonder"}]}', '{"type":"record","fields":[]}', "3",
     '{"type":"record","name":"r","fields":[{"name":"a","type":"r"}]}',
     '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"bytes","logicalType":"decimal"}}]}'],
)  # fmt: skip
def test_a_broken_schema_is_named(text):
    with pytest.raises(CorruptTableError, match=r"^here: the Avro schema"):
        columns_from_avro(text, place="here")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTEGER", "int"), ("Long", "bigint"), ("decimal", "decimal(10,0)"), ("numeric( 5 )", "decimal(5,0)"),
        ("struct<a int, `b` string NOT NULL COMMENT 'it''s'>", None), ("timestamp_ltz", "timestamp"),
        ("struct<a:int comment 'x, y > z',b:array<date>>", None),
        ("map < string , array < double > >", "map<string,array<double>>"),
    ],
)  # fmt: skip
def test_sparks_spellings_are_understood(text, expected):
    if expected is None:
        with pytest.raises(InvalidDataError):
            parse_type(text)
    else:
        assert str(parse_type(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends too early"), ("strin", r"'strin' is not a type"), ("varchar(3)", "use string"), ("array<int", "ends where '>'"),
        ("decimal(39,0)", "precision is 1 to 38"), ("decimal(5,6)", "scale at most the precision"), ("map<int,int>", "keys are strings"),
        ("int int", "'int' after the end"), ("struct<a:>", "'>' is not a type"), ("decimal(x)", "number of digits"), ("int;drop", "not understood"),
        ("array[int]", "not understood"), ("void", "choose the type"),
    ],
)  # fmt: skip
def test_a_type_that_is_not_understood_is_named(text, message):
    with pytest.raises(InvalidDataError, match=message):
        parse_type(text)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("a-b", "int", "Avro.*rename"), ("1a", "int", "Avro"), ("\u00e9", "int", "Avro"), ("_hoodie_file_name", "string", "belongs to the table format"),
        ("_HOODIE_COMMIT_TIME", "string", "belongs to the table format; rename"),
        ("__Delete", "boolean", "for writes; rename"), ("__hash", "bigint", "for writes; rename"),
        ("s", "struct<`a.b`:int>", "field 'a.b'.*Avro"), ("s", "struct<a:int,A:int>", "a duplicate of 'a'"), ("s", "struct<>", "without fields"),
        ("t", "timestamp_ntz", "use timestamp, or bigint"), ("t", "array<struct<x:timestamp_ntz>>", "field 'x'.*timestamp_ntz"),
    ],
)  # fmt: skip
def test_columns_that_no_table_can_have_are_refused_with_a_remedy(name, kind, message):
    with pytest.raises(InvalidDataError, match=message):
        check_columns(columns((name, kind)))
    with pytest.raises(InvalidDataError, match=message):
        check_new_columns(columns((name, kind)))


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("_Hoodie_Is_Deleted", "boolean", "belongs to the table format; rename"),
        ("_Hoodie_x", "string", "belongs to the table format; rename"),
        ("_hoodie_is_deleted", "string", "is string; make it boolean"),
    ],
)
def test_columns_that_another_program_may_have_made_are_refused_as_new_ones_only(name, kind, message):
    with pytest.raises(InvalidDataError, match=message):
        check_new_columns(columns((name, kind)))
    assert columns_from_avro(table_avro_schema("t", columns((name, kind)))) == columns((name, kind))


def test_two_columns_may_not_differ_by_case_alone():
    with pytest.raises(InvalidDataError, match=r"'B'.*a duplicate of 'b'"):
        check_columns(columns(("b", "int"), ("B", "int")))


def test_hudis_delete_flag_is_a_column_like_others():
    check_new_columns(columns(("_hoodie_is_deleted", "boolean")))


@pytest.mark.parametrize(
    ("old", "new", "widens"),
    [
        ("int", "int", True), ("int", "bigint", True), ("bigint", "int", False), ("int", "double", True), ("bigint", "double", False),
        ("int", "float", False), ("float", "double", True), ("tinyint", "smallint", True), ("int", "string", False), ("date", "timestamp", False),
        ("decimal(10,2)", "decimal(11,2)", True), ("decimal(12,2)", "decimal(14,2)", True), ("decimal(10,2)", "decimal(20,2)", False),
        ("decimal(10,2)", "decimal(11,3)", False), ("array<int>", "array<bigint>", True), ("map<string,float>", "map<string,double>", True),
        ("struct<a:int>", "struct<a:bigint,b:string>", True), ("struct<a:int>", "struct<b:string,a:int>", True),
        ("struct<a:int,b:int>", "struct<a:int>", False), ("struct<a:int>", "struct<a:int,b:string NOT NULL>", False),
        ("struct<a:int>", "struct<a:int NOT NULL>", False), ("struct<a:int NOT NULL>", "struct<a:int>", True), ("array<int>", "int", False),
    ],
)  # fmt: skip
def test_what_widens(old, new, widens):
    assert is_widening(parse_type(old), parse_type(new)) is widens


@given(types, types)
def test_widening_is_reflexive_and_never_goes_both_ways_unless_equal_but_for_order(one, other):
    a, b = parse_type(one), parse_type(other)
    assert is_widening(a, a)
    if is_widening(a, b) and is_widening(b, a):
        assert sorted(str(a)) == sorted(str(b))
