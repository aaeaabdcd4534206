"""Rows of pandas and Arrow in a table's declared types: each value as it is, or an error that names the column."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from parquetry.runtime.arrow.local_rows import BATCH_BYTES, check_rows, local_rows
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.table_spec import Column

UTC = dt.UTC


def taken(rows, kind):
    """The values of column c as the batches have them."""
    read = local_rows(rows, [Column(name="c", type=kind)])
    return [value for batch in read.batches for value in batch.column("c").to_pylist()]


def frame(values, dtype=None):
    return pd.DataFrame({"c": pd.Series(values, dtype=dtype)})


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("int", [1.0, np.nan, 3.0], [1, None, 3]),
        ("tinyint", [1, -128], [1, -128]),
        ("bigint", pd.array([1, pd.NA], dtype="Int64"), [1, None]),
        ("bigint", [Decimal(3), None], [3, None]),
        ("bigint", pd.Series([1, 0, 0], dtype=pd.SparseDtype("int64")), [1, 0, 0]),
        ("double", [1, 2], [1.0, 2.0]),
        ("double", [np.nan, 1.5], [None, 1.5]),
        ("float", [0.5, 2.0], [0.5, 2.0]),
        ("boolean", [True, None], [True, None]),
        ("decimal(10,2)", [12.34, np.nan, 0.1], [Decimal("12.34"), None, Decimal("0.10")]),
        ("decimal(10,2)", [Decimal("1.5"), None, 3], [Decimal("1.50"), None, Decimal("3.00")]),
        ("decimal(10,2)", [1, 99999999], [Decimal("1.00"), Decimal("99999999.00")]),
        ("decimal(38,0)", [10**30], [Decimal(10**30)]),
        ("string", ["a", None, np.nan, pd.NA], ["a", None, None, None]),
        ("string", pd.Categorical(["a", "b", None]), ["a", "b", None]),
        ("string", pd.array(["x", pd.NA], dtype="string"), ["x", None]),
        ("binary", [b"x", None], [b"x", None]),
        ("date", [dt.date(2026, 1, 2), None], [dt.date(2026, 1, 2), None]),
        ("date", pd.Series(pd.to_datetime(["1969-12-31", None])), [dt.date(1969, 12, 31), None]),
        (
            "timestamp",
            pd.Series(pd.to_datetime(["2026-01-01 10:00:00.000001", None])),
            [dt.datetime(2026, 1, 1, 10, 0, 0, 1, UTC), None],
        ),
        (
            "timestamp",
            pd.Series(pd.to_datetime(["2026-01-01 10:00"])).dt.tz_localize("Europe/Rome"),
            [dt.datetime(2026, 1, 1, 9, tzinfo=UTC)],
        ),
        ("timestamp_ntz", pd.Series(pd.to_datetime(["2026-01-01"])), [dt.datetime(2026, 1, 1)]),
        ("timestamp", [dt.date(2026, 1, 1), None], [dt.datetime(2026, 1, 1, tzinfo=UTC), None]),
        (
            "timestamp",
            pd.Series([pd.Timestamp(0), pd.NaT], dtype=object),
            [dt.datetime.fromtimestamp(0, UTC), None],
        ),
        ("array<date>", [[dt.date(2026, 1, 1)]], [[dt.date(2026, 1, 1)]]),
        ("int", pd.Series([3, 2048], dtype="float16"), [3, 2048]),
        ("decimal(5,2)", pd.Series([1.25], dtype="float16"), [Decimal("1.25")]),
        ("array<int>", [[1, 2], None, [], [None]], [[1, 2], None, [], [None]]),
        ("array<bigint>", [np.array([1, 2])], [[1, 2]]),
        ("map<string,bigint>", [{"a": 1}, None, {}, {"b": None}], [[("a", 1)], None, [], [("b", None)]]),
        ("map<string,array<int>>", [{"a": [1]}, {"b": None}], [[("a", [1])], [("b", None)]]),
        ("array<map<string,int>>", [[{"a": 1}, {"b": 2}], []], [[[("a", 1)], [("b", 2)]], []]),
        (
            "struct<a:int,b:map<string,double>>",
            [{"a": 1, "b": {"x": 1}}, None, {"a": 2}],
            [{"a": 1, "b": [("x", 1.0)]}, None, {"a": 2, "b": None}],
        ),
        ("array<decimal(5,2)>", [[1.25]], [[Decimal("1.25")]]),
    ],
)
def test_values_of_pandas_are_taken_as_declared(kind, values, expected):
    assert taken(frame(values), kind) == expected


@pytest.mark.parametrize(
    ("kind", "values", "place", "said"),
    [
        ("int", [1.5], "c", "truncated"),
        ("int", [2**40], "c", "not in range"),
        ("bigint", [2.0**60], "c", r"floats from 2\^53 on are rounded"),
        ("bigint", ["1"], "c", "is string in the rows and bigint in the table"),
        ("bigint", [1, "x"], "c", "Could not convert 'x'"),
        ("bigint", [True], "c", "is bool in the rows"),
        ("bigint", pd.to_timedelta(pd.Series([1]), unit="s"), "c", "is duration"),
        ("boolean", [1, 0], "c", "is int64 in the rows"),
        ("float", [1e300], "c", "too large"),
        ("decimal(10,2)", [12.345], "c", "12.345 cannot be stored as decimal"),
        ("decimal(4,2)", [Decimal("1234.5")], "c", "does not fit"),
        ("decimal(4,2)", [100], "c", "does not fit"),
        ("string", [1], "c", "is int64 in the rows"),
        ("string", [uuid.UUID(int=1)], "c", "in the table"),
        ("date", ["2026-01-01"], "c", "is string in the rows"),
        (
            "date",
            pd.Series(pd.to_datetime(["2026-01-01 10:00"])),
            "c",
            "2026-01-01 10:00:00 cannot be stored as date",
        ),
        ("date", pd.Series(np.array([2**45], "datetime64[s]")), "c", "which cannot hold every value"),
        ("bigint", pd.Series([2**24], dtype="float32"), "c", r"floats from 2\^24 on are rounded"),
        ("timestamp", pd.Series([pd.Timestamp(1, unit="ns")]), "c", "would lose data"),
        ("timestamp", pd.Series([pd.Timestamp(1, unit="ns")], dtype=object), "c", "nanoseconds"),
        ("array<timestamp>", [[pd.Timestamp(0), pd.Timestamp(1, unit="ns")]], "c", "nanoseconds"),
        ("struct<a:timestamp>", [{"a": pd.Timestamp(1, unit="ns")}], "c", "nanoseconds"),
        ("map<string,timestamp>", [{"a": pd.Timestamp(1, unit="ns")}], "c", "nanoseconds"),
        (
            "date",
            pd.Series([dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 5)], dtype=object),
            "c",
            "dates and times",
        ),
        (
            "timestamp_ntz",
            pd.Series(pd.to_datetime(["2026-01-01"])).dt.tz_localize("UTC"),
            "c",
            "tz=UTC",
        ),
        ("array<string>", [[1]], "c.element", "is int64 in the rows"),
        ("map<string,bigint>", [{"a": "x"}], "c.value", "is string in the rows"),
        ("map<string,bigint>", [{1: 1}], "c.key", "is int64 in the rows"),
        ("struct<a:int>", [{"a": 1, "typo": 2}], "c.typo", "is not in the table"),
        ("struct<a:int,b:int NOT NULL>", [{"a": 1}], "c.b", "is missing from the rows"),
    ],
)
def test_a_value_that_the_type_does_not_hold_is_an_error_with_the_columns_name(kind, values, place, said):
    with pytest.raises(InvalidDataError, match=said) as caught:
        taken(frame(values), kind)
    assert f"column '{place}'" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        ("date", pd.Series([dt.date(1950, 1, 1), dt.datetime(1962, 5, 17, 5)], dtype=object), "1962"),
        ("array<timestamp>", [[pd.Timestamp(1962, 5, 17, nanosecond=1)]], "1962"),
        ("date", pd.Series(pd.to_datetime(["1962-05-17 10:00"])), "1962"),
        ("decimal(10,2)", [1962.345], "1962"),
        ("bigint", [1962 * 2.0**60], str(1962 * 2**60)),
        ("bigint", [1, "1962"], "1962"),
    ],
)
def test_a_value_in_an_error_can_be_masked(kind, values, shown):
    with pytest.raises(InvalidDataError, match=shown) as caught:
        taken(frame(values), kind)
    assert shown not in str(caught.value.message)


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"c": pa.array(["a", None]).dictionary_encode()}),
        pa.record_batch({"c": pa.array(["a", None], pa.large_string())}),
        pa.table({"c": pa.array(["a", None], pa.string_view())}).to_reader(),
        pa.table({"C": ["z", "a", None]}).slice(1),
    ],
    ids=["table", "batch", "reader", "slice"],
)
def test_arrow_is_taken_in_each_of_its_forms(rows):
    (name,) = rows.schema.names
    read = local_rows(rows, [Column(name="c", type="string")])
    assert [v for batch in read.batches for v in batch.column(name).to_pylist()] == ["a", None]


def test_parts_of_nested_arrow_columns_keep_their_values():
    maps = pa.array([[("a", 1)], None, [("z", 3)], []], pa.map_(pa.string(), pa.int32()))
    lists = pa.array([[1], None, [2, 3], []], pa.large_list(pa.int32()))
    structs = pa.array([{"a": 1}, None, {"a": 3}, {"a": None}])
    for values, kind in (
        (maps, "map<string,bigint>"),
        (lists, "array<bigint>"),
        (structs, "struct<a:bigint>"),
    ):
        assert taken(pa.table({"c": values}).slice(1), kind) == values[1:].to_pylist()


def test_nan_is_a_value_in_arrow_and_a_null_in_pandas():
    (value,) = taken(pa.table({"c": [float("nan")]}), "double")
    assert value != value  # noqa: PLR0124 - that is NaN
    assert taken(frame([float("nan")]), "double") == [None]


def test_named_levels_of_an_index_are_columns():
    rows = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["k", "l"], name="c"))
    assert taken(rows, "string") == ["k", "l"]
    assert list(local_rows(pd.DataFrame({"c": [1]}, index=[7]), []).types) == ["c"]


def test_a_path_with_a_quote_is_quoted_as_python_does():
    with pytest.raises(InvalidDataError, match=r"""column "c\.b's" is missing from the rows"""):
        taken(frame([{"a": 1}]), "struct<a:int,`b's`:int NOT NULL>")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pd.DataFrame({0: [1]}), "a column called 0"),
        (pd.DataFrame({None: [1]}), "a column called None"),
        (pd.DataFrame({("a", "b"): [1]}), r"a column called \('a', 'b'\)"),
        (pd.DataFrame(), "no columns"),
        (pd.DataFrame([[1, 2]], columns=["c", "C"]), "two columns 'C'"),
        (pa.table([pa.array([1]), pa.array([2])], names=["c", "c"]), "two columns 'c'"),
    ],
)
def test_columns_need_names_of_their_own(rows, said):
    with pytest.raises(InvalidDataError, match=said):
        local_rows(rows, [Column(name="c", type="int")])


@pytest.mark.parametrize("rows", [[{"c": 1}], {"c": [1]}, "c", None, pd.Series([1]).index, pd.DataFrame])
def test_anything_else_is_a_type_error_that_says_what_is_taken(rows):
    with pytest.raises(
        TypeError, match=r"does not contain rows; pass .* Spark DataFrame, a pandas DataFrame, a pyarrow"
    ):
        check_rows(rows)


def test_batches_are_bounded_by_bytes_whatever_a_row_is_long():
    rows = pd.DataFrame({"c": ["x" * 20_000] * 2_000})
    sizes = [batch.nbytes for batch in local_rows(rows, [Column(name="c", type="string")]).batches]
    assert sum(sizes) > 40_000_000
    assert max(sizes) < 2 * BATCH_BYTES
    table = pa.Table.from_pandas(rows)
    batches = list(local_rows(table, [Column(name="c", type="string")]).batches)
    assert max(batch.nbytes for batch in batches) < 2 * BATCH_BYTES
    assert sum(batch.num_rows for batch in batches) == 2_000


def test_columns_that_the_table_lacks_keep_their_own_type():
    rows = pd.DataFrame({"c": [1], "op": ["D"], "n": [None], "f": [1.5]})
    types = local_rows(rows, [Column(name="c", type="int")]).types
    assert {name: str(kind) for name, kind in types.items()} == {
        "c": "int",
        "op": "string",
        "n": "string",
        "f": "double",
    }
