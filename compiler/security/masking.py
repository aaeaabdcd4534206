"""Masking of personal data in plans, reviews and reports.

They show no values of a column declared ``pii: true``: literals of SQL that names the column, and choices of
partitions (for live values, see :mod:`parquetry.runtime.spec.masking`). The record in the table
itself keeps the spec as it was declared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Final

from parquetry.project.model.explanation import Explanation
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.spec.masking import personal_column_names, pii_columns
from parquetry.runtime.spec.table_spec import Extra, Source, TableSpec, TableTest
from parquetry.text.secret_names import MASK
from parquetry.text.sql_tokens import Token, TokenKind, lexed

_LITERAL: Final = f"'{MASK}'"
_ADJACENT = re.compile(rf"(?:{re.escape(_LITERAL)})+")
_SQL_KEYS: Final = frozenset({"select", "where", "generated", "delete_when", "expression"})
_ACCEPTED: Final = ".accepted_values.values"
_CHOSEN_PARTITIONS: Final = ("clustering.plan.partitions.selected", "clustering.plan.partitions.regex")
_SHOWN: Final = (TokenKind.BLANK, TokenKind.QUOTED, TokenKind.WORD, TokenKind.SYMBOL)
_PASSED_OVER: Final = (TokenKind.COMMENT, TokenKind.HINT)


def masked_sql(text: str, pii: Collection[str]) -> str:
    """Return the SQL without literals and comments if it names one of the columns, else unchanged.

    An unterminated quote hides the rest of the text. Masking masked text changes nothing.
    """
    found = list(lexed(text))
    if not {token.text.lower() for token in found if token.is_name} & set(pii):
        return text
    return _ADJACENT.sub(_LITERAL, "".join(_shown(found)))


def masked_explanation(explanation: Explanation) -> Explanation:
    """Return the explanation of a table with personal literals masked in every layer."""
    table = explanation.table
    pii = personal_column_names(table.spec, pii_columns(table.spec.columns))
    if not pii:
        return explanation
    hides_partitions = any(column.lower() in pii for column in table.spec.partition_by)

    def shown(path: str, value: Any) -> Any:
        above, _, key = path.rpartition(".")
        if isinstance(value, str) and key in _SQL_KEYS:
            return masked_sql(value, pii)
        test, is_accepted, _ = path.partition(_ACCEPTED)
        if is_accepted and _is_personal(table.declared(f"{test}.accepted_values.column") or "", pii):
            return MASK
        chooses = (above if key.isdecimal() else path).startswith(_CHOSEN_PARTITIONS)
        return MASK if chooses and hides_partitions else value

    return replace(
        explanation,
        settings=tuple(
            replace(entry, value=shown(entry.path, entry.value)) for entry in explanation.settings
        ),
        layers=tuple(
            replace(entry, value=shown(explanation.path, entry.value)) for entry in explanation.layers
        ),
    )


def masked(spec: TableSpec) -> TableSpec:
    """Return the spec with personal values masked, or the same object if no column is personal."""
    return masked_for(spec, pii_columns(spec.columns))


def is_masked(spec: TableSpec) -> bool:
    """Return whether the spec may lack values: it has personal columns, and it contains a mask."""
    return bool(pii_columns(spec.columns)) and MASK in json.dumps(spec.to_json())


def masked_for(spec: TableSpec, personal: frozenset[str]) -> TableSpec:
    """Return the spec without literals that may be values of these columns."""
    if not personal:
        return spec
    pii = personal_column_names(spec, personal)
    return replace(
        spec,
        columns=tuple(replace(c, generated=_optional(c.generated, pii)) for c in spec.columns),
        sources=tuple(_source(source, pii) for source in spec.sources),
        extra=_extra(spec, pii),
    )


def _source(source: Source, pii: Collection[str]) -> Source:
    return replace(
        source, select=_optional(source.select, pii), delete_when=_optional(source.delete_when, pii)
    )


def _extra(spec: TableSpec, pii: Collection[str]) -> Extra:
    hides_partitions = any(column.lower() in pii for column in spec.partition_by)
    clustering = spec.extra.clustering
    return replace(
        spec.extra,
        queries=tuple(replace(query, where=masked_sql(query.where, pii)) for query in spec.extra.queries),
        tests=tuple(_test(test, pii) for test in spec.extra.tests),
        clustering=_without_partitions(clustering) if clustering and hides_partitions else clustering,
    )


def _test(test: TableTest, pii: Collection[str]) -> TableTest:
    if test.kind == "expression":
        test = replace(test, arguments=masked_sql(test.arguments, pii))
    if test.kind == "accepted_values" and _is_personal(test.arguments["column"], pii):
        test = replace(test, arguments={**test.arguments, "values": [MASK for _ in test.arguments["values"]]})
    return replace(test, where=_optional(test.where, pii))


def _is_personal(column: str, pii: Collection[str]) -> bool:
    return column.partition(".")[0].lower() in pii


def _without_partitions(clustering: ClusteringSpec) -> ClusteringSpec:
    """Return the clustering policy with its choice of partitions masked, because it contains their values."""
    chosen = clustering.plan.partitions
    shown = replace(
        chosen,
        selected=tuple(MASK for _ in chosen.selected),
        regex=MASK if chosen.regex else chosen.regex,
    )
    return replace(clustering, plan=replace(clustering.plan, partitions=shown))


def _optional(text: str | None, pii: Collection[str]) -> str | None:
    return None if text is None else masked_sql(text, pii)


def _shown(found: Sequence[Token]) -> Iterator[str]:
    for token, following in zip_longest(found, found[1:]):
        if token.kind in _PASSED_OVER:
            yield " "
        elif token.kind not in _SHOWN or token.text[:1].isdecimal():
            yield _LITERAL
        elif not _begins_literal(token, following):
            yield token.written


def _begins_literal(token: Token, following: Token | None) -> bool:
    """Return whether the token is the ``x`` of ``x'1F'`` or the ``r`` of ``r'...'``, even if unterminated."""
    literal = following is not None and following.kind in (TokenKind.STRING, TokenKind.OPEN)
    return literal and token.text.lower() in ("r", "x") and token.kind is TokenKind.WORD
