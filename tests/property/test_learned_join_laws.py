"""Filters of joined tables: a scan may leave out the rows that fail them, and the query returns the same."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.compiler.learning.conditions import sql_of
from parquetry.compiler.learning.spark_filters import Unread
from parquetry.compiler.learning.sql_filters import Naming, tables_read
from tests.support.effort import examples

NAMES = ("a", "b", "c")
NAMING = Naming(types={("shop", name): {"i": "int", "j": "int"} for name in NAMES}, context=("shop",))
VALUES = (0, 1, 2, None)
_COLUMNS = st.sampled_from(["i", "j"])
_CONDITIONS = st.builds(
    "{{0}}.{} {}".format,
    _COLUMNS,
    # What nulls fulfil is where outer joins differ.
    st.sampled_from(["= 1", "< 2", *["IS NULL"] * 4, "IS NOT NULL", "IN (0, 2)", "NOT IN (0, 1)"]),
)


def parts_of(names):
    """Conditions: each of one table, of two joined by OR, or that joins two; with the tables that it names."""
    name = st.sampled_from(names)
    one = st.builds(lambda text, name: (text.format(name), {name}), _CONDITIONS, name)
    either = st.builds(lambda left, right: (f"({left[0]} OR {right[0]})", left[1] | right[1]), one, one)
    join = st.builds(
        lambda left, i, right, j: (f"{left}.{i} = {right}.{j}", {left, right}), name, _COLUMNS, name, _COLUMNS
    )
    return st.lists(one | either | join, min_size=1, max_size=3)


@st.composite
def sources(draw, names, alone):
    """A table, or a join of tables, often in brackets; counts the conditions of one table in ``alone``."""
    if len(names) == 1:
        return names[0]
    at = draw(st.integers(1, len(names) - 1))
    left, right = draw(sources(names[:at], alone)), draw(sources(names[at:], alone))
    right = f"({right})" if len(names) - at > 1 else right
    left = f"({left})" if at > 1 and draw(st.booleans()) else left
    join = draw(st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"]))
    on = "" if join == "CROSS JOIN" else f" ON {joined(draw(parts_of(names)), alone)}"
    return f"{left} {join} {right}{on}"


def joined(parts, alone):
    alone.update(name for _, names in parts if len(names) == 1 for name in names)
    return " AND ".join(text for text, _ in parts)


@st.composite
def statements(draw):
    """A statement, with the number of conditions of each table alone."""
    alone = Counter()
    names = draw(st.permutations(NAMES))[: draw(st.integers(2, 3))]
    sql = f"SELECT * FROM {draw(sources(names, alone))}"
    where = draw(st.just([]) | parts_of(names))
    return (f"{sql} WHERE {joined(where, alone)}" if where else sql), alone


def rows_of(sql, tables, kept):
    """The rows of a statement over tables without the rows that fail a condition."""
    with closing(sqlite3.connect(":memory:")) as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} (i int, j int)")
            database.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
            database.execute(f"DELETE FROM {name} WHERE NOT coalesce({kept.get(name, 'true')}, false)")
        return Counter(database.execute(sql))


@settings(max_examples=examples(400))
@given(statements(), st.randoms(use_true_random=False))
def test_rows_that_fail_a_filter_are_in_no_result(statement, chance):
    sql, _ = statement
    filters = {
        read.name[-1]: [f"({sql_of(each)})" for each in read.filters if not isinstance(each, Unread)]
        for read in tables_read(sql, "trino", NAMING)
    }
    kept = {name: " AND ".join(texts) for name, texts in filters.items() if texts}
    pairs = [*product(VALUES, VALUES)]
    for _ in range(10):
        tables = {name: chance.sample(pairs, chance.randint(0, 4)) for name in NAMES}
        assert rows_of(sql, tables, kept) == rows_of(sql, tables, {}), (sql, kept)


@given(statements())
def test_each_condition_of_one_table_is_counted(statement):
    sql, alone = statement
    counted = {read.name[-1]: len(read.filters) for read in tables_read(sql, "trino", NAMING)}
    assert {name: number for name, number in counted.items() if number} == alone, sql
