"""The lexer cuts texts of SQL as that of this Spark does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from parquetry.text.sql_tokens import TokenKind, lexed
from tests.support.effort import examples
from tests.support.spark_sql import token_texts

pytestmark = pytest.mark.spark
_NUMBERS = ("INTEGER_VALUE", "DECIMAL_VALUE", "EXPONENT_VALUE", "_LITERAL")
_KINDS = {
    "WS": TokenKind.BLANK,
    "SIMPLE_COMMENT": TokenKind.COMMENT,
    "BRACKETED_COMMENT": TokenKind.COMMENT,
    "STRING_LITERAL": TokenKind.STRING,
    "DOUBLEQUOTED_STRING": TokenKind.STRING,
    "BACKQUOTED_IDENTIFIER": TokenKind.QUOTED,
}


@pytest.fixture(scope="module")
def lexed_by_spark(spark):
    """The tokens of Spark's own lexer: name and text."""
    jvm = spark._jvm
    parser = jvm.org.apache.spark.sql.catalyst.parser

    def lexed_by_spark(text):
        characters = jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
        lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(characters))
        lexer.removeErrorListeners()
        names = lexer.getVocabulary()
        return [
            (names.getSymbolicName(token.getType()), text[token.getStartIndex() : token.getStopIndex() + 1])
            for token in lexer.getAllTokens()
        ]

    return lexed_by_spark


def _kind(name, text):
    if name in _KINDS:
        return _KINDS[name]
    if name.endswith(_NUMBERS):
        return TokenKind.NUMBER
    return TokenKind.WORD if text[0].isalnum() or text[0] == "_" else TokenKind.SYMBOL


def _flat(found):
    """Kinds by character with the place where its token begins; symbols and blanks one by one."""
    at, kinds = 0, []
    for kind, text in found:
        alone = kind in (TokenKind.SYMBOL, TokenKind.BLANK)
        kinds += [(kind, at + place if alone else at) for place in range(len(text))]
        at += len(text)
    return kinds


def _by_spark(found):
    """With the end of a line as a blank, which Spark takes as a part of the comment before it."""
    for name, text in found:
        kind = _kind(name, text)
        end = len(text)
        if name == "SIMPLE_COMMENT":
            end -= text.endswith("\n") and not text.endswith("\\\n")
            end -= text[:end].endswith("\r")
        yield kind, text[:end]
        if end < len(text):
            yield TokenKind.BLANK, text[end:]


def test_tokens_are_those_of_spark(lexed_by_spark):
    @settings(max_examples=examples(400), deadline=None)
    @given(token_texts())
    def agree(text):
        found = list(lexed(text))
        flat = _flat((token.kind, token.written) for token in found)
        # From there on Spark 3.5 and 4 differ, or Spark lexes what its parser will refuse.
        odd = (TokenKind.OPEN, TokenKind.VERSION_DEPENDENT, TokenKind.HINT)
        sure = next((at for at, (kind, _) in enumerate(flat) if kind in odd), len(flat))
        assert flat[:sure] == _flat(_by_spark(lexed_by_spark(text)))[:sure]

    agree()
