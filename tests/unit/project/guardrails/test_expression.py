"""CEL expressions: what is accepted, what they may read, and that none runs for long."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from parquetry.project.diagnostics.model import Problem
from parquetry.project.guardrails.expression import EvaluationError, compiled, context_of, longest_in


def value(text, **variables):
    return compiled(text).value(context_of(variables), longest=longest_in(variables))


def test_an_expression_reads_its_variables():
    assert value("'gold' in table.tags && rewrite_bytes < 10", table={"tags": ["gold"]}, rewrite_bytes=3)
    assert compiled("table.tags.exists(t, t == target.name)").variables == {"table", "target"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 +", "not a CEL expression"),
        ("", "not a CEL expression"),
        ("tabel.name == 'a'", "no variable 'tabel'"),
        ("true || environment.HOME", "no variable 'environment'"),
        ("open('/etc/passwd') == ''", "no function 'open'"),
        ("env('HOME') == ''", "no function 'env'"),
        ("table.tags.exists(t, table.tags.exists(u, table.tags.exists(v, u == v)))", "at most 2 macros"),
        ("1" + " + 1" * 9 + " > 0", "at most 8"),
        ("table.name.matches('a')", "no function 'matches'"),
        ("table.name == r'a'", "raw strings"),
        ("table.name == b'a'", "raw strings"),
        ("table.name == '''a'''", "raw strings"),
        ('table.name == """a(""" ', "raw strings"),
        ("table.name == 'a", "not closed"),
        ("true // table", "comments"),
        ("(" * 900 + "true" + ")" * 900, "not a CEL expression"),
    ],
)
def test_what_is_no_expression_is_a_finding(text, complaint):
    with pytest.raises(Problem) as problem:
        compiled(text)
    assert complaint in problem.value.summary
    assert problem.value.code == "PQ107"


@pytest.mark.parametrize(
    "text",
    ["table.name > 3", "table.missing == 1", "1 / 0 == 1", "table.tags[9] == ''", "table.name.contains(3)"],
)
def test_what_has_no_value_is_an_error_of_the_evaluation(text):
    with pytest.raises(EvaluationError):
        value(text, table={"name": "orders", "tags": []})


def test_a_bracket_in_a_text_hides_no_macro():
    text = "table.tags.all(a, a != ')' && table.tags.all(b, b != ')' && table.tags.all(c, c != a)))"
    with pytest.raises(Problem, match="at most 2 macros"):
        compiled(text)


@pytest.mark.parametrize(
    "text",
    [
        "table.tags.all(a, table.tags.all(b, a != b || a == b))",
        "(table.tags + table.tags + table.tags).all(a, table.tags.all(b, true))",
        "[table.tags].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x).size() > 0",
    ],
)
def test_an_expression_ends_soon_or_is_not_evaluated(text):
    started = time.process_time()
    with suppress(EvaluationError):
        value(text, table={"tags": [f"t{number}" for number in range(300)]})
    assert time.process_time() - started < 5


def test_what_would_take_too_long_is_not_begun():
    with pytest.raises(EvaluationError, match="more than 100,000 steps"):
        value("table.tags.all(a, table.tags.all(b, true))", table={"tags": ["t"] * 2_000})
