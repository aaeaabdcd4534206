"""SQL texts that were checked, and the columns that they read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from parquetry.text.sql_tokens import Token

Known: TypeAlias = Callable[[tuple[str, ...]], bool]
"""A function that returns whether ``a.b.c``, given as lower-cased ``("a", "b", "c")``, names something."""

_MOST_UNKNOWN = 5


@dataclass(frozen=True, slots=True)
class Sql:
    """An expression or a query, and what its syntax tree shows.

    Attributes:
        tokens: The tokens without blanks, comments and hints.
        refusal: If sqlglot refuses the text, what it refuses, as a clause.
        columns: The columns that an expression reads with their fields, in the order of the text, or None if
            there is no tree: sqlglot refuses the text, or it is too long.
        selected: The lower-cased names of a query's result columns, or None if the text does not determine
            them.
        unlisted: A relation, table function or parameter that is not allowed, or None.

    """

    tokens: tuple[Token, ...]
    refusal: str | None = None
    columns: tuple[tuple[str, ...], ...] | None = None
    selected: frozenset[str] | None = None
    unlisted: str | None = None


def unknown_columns(sql: Sql, known: Known) -> tuple[tuple[str, ...], ...]:
    """Return the columns, with their fields, that an expression reads and that ``known`` does not know.

    At most five columns are returned; none if there is no tree.
    """
    unknown = (chain for chain in sql.columns or () if not known(tuple(map(str.lower, chain))))
    return tuple(dict.fromkeys(unknown))[:_MOST_UNKNOWN]


def columns_read(sql: Sql, names: Collection[str]) -> frozenset[str]:
    """Return the columns of ``names`` (lower-cased) that an expression reads.

    If there is no tree, each name in the text counts, unless it is that of a function.
    """
    if sql.columns is not None:
        return frozenset(names) & {chain[0].lower() for chain in sql.columns}
    following = [*(token.text for token in sql.tokens[1:]), ""]
    words = (
        token.text.lower()
        for token, after in zip(sql.tokens, following, strict=False)
        if token.is_name and after != "("
    )
    return frozenset(names) & frozenset(words)
