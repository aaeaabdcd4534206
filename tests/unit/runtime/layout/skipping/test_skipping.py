"""Conditions as SQL text, and which row groups they leave."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from parquetry.runtime.layout.skipping.condition import Opaque
from parquetry.runtime.layout.skipping.files import (
    NOTHING,
    Reads,
    all_of,
    bounds_of,
    column_types,
    columns_of,
    files_to_read,
    parse_where,
    reads_of,
)
from parquetry.runtime.layout.skipping.parser import parse_condition, parse_date, parse_timestamp
from parquetry.runtime.layout.skipping.predicate import Bounds, may_hold
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics, RowGroupStatistics
from parquetry.runtime.spec.table_spec import Column

LOS_ANGELES = ZoneInfo("America/Los_Angeles")
TYPES = column_types(
    [
        Column(name="i", type="bigint"),
        Column(name="f", type="float"),
        Column(name="x", type="double"),
        Column(name="d", type="date"),
        Column(name="ts", type="timestamp"),
        Column(name="local", type="timestamp_ntz"),
        Column(name="s", type="string"),
        Column(name="b", type="boolean"),
        Column(name="bin", type="binary"),
        Column(name="price", type="decimal(10,2)"),
        Column(name="wide", type="decimal(38,10)"),
        Column(name="st", type="struct<inner:int,deep:struct<n:string>,l:array<int>>"),
        Column(name="Mixed", type="int"),
        Column(name="odd", type="int"),
        Column(name="ODD", type="int"),
    ]
)


def micros(text):
    return int(
        (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
        * 1e6
    )


def days(text):
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


BOUNDS = {
    "i": ("bigint", 10, 20),
    "f": ("float", 1.0, 2.0),
    "x": ("double", 1.0, 2.0),
    "d": ("date", days("2013-03-01"), days("2013-03-31")),
    "ts": ("timestamp", micros("2013-03-01 00:00:00"), micros("2013-03-31 23:59:59")),
    "local": ("timestamp_ntz", micros("2013-03-01 00:00:00"), micros("2013-03-31 23:59:59")),
    "s": ("string", "berlin", "paris"),
    "b": ("boolean", True, True),
    "bin": ("binary", b"a", b"b"),
    "price": ("decimal(10,2)", Decimal("1.50"), Decimal("9.99")),
    "wide": ("decimal(38,10)", Decimal(1), Decimal(2)),
    "st.inner": ("int", 5, 6),
    "st.deep.n": ("string", "m", "n"),
    "Mixed": ("int", 1, 2),
    "odd": ("int", 1, 2),
    "ODD": ("int", 1, 2),
}


def group(*, nulls=0, rows=100, bounds=BOUNDS, nan_free=False):
    columns = {
        name: ColumnStatistics(type=kind, minimum=low, maximum=high, nulls=nulls, nan_free=nan_free)
        for name, (kind, low, high) in bounds.items()
    }
    return RowGroupStatistics(rows=rows, data_bytes=1000, columns=columns)


def kept(where, *, zone=UTC, **options) -> bool:
    file = FileStatistics(path="p", size_bytes=1, row_groups=(group(**options),))
    return bool(files_to_read([file], parse_where(where, types=TYPES, time_zone=zone), TYPES))


@pytest.mark.parametrize(
    "where",
    [
        "i = 21",
        "i = 9",
        "21 = i",
        "i == 9.5",
        "i < 10",
        "10 > i",
        "i <= 9",
        "i > 20",
        "20 < i",
        "i >= 21",
        "i >= 20.5",
        "i > 20.0D",
        "i <=> 30",
        "i in (1, 2, 30)",
        "i in (1, 2.5, 30)",
        "x in (-1.5D, 0.0D)",
        "x in (3, 4.5)",
        "wide in (3, 4.5)",
        "price in (0.5, 100)",
        "d in ('2014-01-01', '2014-01-02')",
        "i between 21 and 30",
        "i BETWEEN -5 AND 9L",
        "not i >= 10",
        "not (i < 21 or s = 'paris')",
        "i is null",
        "not (i is not null)",
        "i = 15 and x < 0",
        "(i = 9) or (s = 'zurich')",
        "x < 1",
        "x = 2.5",
        "f = 0.5",
        "f < 1",
        "d < '2013-03-01'",
        "d = DATE '2013-04-01'",
        "d > DATE'2013-03-31'",
        "ts >= '2013-04-01'",
        "ts < '2013-03-01 00:00'",
        "ts >= '2013-03-31 23:59:59.000001'",
        "ts > TIMESTAMP '2013-03-31T23:59:59Z'",
        "ts < TIMESTAMP '2013-03-01 01:00:00+01:00'",
        "ts >= DATE '2013-04-01'",
        "local < '2013-03-01 00:00:00'",
        "local >= TIMESTAMP_NTZ '2013-04-01 00:00:00'",
        "s = 'aachen'",
        "s > 'paris'",
        "s like 'q%'",
        "s LIKE 'pariz%x_'",
        "s like 'rome'",
        "b = false",
        "not b",
        "price < 1.5",
        "price > 9.99",
        "price = 10",
        "price > 9.990001D",
        "wide = 3.5",
        "st.inner = 7",
        "`st`.`inner` < 5",
        "st.deep.n = 'a'",
        "mIXED > 2",
        "false",
        "i in (1) and upper(s) = 'X'",
        "year(d) between 2000 and 2010 and i = 1",
    ],
)
def test_what_cannot_be_is_skipped(where):
    assert kept(where) is False


@pytest.mark.parametrize(
    "where",
    [
        "i = 10",
        "i = 20.0",
        "i <= 10",
        "i >= 20",
        "i <> 15",
        "i is not null",
        "i in (1, 20)",
        "i not in (15)",
        "i not between 11 and 19",
        "s like 'p%'",
        "s like 'b%'",
        "s like '%x'",
        "s not like 'q%'",
        "s like 'ber'  or i = 10",
        "x > 100",  # NaN is the largest number
        "x >= 100",
        "f > 100",
        "not (x <= 100)",
        "x = double('nan')",
        "i = 'abc'",
        "i = '9'",
        "s = 9",
        "b = 0",
        "bin = X'00'",
        "d = '2013'",
        "d = '2013-02-30'",
        "d = 1",
        "d >= TIMESTAMP '2014-01-01 00:00:00'",
        "ts < 'soon'",
        "ts < 5",
        "local = TIMESTAMP '2014-01-01 00:00:00'",
        "local = '2014-01-01 00:00:00Z'",
        "price = '1'",
        "wide = 3.0000000000000000000000000001",  # no decimal type holds both: Spark rounds
        "f = 33554433",  # an int becomes a float
        "i = 1e300",
        "i > 9007199254740993D",
        "odd = 7",  # two columns of that name
        "missing = 7",
        "st.l[0] = 7",
        "st is null",
        "i = j",
        "i + 1 = 7",
        "i = 7 + 8",
        "i = -(-15)",
        "i = case when b and s = 'x' then 7 else 8 end",
        "coalesce(i, 7) = 7",
        "i = 9 = false",
        "i = 9 is false",
        "(i = 9) = false",
        "(i = 9) is not true",
        "not (i <=> 9)",
        "upper(s) between 'a' and b or i = 9 and 2 > 1",
        "i = 9 -- or not",
        "i = 9 /* x */",
        "s = 'a\\'b'",
        "s = 'a''b'",
        "s = 'a' 'b'",
        's = "aachen"',
        "i = 9 or exists(array(1), k -> k > 0 and k < 5)",
        "i = 9;",
        "i = (select max(i) from t)",
        "i between 21 and 30 = false",
        "i like 'a%'",
        "s like 'a%' escape '/'",
        "s like s",
        "i =",
        "and",
        "",
        "(i = 9",
        "i = 9)",
        "i in ()",
        "i in (1, null)",
        "i in (9007199254740993, 1.0D)",  # all become doubles
        "i in (9, 8.00000000001)",
        "d in ('2014-01-01', DATE '2014-01-02')",
        "i = null",
        "i is 5",
        "ts = TIMESTAMP 'x'",
        "date = 5",
        "é = 1",
        "(" * 300 + "i = 9" + ")" * 300,
        "true",
    ],
)
def test_what_may_be_or_is_not_understood_is_kept(where):
    assert kept(where) is True


NAN_MATTERS = [
    "x > 2",
    "x > 100",
    "x >= 100",
    "f > 100",
    "100 < f",
    "not (x <= 100)",
    "not x < 2.5",
    "x between 3 and 4",
    "x not between -1 and 2",
    "x = 'NaN'",
    "x <=> 'nan'",
    "x >= 'NaN'",
    "x between 'Infinity' and 'NaN'",
    "f > 'infinity'",
    "f = 'NaN' or f > 3",
]


@pytest.mark.parametrize("where", NAN_MATTERS)
def test_only_where_a_nan_would_have_been_told_bounds_exclude_it(where):
    assert kept(where) is True
    assert kept(where, nan_free=True) is False


@pytest.mark.parametrize(
    "where",
    [
        "x <> 'NaN'",
        "x < 'NaN'",
        "x <= 'NaN'",
        "not x = 'NaN'",
        "x < 'inf'",
        "x >= 2",
        "x > 1.9",
        "x <> 1.0",
        "x in ('NaN', 7)",  # in a list Spark compares texts
        "x not in (7, 8)",
        "not (x <=> 7)",
        "x = double('nan')",
        "isnan(x)",
    ],
)
def test_what_may_be_among_numbers_without_nan_is_read(where):
    assert kept(where, nan_free=True) is True


def test_both_zeros_are_one_number():
    zeros = {"x": ("double", -0.0, 0.0)}
    for where in ("x <> 0.0D", "x <> -0.0D", "x > -0.0D", "x < 0", "not x = -0.0D"):
        assert kept(where, bounds=zeros, nan_free=True) is False, where
    for where in ("x = 0", "x = -0.0D", "x >= 0.0D", "x <= -0.0D"):
        assert kept(where, bounds=zeros, nan_free=True) is True, where


def test_a_column_of_one_value_is_skipped_by_what_is_not_that_value():
    one = {"i": ("bigint", 5, 5), "s": ("string", "a", "a"), "x": ("double", 1.5, 1.5)}
    for where in ("i <> 5", "not i = 5", "s != 'a'"):
        assert kept(where, bounds=one) is False, where
    for where in ("i <> 6", "s <> 'b'", "i not in (5)", "not (i <=> 5)", "x <> 1.5"):
        assert kept(where, bounds=one) is True, where
    assert kept("x <> 1.5", bounds=one, nan_free=True) is False


def test_a_partition_of_nan_is_that_value():
    """The path tells it, so nothing else is there."""
    bounds = {"x": Bounds(type="double", minimum=math.nan, maximum=math.nan, has_nulls=False, nan_free=True)}
    answers = {
        where: may_hold(parse_where(where, types=TYPES, time_zone=UTC), bounds)
        for where in ("x > 5", "x >= 5", "x <> 5", "x = 'NaN'", "x >= 'NaN'", "x = 5", "x < 5", "x < 'NaN'")
    }
    assert [where for where, held in answers.items() if not held] == ["x = 5", "x < 5", "x < 'NaN'"]


@pytest.mark.parametrize("where", ["i = 15", "i <> 15", "not i = 15", "s like 'p%'", "i is not null", "b"])
def test_where_all_is_null_no_comparison_is_true(where):
    assert kept(where, nulls=100) is False


def test_where_some_are_null_or_nobody_knows_nulls_may_be():
    assert kept("i is null", nulls=1)
    assert kept("i is null", nulls=None)
    assert kept("i is not null", nulls=None)
    assert kept("i is null", nulls=100)


def test_rows_that_are_not_there_are_skipped():
    assert not kept("missing = 1", rows=0)


def test_local_times_are_of_the_sessions_zone():
    assert not kept("ts >= '2013-04-01 00:00'", zone=UTC)
    assert kept("ts >= '2013-03-31 16:59:59'", zone=LOS_ANGELES)
    assert not kept("ts >= '2013-03-31 17:00:00'", zone=LOS_ANGELES)
    assert kept("ts >= '2014-01-01'", zone=None)
    assert not kept("ts >= '2014-01-01 00:00:00Z'", zone=None)


@pytest.mark.parametrize("hour", ["2013-11-03 08:30:00", "2013-11-03 09:30:00"])
def test_in_the_hour_that_a_clock_repeats_both_readings_count(hour):
    at = micros(hour)
    bounds = {"ts": ("timestamp", at, at)}
    for operator in ("=", ">=", "<="):
        assert kept(f"ts {operator} '2013-11-03 01:30:00'", zone=LOS_ANGELES, bounds=bounds)


def test_unknown_bounds_are_no_bounds():
    for low, high in ((None, 20), (10, None), (None, None)):
        bounds = {"i": ("bigint", low, high)}
        for where in ("i = 15", "i < 15", "i <= 15", "i > 15", "i >= 15"):
            assert kept(where, bounds=bounds)
    assert not kept("i > 20", bounds={"i": ("bigint", None, 20)})
    assert not kept("i < 10", bounds={"i": ("bigint", 10, None)})


def test_files_of_an_older_schema_are_judged_where_the_types_allow():
    assert not kept("i = 9", bounds={"i": ("int", 10, 20)})
    assert not kept("x = 0.5", bounds={"x": ("float", 1.0, 2.0)})
    assert not kept("wide = 3", bounds={"wide": ("decimal(10,2)", Decimal(1), Decimal(2))})
    assert kept("x = 0.5", bounds={"x": ("bigint", 1, 2)})
    assert kept("s = '9'", bounds={"s": ("bigint", 1, 2)})
    assert kept("i = 9", bounds={})


def test_columns_within_structs_have_dotted_names_and_lists_none():
    assert {name: kind for name, kind in TYPES.items() if name.startswith("st")} == {
        "st.inner": "int",
        "st.deep.n": "string",
    }
    assert bounds_of(group(), TYPES).keys() == BOUNDS.keys()


def test_touched_counts_files_groups_and_rows():
    first = group(bounds={"i": ("bigint", 0, 9)}, rows=10)
    second = group(bounds={"i": ("bigint", 10, 19)}, rows=20)
    files = [
        FileStatistics(path="a", size_bytes=1, row_groups=(first, second)),
        FileStatistics(path="b", size_bytes=1, row_groups=(second,)),
        FileStatistics(path="c", size_bytes=1, row_groups=(first,)),
    ]
    predicate = parse_where("i >= 10", types=TYPES)
    assert reads_of(files, predicate, TYPES) == Reads(
        files=2, row_groups=2, rows=40, data_bytes=2 * second.data_bytes
    )
    assert [file.path for file in files_to_read(files, predicate, TYPES)] == ["a", "b"]
    assert reads_of(files, parse_where("i = 99", types=TYPES), TYPES) == NOTHING
    assert all_of(files) == Reads(files=3, row_groups=4, rows=60, data_bytes=4 * first.data_bytes)


def test_the_columns_of_a_condition_are_those_that_statistics_can_answer():
    condition = "(i >= 10 OR s LIKE 'a%') AND d IS NULL AND f(x) = 1"
    assert columns_of(parse_where(condition, types=TYPES)) == {"i", "s", "d"}


def test_what_partition_paths_say_counts_too():
    files = [FileStatistics(path=name, size_bytes=1, row_groups=(group(),)) for name in "ab"]
    partitions = {
        "a": {"s": Bounds(type="string", minimum="rome", maximum="rome", has_nulls=False)},
        "b": {"s": Bounds(type="string", minimum="oslo", maximum="oslo", has_nulls=False)},
    }
    predicate = parse_where("s = 'rome' and i > 0", types=TYPES)
    assert [f.path for f in files_to_read(files, predicate, TYPES, partitions=partitions)] == ["a"]


@pytest.mark.parametrize("text", ["2013-1-1", "2013-02-30", "13-01-01", "2013-01-01 ", "٢٠١٣-01-01", ""])
def test_dates_in_other_forms_are_left_to_spark(text):
    assert parse_date(text) is None
    assert parse_timestamp(text) is None


def test_timestamps_have_up_to_microseconds_and_an_offset():
    assert parse_timestamp("2013-01-02 03:04:05.6") == datetime(2013, 1, 2, 3, 4, 5, 600000)
    assert parse_timestamp("2013-01-02T03:04") == datetime(2013, 1, 2, 3, 4)
    assert parse_timestamp("2013-01-02 03:04:05.000006Z") == datetime(2013, 1, 2, 3, 4, 5, 6, UTC)
    assert parse_timestamp("2013-01-02") == datetime(2013, 1, 2)
    for text in ("2013-01-02 25:00:00", "2013-01-02 03:04:05.1234567", "2013-01-02 03:04:05 UTC", "now"):
        assert parse_timestamp(text) is None


def test_what_is_not_understood_is_opaque_as_a_whole_when_its_structure_is_not_certain():
    assert parse_condition("case when a and b then 1 end = 1 and i = 9") == Opaque()
    assert parse_condition("f(i) between 1 and j > 5") == Opaque()
