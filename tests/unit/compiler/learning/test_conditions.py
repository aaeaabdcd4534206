"""Conditions as SQL that is parsed into the same condition, and shapes without values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.compiler.learning.conditions import (
    UndeclarableError,
    columns_in,
    conjuncts,
    filtering,
    joined_shape,
    joined_sql,
    renamed,
    shape_of_text,
    sql_of,
)
from parquetry.project.sql.guard import check_expression
from parquetry.runtime.layout.skipping.condition import (
    Comparator,
    Compared,
    Conjunction,
    Disjunction,
    IsNull,
    Like,
    Opaque,
    TimestampLiteral,
)
from parquetry.runtime.layout.skipping.parser import parse_condition


def compared(column="a", literal=1, operator=Comparator.EQUAL, *, listed=False):
    return Compared(column=column, operator=operator, literal=literal, listed=listed)


def one_of(*literals, column="a"):
    return Disjunction(tuple(compared(column, each, listed=True) for each in literals))


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (True, "true"),
        (-5, "-5"),
        (Decimal("0.05"), "0.05"),
        (Decimal(5), "5BD"),
        (0.5, "0.5D"),
        (1e22, "1e+22D"),
        ("it", "'it'"),
        (date(2024, 1, 2), "date '2024-01-02'"),
        (
            TimestampLiteral(value=datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=UTC), without_zone=False),
            "timestamp '2024-01-02 03:04:05.678000Z'",
        ),
        (
            TimestampLiteral(value=datetime(2024, 1, 2, 3), without_zone=True),
            "timestamp_ntz '2024-01-02 03:00:00'",
        ),
    ],
)
def test_a_value_is_written_as_spark_reads_it(literal, text):
    assert sql_of(compared(literal=literal)) == f"a = {text}"
    check_expression(f"a = {text}")


@pytest.mark.parametrize(
    "literal",
    [
        *("it's", "a\\", "{{ env('X') }}", "{% x %}", "${HOME}", "a\nb", "a\u202eb", "\ud800"),
        *(float("nan"), float("inf"), Decimal("NaN")),
    ],
)
def test_a_value_that_could_mean_something_else_is_refused(literal):
    with pytest.raises(UndeclarableError):
        sql_of(compared(literal=literal))


@pytest.mark.parametrize("name", ["a`b", "", "a.", "x\ny", "{{a}}"])
def test_a_name_that_could_mean_something_else_is_refused(name):
    with pytest.raises(UndeclarableError):
        sql_of(compared(name))


def test_a_condition_that_is_not_understood_is_refused():
    with pytest.raises(UndeclarableError):
        sql_of(Disjunction((compared(), Opaque())))


_NAMES = st.sampled_from(["a", "Order Id", "s.x", "end", "größe", "a-b", "between"])
_LITERALS = (
    st.integers(-(10**18), 10**18)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.dates()
    | st.text('abc -,()[]=%_;"#?é', max_size=8)
)
_LEAVES = (
    st.builds(compared, _NAMES, _LITERALS, st.sampled_from([*Comparator]))
    | st.builds(lambda name, negated: IsNull(column=name, negated=negated), _NAMES, st.booleans())
    | st.builds(
        lambda name, values: one_of(*values, column=name), _NAMES, st.lists(st.integers(), min_size=1)
    )
    | st.builds(
        lambda name, text: Like(column=name, pattern=f"{text}%", prefix=text),
        _NAMES,
        st.text("abc", min_size=1),
    )
    | st.sampled_from(["a + 1 = 2", "length(trim(a)) > 0", "(`Order Id` % 2) = 0", "s.x < `end`"]).map(Opaque)
)


def _joined(parts):
    kind, children = parts
    flat = []
    for child in children:
        listed = isinstance(child, Disjunction | Conjunction) and getattr(child.parts[0], "listed", False)
        flat.extend(child.parts if type(child) is kind and not listed else (child,))
    return kind(tuple(flat))


_CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: st.tuples(
        st.sampled_from([Conjunction, Disjunction]), st.lists(inner, min_size=2, max_size=3)
    ).map(_joined),
    max_leaves=8,
)


@given(_CONDITIONS)
def test_the_sql_of_a_condition_is_parsed_into_it(condition):
    text = sql_of(condition)
    assert parse_condition(text) == condition
    parts = filtering([condition])
    if parts:
        assert shape_of_text(joined_sql(parts)) == joined_shape(parts)


def test_a_shape_has_no_values_and_no_order():
    first = [compared("b", 1), compared("a", 2, Comparator.LESS)]
    second = [compared("a", 30, Comparator.LESS), compared("b", 5)]
    assert joined_shape(first) == joined_shape(second) == "a < ? and b = ?"
    assert joined_shape([one_of(1, 2)]) == joined_shape([one_of(1, 2, 3)]) == "a in (?)"


def test_parts_of_or_that_differ_by_values_are_one_in_a_shape():
    pair = [Conjunction((compared("a", n), compared("b", n))) for n in range(3)]
    assert joined_shape([Disjunction(tuple(pair))]) == "(a = ? and b = ?)"


def test_filters_that_spark_adds_are_left_out():
    null, not_null = IsNull(column="c"), IsNull(column="a", negated=True)
    assert joined_sql(filtering([not_null, compared(), null, compared()])) == "a = 1 and c is null"
    assert filtering([not_null]) == ()


def test_parts_and_columns():
    condition = Conjunction((compared("A"), Conjunction((compared("s.X"), one_of(1, 2)))))
    assert [*conjuncts(condition)] == [compared("A"), compared("s.X"), one_of(1, 2)]
    assert columns_in(condition) == {"a", "s.x"}


@pytest.mark.parametrize(
    ("text", "shape", "columns"),
    [
        ("a + 1 = 2", "a + ? = ?", {"a"}),
        ("LENGTH( trim(a) )>0 and b = 1", "LENGTH(trim(a)) > ? and b = ?", {"a", "b"}),
        ("cast(s.x as int) < `Order Id`", "cast(s.x as int) < `Order Id`", {"s.x", "order id"}),
        ("year(day) = 2024 or day = date '2024-01-01'", "day = ? or year(day) = ?", {"day"}),
        ("next_day(day, 'Mo') > date '2024-01-01'", "next_day(day, ?) > ?", {"day"}),
        ("upper(city) in ('A', 'B')", "upper(city) in (?, ?)", {"city"}),
    ],
)
def test_a_term_has_a_shape_and_columns(text, shape, columns):
    assert shape_of_text(text) == shape
    assert columns_in(parse_condition(text)) == columns


def test_columns_of_a_term_get_the_names_of_the_spec():
    condition = parse_condition("(ID % 2) = 0 and S.x < id and id = 1")
    names = {"id": "Id", "s.x": "s.X"}
    assert joined_sql([renamed(condition, names)]) == "(`Id` % 2) = 0 and s.`X` < `Id` and `Id` = 1"
    with pytest.raises(KeyError):
        renamed(condition, {"id": "id"})


def test_a_declared_condition_that_is_not_understood_has_no_shape():
    assert shape_of_text("a = 1 and case when b then 1 end = 1") == ""
    assert shape_of_text("a between 1 and 2") == "a <= ? and a >= ?"
