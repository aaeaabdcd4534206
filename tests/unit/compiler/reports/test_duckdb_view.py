"""`inspect --view duckdb`: DuckDB runs the statement and returns what the table's own reader returns."""

from __future__ import annotations

import datetime as dt
import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import parquetry
from parquetry.cli.main import command_line
from parquetry.cli.terminal.schema import answer_schema
from parquetry.compiler.reports.duckdb_view import duckdb_view
from parquetry.errors import ParquetryError
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import open_store
from tests.support.arrow_writer import ArrowWriter
from tests.support.s3_server import BUCKET
from tests.support.small_table import make_table

ANCIENT = dt.datetime(1500, 2, 28, 0, 0, 0, 5, tzinfo=dt.UTC)
TIMES = (ANCIENT, dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC))


def table_of(path, *columns, name="orders"):
    """A table of the key ``id`` and other columns, without partitions."""
    key = Column(name="id", type="string", nullable=False)
    return ArrowWriter(path, TableSpec(name=name, columns=(key, *columns), record_key=("id",)))


def rewrite_newest(path, change, **options):
    """Have another writer's file in the place of the newest one: its rows changed, and written with options."""
    (commit,) = sorted((path / ".hoodie").glob("*.commit"))[-1:]
    (file,) = path.glob(f"*{commit.stem}.parquet")
    size = file.stat().st_size
    pq.write_table(change(pq.read_table(file)), file, store_schema=False, **options)
    commit.write_text(commit.read_text().replace(f'": {size},', f'": {file.stat().st_size},'))


def cast_to(name, kind):
    return lambda rows: rows.set_column(rows.column_names.index(name), name, rows.column(name).cast(kind))


def in_duckdb(path, *, name="orders", zone="Asia/Tokyo"):
    """What DuckDB returns from the view, in the Arrow types of the table."""
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        connection.execute(duckdb_view(open_store(path)).statement)
        found = connection.sql(f'FROM "{name}" ORDER BY id').to_arrow_table()
    return found.cast(pa.schema([f.with_nullable(True) for f in table_schema(path)]))


def table_schema(path):
    return parquetry.open(path).to_batches().schema


def in_order(path):
    rows = parquetry.open(path).to_arrow().sort_by("id")
    return rows.cast(pa.schema([f.with_nullable(True) for f in rows.schema]))


def test_old_times_and_local_times_mean_the_same_beside_other_files(tmp_path):
    """INT96, and times without a zone, which DuckDB would read in the zone of its session."""
    path = tmp_path / "t"
    table = table_of(path, Column(name="at", type="timestamp"), Column(name="all", type="array<timestamp>"))
    for number, change in enumerate(
        [
            None,
            {"use_deprecated_int96_timestamps": True},
            {"coerce_timestamps": "us"},
            {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
        ]
    ):
        some = [None, *TIMES] if number < 3 else [None, TIMES[1]]
        table.insert([{"id": f"{number}{n}", "at": at, "all": [at, None]} for n, at in enumerate(some)])
        if change is not None:
            kind = pa.timestamp("us")
            lists = cast_to("all", pa.list_(pa.field("element", kind)))
            rewrite_newest(
                path, lambda rows, lists=lists: lists(cast_to("at", pa.timestamp("us"))(rows)), **change
            )
    expected = in_order(path)
    assert expected.column("at").to_pylist() == [None, *TIMES] * 3 + [None, TIMES[1]]
    assert duckdb_view(open_store(path)).statement.count("UNION ALL") == 2
    assert in_duckdb(path).equals(expected)


def test_whole_numbers_and_floats_of_one_column_keep_all_digits(tmp_path):
    """DuckDB unites int and float to float, which has no 16,777,217."""
    path = tmp_path / "t"
    table = table_of(path, Column(name="v", type="double"))
    for value, kind in ((2**24 + 1, pa.int32()), (0.5, pa.float32()), (0.1, pa.float64())):
        table.insert([{"id": str(kind), "v": value}])
        rewrite_newest(path, cast_to("v", kind))
    assert in_order(path).column("v").to_pylist() == [0.1, 0.5, 2**24 + 1]
    assert in_duckdb(path).equals(in_order(path))


@pytest.mark.parametrize(
    ("declared", "value", "stored"),
    [
        ("double", 1, pa.int64()),
        ("float", 1, pa.int32()),
        ("timestamp", TIMES[1], pa.timestamp("ns", tz="UTC")),
        ("string", "a", pa.binary()),
        ("bigint", 1, pa.float64()),
        ("array<double>", [1], pa.list_(pa.int64())),
    ],
)
def test_a_file_that_duckdb_would_read_otherwise_is_refused_by_name(tmp_path, declared, value, stored):
    table = table_of(tmp_path / "t", Column(name="v", type=declared))
    table.insert([{"id": "a", "v": value}])
    rewrite_newest(tmp_path / "t", cast_to("v", stored))
    (file,) = (tmp_path / "t").glob("*.parquet")
    with pytest.raises(ParquetryError, match=r"DuckDB cannot read column 'v' .*Table\.to_duckdb") as error:
        duckdb_view(open_store(tmp_path / "t"))
    assert file.name in str(error.value)


def test_names_that_differ_in_case_are_refused(tmp_path):
    table = table_of(tmp_path / "t", Column(name="v", type="bigint"))
    table.insert([{"id": "a", "v": 1}])
    for change in (
        lambda rows: rows.append_column("V", rows.column("v")),
        lambda rows: rows.drop_columns(["v"]),
    ):
        rewrite_newest(tmp_path / "t", change)
        with pytest.raises(ParquetryError, match="column 'v' has a name"):
            duckdb_view(open_store(tmp_path / "t"))


def test_fields_of_structs_are_found_by_name_below_lists_and_maps(tmp_path):
    path = tmp_path / "t"
    kinds = {"part": "struct<a:bigint,b:string>", "many": "array<struct<a:bigint,b:string>>"}
    kinds["named"] = "map<string,struct<a:bigint,b:string>>"
    table = table_of(path, *(Column(name=name, type=kind) for name, kind in kinds.items()))
    for key in ("kept", "turned", "short"):
        part = {"a": 1, "b": None if key == "short" else "x"}
        table.insert(
            [
                {"id": f"{key}1", "part": part, "many": [part, None], "named": [("k", part), ("n", None)]},
                {"id": f"{key}2", "part": None, "many": None, "named": None},
                {"id": f"{key}3", "part": {"a": None, "b": None}, "many": [], "named": []},
            ]
        )
        if key != "kept":
            kind = pa.struct([pa.field("b", pa.string()), pa.field("a", pa.int32())][key == "short" :])
            rewrite_newest(path, lambda rows, kind=kind: with_structs(rows, kind))
    assert in_duckdb(path).equals(in_order(path))


def with_structs(rows, kind):
    """The rows with other structs, made of the same values."""
    schema = rows.schema
    kinds = {"part": kind, "many": pa.list_(kind), "named": pa.map_(pa.string(), kind)}
    for name, wanted in kinds.items():
        schema = schema.set(schema.get_field_index(name), pa.field(name, wanted))

    def pruned(value):
        match value:
            case dict():
                return {field.name: value[field.name] for field in kind}
            case (str() as key, inner):
                return key, pruned(inner)
            case list():
                return [pruned(inner) for inner in value]
        return value

    listed = [
        {name: pruned(value) if name in kinds else value for name, value in row.items()}
        for row in rows.to_pylist()
    ]
    return pa.Table.from_pylist(listed, schema=schema)


@pytest.mark.parametrize("folder", ["a [b] {c,d} *?'x' \"y\"", "ä;--\n", "back\\slash"])
def test_nothing_of_a_path_is_expanded(tmp_path, folder):
    for name in (folder, "a b {c,d} zz'x' \"y\""):
        made = table_of(tmp_path / name / "t", Column(name="v", type="bigint"))
        made.insert([{"id": name, "v": 1}])
    assert in_duckdb(tmp_path / folder / "t").column("id").to_pylist() == [folder]


def test_names_are_quoted(tmp_path):
    columns = [
        Column(name=name, type="bigint") for name in ("select", "filename", "read_parquet", "file_row_number")
    ]
    table = table_of(tmp_path / "t", *columns, name="a-b")
    table.insert([{"id": "a", "select": 1, "filename": 2, "read_parquet": 3, "file_row_number": 4}])
    assert in_duckdb(tmp_path / "t", name="a-b").to_pylist() == in_order(tmp_path / "t").to_pylist()


def test_a_path_that_duckdb_would_expand_in_a_bucket_is_refused(s3_options):
    store = open_store(f"s3://{BUCKET}/what[1]", s3_options)
    make_table(store).upsert({"k": (1, "a")})
    with pytest.raises(ParquetryError, match=r"that DuckDB expands; .*to_duckdb"):
        duckdb_view(store)


def test_an_empty_table_has_its_columns(tmp_path):
    make_table(tmp_path / "t")
    with duckdb.connect() as connection:
        connection.execute(duckdb_view(open_store(tmp_path / "t")).statement)
        assert connection.sql("FROM small").fetchall() == []
        assert connection.sql("FROM small").columns == table_schema(tmp_path / "t").names


def test_statistics_of_files_are_used(tmp_path):
    """Casts to the type of the file are none for DuckDB."""
    make_table(tmp_path / "t").upsert({"k": (1, "a")})
    with duckdb.connect() as connection:
        connection.execute(duckdb_view(open_store(tmp_path / "t")).statement)
        plans = [
            connection.execute(f"EXPLAIN SELECT id FROM small WHERE v > {least}").fetchall()[0][1]
            for least in (0, 7)
        ]
    assert ["EMPTY_RESULT" in plan for plan in plans] == [False, True]


def test_the_command_prints_the_statement_alone(tmp_path):
    make_table(tmp_path / "t").upsert({"k": (1, "a")})
    run = CliRunner().invoke

    def inspected(*options):
        return run(command_line, ["inspect", str(tmp_path / "t"), "--view", "duckdb", *options])

    statement = duckdb_view(open_store(tmp_path / "t")).statement
    assert inspected().stdout == f"{statement}\n"
    answer = json.loads(inspected("--format", "json").stdout)
    Draft202012Validator(answer_schema("inspect-view")).validate(answer)
    assert answer["statement"] == statement
    assert [inspected(*more).exit_code for more in (["--files"], ["--out", "x"], ["--html", "x"])] == [
        2,
        2,
        2,
    ]
