"""Sources of every format, read once: what is new, what changed, what is deleted, what is refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, writer
from pyarrow import orc

from parquetry.runtime.errors import InvalidDataError, NotFoundError, StalePlanError
from parquetry.runtime.main import execute
from parquetry.runtime.sources.listing import list_files
from parquetry.runtime.spark import ingest
from parquetry.runtime.spark.read import source as source_reader
from parquetry.runtime.spark.read.source import read_files, selected
from parquetry.runtime.spark.read.source_failures import source_failures
from parquetry.runtime.spark.read.table import read_table
from parquetry.runtime.spark.session.settings import session_settings
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements
from parquetry.runtime.spec.reader_options import avro_package
from parquetry.runtime.spec.table_spec import Column, Operation, Source, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.command_script import parquetry
from tests.support.local_spark import local_spark
from tests.support.project_folder import ORDERS, ProjectFolder, with_leave

pytestmark = pytest.mark.spark

COLUMNS = (
    Column(name="id", type="bigint", nullable=False),
    Column(name="name", type="string"),
    Column(name="amount", type="double"),
    Column(name="at", type="timestamp"),
)


@pytest.fixture(scope="module")
def spark():
    return local_spark("source formats")


class World:
    """A table with one source, and jobs on it."""

    def __init__(self, root, spark):
        self.root, self.spark = root, spark
        (root / "in").mkdir(parents=True)
        self.location = str(root / "t")

    def job(self, kind, spec, *, source=None, exists=True, number=None):
        return JobPlan(
            kind=kind,
            project="p",
            target="dev",
            table="t",
            location=self.location,
            directory=str(self.root),
            requirements=Requirements(exists=exists, applied_number=number),
            spec=spec,
            source=source,
        )

    def create(self, source, **changes):
        self.spec = TableSpec(
            **({"name": "t", "columns": COLUMNS, "record_key": ("id",)} | changes), sources=(source,)
        )
        execute(self.job(JobKind.CREATE, self.spec, exists=False))

    def ingest(self):
        (source,) = self.spec.sources
        # Through JSON, as a job travels.
        job = self.job(JobKind.INGEST, self.spec, source=source.name)
        document = json.loads(json.dumps(job.to_json()))
        return execute(JobPlan.from_json(document), session=lambda _: self.spark)

    def rows(self):
        frame = read_table(self.spark, open_table(open_store(self.location)))
        return {row["id"]: (row["name"], row["amount"]) for row in frame.collect()}


@pytest.fixture
def world(tmp_path, spark):
    return World(tmp_path / "w", spark)


def source(**changes):
    given = {"name": "s", "format": "json", "path": "in/*", "operation": Operation.UPSERT} | changes
    return Source(**given)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "json", "csv"])
def test_files_of_a_format_are_ingested_once(world, file_format):
    world.create(source(format=file_format, path=f"in/*.{file_format}"))
    frame = world.spark.sql(
        "select 1L id, 'a' name, 1.5D amount, timestamp'2026-01-01 00:00:00' at union all select 2L, null, 2.0D, null"
    )
    staged = world.root / "staged"
    options = {"header": "true"} if file_format == "csv" else {}
    frame.coalesce(1).write.options(**options).format(file_format).save(str(staged))
    (part,) = staged.glob(f"part-*.{file_format}")
    part.rename(world.root / "in" / f"one.{file_format}")
    assert world.ingest().files_read == 1
    assert world.rows() == {1: ("a", 1.5), 2: (None, 2.0)}
    assert world.ingest().commit is None


def test_parquet_files_of_one_batch_may_have_different_columns(world):
    world.create(source(format="parquet", path="in/*.parquet"))
    for number, query in enumerate(("select 1L id, 'a' name", "select 2L id, 2.5D amount")):
        staged = world.root / f"staged{number}"
        world.spark.sql(query).coalesce(1).write.parquet(str(staged))
        (part,) = staged.glob("part-*.parquet")
        part.rename(world.root / "in" / f"{number}.parquet")
    world.ingest()
    assert world.rows() == {1: ("a", None), 2: (None, 2.5)}


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_column_that_became_wider_between_two_files_of_one_batch(world, file_format):
    world.create(source(format=file_format, path=f"in/*.{file_format}"))
    write = {"parquet": pq.write_table, "orc": orc.write_table}[file_format]
    for number, kind in enumerate((pa.int64(), pa.int32(), pa.int64())):
        rows = {"name": ["x"], "id": pa.array([number], kind)}
        write(
            pa.table(dict(reversed(rows.items())) if number else rows),
            world.root / f"in/{number}.{file_format}",
        )
    world.ingest()
    assert world.rows() == dict.fromkeys(range(3), ("x", None))

    write(pa.table({"id": [3], "name": pa.array([7], pa.int64())}), world.root / f"in/b.{file_format}")
    write(pa.table({"id": [4], "name": ["y"]}), world.root / f"in/a.{file_format}")
    os.utime(world.root / f"in/b.{file_format}", (0, 0))  # the older file is looked at first
    with pytest.raises(
        InvalidDataError, match=r"^source s of t: column 'name' is bigint in in/b\S+ and string in in/a\S+; "
    ):
        world.ingest()


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_files_of_two_types_by_turns_are_loaded_once_per_type(world, monkeypatch, file_format):
    world.create(source(format=file_format, path=f"in/*.{file_format}"))
    write = {"parquet": pq.write_table, "orc": orc.write_table}[file_format]
    for number in range(6):
        kind = (pa.int64(), pa.int32())[number % 2]
        write(pa.table({"id": pa.array([number], kind)}), world.root / f"in/{number}.{file_format}")
    loaded = []
    load = source_reader._load

    def counted(read, files, *arguments):
        loaded.append(len(files))
        return load(read, files, *arguments)

    monkeypatch.setattr(source_reader, "_load", counted)
    world.ingest()
    assert world.rows() == dict.fromkeys(range(6), (None, None))
    assert loaded in ([6, 3, 3], [6])  # Spark itself merges them, or does not


def test_csv_files_of_one_batch_may_have_their_columns_in_another_order(world):
    world.create(source(format="csv", path="in/*.csv"))
    (world.root / "in/a.csv").write_text("id,name,amount,at\n1,x,1.0,\n")
    (world.root / "in/b.csv").write_text("amount,id,name\n2.0,2,y\n")
    assert world.ingest().files_read == 2
    assert world.rows() == {1: ("x", 1.0), 2: ("y", 2.0)}


@pytest.mark.parametrize(
    ("begin", "changes"),
    [
        ("", {"select": "SELECT bigint(id) AS id, double(amount) AS amount FROM source"}),
        ("\n \n", {}),
        ("# one day\n", {"options": {"Comment": "#"}}),
    ],
)
def test_csv_columns_go_by_their_names_whatever_stands_before_and_behind(world, begin, changes):
    (world.root / "in/a.csv").write_text(f"{begin}id,amount\n1,10\n")
    (world.root / "in/b.csv").write_text(f"{begin}amount,id\n20,2\n")
    declared = source(format="csv", path="in/*.csv", **changes)
    files = list_files(declared.path, base=str(world.root))
    frame = read_files(world.spark, declared, files, columns=COLUMNS, storage={})
    rows = selected(world.spark, frame, declared, place="here").collect()
    assert {row["id"]: row["amount"] for row in rows} == {1: 10.0, 2: 20.0}


def test_a_column_that_only_folders_name_is_told_and_the_remedy_works(world):
    for name in ("x", "y"):
        (world.root / f"in/name={name}").mkdir()
        pq.write_table(pa.table({"id": [ord(name)]}), world.root / f"in/name={name}/a.parquet")
    declared = source(format="parquet", path="in/**")
    files = list_files(declared.path, base=str(world.root))
    with pytest.raises(InvalidDataError, match="the column 'name' is in names of folders only") as caught:
        read_files(world.spark, declared, files, columns=COLUMNS, storage={})
    deletes = source(format="parquet", path="in/**", operation=Operation.DELETE)
    assert read_files(world.spark, deletes, files, columns=COLUMNS, storage={}).columns == ["id"]
    base = str(caught.value).partition("basePath: ")[2].partition(" ")[0]
    declared = source(format="parquet", path="in/**", options={"basePath": base})
    rows = read_files(world.spark, declared, files, columns=COLUMNS, storage={}).collect()
    assert {row["id"]: row["name"] for row in rows} == {ord("x"): "x", ord("y"): "y"}


def test_a_session_that_passes_over_broken_files_does_not_lose_their_rows(world):
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": [ord(name)]}), world.root / f"in/{name}.parquet")
    broken = world.root / "in/a.parquet"
    content = broken.read_bytes()
    broken.write_bytes(content[:4] + bytes(40) + content[44:])
    declared = source(format="parquet", path="in/*")
    files = list_files(declared.path, base=str(world.root))
    with (
        session_settings(world.spark, {"spark.sql.files.ignoreCorruptFiles": "true"}),
        pytest.raises(InvalidDataError, match=r"in/a\.parquet cannot be read: "),
        source_failures("here"),
    ):
        read_files(world.spark, declared, files, columns=COLUMNS, storage={}).collect()


def test_csv_quotes_and_encoding_are_sparks_unless_options_say_otherwise(world):
    rfc_4180 = {"escape": '"', "encoding": "ISO-8859-1", "multiLine": "true"}
    world.create(source(format="csv", path="in/*.csv", options=rfc_4180))
    text = 'id,name\n1,"say ""z"", please"\n2,"two\nlines"\n3,K\u00f8benhavn\n4,a\\b\n'
    (world.root / "in/a.csv").write_bytes(text.encode("iso-8859-1"))
    world.ingest()
    names = {1: 'say "z", please', 2: "two\nlines", 3: "K\u00f8benhavn", 4: "a\\b"}
    assert world.rows() == {key: (name, None) for key, name in names.items()}


def test_a_view_of_the_user_called_source_stays_what_it_was(world):
    world.spark.sql("SELECT 'mine' AS whose").createOrReplaceTempView("source")
    try:
        labels = "(VALUES 'yours') AS labels (whose)"
        select = f"SELECT source.id, whose AS name FROM Source, {labels} ORDER BY id -- by id"
        world.create(source(path="in/*.json", select=select))
        (world.root / "in/a.json").write_text(lines({"id": 1}, {"id": 2}))
        world.ingest()
        assert world.rows() == {1: ("yours", None), 2: ("yours", None)}
        assert world.spark.table("source").first()["whose"] == "mine"
        left = [t.name for t in world.spark.catalog.listTables() if t.isTemporary]
        assert left == ["source"]
    finally:
        world.spark.catalog.dropTempView("source")


def test_a_select_turns_the_files_rows_into_the_tables(world):
    select = (
        "WITH s AS (SELECT * FROM source) SELECT cast(k AS bigint) id, upper(label) name FROM s WHERE k > 1"
    )
    world.create(source(path="in/*.json", select=select))
    (world.root / "in/a.json").write_text(lines({"k": 1, "label": "x"}, {"k": 2, "label": "y"}))
    world.ingest()
    assert world.rows() == {2: ("Y", None)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"select": "SELECT reflect('java.lang.System', 'exit', 1) id FROM source"},
            "function reflect is refused",
        ),
        ({"select": "SELECT transform(id) USING 'cat' AS id FROM source"}, "TRANSFORM runs another program"),
        ({"select": "DROP TABLE source"}, "may not use DropTable of Spark's plan"),
        ({"select": "SELECT * FROM csv.`/etc/passwd`"}, "the query may not read"),
        ({"select": "SELECT id FROM source s JOIN other USING (id)"}, "may not read 'other'"),
        ({"select": "SELECT * FROM reflect('java.lang.System', 'exit', 1)"}, "function reflect is refused"),
        ({"delete_when": "id IN (TABLE other)"}, "an expression reads no other rows"),
        ({"delete_when": "exists (FROM text.`/etc/passwd`)"}, "an expression reads no other rows"),
        ({"delete_when": "name = '${env:HOME}'"}, "is refused, as Spark replaces it"),
        ({"select": "SELECT IDENTIFIER('reflect')('a', 'b') id FROM source"}, "IDENTIFIER"),
        (
            {"delete_when": "java_method('java.lang.System', 'exit', 1) = 1"},
            "function java_method is refused",
        ),
    ],
)
def test_sql_that_runs_other_things_is_refused_before_anything_is_written(world, changes, message):
    world.create(source(path="in/*.json", **changes))
    (world.root / "in/a.json").write_text(lines({"id": 1, "name": "x"}))
    with pytest.raises(InvalidDataError, match=message):
        world.ingest()
    assert world.rows() == {}


def test_cdc_rows_delete_and_the_operation_column_is_dropped(world):
    world.create(source(path="in/*.json", delete_when="op = 'D'", drop=("op",)))
    (world.root / "in/a.json").write_text(
        lines({"id": 1, "name": "x", "op": "U"}, {"id": 2, "name": "y", "op": "U"})
    )
    world.ingest()
    (world.root / "in/b.json").write_text(
        lines({"id": 1, "name": None, "op": "D"}, {"id": 3, "name": "z", "op": "U"})
    )
    commit = world.ingest().commit
    assert (commit.inserted_rows, commit.deleted_rows) == (1, 1)
    assert world.rows() == {2: ("y", None), 3: ("z", None)}


def test_delete_by_other_columns_than_the_key(world):
    world.create(source(path="in/*.json"))
    (world.root / "in/a.json").write_text(
        lines({"id": 1, "name": "x"}, {"id": 2, "name": "y"}, {"id": 3, "name": "x"})
    )
    world.ingest()
    deletions = source(path="out/*.json", name="s", operation=Operation.DELETE, match=("name",))
    execute_with(world, deletions)
    (world.root / "out").mkdir()
    (world.root / "out/a.json").write_text(lines({"name": "x"}))
    assert world.ingest().commit.deleted_rows == 2
    assert world.rows() == {2: ("y", None)}


def execute_with(world, other):
    """Record another source as the applied one."""
    from parquetry.runtime.apply.table_change import TableChange, apply_change

    store = open_store(world.location)
    number = open_table(store).applied.number
    world.spec = TableSpec(name="t", columns=COLUMNS, record_key=("id",), sources=(other,))
    requirements = Requirements(exists=True, applied_number=number)
    apply_change(
        store, TableChange(spec=world.spec, requirements=requirements, alters_schema=False, project="p")
    )


def test_a_full_read_takes_all_files_whenever_one_differs(world):
    world.create(
        source(path="in/*.json", read="full", operation=Operation.INSERT_OVERWRITE_TABLE), record_key=()
    )
    (world.root / "in/a.json").write_text(lines({"id": 1, "name": "x"}))
    (world.root / "in/b.json").write_text(lines({"id": 2, "name": "y"}))
    assert world.ingest().files_read == 2
    # Nothing came, changed or went.
    assert world.ingest().commit is None
    (world.root / "in/a.json").unlink()
    assert world.ingest().files_read == 1
    assert world.ingest().commit is None
    assert world.rows() == {2: ("y", None)}


def test_a_changed_file_is_an_error_for_insert_and_the_remedy_works(world):
    world.create(source(path="in/*.json", operation=Operation.INSERT))
    path = world.root / "in/a.json"
    path.write_text(lines({"id": 1, "name": "x"}))
    world.ingest()
    path.write_text(lines({"id": 1, "name": "x"}, {"id": 2, "name": "y"}))
    with pytest.raises(InvalidDataError, match=r"in/a\.json changed .* put the new rows into a new file"):
        world.ingest()
    path.unlink()
    (world.root / "in/b.json").write_text(lines({"id": 2, "name": "y"}))
    world.ingest()
    assert world.rows() == {1: ("x", None), 2: ("y", None)}


def test_a_hudi_table_is_a_source_and_only_what_is_new_is_read_again(world, tmp_path):
    other = World(tmp_path / "other", world.spark)
    other.create(source(path="in/*.json"))
    (other.root / "in/a.json").write_text(lines({"id": 1, "name": "x"}, {"id": 2, "name": "y"}))
    other.ingest()
    world.create(source(format="hudi", path=other.location))
    assert world.ingest().commit.inserted_rows == 2
    assert world.ingest().commit is None
    (other.root / "in/b.json").write_text(lines({"id": 2, "name": "z"}, {"id": 3, "name": "w"}))
    other.ingest()
    commit = world.ingest().commit
    assert (commit.inserted_rows, commit.updated_rows) == (1, 1)
    assert world.rows() == {1: ("x", None), 2: ("z", None), 3: ("w", None)}


def test_a_truncated_parquet_file_is_named_with_the_remedy(world):
    world.create(source(format="parquet", path="in/*.parquet"))
    world.spark.sql("select 1L id, 'a' name").coalesce(1).write.parquet(str(world.root / "staged"))
    (part,) = (world.root / "staged").glob("part-*.parquet")
    broken = world.root / "in/bro ken.parquet"
    broken.write_bytes(part.read_bytes()[:-5])
    with pytest.raises(
        InvalidDataError, match=r"source s of t: \S+/in/bro ken\.parquet cannot be read.*remove the file"
    ):
        world.ingest()
    broken.unlink()
    part.rename(world.root / "in/whole.parquet")
    world.ingest()
    assert world.rows() == {1: ("a", None)}


def test_a_half_written_json_file_among_others_is_named_with_the_remedy(world):
    """Spark meets the broken record while it looks for columns, and does not say in which file."""
    world.create(source(path="in/*.json"))
    for number in range(3):
        (world.root / f"in/{number}.json").write_text(lines({"id": number, "name": "x"}))
    broken = world.root / "in/broken.json"
    broken.write_text('{"id": 9, "name": "y"')
    with pytest.raises(
        InvalidDataError,
        match=r"source s of t: in/broken\.json cannot be read: .*end-of-input.*; correct or remove the file",
    ):
        world.ingest()
    broken.write_text(lines({"id": 9, "name": "y"}))
    world.ingest()
    assert set(world.rows()) == {0, 1, 2, 9}


def test_a_file_whose_columns_cannot_be_found_out_is_named_among_others(world):
    """Here too Spark does not say which it is: half a file of ORC."""
    for number in range(3):
        orc.write_table(pa.table({"id": range(3000)}), world.root / f"in/{number}.orc")
    broken = world.root / "in/1.orc"
    broken.write_bytes(broken.read_bytes()[:-9])
    declared = source(format="orc", path="in/*")
    files = list_files(declared.path, base=str(world.root))
    with (
        pytest.raises(InvalidDataError, match=r"in/1\.orc cannot be read: .*Protocol message"),
        source_failures("here"),
    ):
        read_files(world.spark, declared, files, columns=COLUMNS, storage={})


def test_a_file_of_nanoseconds_among_others_is_read(world):
    at = pa.array([1_000], pa.timestamp("ns"))
    for number in range(3):
        extra = {"at": at} if number == 1 else {}
        pq.write_table(pa.table({"id": [number], **extra}), world.root / f"in/{number}.parquet")
    declared = source(format="parquet", path="in/*")
    files = list_files(declared.path, base=str(world.root))
    rows = read_files(world.spark, declared, files, columns=COLUMNS, storage={})
    found = {row["id"]: row["at"] for row in rows.selectExpr("id", "unix_micros(at) AS at").collect()}
    assert found == {0: None, 1: 1, 2: None}


def test_a_parquet_file_without_a_byte_is_named_with_the_remedy(world):
    world.create(source(format="parquet", path="in/*.parquet"))
    (world.root / "in/a.parquet").touch()
    with pytest.raises(
        InvalidDataError,
        match=r"source s of t: in/a\.parquet cannot be read: it is empty; correct or remove the file",
    ):
        world.ingest()
    world.spark.sql("select 1L id, 'a' name").coalesce(1).write.parquet(str(world.root / "staged"))
    (part,) = (world.root / "staged").glob("part-*.parquet")
    part.rename(world.root / "in/a.parquet")
    world.ingest()
    assert world.rows() == {1: ("a", None)}


@pytest.mark.parametrize("select", [None, "SELECT bigint(id) AS id, upper(name) AS name FROM source"])
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_text_files_without_a_byte_are_named_when_there_are_no_others(world, file_format, select):
    world.create(source(format=file_format, path=f"in/*.{file_format}", select=select))
    (world.root / f"in/a.{file_format}").touch()
    with pytest.raises(
        InvalidDataError,
        match=rf"source s of t: in/a\.{file_format} cannot be read: it is empty; correct or remove the file",
    ):
        world.ingest()
    text = "id,name\n1,X\n" if file_format == "csv" else lines({"id": 1, "name": "X"})
    (world.root / f"in/b.{file_format}").write_text(text)
    world.ingest()
    assert world.rows() == {1: ("X", None)}


def test_a_text_file_without_columns_is_named(world):
    world.create(source(path="in/*.json"))
    (world.root / "in/a.json").write_text("{}\n")
    with pytest.raises(
        InvalidDataError, match=r"source s of t: in/a\.json cannot be read: it has no columns"
    ):
        world.ingest()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1, "zzz": 2}, "column 'zzz' is not in the table"),
        ({"name": "x"}, "column 'id' is missing from the rows"),
        ({"id": 1, "op": "D"}, "a column that only delete_when needs: list it under drop"),
        ({"id": None, "name": "x"}, "record key is null or empty in 1 of 1 rows"),
    ],
)
def test_rows_that_do_not_fit_are_said_to_be_of_their_source(world, row, message):
    delete_when = "op = 'D'" if "op" in row else None
    world.create(source(path="in/*.json", delete_when=delete_when))
    (world.root / "in/a.json").write_text(lines(row))
    with pytest.raises(InvalidDataError, match=r"^source s of t: ") as refused:
        world.ingest()
    assert message in str(refused.value)
    assert str(refused.value).count("source s of t") == 1


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"select": "SELECT id, nom AS name FROM source"}, "select"),
        ({"delete_when": "nom = 'x'"}, "delete_when"),
        ({"delete_when": "nom = 'x'", "operation": Operation.DELETE}, "delete_when"),
        ({"delete_when": "nom = 'x'", "operation": Operation.DELETE, "match": ("name",)}, "delete_when"),
    ],
)
def test_sql_over_columns_that_a_source_does_not_have_is_said_to_be_wrong(world, changes, place):
    world.create(source(path="in/*.json", **changes))
    (world.root / "in/a.json").write_text(lines({"id": 1, "name": "x"}))
    with pytest.raises(
        InvalidDataError, match=rf"^source s of t: sources\.s\.{place}.*`nom` cannot be resolved"
    ):
        world.ingest()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda whole: b"nope",
        lambda whole: b"",
        lambda whole: whole[: whole.index(b"avro.schema") + 12],
        lambda whole: whole.replace(b'"type": "long"', b'"tyqe": "long"'),
        lambda whole: whole.replace(b'{"type": "record", "name": "r"', b'["type", "record",  "name", 7'),
        lambda whole: whole.replace(b'"fields": [', b'"fields": 7,'),
        lambda whole: whole[:4] + b"\xff" * 9 + whole[4:],
    ],
)
def test_a_file_that_is_no_avro_is_named_with_the_remedy(world, spoil):
    world.create(source(format="avro", path="in/*.avro"))
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    whole = io.BytesIO()
    writer(whole, parse_schema(schema), [{"id": 1}])
    (world.root / "in/a.avro").write_bytes(spoil(whole.getvalue()))
    with pytest.raises(
        InvalidDataError, match=r"source s of t: in/a\.avro cannot be read: it is not an Avro file"
    ):
        world.ingest()


def test_a_file_that_is_compressed_by_its_name_only(world):
    world.create(source(format="csv", path="in/*.csv.gz"))
    packed = world.root / "in/a.csv.gz"
    packed.write_text("id,name\n1,x\n")
    with pytest.raises(
        InvalidDataError, match=r"source s of t: in/a\.csv\.gz cannot be read: .*remove the file"
    ):
        world.ingest()
    packed.write_bytes(gzip.compress(packed.read_bytes()))
    world.ingest()
    assert world.rows() == {1: ("x", None)}


def test_a_json_field_that_comes_twice_is_told_with_its_file(world):
    world.create(source(path="in/*.json"))
    (world.root / "in/a.json").write_text(lines({"id": 1, "name": "x"}))
    (world.root / "in/b.json").write_text('{"id": 2, "name": "x", "name": "y"}\n')
    with pytest.raises(
        InvalidDataError, match=r"source s of t: in/b\.json cannot be read: .*`name`.*correct or"
    ):
        world.ingest()


def test_a_json_field_that_the_table_does_not_have_is_refused_at_any_depth(world):
    """Spark passes over what the type it is given does not have."""
    columns = (*COLUMNS, Column(name="n", type="array<struct<a:int>>"))
    world.create(source(path="in/*.json"), columns=columns)
    (world.root / "in/a.json").write_text(lines({"id": 1, "n": [{"a": 1}]}, {"id": 2, "n": [{"zz": 5}]}))
    with pytest.raises(
        InvalidDataError, match=r"^source s of t: column 'n\.element\.zz' is not in the table"
    ):
        world.ingest()
    (world.root / "in/a.json").write_text(lines({"id": 1, "n": [{"a": 1}]}, {"id": 2, "n": [{}]}))
    world.ingest()
    assert set(world.rows()) == {1, 2}


NESTED = (*COLUMNS, Column(name="n", type="struct<a:bigint,l:array<struct<b:decimal(4,2)>>>"))
SPELLED = {"ID": 1, "Name": "x", "N": {"A": 1, "L": [{"B": 1.5}]}}


@pytest.mark.parametrize("select", [None, "SELECT * FROM source"])
@pytest.mark.parametrize("key", [("id",), ()])
def test_json_fields_are_read_in_any_case_at_any_depth(world, select, key):
    operation = Operation.UPSERT if key else Operation.INSERT
    world.create(source(path="in/*.json", select=select, operation=operation), columns=NESTED, record_key=key)
    (world.root / "in/a.json").write_text(lines(SPELLED))
    world.ingest()
    (row,) = read_table(world.spark, open_table(open_store(world.location))).collect()
    nested = {"a": 1, "l": [{"b": Decimal("1.50")}]}
    assert (row["id"], row["name"], row["n"].asDict(recursive=True)) == (1, "x", nested)


@pytest.mark.parametrize("select", [None, "SELECT * FROM source"])
@pytest.mark.parametrize(
    ("other", "names"), [({"id": 2}, "'ID' and 'id'"), ({"ID": 2, "N": {"a": 1}}, "'N.A' and 'N.a'")]
)
def test_json_fields_that_are_spelled_in_two_ways_are_refused_by_name(world, other, names, select):
    """Spark takes them for one field and reads one of them."""
    world.create(source(path="in/*.json", select=select), columns=NESTED)
    (world.root / "in/a.json").write_text(lines(SPELLED, other))
    with pytest.raises(InvalidDataError, match=f"^source s of t: the records have fields {names}, "):
        world.ingest()


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_texts_that_a_select_returns_are_values_by_the_rules_of_cells(world, file_format):
    world.create(source(format=file_format, path="in/*", select="SELECT id, name, amount FROM source"))

    def write(amount):
        row = (
            f"id,name,amount\n1,x,{amount}\n"
            if file_format == "csv"
            else f'{{"id":1,"name":"x","amount":{amount}}}'
        )
        (world.root / "in/a").write_text(row)

    write("1e400")
    reason = (
        "the rows of its select: column 'amount': \"1e400\" is not double; this text is in "
        f".*in/a, line {2 if file_format == 'csv' else 1}; correct the query, or the files"
    )
    with pytest.raises(InvalidDataError, match=f"^source s of t: {reason}$"):
        world.ingest()
    write("0.1")
    world.ingest()
    assert world.rows() == {1: ("x", 0.1)}


def test_cells_in_other_forms_are_read_by_what_is_declared(world):
    options = {
        "sep": ";",
        "locale": "de-DE",
        "dateFormat": "d. MMMM yyyy",
        "timestampFormat": "dd.MM.yyyy HH:mm",
        "timeZone": "Europe/Berlin",
        "nullValue": "-",
    }
    columns = (*COLUMNS, Column(name="price", type="decimal(10,2)"), Column(name="day", type="date"))
    world.create(source(format="csv", path="in/*.csv", options=options), columns=columns)

    def write(amount="1.234,5", at="31.12.2024 23:30", price="-1.234.567,80", day="3. März 2024"):
        (world.root / "in/a.csv").write_text(
            f"id;name;amount;at;price;day\n1.000;-;{amount};{at};{price};{day}\n"
        )

    for wrong in (
        {"amount": "1,234.5"},
        {"amount": "12.34"},
        {"price": "19.90"},
        {"price": "19,901"},
        {"at": "2024-12-31 23:30"},
        {"at": "31.12.2024 23:30:10"},
        {"at": "31.03.2024 02:30"},  # clocks skip it
        {"day": "30. Februar 2024"},
        {"day": "2024-03-03"},
    ):
        write(**wrong)
        (column,) = wrong
        with pytest.raises(InvalidDataError, match=rf"in/a\.csv cannot be read: line 2, column '{column}': "):
            world.ingest()
    write()
    world.ingest()
    frame = read_table(world.spark, open_table(open_store(world.location)))
    (row,) = frame.selectExpr("id", "name", "amount", "string(at) AS at", "price", "day").collect()
    assert tuple(row) == (
        1000, None, 1234.5, "2024-12-31 22:30:00", Decimal("-1234567.80"), date(2024, 3, 3)
    )  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_within_quotes_and_empty_texts_stay_what_they_are(world, end):
    world.create(source(format="csv", path="in/*.csv", options={"multiLine": "true"}))
    rows = ["amount,id,name", '1,1,"a\r\nb"', '2,2,"c\nd"', "3,3,", '4,4,""', '"",5,e', '6,6," f "']
    (world.root / "in/a.csv").write_bytes(end.join([*rows, ""]).encode())
    world.ingest()
    assert world.rows() == {
        1: ("a\r\nb", 1.0), 2: ("c\nd", 2.0), 3: (None, 3.0), 4: ("", 4.0), 5: ("e", None), 6: (" f ", 6.0)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,name\n1,x\n2\n", "line 3, the row has more or fewer cells than there are columns"),
        (b"id,name\n1,x,y\n", "line 2, the row has more or fewer cells than there are columns"),
        (b'id,name\n1,"a \\"b\\" c"\n', "a quote within quotes is not doubled"),
        (b'id,name\n1,"a\n2,b"\n', "line 2, a quote is not closed; close it, or declare multiLine: true"),
        (
            b'id,name\n1,a\n2,"b ""c""\n',
            "line 3, a quote is not closed; close it, or declare multiLine: true",
        ),
        (b"id,name\n1,a\n2,K\xf8\n", "line 3, it has bytes that are not UTF-8; "),
        (
            gzip.compress(b"id,name\n1,x\n"),
            r"its content is gzip, but Spark decides by the name; rename it to \.gz",
        ),
        ("id,name\n1,x\n".encode("utf-16"), "it is UTF-16 or UTF-32; write it in UTF-8"),
    ],
)
def test_a_csv_file_that_is_not_what_is_declared_is_told(world, content, message):
    world.create(source(format="csv", path="in/*.csv"))
    (world.root / "in/a.csv").write_bytes(content)
    with pytest.raises(InvalidDataError, match=rf"^source s of t: \S*in/a\.csv cannot be read: .*{message}"):
        world.ingest()


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            '{"id":1}\n{"id":2}{"id":3}\n',
            {},
            "line 2, it has more than one JSON value",
        ),
        ('{"id":1},{"id":2}\n', {}, "line 1, it has more than one JSON value"),
        ('{"id":1} x\n', {}, "line 1, it has more than one JSON value"),
        (
            '{"id":1}\n{"id":2}\n',
            {"multiLine": "true"},
            "it has more than one JSON value",
        ),
        ('{"id":1,"name":"\\ud83d"}\n', {}, "line 1, it has an escape of half a character"),
        (b'{"id":1,"name":"\xff"}\n', {}, "line 1, it has bytes that are not UTF-8; "),
        (
            gzip.compress(b'{"id":1}\n'),
            {},
            r"its content is gzip, but Spark decides by the name; rename it to \.gz",
        ),
        ('{"id":1}\n'.encode("utf-16"), {}, "it is UTF-16 or UTF-32; write it in UTF-8"),
    ],
)
def test_records_that_spark_would_pass_over_are_told(world, content, options, message):
    world.create(source(path="in/*.json", options=options))
    (world.root / "in/a.json").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidDataError, match=rf"^source s of t: in/a\.json cannot be read: {message}"):
        world.ingest()


def test_records_that_look_as_if_they_were_several_are_read(world):
    records = [
        '{"id":1,"name":"}{"}',
        '[{"id":2},{"id":3}]',
        '{"id":4,"n":[{"x":{"y":[1]}},{"x":null}]}',
        "",
        '{"id":5} ',
    ]
    world.create(source(path="in/*.json", drop=("n",)))
    (world.root / "in/a.json").write_text("\n".join(records))
    world.ingest()
    assert set(world.rows()) == {1, 2, 3, 4, 5}


def test_quotes_that_open_no_cell_are_read_as_they_are(world):
    world.create(source(format="csv", path="in/*.csv"))
    (world.root / "in/a.csv").write_text('id,name\n1,5" pipe\n2,"a,""b"",c"\n3,""""\n4,x"y"z"\n')
    world.ingest()
    names = {1: '5" pipe', 2: 'a,"b",c', 3: '"', 4: 'x"y"z"'}
    assert world.rows() == {key: (name, None) for key, name in names.items()}


def test_a_file_of_several_lines_a_cell_is_not_read_if_it_was_cut_within_quotes(world):
    world.create(source(format="csv", path="in/*.csv", options={"multiLine": "true"}))
    (world.root / "in/a.csv").write_text('id,name\n1,"a\n2,b\n')
    with pytest.raises(
        InvalidDataError, match=r"^source s of t: in/a\.csv cannot be read: it has an odd number of quotes"
    ):
        world.ingest()


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet"])
def test_the_file_of_a_column_that_is_not_declared_is_told(world, file_format):
    world.create(source(format=file_format, path="in/*"))
    for number, names in enumerate((["id"], ["id", "town"], ["id"])):
        path = world.root / f"in/{number}.{file_format}"
        match file_format:
            case "csv":
                path.write_text(",".join(names) + "\n" + ",".join([str(number)] * len(names)) + "\n")
            case "json":
                path.write_text(lines(dict.fromkeys(names, number)))
            case _:
                pq.write_table(pa.table({name: [number] for name in names}), path)
    reason = rf"column 'town' is not in the table; .*; it is in in/1\.{file_format}$"
    with pytest.raises(InvalidDataError, match=f"^source s of t: {reason}"):
        world.ingest()


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet"])
def test_a_base_path_that_is_elsewhere_is_refused(world, tmp_path, file_format):
    world.create(source(format=file_format, path="in/*", options={"basePath": str(tmp_path / "other")}))
    (world.root / "in/a").write_text("id\n1\n")
    reason = r"the option basePath, \S+, is not a folder above in/a; "
    with pytest.raises(InvalidDataError, match=f"^source s of t: {reason}"):
        world.ingest()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_file_that_goes_before_it_is_read_is_named(world, monkeypatch, file_format, late):
    """Whoever cleans the landing folder up does not wait for us."""
    world.create(source(format=file_format, path=f"in/*.{file_format}"))
    for number in range(2):
        row = f"id\n{number}\n" if file_format == "csv" else lines({"id": number})
        (world.root / f"in/{number}.{file_format}").write_text(row)

    def read(*arguments, **options):
        frame = read_files(*arguments, **options) if late else None
        (world.root / f"in/1.{file_format}").unlink()
        return frame or read_files(*arguments, **options)

    monkeypatch.setattr(ingest, "read_files", read)
    with pytest.raises(NotFoundError, match=rf"^source s of t: .*in/1\.{file_format}\b.*; run again"):
        world.ingest()
    monkeypatch.undo()
    world.ingest()
    assert set(world.rows()) == {0}


def test_two_runs_at_once_take_a_file_once(world):
    world.create(source(path="in/*.json", operation=Operation.INSERT))
    for number in range(4):
        (world.root / f"in/{number}.json").write_text(lines({"id": number, "name": "x"}))
    both = threading.Barrier(2)

    def run(_):
        both.wait()
        return world.ingest()

    with ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(run, range(2)))
    assert world.rows() == dict.fromkeys(range(4), ("x", None))
    frame = read_table(world.spark, open_table(open_store(world.location)))
    assert frame.count() == 4
    assert sorted(result.files_read for result in results) == [0, 4]


def test_a_job_of_another_spec_stops_before_it_acts(world):
    world.create(source(path="in/*.json"))
    (world.root / "in/a.json").write_text(lines({"id": 1, "name": "x"}))
    job = world.job(JobKind.INGEST, world.spec, source="s")
    stale = JobPlan.from_json(
        job.to_json() | {"requirements": {"exists": True, "applied_digest": digest_of("another")}}
    )
    with pytest.raises(StalePlanError, match="record 1 is applied, but its spec differs"):
        execute(stale, session=lambda _: world.spark)


@pytest.mark.parametrize(
    ("spark", "package"),
    [
        ("3.5.6", "spark-avro_2.12:3.5.6"),
        ("4.0.2", "spark-avro_2.13:4.0.2"),
        ("4.1.1", "spark-avro_2.13:4.1.1"),
        ("4.1.2", "spark-avro_2.13:4.1.1"),
        ("4.3.0", "spark-avro_2.13:4.1.1"),
        ("4.10.0.dev1", "spark-avro_2.13:4.1.1"),
    ],
)
def test_the_avro_reader_is_of_sparks_version_or_the_newest_there_is(monkeypatch, spark, package):
    monkeypatch.setattr("parquetry.runtime.spec.reader_options.version", lambda _: spark)
    assert avro_package() == f"org.apache.spark:{package}"


def test_without_the_avro_reader_its_package_is_the_remedy(world):
    world.create(source(format="avro", path="in/*.avro"))
    schema = parse_schema({"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
    for number in range(2):
        with (world.root / f"in/{number}.avro").open("wb") as out:
            writer(out, schema, [{"id": number}])
        with pytest.raises(
            InvalidDataError,
            match=rf"^source s of t: this Spark has no Avro reader; list {avro_package()} under spark\.packages",
        ):
            world.ingest()


def test_options_that_spark_does_not_take_are_said_of_one_file_and_of_several(world):
    world.create(source(format="csv", path="in/*.csv", options={"encoding": "no-such"}))
    for number, which in enumerate((r"in/0\.csv cannot be read: ", "the files cannot be read together: ")):
        (world.root / f"in/{number}.csv").write_text(f"id\n{number}\n")
        with pytest.raises(InvalidDataError, match=rf"^source s of t: {which}.*, or the source's options$"):
            world.ingest()


@pytest.mark.parametrize(
    ("file_format", "options", "message"),
    [
        ("csv", {"seperator": ";"}, "format csv has no option 'seperator'; its options are header, sep, "),
        ("csv", {"mode": "DROPMALFORMED"}, "format csv has no option 'mode'; remove it"),
        ("json", {"fs.s3a.endpoint": "x"}, "format json has no option 'fs.s3a.endpoint'; "),
        ("parquet", {"parquet.crypto.factory.class": "x"}, "has no option 'parquet.crypto.factory.class'; "),
        ("csv", {"nullValue": "${env:HOME}"}, r"option 'nullValue' contains '\$\{', which Hadoop replaces"),
        ("csv", {"header": "maybe"}, "option 'header' is 'maybe', but must be true or false"),
    ],
)
def test_only_listed_options_reach_a_reader(world, file_format, options, message):
    """A job may come from elsewhere than from a project that was validated."""
    world.create(source(format=file_format, path="in/*", options=options))
    (world.root / "in/a").write_text("id\n1\n")
    with pytest.raises(InvalidDataError, match=rf"^source s of t: .*{message}"):
        world.ingest()


AVRO = {"name": "landing", "format": "avro", "path": "landing/*.avro", "operation": "upsert"}
WITH_READER = {"warehouse": "./warehouse", "spark": {"master": "local[2]", "packages": [avro_package()]}}


def test_avro_files_of_different_schemas_and_types_that_tables_lack(tmp_path):
    """Files of two schemas are one batch; a type that no table has is refused if its column is read.

    One run reads all tables: Spark needs a JVM of its own for the reader of Avro.
    """
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.orders(sources=[AVRO])
    folder.project(targets={"dev": with_leave(WITH_READER)})
    fields = [{"name": "order_id", "type": "long"}, {"name": "city", "type": "string"}]
    amount = {"name": "amount", "type": ["null", "double"]}
    nanoseconds = {"name": "amount", "type": {"type": "long", "logicalType": "timestamp-nanos"}}
    (folder.root / "landing/lacking").mkdir()
    for file, schema, row in (
        ("a", fields, {"order_id": 1, "city": "Rome"}),
        ("b", [*fields, amount], {"order_id": 2, "city": "Oslo", "amount": 2.5}),
        (
            "lacking/c",
            [*fields, nanoseconds],
            {"order_id": 1, "city": "Rome", "amount": 1_700_000_000_000_000_001},
        ),
    ):
        with (folder.root / f"landing/{file}.avro").open("wb") as out:
            writer(out, parse_schema({"type": "record", "name": "order", "fields": schema}), [row])
    selects = {
        "all_columns": {},
        "selected": {"select": "SELECT order_id, city, amount FROM source"},
        "left_out": {"select": "SELECT order_id, city FROM source"},
    }
    for name, select in selects.items():
        lacking = AVRO | {"path": "landing/lacking/*.avro"} | select
        folder.write(f"tables/{name}.yml", ORDERS | {"name": name, "sources": [lacking]})
    assert parquetry("apply", "-p", folder.root, "--auto-approve").returncode == 0
    done = parquetry("run", "--only", "ingest", "-p", folder.root, "--format", "json")
    assert done.returncode == 6, done.stderr[-4000:]
    jobs = {job["table"]: job for job in json.loads(done.stdout)["jobs"]}
    ingested = jobs["orders"]["result"]
    assert (ingested["files_read"], ingested["commit"]["inserted_rows"]) == (2, 2)
    layout = json.loads(parquetry("inspect", "orders", "-p", folder.root, "--format", "json").stdout)
    assert [p["path"] for p in layout["partitions"]] == ["city=Oslo", "city=Rome"]
    for name in ("all_columns", "selected"):
        assert "c.avro" in jobs[name]["error"]
        assert "column 'amount' has the type timestamp-nanos" in jobs[name]["error"]
    assert jobs["left_out"]["result"]["commit"]["inserted_rows"] == 1


def test_nanoseconds_of_orc_files_are_refused_at_any_depth(world):
    at = 1_700_000_000_123_456_000
    columns = (
        *COLUMNS,
        Column(name="parts", type="array<struct<at: timestamp>>"),
        Column(name="by", type="map<string, timestamp>"),
    )
    world.create(source(format="orc", path="in/*.orc"), columns=columns)
    kinds = {
        "at": pa.timestamp("ns", tz="UTC"),
        "parts": pa.list_(pa.struct([("at", pa.timestamp("ns", tz="UTC"))])),
        "by": pa.map_(pa.string(), pa.timestamp("ns", tz="UTC")),
    }

    def write(name, **values):
        rows = {"id": pa.array([1, 2], pa.int64()), "name": ["a.1234567", "b"]}
        rows |= {column: pa.array([values.get(column), None], kind) for column, kind in kinds.items()}
        orc.write_table(pa.table(rows), world.root / f"in/{name}.orc")

    exact = {"at": at, "parts": [{"at": at}, None, {"at": None}], "by": [("x", at), ("y", None)]}
    write("a", **exact)
    assert world.ingest().files_read == 1
    frame = read_table(world.spark, open_table(open_store(world.location))).where("id = 1")
    texts = ("at", "parts[0].at", "by['x']")
    (row,) = frame.selectExpr(*(f"date_format({text}, 'HH:mm:ss.SSSSSS')" for text in texts)).collect()
    assert set(row) == {"22:13:20.123456"}
    for column, value in {
        "at": at + 1,
        "parts": [{"at": at}, {"at": at + 999}],
        "by": [("x", at + 50)],
    }.items():
        write("b", **(exact | {column: value}))
        message = rf"in/b\.orc cannot be read: column '{column}': 1 of its times has nanoseconds"
        with pytest.raises(InvalidDataError, match=message):
            world.ingest()


def test_times_of_orc_files_that_spark_wrote_are_not_read_twice(world, monkeypatch):
    world.create(source(format="orc", path="in/*.orc"))
    frame = world.spark.sql("select 1L id, timestamp'9999-12-31 23:59:59.999999' at")
    frame.coalesce(1).write.orc(str(world.root / "staged"))
    (part,) = (world.root / "staged").glob("part-*.orc")
    part.rename(world.root / "in/one.orc")
    monkeypatch.setattr(source_reader, "_check_nanoseconds", None)
    world.ingest()
    assert set(world.rows()) == {1}
