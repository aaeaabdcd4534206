from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file import task
from parquetry.runtime.base_file.rows import ORIGIN
from parquetry.runtime.errors import CorruptTableError, InvalidDataError
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.spark.lookup import tagging
from parquetry.runtime.spec import rules
from parquetry.runtime.spec.avro import columns_from_avro, table_avro_schema, with_meta_columns
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.stage import part
from parquetry.runtime.table.schema import reconcile, schema_json
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import Action
from tests.support import hudi_rs
from tests.support.handmade import COLUMNS, HandmadeTable, at, spec
from tests.support.timelines import completed, put_completed

EXTRA = Column(name="x", type="double")


def columns(*pairs):
    return tuple(Column(name=name, type=kind) for name, kind in pairs)


@pytest.fixture
def table(tmp_path, on_each_version):
    return HandmadeTable(tmp_path / "t")


def commit_with(table, time, operation, schema):
    extra = {} if schema is None else {"schema": schema}
    table.request(time)
    put_completed(table.store, at(time), Action.COMMIT, CommitMetadata(operation=operation, extra=extra))


def forget_schema(table, time):
    """Put the commit of that time again, without a schema."""
    content = table.open().timeline().layout.encode_commit(CommitMetadata(operation="UPSERT"))
    table.store.put(completed(table.store, time).path, content)


def effective(table):
    handle = table.open()
    return handle.effective_spec(handle.timeline())


def test_the_newest_commit_that_may_change_the_schema_says_what_the_columns_are(table):
    wide = table_avro_schema("t", (*COLUMNS, EXTRA))
    commit_with(table, "1", "ALTER_SCHEMA", wide)
    commit_with(table, "2", "CLUSTER", table_avro_schema("t", COLUMNS))
    commit_with(table, "3", "UPSERT", None)
    commit_with(table, "4", "UPSERT", "")
    assert effective(table).columns == (*COLUMNS, EXTRA)


@pytest.mark.usefixtures("on_each_version")
def test_what_nobody_applied_is_derived_from_the_table(tmp_path):
    table = HandmadeTable(tmp_path / "t", spec(ordering="n", hive_style=False, url_encode=False))
    derived = effective(table)
    assert (derived.name, derived.record_key, derived.ordering, derived.partition_by) == (
        "t",
        ("id",),
        "n",
        ("p",),
    )
    assert (derived.hive_style, derived.url_encode) == (False, False)


def test_without_any_recorded_schema_a_file_tells_the_columns(table):
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    for time in (table.open().timeline().instants[0].time, at("1")):
        forget_schema(table, time)
    assert effective(table).columns == COLUMNS
    (path,) = (table.folder / "p=a").glob("*.parquet")
    avro = with_meta_columns(table_avro_schema("t", (*COLUMNS, EXTRA)))
    rows = pq.read_table(path, partitioning=None)
    pq.write_table(rows.replace_schema_metadata({"parquet.avro.schema": avro}), path)
    assert effective(table).columns == (*COLUMNS, EXTRA)


def test_a_table_without_schema_and_files_has_no_columns(table):
    (first,) = table.open().timeline().instants
    forget_schema(table, first.time)
    assert effective(table).columns == ()


@pytest.mark.parametrize(
    ("declared", "live", "expected"),
    [
        ([("a", "int")], [("a", "int")], [("a", "int")]),
        ([("a", "tinyint")], [("a", "int")], [("a", "tinyint")]),
        ([("a", "int")], [("a", "bigint")], [("a", "bigint")]),
        ([("a", "bigint")], [("a", "int")], [("a", "bigint")]),
        (
            [("b", "int"), ("a", "int")],
            [("a", "int"), ("c", "date")],
            [("b", "int"), ("a", "int"), ("c", "date")],
        ),
        ([("s", "struct<a:int>")], [("s", "struct<a:int,b:string>")], [("s", "struct<a:int,b:string>")]),
        ([("a", "string")], [("a", "int")], [("a", "string")]),
        ([("a", "int")], [], [("a", "int")]),
    ],
)
def test_columns_that_others_added_or_widened_stay(declared, live, expected):
    assert reconcile(columns(*declared), columns(*live)) == columns(*expected)


def test_what_is_declared_of_a_column_stays_when_its_type_grows():
    declared = (Column(name="a", type="int", nullable=False, description="d", pii=True),)
    (column,) = reconcile(declared, (Column(name="a", type="bigint", nullable=True),))
    assert column == Column(name="a", type="bigint", nullable=True, description="d", pii=True)


def test_the_applied_spec_keeps_live_columns(table):
    from parquetry.runtime.table.applied import write_applied

    write_applied(table.store, spec(columns=COLUMNS[:2]), number=1)
    assert effective(table).columns == COLUMNS
    assert effective(table).sizing == spec().sizing


def test_a_commit_carries_the_tables_own_names_as_long_as_the_columns_are_the_same():
    ours = table_avro_schema("t", columns(("s", "struct<a:int>")))
    theirs = ours.replace(
        '"name":"s","namespace":"hoodie.t.t_record"', '"name":"S","namespace":"com.example"'
    )
    assert theirs != ours
    assert schema_json("t", columns(("s", "struct<a:int>")), theirs) == theirs
    assert schema_json("t", columns(("s", "struct<a:int>")), None) == ours
    wider = schema_json("t", columns(("s", "struct<a:int,b:int>")), theirs)
    assert json.loads(wider)["fields"][0]["type"][1]["namespace"] == "hoodie.t.t_record"


@pytest.mark.parametrize(
    ("kind", "strict", "relaxed"),
    [
        ("array<string>", '{"type":"array","items":"string"}', '{"type":"array","items":["null","string"]}'),
        ("map<string,int>", '{"type":"map","values":"int"}', '{"type":"map","values":["null","int"]}'),
        (
            "array<array<struct<x:int NOT NULL>>>",
            '{"type":"array","items":{"type":"array","items":{"type":"record","name":"P","fields":[{"name":"x","type":"int"}]}}}',
            '{"type":"array","items":["null",{"type":"array","items":["null",{"type":"record","name":"P","fields":[{"name":"x","type":"int"}]}]}]}',
        ),
    ],
)
def test_elements_may_be_null_in_the_schema_as_they_may_in_rows(kind, strict, relaxed):
    text = '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":[{"name":"a","type":["null",%s],"default":null}]}'
    (column,) = columns_from_avro(text % strict)
    assert column.type == kind
    assert schema_json("t", (column,), text % strict) == text % relaxed
    assert schema_json("t", (column,), text % relaxed) == text % relaxed


def test_the_file_of_an_arrow_writer_is_understood(table):
    from parquetry.runtime.arrow.schema import columns_from_arrow
    from parquetry.runtime.errors import UnsupportedTableError

    schema = pa.schema(
        [
            ("i", pa.int8()),
            ("s", pa.large_string()),
            ("b", pa.binary(4)),
            ("l", pa.large_list(pa.int16())),
            ("n", pa.timestamp("ns")),
        ]
    )
    assert [column.type for column in columns_from_arrow(schema)] == [
        "tinyint",
        "string",
        "binary",
        "array<smallint>",
        "timestamp_ntz",
    ]
    with pytest.raises(UnsupportedTableError, match="column 'd' has the parquet type duration"):
        columns_from_arrow(pa.schema([("d", pa.duration("s"))]))


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("avro:record", "not JSON"),
        ('{"type":"record","name":"r"}', "the record 'r' has no list of fields"),
        (
            '{"type":"record","name":"r","fields":[{"type":"int"}]}',
            "the record 'r' has a field without a name",
        ),
        ('{"type":"record","name":"r","fields":["a"]}', "the record 'r' has a field without a name"),
    ],
)
def test_a_schema_that_nobody_understands_names_its_place_and_a_remedy_that_works(table, schema, says):
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    commit_with(table, "2", "UPSERT", schema)
    with pytest.raises(CorruptTableError, match=rf"{table.store.uri}: schema of the newest.*{says}.*roll"):
        effective(table)
    rollback(table.open(), at("2"))
    assert effective(table).columns == COLUMNS


def test_names_that_a_write_needs_are_refused_alike_wherever_columns_are_declared():
    used = (part.REFERENCE, part.PARTITION, part.HASH, part.DELETE, part.ORDERING, part.GENERATED_FAULT)
    used = {*used, part.ARRIVAL, tagging.FILE, tagging.POSITION, task.BUCKET, ORIGIN}
    assert used == rules.CONTROL_COLUMNS


def test_fields_keep_the_declared_order_within_a_wider_live_type():
    declared = columns(("s", "struct<b:string,l:array<struct<y:int,x:int>>>"))
    live = columns(("s", "struct<l:array<struct<x:bigint,y:int,z:int>>,c:double,b:string>"))
    assert reconcile(declared, live) == columns(
        ("s", "struct<b:string,l:array<struct<y:int,x:bigint,z:int>>,c:double>")
    )


def test_hudi_rs_reads_no_local_time(table):
    """The reason for the rule that no table is declared with one; our own reader knows the type."""
    schema = json.loads(table.schema)
    local = ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]
    schema["fields"].append({"name": "t", "type": local, "default": None})
    table.schema = json.dumps(schema)
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    assert effective(table).columns[-1] == Column(name="t", type="timestamp_ntz")
    with pytest.raises(BaseException, match="not yet implemented"):
        hudi_rs.read(str(table.folder))
    with pytest.raises(InvalidDataError, match="hudi-rs cannot read a table with timestamp_ntz"):
        table_avro_schema("t", effective(table).columns)
