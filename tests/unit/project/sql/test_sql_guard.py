from __future__ import annotations

import contextlib
import re

import pytest

from parquetry.project.sql.grammar import Effort, columns_read, selected_names, unknown_columns
from parquetry.project.sql.guard import SqlProblem, check_expression, check_select, tokens
from tests.support.hostile_sql import (
    HOSTILE_EXPRESSIONS,
    HOSTILE_QUERIES,
    HOSTILE_QUERIES_OF_SPARK_4,
    ORDINARY_EXPRESSIONS,
    ORDINARY_QUERIES,
    ORDINARY_QUERIES_OF_SPARK_4,
)

COLUMNS = ["departed_at", "distance", "origin", "day"]


@pytest.mark.parametrize(
    "text",
    [
        "distance > 1000",
        "to_date(departed_at)",
        "origin in ('EWR', 'JFK') and day = date '2013-01-01'",
        "transform(array(1, 2), x -> x + 1)[0] = 2",
        "reflect > 5 and java_method is not null",
        "origin = 'reflect(''x'')'",
        'origin = "a -- b"',
        "origin like r'\\d--' or origin = R\"x\"",
        "`reflect` = 1 /* reflect( /* nested */ ) */",
        "cast(distance as decimal(10, 2)) >= 1.5e3",
        "case when distance > 1 then 'a' else 'b' end = 'a'",
        "origin = 'it\\'s'",
        "1 - -1 > 0",
        "origin:a.b[0]::int > 1 and parse_json(origin):['x'] is null",
    ],
)
def test_expressions(text):
    assert check_expression(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("reflect('java.lang.Runtime', 'x')", "PQ602"),
        ("REFLECT ('x')", "PQ602"),
        ("`reflect`('x')", "PQ602"),
        ("system.builtin.Java_Method('x')", "PQ602"),
        ("try_reflect/**/('x')", "PQ602"),
        ("1 + (2 * (reflect('x')))", "PQ602"),
        ("identifier('ref' || 'lect')('x')", "PQ602"),
        ("distance; drop table x", "PQ601"),
        ("a, b", "PQ601"),
        ("a as b", "PQ601"),
        ("(a", "PQ601"),
        ("a)", "PQ601"),
        ("a) or (b", "PQ601"),
        ("a[1)", "PQ601"),
        ("'a", "PQ601"),
        ('"a', "PQ601"),
        ("`a", "PQ601"),
        ("'a\\'", "PQ601"),
        ("/* a", "PQ601"),
        ("/* /* */ a", "PQ601"),
        ("a -- b", "PQ601"),
        ("", "PQ601"),
        ("  -- x", "PQ601"),
        ("/* x */", "PQ601"),
        ("exists (select 1 from t)", "PQ602"),
        ("origin = '${env:PARQUETRY_SECRET_KEY}'", "PQ601"),
    ],
)
def test_refused_expressions(text, code):
    with pytest.raises(SqlProblem) as caught:
        check_expression(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "text",
    [
        "select * from source",
        "SELECT a, b AS c FROM source s JOIN source t USING (id) -- done",
        "with x as (select 1 as insert_time) select * from x",
        "select transform(xs, x -> x + 1) as ys from source",
        "select *, 'insert into' as note from source",
        "select s.a:b.c::string as b, s.a:d e from source s",
        "select a from source join source with ('split-size' = 5, depth 2) using (a)",
        "select a from source |> where a > 1 |> limit 1",
    ],
)
def test_selects(text):
    assert check_select(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("insert into t select 1", "PQ601"),
        ("from source select 1", "PQ601"),
        ("with x as (select 1) insert overwrite t select * from x", "PQ601"),
        ("select 1; select 2", "PQ601"),
        ("select transform(a) using 'cat' from source", "PQ602"),
        ('SELECT TRANSFORM (a) ROW FORMAT DELIMITED USING "cat" AS (b) FROM source', "PQ602"),
        ("from source map a using 'cat'", "PQ602"),
        ("select * from (select reflect('x')) y", "PQ602"),
        ("drop table x", "PQ601"),
        ("`select` 1", "PQ601"),
    ],
)
def test_refused_selects(text, code):
    with pytest.raises(SqlProblem) as caught:
        check_select(text)
    assert caught.value.code == code


@pytest.mark.parametrize("text", HOSTILE_EXPRESSIONS)
def test_hostile_expressions_are_refused(text):
    with pytest.raises(SqlProblem) as caught:
        check_expression(text)
    assert caught.value.code in ("PQ601", "PQ602")
    assert caught.value.hint


@pytest.mark.parametrize("text", [*HOSTILE_QUERIES, *HOSTILE_QUERIES_OF_SPARK_4])
def test_hostile_queries_are_refused(text):
    with pytest.raises(SqlProblem) as caught:
        check_select(text)
    assert caught.value.code in ("PQ601", "PQ602")
    assert caught.value.hint


@pytest.mark.parametrize("text", ORDINARY_EXPRESSIONS)
def test_ordinary_expressions_pass(text):
    assert check_expression(text)


@pytest.mark.parametrize("text", [*ORDINARY_QUERIES, *ORDINARY_QUERIES_OF_SPARK_4])
def test_ordinary_queries_pass(text):
    assert check_select(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("select * from csv.`/etc/passwd`", "csv./etc/passwd"),
        ("select * from source join explode(array(1)) join foo", "foo"),
        ("select * from source lateral view default.stolen(id) x", "default.stolen()"),
        ("with a as (select 1) select * from (with b as (select 1) select * from b) x join b", "b"),
    ],
)
def test_what_a_select_may_not_read_is_named(text, named):
    with pytest.raises(
        SqlProblem, match=f"^'{re.escape(named)}' is refused|function {re.escape(named[:-2])} is"
    ):
        check_select(text)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("foo <> bar baz", "'baz' does not fit after 'bar'"),
        ("distance >", "the SQL ends after '>'"),
        ("distance > > 1 + ", "the SQL ends after '+'"),
        ("and distance = 1 1", "'distance' does not fit after 'and'"),
        ("distance in ()", "')' does not fit after '('"),
        ("case when distance then 1", "the SQL ends after '1'"),
        ("cast(distance int)", "'int' does not fit after 'distance'"),
        ("origin = 'x' 1", "'1' does not fit after 'x'"),
        ("distance between 1", "the SQL ends after '1'"),
        ("name 'x'", "'x' does not fit after 'name'"),
        ("distance is not", "the SQL ends after 'not'"),
        ("upper(origin,)", "')' does not fit after ','"),
    ],
)
def test_expressions_that_go_wrong_name_the_place(text, token):
    with pytest.raises(SqlProblem) as caught:
        check_expression(text)
    assert token in caught.value.summary.replace("''", "'")
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["select a b c from source", "select a, from source where", "select a from source where b >", "select"],
)
def test_selects_that_go_wrong(text):
    with pytest.raises(SqlProblem):
        check_select(text)


def test_what_is_too_large_is_left_to_spark():
    assert check_expression(" and ".join(f"distance <> {number}" for number in range(2000)))
    assert check_expression("(" * 300 + "distance" + ")" * 300)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "1" + ")" * 10_000,
        "(" * 99_000,
        "f(" * 20_000 + "1" + ")" * 20_000,
        "a.b(" * 20_000,
        "a" + ".b" * 40_000 + "(1)",
        "case when a then " * 4000 + "1" + " end" * 4000,
        "not " * 20_000 + "a",
        "1" + "+1" * 40_000,
        "'" + "''" * 40_000,
        "/*" * 40_000,
        "a in (" + "1, " * 30_000 + "1)",
        "1" * 1_000_000,
        "x" + " " * 1_000_000,
    ],
    ids=lambda text: text[:8],
)
def test_no_text_takes_long(text):
    for check in (check_expression, lambda text: check_select(f"select {text} from source")):
        with contextlib.suppress(SqlProblem):
            check(text)


def test_all_texts_of_a_table_take_a_bounded_number_of_steps():
    effort = Effort.of_a_table()
    given = effort.left
    long = " and ".join(f"column_{number} > {number}" for number in range(500))
    for _ in range(100):
        found = check_expression(long, effort)
        unknown_columns(found, lambda _: False, effort=effort)
        columns_read(found, {f"column_{number}" for number in range(500)}, effort=effort)
    assert given - effort.left < given + 100 * 600  # one more where each reading stops
    # What is beyond is left to Spark, as a single text that is too long is.
    assert check_expression("exists (table foo)", effort)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("distnace > 1", ["distnace"]),
        ("`departed-at` > 1", ["departed-at"]),
        ("DISTANCE > 1 and Day is null", []),
        ("exists(array(1), dist -> dist > 2)", []),
        ("aggregate(array(1), 0, (acc, x) -> acc + x + y)", ["y"]),
        ("interval 3 days > day", []),
        ("date '2013-01-01' = day", []),
        ("upper(origin) = 'distnace'", []),
        ("something_else = 1 or other = 2", ["something_else", "other"]),
        ("current_date > day and origin <> current_user", []),
        ("extract(hour from departed_at) > 1", []),
        ("cast(distance as decimal(10, 2)) is not null", []),
        ("count(*) > 1", []),
        ("timestampdiff(minute, departed_at, departed_at)", []),
        ("case when day then distance else altitude end", ["altitude"]),
    ],
)
def test_columns_that_are_not_there(text, unknown):
    columns = {column.lower() for column in COLUMNS}
    found = unknown_columns(tokens(text), lambda chain: chain[0] in columns)
    assert [".".join(chain) for chain in found] == unknown


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("year(at)", {"at"}),
        ("CAST(at AS date)", {"at"}),
        ("extract(day FROM at)", {"at"}),
        ("at + INTERVAL 1 day", {"at"}),
        ("date '2020-01-01'", set()),
        ("address.day", {"address"}),
        ("Day + 1", {"day"}),
        ("concat(`day`, a)", {"day", "a"}),
    ],
)
def test_columns_that_an_expression_reads(text, names):
    assert columns_read(tokens(text), {"at", "year", "date", "day", "address", "a"}) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select a, s.b, upper(c) as d from source s", {"a", "b", "d"}),
        ("SELECT DISTINCT `A` FROM source", {"a"}),
        ("select a, (select max(b) from t) as m from source", {"a", "m"}),
        ("select * from source", None),
        ("select a, source.* from source", None),
        ("select upper(a) from source", None),
        ("select a from source union select b from t", None),
        ("with x as (select 1) select a from x", None),
        ("select explode(a) as (b, c) from source", None),
    ],
)
def test_columns_that_a_select_gives(text, names):
    assert selected_names(tokens(text)) == names


@pytest.mark.parametrize("text", ["a > 1", "exists (table foo)", "a +", "rand(1), 2", "java_method('a')"])
def test_a_text_that_was_checked_before_is_found_to_be_the_same_for_the_same_effort(text):
    def outcome(effort):
        try:
            return check_expression(text, effort), effort.left
        except SqlProblem as problem:
            return (problem.code, problem.summary, problem.hint), effort.left

    first, again = outcome(Effort.of_a_table()), outcome(Effort.of_a_table())
    assert first == again
    exhausted = Effort(left=0)
    assert outcome(exhausted)[1] <= 0
    assert outcome(Effort.of_a_table()) == first
