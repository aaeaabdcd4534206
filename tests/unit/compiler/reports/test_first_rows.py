"""The first rows of a table: as much as is asked for, with personal columns masked, as JSON can hold them."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

import parquetry
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.head import HeadView
from parquetry.compiler.reports.first_rows import FirstRows, _listed, _plain, first_rows
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.read import rows as read_rows
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.command_script import parquetry as command
from tests.support.small_table import make_table
from tests.support.stores import CountingStore


@pytest.fixture
def table(tmp_path):
    written = make_table(tmp_path / "t")
    written.insert({f"k{number}": (number, "ab"[number % 2]) for number in range(10)})
    return written


def test_rows_are_those_of_the_read(table):
    found = first_rows(table.store, limit=3, columns=["v", "id"], where="v >= 5")
    expected = parquetry.open(table.store.uri).to_arrow(columns=["v", "id"], where="v >= 5")
    assert (found.columns, list(found.rows)) == (("v", "id"), expected.slice(0, 3).to_pylist())
    assert len(first_rows(table.store, limit=100).rows) == 10
    assert first_rows(table.store, limit=1, where="v = 99").rows == ()


def test_no_more_files_are_read_than_the_rows_need(tmp_path):
    written = make_table(tmp_path / "t")
    written.insert({f"k{number}": (number, f"p{number}") for number in range(100)})
    store = CountingStore(open_store(tmp_path / "t"), tmp_path / "calls")
    assert len(first_rows(store, limit=1).rows) == 1
    opened = {name for _, name in store.calls() if name.endswith(".parquet") and ".hoodie" not in name}
    assert 1 <= len(opened) <= 1 + read_rows._FILES_AT_ONCE


def test_personal_columns_are_masked_whether_applied_or_declared(table):
    spec = open_table(table.store).spec
    columns = tuple(replace(column, pii=column.name == "id") for column in spec.columns)
    found = first_rows(table.store, limit=2, declared=replace(spec, columns=columns))
    assert [row["id"] for row in found.rows] == ["***", "***"]
    asked = ["_hoodie_record_key", "_hoodie_partition_path", "v"]
    kept = first_rows(table.store, limit=1, columns=asked, declared=replace(spec, columns=columns)).rows[0]
    assert kept["_hoodie_record_key"] == "***"
    assert kept["_hoodie_partition_path"].startswith("p=")
    assert all(isinstance(row["v"], int) for row in found.rows)


@pytest.mark.parametrize("days", [-800_000, 4_000_000])
def test_years_that_python_lacks_are_refused_by_the_name_of_the_column(days):
    dates = pa.array([days], pa.int32()).cast(pa.date32())
    nested = pa.StructArray.from_arrays([dates], names=["born"])
    for values in (dates, nested):
        with pytest.raises(InvalidDataError, match="column 'd': a value has a year before 1 or after 9999"):
            _listed("d", pa.chunked_array([values]))


@pytest.mark.parametrize(
    ("value", "kind", "plain"),
    [
        (float("nan"), pa.float64(), "NaN"),
        (float("-inf"), pa.float64(), "-Infinity"),
        (0, pa.date32(), "1970-01-01"),
        (-1, pa.timestamp("us", "UTC"), "1969-12-31 23:59:59.999999+00:00"),
        ("1.50", pa.decimal128(5, 2), "1.50"),
        (b"\x00\xff", pa.binary(), "00ff"),
        ([1, None], pa.list_(pa.int32()), [1, None]),
        ([("a", float("inf"))], pa.map_(pa.string(), pa.float64()), {"a": "Infinity"}),
        ([], pa.map_(pa.string(), pa.float64()), {}),
        ([[("a", None)], []], pa.list_(pa.map_(pa.string(), pa.int32())), [{"a": None}, {}]),
        ({"x": b"\x01"}, pa.struct({"x": pa.binary()}), {"x": "01"}),
        (True, pa.bool_(), True),
        (None, pa.int32(), None),
    ],
)
def test_values_are_what_json_can_hold(value, kind, plain):
    array = pa.array([value]).cast(kind) if isinstance(value, str) else pa.array([value], kind)
    (found,) = array.to_pylist()
    assert _plain(found, kind) == plain
    assert json.loads(json.dumps(_plain(found, kind))) == plain


def test_text_is_a_line_for_each_row():
    rows = FirstRows(
        table="t", columns=("n", "text"), rows=({"n": 1, "text": "a\nb"}, {"n": 20, "text": "x" * 99})
    )
    lines = HeadView().text(rows, Paint(enabled=False)).split("\n")
    assert lines == ["t, 2 rows", "", " n  text", " 1  a b", f"20  {'x' * 39}…"]
    empty = FirstRows(table="t", columns=("n",), rows=())
    assert HeadView().text(empty, Paint(enabled=False)) == "t, 0 rows\n\nn"


def test_the_command_prints_them(table, tmp_path):
    done = command(
        "head", table.store.uri, "--limit", "2", "--columns", "id, v", "--format", "json", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    Draft202012Validator(answer_schema("head")).validate(answer)
    assert (answer["columns"], len(answer["rows"])) == (["id", "v"], 2)
    refused = command("head", table.store.uri, "--columns", "idd", cwd=tmp_path)
    assert refused.returncode == 1
    assert "no column 'idd'; did you mean 'id'?" in refused.stderr
    assert command("head", table.store.uri, "--limit", "0", cwd=tmp_path).returncode == 2
