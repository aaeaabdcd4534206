"""Parquet files as pandas and Arrow write them: read as what they are by whole runs, or refused by name."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.sources.listing import list_files
from parquetry.runtime.spark.read.source import read_files
from parquetry.runtime.spark.read.source_failures import explained, source_failures
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spec.table_spec import Column, Operation, Source
from tests.support import hudi_rs
from tests.support.project_folder import ProjectFolder

pytestmark = pytest.mark.spark

FEED = {"name": "feed", "format": "parquet", "path": "landing/*.parquet", "operation": "upsert"}
UTC = dt.UTC
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
NO_MICROSECONDS = pd.Timestamp("2026-01-02 03:04:05.678901234")


@pytest.fixture
def folder(tmp_path, monkeypatch, spark):  # the session that runs find
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    monkeypatch.chdir(folder.root)
    return folder


def called(*arguments, code=0):
    result = CliRunner().invoke(command_line, list(arguments))
    assert result.exit_code == code, result.output
    return result


def declare(folder, **changes):
    """Declare and create a table of these columns, and of ``source`` changes; a key ``id`` comes first."""
    source = FEED | changes.pop("source", {})
    columns = [{"name": "id", "type": "bigint", "nullable": False}]
    columns += [{"name": name, "type": kind} for name, kind in changes.items()]
    table = {"apiVersion": "parquetry/v1", "kind": "table", "name": "trips", "columns": columns}
    folder.write("tables/trips.yml", table | {"record_key": ["id"], "sources": [source]})
    called("apply", "--auto-approve")


def write(folder, rows, name="a", **options):
    path = folder.root / f"landing/{name}.parquet"
    if isinstance(rows, pd.DataFrame):
        rows.to_parquet(path, **options)
    else:
        pq.write_table(pa.table(rows), path, **options)


def stored(folder, *names):
    """What hudi-rs reads of the columns, by key."""
    table = hudi_rs.read(str(folder.root / "warehouse/trips"))
    rows = table.select(["id", *names]).sort_by("id").to_pylist()
    return {row.pop("id"): tuple(row.values()) for row in rows}


def ingest(folder):
    called("run", "--only", "ingest")


def refused(folder):
    return called("run", "--only", "ingest", "--format", "json", code=1).output


SELECT = {"source": {"select": "SELECT * FROM source"}}


@pytest.mark.parametrize("source", [{}, SELECT], ids=["plain", "select"])
def test_a_frame_of_pandas_with_what_pandas_has(folder, source):
    frame = pd.DataFrame(
        {
            "id": pd.Series([1, 2], dtype="Int64"),
            "note": [None, None],
            "at": pd.to_datetime([AT, None]).astype("datetime64[ns]"),
            "zoned": pd.to_datetime([AT, None]).astype("datetime64[ns]").tz_localize("Europe/Rome"),
            "city": pd.Categorical(["Oslo", None]),
            "is_open": pd.Series([True, None], dtype=object),
            "n": pd.array([7, None], dtype="Int32"),
            "name": pd.array(["x", None], dtype="string"),
            "times": [[AT, None], None],
        }
    )
    types = {"note": "string", "at": "timestamp", "zoned": "timestamp", "city": "string"}
    types |= {"is_open": "boolean", "n": "int", "name": "string", "times": "array<timestamp>"}
    declare(folder, **types, **source)
    write(folder, frame)
    ingest(folder)
    at = AT.replace(tzinfo=UTC)
    row = (None, at, at - dt.timedelta(hours=1), "Oslo", True, 7, "x", [at, None])
    assert stored(folder, *types) == {1: row, 2: (None,) * 8}


KINDS = [
    ("string", pa.nulls(2), [None, None]),
    ("tinyint", pa.nulls(2), [None, None]),
    ("array<string>", pa.array([[None], None], pa.list_(pa.null())), [[None], None]),
    ("struct<a:string>", pa.array([{"a": None}, None]), [{"a": None}, None]),
    (
        "timestamp",
        pa.array([-1000, None], pa.timestamp("ns")),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    ),
    (
        "timestamp",
        pa.array([1000, None], pa.timestamp("ns", "Asia/Tokyo")),
        [dt.datetime(1970, 1, 1, 0, 0, 0, 1)],
    ),
    ("timestamp", pa.array([1, None], pa.timestamp("ms")), [dt.datetime(1970, 1, 1, 0, 0, 0, 1000)]),
    ("timestamp", pa.array([1, None], pa.timestamp("us")), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    (
        "array<timestamp>",
        pa.array([[1000]], pa.list_(pa.timestamp("ns"))),
        [[dt.datetime(1970, 1, 1, 0, 0, 0, 1)]],
    ),
    (
        "struct<a:int,t:timestamp>",
        pa.array([{"a": 1, "t": AT}], pa.struct([("a", pa.int32()), ("t", pa.timestamp("ns"))])),
        [{"a": 1, "t": AT}],
    ),
    (
        "map<string,timestamp>",
        pa.array([[("k", AT)]], pa.map_(pa.string(), pa.timestamp("ns"))),
        [[("k", AT)]],
    ),
    ("smallint", pa.array([200, None], pa.uint8()), [200, None]),
    ("int", pa.array([65535], pa.uint16()), [65535]),
    ("bigint", pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
    ("decimal(20,0)", pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
    (
        "float",
        pa.array([1.5, -0.25, 65504, 2**-24, -math.inf, 0, None], pa.float16()),
        [1.5, -0.25, 65504.0, 2**-24, -math.inf, 0.0, None],
    ),
    ("string", pa.array(["x", None], pa.large_string()), ["x", None]),
    ("string", pa.array(["x", None]).dictionary_encode(), ["x", None]),
    ("binary", pa.array([b"x", None], pa.large_binary()), [b"x", None]),
    ("array<bigint>", pa.array([[1], None], pa.large_list(pa.int64())), [[1], None]),
]


@pytest.mark.parametrize("select", [None, "SELECT * FROM source"])
def test_columns_of_arrow_are_what_they_are(folder, select):
    names = [f"c{number}" for number in range(len(KINDS))]
    types = dict(zip(names, (kind for kind, *_ in KINDS), strict=True))
    declare(folder, **types, source={} if select is None else {"select": select})
    most = max(len(values) for _, values, _ in KINDS)
    rows = {name: filled(values, most) for name, (_, values, _) in zip(names, KINDS, strict=True)}
    write(folder, {"id": range(most), **rows})
    ingest(folder)
    columns = list(zip(*stored(folder, *names).values(), strict=True))
    for (kind, values, expected), found in zip(KINDS, columns, strict=True):
        assert list(found) == with_zones([*expected, *[None] * (most - len(expected))]), (kind, values.type)


def filled(values, count):
    return pa.concat_arrays([values, pa.nulls(count - len(values), values.type)])


def with_zones(value):
    """The value with its times in UTC."""
    match value:
        case dt.datetime():
            return value.replace(tzinfo=UTC)
        case list() | tuple():
            return type(value)(map(with_zones, value))
        case dict():
            return {name: with_zones(part) for name, part in value.items()}
    return value


UNITED = [
        ("bigint", [pa.array([1.0]), pa.array([2**53 - 1]), pa.array([2], pa.int8()), pa.nulls(1)], [1, 2**53 - 1, 2, None]),
        ("int", [pa.array([2**31 - 1]), pa.array([5], pa.uint64()), pa.array([Decimal("7.00")])], [2**31 - 1, 5, 7]),
        ("double", [pa.array([2**53]), pa.array([0.1]), pa.array([3], pa.int32()), pa.array([0.5], pa.float32())], [2.0**53, 0.1, 3.0, 0.5]),
        ("double", [pa.array([16777217], pa.int32()), pa.array([0.5], pa.float32())], [16777217.0, 0.5]),
        ("decimal(12,3)", [pa.array([Decimal("1.5")]), pa.array([Decimal("1.125")]), pa.array([12.25]), pa.array([4])], [Decimal("1.5"), Decimal("1.125"), Decimal("12.25"), Decimal(4)]),
        ("decimal(10,2)", [pa.array([Decimal("1.5000")]), pa.array([0.1])], [Decimal("1.5"), Decimal("0.1")]),
        (
            "timestamp",
            [pa.array([AT], pa.timestamp("ns")), pa.array([AT], pa.timestamp("us", "UTC")), pa.array([AT.date()])],
            [AT, AT, dt.datetime(2026, 1, 2)],
        ),
        ("date", [pa.array([dt.datetime(2026, 1, 2)], pa.timestamp("ns")), pa.array([dt.date(2026, 1, 3)])], [dt.date(2026, 1, 2), dt.date(2026, 1, 3)]),
        ("struct<a:bigint,b:string>", [pa.array([{"a": 1.0, "b": "x"}]), pa.array([{"a": 2, "b": None}])], [{"a": 1, "b": "x"}, {"a": 2, "b": None}]),
        ("array<double>", [pa.array([[1]]), pa.array([[1.5, None]]), pa.array([[None]])], [[1.0], [1.5, None], [None]]),
    ]  # fmt: skip


def test_files_of_one_batch_are_united_in_the_declared_type(folder):
    names = [f"c{number}" for number in range(len(UNITED))]
    declare(folder, **dict(zip(names, (kind for kind, *_ in UNITED), strict=True)))
    for number in range(max(len(values) for _, values, _ in UNITED)):
        cells = {
            name: values[number]
            for name, (_, values, _) in zip(names, UNITED, strict=True)
            if number < len(values)
        }
        write(folder, {"id": [number], **cells}, name=str(number))
    ingest(folder)
    columns = zip(*stored(folder, *names).values(), strict=True)
    for (kind, _, expected), found in zip(UNITED, columns, strict=True):
        assert list(found)[: len(expected)] == with_zones(expected), kind


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        ("timestamp", pa.array([AT, NO_MICROSECONDS], pa.timestamp("ns")), r"row 2, column 'value': \"2026-01-02 03:04:05.678901234\" is not timestamp, which has microseconds; round"),
        ("array<timestamp>", pa.array([[], [-1]], pa.list_(pa.timestamp("ns", "UTC"))), r"row 2, column 'value.element': \"1969-12-31 23:59:59.999999999\" is not timestamp"),
        ("bigint", pa.array([3.0, 3.5]), r"row 2, column 'value': \"3.5\" is not bigint"),
        ("bigint", pa.array([0, 2.0**53]), r"row 2, column 'value': .* is not bigint"),
        ("bigint", pa.array([0, 2.0**63]), r"row 2, column 'value': .* is not bigint"),
        ("bigint", pa.array([0, math.nan]), r"row 2, column 'value': \"NaN\" is not bigint"),
        ("bigint", pa.array([0, 2**63], pa.uint64()), r"row 2, column 'value': \"9223372036854775808\" is not bigint"),
        ("int", pa.array([0, 2**31]), r"row 2, column 'value': \"2147483648\" is not int"),
        ("double", pa.array([0, 2**63 - 1]), r"row 2, column 'value': \"9223372036854775807\" is not double"),
        ("float", pa.array([0, 2**24 + 1], pa.int32()), r"row 2, column 'value': \"16777217\" is not float"),
        ("float", pa.array([0.5, 0.1]), r"row 2, column 'value': \"0.1\" is not float"),
        ("decimal(10,2)", pa.array([0.5, 0.125]), r"row 2, column 'value': \"0.125\" is not decimal\(10,2\)"),
        ("decimal(4,2)", pa.array([Decimal(1), Decimal(100)]), r"row 2, column 'value': \"100\" is not decimal\(4,2\)"),
        ("date", pa.array([dt.datetime(2026, 1, 2), AT], pa.timestamp("us")), r"row 2, column 'value': .* is not date"),
        ("struct<a:int>", pa.array([{"a": 1}, {"a": 2**40}]), r"row 2, column 'value.a': \"1099511627776\" is not int"),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_that_the_type_does_not_hold_is_refused_with_its_place(spark, tmp_path, kind, values, reason):
    pq.write_table(pa.table({"value": values}), tmp_path / "a.parquet")
    columns = (Column(name="value", type=kind),)
    source = Source(name="s", format="parquet", path="*.parquet", operation=Operation.INSERT)
    files = list_files(source.path, base=str(tmp_path))
    explain = explained(source, files, columns, {})
    with (
        pytest.raises(InvalidDataError, match=rf"a\.parquet cannot be read: {reason}"),
        source_failures("source s", explain=explain),
        failures_translated("source s"),
    ):
        read_files(spark, source, files, columns=columns, storage={}).collect()


def test_a_run_with_a_value_that_is_cut_writes_nothing(folder):
    declare(folder, at="timestamp")
    times = pa.array([AT, NO_MICROSECONDS], pa.timestamp("ns"))
    write(folder, {"id": [1, 2], "at": times})
    text = refused(folder)
    assert "landing/a.parquet cannot be read: row 2, column 'at'" in text
    assert "round the column in the file" in text
    assert stored(folder, "at") == {}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (pa.array([1], pa.time64("us")), "time64[us], which tables do not have; write the time of day as text"),
        (pa.array([1], pa.time32("ms")), "time32[ms], which tables do not have; write the time of day as text"),
        (pa.array([1], pa.duration("ns")), "duration[ns], which tables do not have; write the duration as a number"),
        (pa.array([1], pa.decimal256(50, 2)), "decimal256(50, 2), which tables do not have; write it with at most 38"),
        (pa.array([b"0" * 16], pa.uuid()), "arrow.uuid, which tables do not have; write it as text"),
        (pd.period_range("2026-01", periods=1, freq="M"), "pandas.period, which tables do not have"),
    ],
    ids=str,
)  # fmt: skip
def test_what_no_type_holds_is_refused_by_name_unless_nothing_reads_it(folder, values, reason):
    rows = (
        pd.DataFrame({"id": [1], "value": values})
        if isinstance(values, pd.PeriodIndex)
        else {"id": [1], "value": values}
    )
    declare(folder, value="bigint")
    write(folder, rows)
    assert f"landing/a.parquet cannot be read: column 'value' has the type {reason}" in refused(folder)
    declare(folder, value="bigint", source={"select": "SELECT id, value FROM source"})
    assert f"column 'value' has the type {reason}" in refused(folder)
    declare(folder, value="bigint", source={"select": "SELECT id FROM source"})
    ingest(folder)
    assert stored(folder, "value") == {1: (None,)}


def test_a_source_may_drop_what_no_type_holds(folder):
    declare(folder, source={"drop": ["value"]})
    write(folder, {"id": [1], "value": pa.array([1], pa.time64("us"))})
    ingest(folder)
    assert stored(folder) == {1: ()}


@pytest.mark.parametrize(
    "index",
    [["a", "b"], pd.Index([5, 6], name="number"), pd.MultiIndex.from_product([["x"], [1, 2]])],
    ids=["text", "named", "levels"],
)
def test_an_index_that_pandas_left_is_dropped_unless_the_table_declares_it(folder, index):
    declare(folder, name="string")
    write(folder, pd.DataFrame({"id": [1, 2], "name": ["x", "y"]}, index=index))
    ingest(folder)
    assert stored(folder, "name") == {1: ("x",), 2: ("y",)}


def test_an_index_that_the_table_declares_is_read(folder):
    declare(folder, name="string")
    write(folder, pd.DataFrame({"name": ["x", "y"]}, index=pd.Index([1, 2], name="id")))
    ingest(folder)
    assert stored(folder, "name") == {1: ("x",), 2: ("y",)}


def test_a_select_sees_the_index(folder):
    declare(folder, name="string", source={"select": "SELECT id, __index_level_0__ AS name FROM source"})
    write(folder, pd.DataFrame({"id": [1, 2]}, index=["a", "b"]))
    ingest(folder)
    assert stored(folder, "name") == {1: ("a",), 2: ("b",)}


def test_a_column_with_the_name_of_an_index_is_a_column(folder):
    declare(folder)
    write(folder, {"id": [1], "__index_level_0__": [1]})
    assert "column '__index_level_0__' is not in the table" in refused(folder)


def test_files_with_and_without_values_and_indexes_are_one_batch_in_order(folder):
    declare(folder, note="string", at="timestamp", source={"file_order": "name"})
    at = pd.to_datetime([AT]).astype("datetime64[ns]")
    write(folder, pd.DataFrame({"id": [1], "note": [None], "at": at}), name="a")
    write(folder, pd.DataFrame({"id": [1], "note": ["x"]}, index=["i"]), name="b")
    write(folder, {"id": [2], "note": ["y"], "at": pa.nulls(1)}, name="c")
    write(folder, pd.DataFrame({"id": [2], "note": [None], "at": at}), name="d")
    ingest(folder)
    assert stored(folder, "note", "at") == {1: ("x", None), 2: (None, AT.replace(tzinfo=UTC))}


def test_old_timestamps_of_96_bits_are_exact_or_refused(folder):
    declare(folder, at="timestamp", times="array<timestamp>")
    far = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    old = {"use_deprecated_int96_timestamps": True}
    rows = {"id": [1, 2], "at": pa.array([AT, far]), "times": pa.array([[AT], None])}
    write(folder, rows, name="a", **old)
    ingest(folder)
    at = AT.replace(tzinfo=UTC)
    assert stored(folder, "at", "times") == {1: (at, [at]), 2: (far.replace(tzinfo=UTC), None)}
    times = pa.array([[NO_MICROSECONDS]], pa.list_(pa.timestamp("ns")))
    write(folder, {"id": [3], "times": times}, name="b", **old)
    assert "landing/b.parquet cannot be read: column 'times': 1 of its times has nanoseconds" in refused(
        folder
    )


def test_hidden_cells_stay_hidden(folder):
    columns = [
        {"name": "id", "type": "bigint", "nullable": False},
        {"name": "pay", "type": "int", "pii": True},
    ]
    table = {"apiVersion": "parquetry/v1", "kind": "table", "name": "trips", "columns": columns}
    folder.write("tables/trips.yml", table | {"record_key": ["id"], "sources": [FEED]})
    called("apply", "--auto-approve")
    write(folder, {"id": [1], "pay": [1234.5]})
    text = refused(folder)
    assert "row 1, column 'pay'" in text
    assert "1234" not in text


@pytest.mark.parametrize("compression", ["snappy", "zstd"])
def test_every_number_of_16_bits_is_exact(folder, compression):
    bits = np.arange(2**16, dtype=np.uint16).view(np.float16)
    declare(folder, value="double")
    write(folder, {"id": range(2**16), "value": pa.array(bits)}, compression=compression)
    ingest(folder)
    read = np.array([value for (value,) in stored(folder, "value").values()])
    np.testing.assert_array_equal(read, bits.astype(np.float64))


def test_init_declares_what_a_run_takes(folder):
    frame = pd.DataFrame(
        {
            "note": [None, None],
            "at": pd.to_datetime([AT, None]).astype("datetime64[ns]"),
            "small": np.array([1.5, 2], np.float16),
            "big": np.array([1, 2**64 - 1], np.uint64),
            "part": [{"t": NO_MICROSECONDS.floor("us"), "n": None}, None],
        },
        index=["a", "b"],
    )
    write(folder, frame)
    called("init", "--from", "landing", "--name", "trips")
    called("apply", "--auto-approve")
    ingest(folder)
    table = hudi_rs.read(str(folder.root / "warehouse/trips"))
    rows = table.select(list(frame.columns)).to_pylist()
    at = AT.replace(tzinfo=UTC)
    first = {"note": None, "at": at, "small": 1.5, "big": Decimal(1), "part": {"t": at, "n": None}}
    assert min(rows, key=lambda row: row["big"]) == first
    assert json.loads(called("inspect", "trips", "--format", "json").stdout)["partitions"][0]["rows"] == 2
