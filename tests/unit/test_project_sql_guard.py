from __future__ import annotations

import pytest

from parquetry.project.sql_guard import (
    SqlProblem,
    check_expression,
    check_select,
    column_names,
    suspicious_names,
    tokens,
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
        ("exists (select 1 from t)", "PQ601"),
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
        "SELECT a, b AS c FROM source s JOIN t USING (id) -- done",
        "with x as (select 1 as insert_time) select * from x",
        "select transform(xs, x -> x + 1) as ys from source",
        "select *, 'insert into' as note from source",
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("distnace > 1", {"distnace"}),
        ("`departed-at` > 1", {"departed-at"}),
        ("DISTANCE > 1 and Day is null", set()),
        ("exists(array(1), dist -> dist > 2)", set()),
        ("interval 3 days > day", set()),
        ("origins.name = 'x'", set()),
        ("date '2013-01-01' = day", set()),
        ("upper(origin) = 'distnace'", set()),
        ("something_else = 1", set()),
    ],
)
def test_words_that_resemble_columns(text, words):
    assert set(suspicious_names(tokens(text), COLUMNS)) == words


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
def test_words_that_mean_columns(text, names):
    columns = {"at", "year", "date", "day", "address", "a"}
    assert column_names(tokens(text)) & columns == names
