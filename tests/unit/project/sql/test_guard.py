from __future__ import annotations

import contextlib
import logging
import re
import time

import pytest

from parquetry.project.sql.checked import columns_read, unknown_columns
from parquetry.project.sql.guard import SqlProblem, check_expression, check_select
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
        ("foo <> bar baz", "'baz'"),
        ("distance >", "'>'"),
        ("distance > > 1 + ", "'+'"),
        ("and distance = 1 1", "'1'"),
        ("case when distance then 1", "'1'"),
        ("cast(distance int)", "'int'"),
        ("origin = 'x' 1", "'1'"),
        ("origin = /* x */ 'a' 1", "'1'"),
        ("distance between 1", "'1'"),
        ("name 'x'", "'x'"),
        ("drop table source", "'drop'"),
    ],
)
def test_expressions_that_cannot_be_parsed_name_the_place(text, token):
    sql = check_expression(text)
    assert sql.refusal == f"the SQL cannot be parsed here at {token}"
    assert sql.columns is None


@pytest.mark.parametrize("text", ["select a b c from source", "select a from source where b >", "select"])
def test_selects_that_cannot_be_parsed(text):
    assert check_select(text).refusal


def test_what_ends_sqlglot_by_another_error_is_a_refusal():
    assert check_select("select a from source |> where a > 1 |> limit 1").refusal


def test_sqlglot_gets_no_strings(monkeypatch):
    given = []
    check_expression("1")  # sqlglot parses texts of its own when it is imported
    monkeypatch.setattr("sqlglot.Dialect.tokenize", lambda self, text: given.append(text) or [])
    check_expression("origin = 'Ada' /* Eva */ or x'1f' = r\"Ida\" || X 'ff' and a !> `Name`")
    assert given == ["origin = '$'   or x'1F' = '$' || X '$' and a <= `Name`"]


def test_sqlglot_logs_nothing_of_a_text(caplog):
    assert check_expression("if private").refusal
    assert caplog.records == []
    logging.getLogger("sqlglot").warning("of another program")
    assert len(caplog.records) == 1


def test_a_long_text_is_left_to_spark():
    sql = check_expression(" and ".join(f"distance <> {number}" for number in range(2000)))
    assert (sql.refusal, sql.columns) == (None, None)


@pytest.mark.parametrize("text", ["(" * 300 + "distance" + ")" * 300, "date(" * 9 + "distance" + ")" * 9])
def test_a_deep_text_is_left_to_spark(text):
    assert check_expression(text).refusal == "the SQL is nested too deeply to be parsed here"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "opened", ["date(", "struct(", "f(date(", "map(struct(", "cast(struct(", "(date(", "decimal("]
)
@pytest.mark.parametrize("inner", ["1", "a b", ""])
def test_no_nesting_takes_long(opened, inner):
    for depth in (*range(6, 20), 100):
        text = opened * depth + inner + ")" * depth * opened.count("(")
        started = time.process_time()
        check_expression(text)
        assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "text", ["(select) + 1", "f(from, table, values)", "trim(from a)", "(map(1, 2))['a'] = values(1)"]
)
def test_keywords_may_be_names(text):
    assert check_expression(text).tokens


@pytest.mark.parametrize(
    "text",
    [
        "select extract(day from at), trim(both from a), a is not distinct from b as c from source",
        "select select, join, values from source where from is null order by from, table",
        "select a as from from source",
        "select * from values (1, 'a'), (2, 'b') as v (id, label), source",
        "select * from values (array(1)), (null) v join source on true",
        "select * from (source), (select * from source) s, lateral (select s.a, s.b) order by a, b",
        "select * from source as where, source as x order by a, b",
        "with a as (select 1), b as (select * from a, source) select * from b, a group by x, y",
    ],
)
def test_selects_of_their_source_alone_pass(text):
    assert check_select(text).tokens


@pytest.mark.parametrize(
    "text",
    [
        "select * from source where, foo",
        "select 1 as from foo",
        "select * from from",
        "select * from source, lateral, foo",
        "select * from source as join foo",
        "select * from values (1) as v, foo",
        "select a !! b from source, foo",
        "select a !! b from source where exists (table foo)",
        "select a !! b from source lateral view stolen(a) as x",
        "select * from (source, foo)",
        "select * from (from (foo))",
        "select * from source union distinct table foo",
        "with a as (select 1) table foo",
        "with trim (from foo) select * from trim",
        "with a as (select 1), trim (from foo) select * from trim",
        "with desc as (select 1) select case when true then 1 end from desc, foo",
        "with desc as (select 1 as desc) select desc from desc, foo",
        "with lateral as (select 1), view as (select 1) select * from lateral view, foo",
        "with values as (select 1) select * from values x, foo",
        "with values as (select 1) select * from values x (a), foo",
        "select * from source join end",
        "select * from source as window join source as b, foo",
        "select * from source where join source b, foo",
        "select * from source where (a), foo",
        "select * from values null v, foo",
        "select * from values current_date v, foo",
        "select * from values case when true then 1 end v, foo",
        "select not distinct from foo as t (distinct)",
        "select is distinct from foo",
        "select * from source where a in ((select 1) union all table foo)",
        "select a !! b from source where a in ((select 1) union select a from foo)",
        "select a !! b from source where a in (select end, b from foo)",
        "select * from explode(table(foo))",
        "select * from stack(1, table(foo))",
        "select * from stream source",
        "select * from source version as of 1",
        "select a from source un\u0131on table foo",
        "select tran\u017fform(a) u\u017fing 'cat' from source",
        "select 1 from source window with as (order by a), foo as (order by a) union all select !! from foo",
    ],
)
def test_selects_of_anything_else_are_refused(text):
    with pytest.raises(SqlProblem, match="is refused") as caught:
        check_select(text)
    assert caught.value.code == "PQ602"


@pytest.mark.parametrize(
    "text",
    [
        "a !! exists (select not like from foo)",
        "a !! exists (select end, b from foo)",
        "a !! exists (select rlike(a, 'x') from foo)",
        "a !! exists (table end)",
        "a !! exists (from desc)",
        "a !! (with end as (values (1)) select * from foo)",
        "a !! exists (\u017felect 1 from foo)",
        "\u0131dentifier('reflect')('java.lang.System', 'getenv', 'HOME')",
    ],
)
def test_expressions_that_read_other_rows_are_refused(text):
    with pytest.raises(SqlProblem) as caught:
        check_expression(text)
    assert caught.value.code == "PQ602"


@pytest.mark.parametrize("text", ["cast(values as int)", "struct(from as a)"])
def test_columns_with_names_of_keywords_pass(text):
    assert check_expression(text).tokens


def test_a_parameter_is_refused_in_a_text_that_cannot_be_parsed():
    with pytest.raises(SqlProblem, match=r"^':' is not accepted"):
        check_select("select a !! b from source limit :p")


@pytest.mark.timeout(60)
def test_queries_with_the_name_with_do_not_take_long():
    started = time.process_time()
    with contextlib.suppress(SqlProblem):
        check_select("with a as (select 1), " + "with as (from source), " * 4000 + "b as (select 1) select 1")
    assert time.process_time() - started < 5


def test_a_long_text_reads_its_source_alone():
    many = " and ".join(f"distance <> {number}" for number in range(2000))
    with pytest.raises(SqlProblem, match=r"^a query within an expression"):
        check_expression(f"{many} and exists (table foo)")
    with pytest.raises(SqlProblem, match=r"^'foo' is refused"):
        check_select(f"select * from source where {many} union all select * from foo")


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
    found = unknown_columns(check_expression(text), lambda chain: chain[0] in columns)
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
        ("trunc(at, day)", {"at", "day"}),
        ("date_trunc(day, at)", {"at", "day"}),
        ("trunc(at, 'day')", {"at"}),
        ("a::array<int>[0]", {"a"}),
    ],
)
def test_columns_that_an_expression_reads(text, names):
    assert columns_read(check_expression(text), {"at", "year", "date", "day", "address", "a"}) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("select a, s.b, upper(c) as d from source s", {"a", "b", "d"}),
        ("SELECT DISTINCT `A` FROM source", {"a"}),
        ("select a, (select max(b) from source) as m from source", {"a", "m"}),
        ("select * from source", None),
        ("select a, source.* from source", None),
        ("select upper(a) from source", None),
        ("select a from source union select b from source", None),
        ("with x as (select 1) select a from x", {"a"}),
        ("select a b, upper(c) d from source", {"b", "d"}),
        ("select a from source |> drop a", None),
        ("select explode(a) as (b, c) from source", None),
    ],
)
def test_columns_that_a_select_gives(text, names):
    assert check_select(text).selected == names


def test_columns_of_an_expression_that_cannot_be_parsed_are_its_names():
    sql = check_expression("year(at) !! `Day` address")
    assert sql.refusal
    assert columns_read(sql, {"year", "day", "address"}) == {"day", "address"}
    assert unknown_columns(sql, lambda _: False) == ()


def test_equal_texts_are_checked_once():
    assert check_expression("distance > 17") is check_expression("distance > 17")
