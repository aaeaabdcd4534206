"""Predicates over statistics that are true for rows that fail a test."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from parquetry.project.model.table_tests import EXPRESSION
from parquetry.runtime.layout.skipping.files import Types, parse_where
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.spec.table_spec import TableTest
from parquetry.text.sql_tokens import TokenKind, lexed

_PLAIN: Final = re.compile(r"[^'\\]*")
_KEYWORDS: Final = frozenset(
    """
    and as between bigint binary boolean case cast date decimal div double else end escape false float ilike
    in int integer is like not null or regexp rlike smallint string then timestamp tinyint true when
    """.split()  # noqa: SIM905 - dozens of words read better as a text
)
_PURE: Final = frozenset(
    """
    abs and array_contains as ascii between bigint bin boolean btrim cardinality case cast ceil ceiling
    char_length character_length coalesce concat concat_ws contains date date_add date_diff date_sub
    date_trunc datediff day dayofmonth dayofweek dayofyear decimal double element_at else endswith float
    floor greatest hour if ifnull in initcap instr int is isnan isnotnull isnull last_day lcase least left
    length levenshtein like locate lower lpad ltrim make_date map_keys map_values md5 minute mod month
    negative not nullif nvl nvl2 octet_length or pmod power quarter regexp regexp_extract regexp_like
    regexp_replace repeat replace reverse right rlike round rpad rtrim second sha1 sha2 sign size smallint
    split sqrt startswith string substr substring then tinyint translate trim trunc try_add try_cast
    try_divide try_multiply try_subtract ucase upper weekday weekofyear when year
    """.split()  # noqa: SIM905 - dozens of words read better as a text
)
"""Words before a parenthesis: operators, and Spark functions whose result depends only on their arguments."""

_MOVING: Final = re.compile("now|today|tomorrow|yesterday", re.IGNORECASE)
"""Texts that Spark reads as changing times in literals."""

_READ: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED, TokenKind.SYMBOL})
_UNCERTAIN: Final = frozenset({TokenKind.DEPENDING, TokenKind.OPEN, TokenKind.HINT})


def violation_of(test: TableTest, types: Types) -> Predicate | None:
    """Return a predicate that is true for each row that fails the test.

    None is returned for tests whose failures depend on more than one row.
    """
    match test.kind:
        case "expression":
            return parse_where(f"NOT (\n{test.arguments}\n)", types=types)
        case "accepted_values":
            column = _quoted(test.arguments["column"])
            # A value without a literal is left out, which only makes more rows suspicious.
            known = [text for value in test.arguments["values"] if (text := _literal(value))]
            return parse_where(" AND ".join(f"{column} <> {text}" for text in known) or "?", types=types)
    return None


def is_lasting(test: TableTest, columns: Collection[str]) -> bool:
    """Return whether a row that passed a test always passes it.

    This holds unless the test's expression may depend on the time or on chance. Every name in the expression
    must be one of ``columns`` or be listed above.
    """
    if test.kind != EXPRESSION:
        return True
    found = list(lexed(test.arguments))
    names = {name.lower() for name in columns}
    if any(
        token.kind in _UNCERTAIN or (token.kind is TokenKind.STRING and _MOVING.search(token.text))
        for token in found
    ):
        return False
    words = [token for token in found if token.kind in _READ]
    for token, before, behind in zip(words, [None, *words], [*words[1:], None], strict=False):
        if not token.is_name:
            continue
        is_called = behind is not None and behind.text == "("
        is_field = before is not None and before.text == "." and not is_called
        known = _PURE if is_called else names | _KEYWORDS
        if not is_field and token.text.lower() not in known:
            return False
    return True


def _literal(value: Any) -> str | None:
    """Return the value as an SQL literal that can be read in only one way, or None."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.isprintable():
        return f"'{value}'"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _quoted(column: str) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in column.split("."))
