"""One lexer of Spark SQL, for the check of specs, the masking of literals and conditions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.compiler.security.masking import masked_sql
from parquetry.project.sql.guard import SqlProblem, check_expression, tokens
from parquetry.runtime.layout.skipping.condition import Comparator, Compared, Opaque
from parquetry.runtime.layout.skipping.parser import parse_condition
from parquetry.text.sql_tokens import TokenKind, lexed
from tests.support.spark_sql import token_texts


@given(st.one_of(st.text(), token_texts()))
def test_the_tokens_joined_are_the_text(text):
    found = list(lexed(text))
    assert "".join(token.written for token in found) == text
    assert all(token.written for token in found)
    assert all(token.kind is not TokenKind.OPEN for token in found[:-1])


@given(token_texts())
def test_tokens_end_where_they_end_however_the_text_goes_on_behind_a_blank(text):
    found = list(lexed(text))
    if found and found[-1].kind not in (TokenKind.OPEN, TokenKind.COMMENT, TokenKind.BLANK):
        assert list(lexed(text + " 'x'"))[: len(found)] == found


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("-- b \\\n c\nd", "comment blank word"),
        ("/* /* */ a */b", "comment word"),
        ("/* /*+ */ a */", "comment blank word blank symbol"),
        ("/*+ f('*/') */a", "hint word"),
        ("/*+ /* */ a */b", "hint word"),
        ("/* /* */ a", "open"),
        ("r'a\\' b", "string blank word"),
        ("R\"a\\\" 'it\\'s' 'it''s'", "string blank string blank string"),
        ("x'1F'", "word string"),
        ("`a``b` ``", "quoted blank quoted"),
        (
            "1E+5x 1.5e-3 .5 2. 5bd 5L",
            "number word blank number blank number blank number blank number blank number",
        ),
        ("1.5a", "number symbol word"),
        ("1.5L", "number symbol number"),
        ("5x 1e5L t1.5", "word blank word blank word number"),
        ("a<=>b!>c::d->e", "word symbol word symbol word symbol word symbol word"),
        ("x://a--b c", "depending blank word"),
        ("$t$ it's $$ $t$ a", "depending blank word"),
        ("a 'b", "word blank open"),
        ("a\x85b", "word symbol word"),
    ],
)
def test_tokens_are_those_of_spark(text, kinds):
    assert " ".join(token.kind for token in lexed(text)) == kinds


def test_a_name_in_backticks_is_its_name():
    (token,) = lexed("`a``b`")
    assert (token.text, token.written, token.is_name) == ("a`b", "`a``b`", True)


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        # The literal of r'...' ends at the next quote, whatever stands before it.
        ("name = r'a\\' or name = 'Ada'", "name = '***' or name = '***'"),
        # Comments nest, and one with -- goes on behind a backslash at the end of a line.
        ("name = 1 /* /* */ Ada */", "name = '***'  "),
        ("name = 1 -- \\\n ' Ada\n or name = 'Byron'", "name = '***'  \n or name = '***'"),
        ("name = $$Ada$$ or name = 1.5E-3", "name = '***' or name = '***'"),
    ],
)
def test_masking_hides_what_spark_takes_for_a_value(sql, shown):
    assert masked_sql(sql, {"name"}) == shown


@pytest.mark.parametrize(
    "text",
    [
        # In a comment /*+ opens nothing: what stands behind the next */ is code.
        "1 /* /*+ */ + reflect('x') -- */",
        "1 /* /*+ */ + reflect('x') /* */",
        "a -- \\\n + /* \n + reflect('x') /* */",
        "`` + 1",
    ],
)
def test_no_comment_hides_code(text):
    with pytest.raises(SqlProblem):
        check_expression(text)


def test_the_exponent_of_a_number_ends_it():
    assert check_expression("1E+5and 1 > 0")
    assert [token.text for token in tokens("1E+5and 1")] == ["1E+5", "and", "1"]


@pytest.mark.parametrize(
    ("where", "operator"), [("a !> 5", Comparator.LESS_OR_EQUAL), ("a !< 5", Comparator.GREATER_OR_EQUAL)]
)
def test_a_condition_with_not_greater_is_understood(where, operator):
    assert parse_condition(where) == Compared(column="a", operator=operator, literal=5)


@pytest.mark.parametrize(
    "where", ["a = 5 -- b", "a = 5 /*+ b */", "a = 'it''s'", "a = 'x' 'y'", "a = 1.2.3", "a = ``", "a\xa0= 5"]
)
def test_a_condition_that_versions_may_read_in_different_ways_is_not_understood(where):
    assert parse_condition(where) == Opaque()
