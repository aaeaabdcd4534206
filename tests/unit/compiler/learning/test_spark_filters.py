"""The filters of Spark's scans: each form, each type, and what must not be understood."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.compiler.learning.conditions import sql_of
from parquetry.compiler.learning.spark_filters import (
    LogSession,
    ScanFilters,
    Unread,
    filters_of,
    types_of_schema,
)

SCHEMA = (
    "struct<i:int,n:bigint,price:decimal(10,2),d:double,f:float,day:date,at:timestamp,local:timestamp_ntz,"
    "city:string,flag:boolean,s:struct<x:int,tags:array<string>>,raw:binary>"
)
TYPES = types_of_schema(SCHEMA)
ROME = LogSession(zone=ZoneInfo("Europe/Rome"), machine_zone=ZoneInfo("Europe/Rome"))


def understood(text, *, pushed=None, partition=None, session=ROME, types=TYPES):
    """The SQL of each filter, or the reason why it is none."""
    scan = ScanFilters(data=text, partition=partition, pushed=pushed)
    found = filters_of(scan, types, session)
    return [each.name if isinstance(each, Unread) else sql_of(each) for each in found]


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("isnotnull(i#1)", "i is not null"),
        ("isnull(i#1)", "i is null"),
        ("(i#1 = 5)", "i = 5"),
        ("(n#24L >= -9999999999)", "n >= -9999999999"),
        ("(price#1 > 5.00)", "price > 5.00"),
        ("(price#1 > 5)", "price > 5BD"),
        ("(d#1 < 1.0E10)", "d < 10000000000.0D"),
        ("(f#1 >= 0.1)", "f >= 0.10000000149011612D"),
        ("(day#1 <= 2024-01-02)", "day <= date '2024-01-02'"),
        ("(day#1 <= 19724)", "day <= date '2024-01-02'"),
        ("(at#1 = 2024-01-02 03:04:05.678)", "at = timestamp '2024-01-02 02:04:05.678000Z'"),
        ("(at#1 = 1704164645678000)", "at = timestamp '2024-01-02 03:04:05.678000Z'"),
        ("(local#1 = 2024-01-02 03:04:05)", "local = timestamp_ntz '2024-01-02 03:04:05'"),
        ("(city#1 = 4 yr Degree)", "city = '4 yr Degree'"),
        ("(city#1 = a, b)", "city = 'a, b'"),
        ("(city#1 <=> c)", "city <=> 'c'"),
        ("flag#1", "flag = true"),
        ("NOT flag#1", "flag <> true"),
        ("NOT (i#1 = 3)", "i <> 3"),
        ("(5 < i#1)", "i > 5"),
        ("(s#1.x = 5)", "s.x = 5"),
        ("i#1 IN (1,2)", "i in (1, 2)"),
        ("NOT i#1 IN (1,2)", "i not in (1, 2)"),
        ("i#1 INSET 1, 10, 2", "i in (1, 10, 2)"),
        ("i#1 INSET (1,2)", "i in (1, 2)"),
        ("city#1 IN (a,b)", "city in ('a', 'b')"),
        ("StartsWith(city#1, ab)", "city like 'ab%'"),
        ("EndsWith(city#1, ab)", "city like '%ab'"),
        ("Contains(city#1, ab)", "city like '%ab%'"),
        ("((i#1 = 3) OR (city#2 = x))", "i = 3 or city = 'x'"),
        ("(((i#1 = 3) OR (i#1 = 4)) OR (i#1 = 5))", "i = 3 or i = 4 or i = 5"),
        ("(((i#1 = 3) AND (n#2L <= 4)) OR i#1 IN (7,8))", "(i = 3 and n <= 4) or i in (7, 8)"),
        ("NOT ((i#1 = 3) AND (n#2L = 4))", "i <> 3 or n <> 4"),
        ("(length(trim(city#0, None)) > 0)", "length(trim(city)) > 0"),
        ("((i#1 % 2) = 0)", "(i % 2) = 0"),
        ("((n#1L + (i#2 * -3)) <= 7)", "(n + (i * - 3)) <= 7"),
        ("(i#1 < n#2L)", "i < n"),
        ("(cast(i#1 as bigint) = n#2L)", "cast(i as bigint) = n"),
        ("(length(cast(i#1 as string)) = 3)", "length(cast(i as string)) = 3"),
        ("(year(day#1) = 2024)", "year(day) = 2024"),
        ("(day#1 < day#2)", "day < day"),
        ("(abs(d#1) > 0.5)", "abs(d) > 0.5D"),
        ("((price#1 * 2.00) > 10.0000)", "(price * 2.00) > 10.0000"),
        ("((i#1 = 3) OR ((i#1 % 2) = 0))", "i = 3 or (i % 2) = 0"),
    ],
)
def test_an_expression_is_understood(text, sql):
    assert understood(f"[{text}]") == [sql]
    assert understood(f"[isnotnull(d#9), {text}, (i#1 = 1)]") == ["d is not null", sql, "i = 1"]


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("IsNotNull(i)", "i is not null"),
        ("*IsNull(i)", "i is null"),
        ("EqualTo(i,5)", "i = 5"),
        ("EqualNullSafe(city,c)", "city <=> 'c'"),
        ("GreaterThanOrEqual(day,2024-01-02)", "day >= date '2024-01-02'"),
        ("LessThan(at,2024-01-02 03:04:05.678)", "at < timestamp '2024-01-02 02:04:05.678000Z'"),
        ("LessThan(at,2024-01-02T02:04:05.678Z)", "at < timestamp '2024-01-02 02:04:05.678000Z'"),
        ("GreaterThan(local,2024-01-02T03:04)", "local > timestamp_ntz '2024-01-02 03:04:00'"),
        ("In(i, [1,2])", "i in (1, 2)"),
        ("Not(In(i, [1,2]))", "i not in (1, 2)"),
        ("Not(EqualTo(city,a))", "city <> 'a'"),
        ("StringStartsWith(city,a b)", "city like 'a b%'"),
        ("StringEndsWith(city,a)", "city like '%a'"),
        ("StringContains(city,a)", "city like '%a%'"),
        ("Or(And(EqualTo(i,0),LessThanOrEqual(n,2)),EqualTo(i,2))", "(i = 0 and n <= 2) or i = 2"),
        ("EqualTo(s.x,5)", "s.x = 5"),
    ],
)
def test_a_filter_of_a_source_is_understood(text, sql):
    pushed = f"[IsNotNull(d), {text}, EqualTo(i,1)]"
    assert understood(None, pushed=pushed) == ["d is not null", sql, "i = 1"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(lower(city#1) = a)", "EXPRESSION"),
        ("(city#1 = city#2)", "EXPRESSION"),
        ("(length(city#1) > length(other#2))", "EXPRESSION"),
        ("((i#1 + d#2) = 3)", "EXPRESSION"),
        ("(hour(at#1, Some(UTC)) = 3)", "EXPRESSION"),
        ("(cast(at#1 as date) = 2024-01-01)", "EXPRESSION"),
        ("((f#1 + 1.0) > 2.0)", "EXPRESSION"),
        ("((i#1 + 1) = 2.5)", "EXPRESSION"),
        ("(rand() < i#1)", "EXPRESSION"),
        ("(length(raw#1) = 3)", "EXPRESSION"),
        ("NOT ((i#1 % 2) = 0)", "EXPRESSION"),
        ("(1 < 2)", "EXPRESSION"),
        ("(cast(i#1 as string) = 3)", "EXPRESSION"),
        ("NOT StartsWith(city#1, a)", "EXPRESSION"),
        ("city#1 LIKE c_", "EXPRESSION"),
        ("((i#1 = 3) OR (lower(city#1) = a))", "EXPRESSION"),
        ("(city#1 = a))", "EXPRESSION"),
        ("(city#1 = a#1)", "EXPRESSION"),
        ("(city#1 = it's)", "VALUE"),
        ("(city#1 = )", "VALUE"),
        ("(city#1 = null)", "VALUE"),
        ("(city#1 = {{ env('SECRET') }})", "EXPRESSION"),
        ("(city#1 = {{ secret }})", "VALUE"),
        ("(city#1 = ${SECRET})", "VALUE"),
        ("StartsWith(city#1, a%)", "VALUE"),
        ("StartsWith(city#1, a_b)", "VALUE"),
        ("city#1 IN (a, b)", "VALUE"),
        ("(i#1 = 5.5)", "VALUE"),
        ("(d#1 = NaN)", "VALUE"),
        ("(raw#1 = 0x01)", "VALUE"),
        ("(at#1 = 2024-10-27 02:30:00)", "VALUE"),
        ("(day#1 = +1000000-01-01)", "VALUE"),
        ("(other#1 = 5)", "TYPE"),
        ("dynamicpruningexpression(i#1 IN dynamicpruning#918)", "RUNTIME"),
        ("(n#1L > scalar-subquery#12 [])", "RUNTIME"),
        ("might_contain(Subquery subquery#3, [id=#9], xxhash64(i#1, 42))", "RUNTIME"),
        ("(" * 400 + "(i#1 = 5)" + " AND (i#1 = 5))" * 400, "EXPRESSION"),
    ],
)
def test_what_is_not_certain_is_not_understood(text, reason):
    assert understood(f"[{text}, (i#1 = 1)]") == [reason, "i = 1"]


def test_what_follows_a_bracket_without_its_pair_is_not_understood():
    assert understood("[(i#1 = 1), (city#1 = a(b), (i#1 = 2)]") == ["i = 1", "EXPRESSION"]


def test_a_local_time_needs_a_zone():
    text = "[(at#1 = 2024-01-02 03:04:05), (local#2 = 2024-01-02 03:04:05)]"
    assert understood(text, session=LogSession()) == ["ZONE", "local = timestamp_ntz '2024-01-02 03:04:05'"]


def test_a_list_that_is_cut_off_has_its_first_filters():
    assert understood("[isnotnull(i#1), (i#1 = 5), (n#2L = 12...") == ["i is not null", "i = 5", "TRUNCATED"]
    assert understood("[(i#1 = 5)") == ["TRUNCATED"]
    assert understood("[dynamicpruningexpression(i#1 IN dynamicpruning#1...") == ["RUNTIME", "TRUNCATED"]
    assert understood("...") == ["TRUNCATED"]
    assert understood("[]") == []


def test_a_text_must_be_the_same_in_both_forms():
    data = "[isnotnull(city#1), (city#1 = x), (i#2 = 3)]"
    pushed = "[IsNotNull(city), EqualTo(city,x), EqualTo(i,3)]"
    assert understood(data, pushed=pushed) == ["city is not null", "city = 'x'", "i = 3"]
    # The one value "x), (i#2 = 3" prints as two filters in one form alone.
    hidden = "[EqualTo(n,4), EqualTo(city,x), (i#2 = 3)]"
    assert understood("[(n#7L = 4), (city#1 = x), (i#2 = 3)]", pushed=hidden) == ["n = 4", "FORMS", "FORMS"]
    hidden = "[EqualTo(city,x(y)), (i#2 = 3)]"
    assert understood("[(city#1 = x(y)), (i#2 = 3)]", pushed=hidden) == ["EXPRESSION", "FORMS"]
    assert understood("[(city#1 = x)]", pushed="[EqualTo(city,y)]") == ["FORMS"]


def test_filters_of_partitions_are_filters():
    types = {**TYPES, "part": "string"}
    partition = "[(part#3 = p1), dynamicpruningexpression(part#3 IN dynamicpruning#1)]"
    assert understood("[(i#1 = 1)]", partition=partition, types=types) == ["i = 1", "part = 'p1'", "RUNTIME"]
    assert understood("[]", partition="[(part#3 = 5)]") == ["TYPE"]


def test_types_of_a_schema():
    assert TYPES["price"] == "decimal(10,2)"
    assert TYPES["s.x"] == "int"
    assert TYPES["s.tags"] == "array<string>"
    assert types_of_schema("struct<a:int,b:nonsense,C:bigint>") == {"a": "int", "c": "bigint"}
    assert types_of_schema("...") == types_of_schema("struct<>") == {}


@given(st.text("ab#1() =<>,[]{}.'%\\ANDORISetnull\n", max_size=40))
def test_any_text_is_understood_or_refused(text):
    for form in ({"data": text, "pushed": None}, {"data": None, "pushed": text}):
        scan = ScanFilters(partition=None, **form)
        for each in filters_of(scan, {"a": "string", "b": "int"}, ROME):
            assert isinstance(each, Unread) or sql_of(each)


@given(st.text('ab,;:=<>[]{}|&%_"#.? 0', min_size=1, max_size=12))
def test_a_text_is_read_as_it_was_asked_or_not_at_all(value):
    scan = ScanFilters(data=f"[(city#1 = {value})]", partition="[]", pushed=f"[EqualTo(city,{value})]")
    (found,) = filters_of(scan, TYPES, ROME)
    assert isinstance(found, Unread) or found.literal == value
