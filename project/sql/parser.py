"""Syntax trees of SQL, made by sqlglot, and the columns that they name.

sqlglot is not Spark: it refuses some texts that Spark accepts, and accepts others that Spark refuses. So a
refusal is a warning, and :mod:`parquetry.project.sql.relations` does not depend on trees.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise

from sqlglot import Dialect, ParseError, exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.expressions import Column, Expr
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

from parquetry.project.sql.checked import Sql
from parquetry.project.sql.relations import QUERY
from parquetry.text.sql_rules import SOURCE, TABLE_FUNCTIONS, shown_name
from parquetry.text.sql_tokens import Token, TokenKind, lexed

_MOST_TOKENS = 5_000
# sqlglot tries one meaning of a text after another, and each again within the next. Without these limits,
# `date(date(date(...` and `struct(struct(struct(...` take twice as long for each level.
_NODES_OF_A_TEXT, _NODES_OF_A_TOKEN = 100, 3
_MOST_TYPES_AROUND = 8
_NOT_PARSED = "the SQL cannot be parsed here"
_TOO_DEEP = "the SQL is nested too deeply to be parsed here"
_parsing: ContextVar[bool] = ContextVar("_parsing", default=False)
# sqlglot does not get the text of strings: it may be personal, and is of no account for the syntax.
_STRING, _AFTER_X = "'$'", "'1F'"
_SAME_SIGN = {"!>": "<=", "!<": ">="}
_NO_ARGUMENTS = frozenset(
    """
    current_catalog current_database current_date current_schema current_time current_timestamp
    current_timezone current_user grouping__id localtimestamp session_user user
    """.split()  # noqa: SIM905 - a dozen words read better as a text
)
"""Functions that Spark calls without brackets if no column has the name."""


def parsed(text: str, found: Sequence[Token], *, query: bool) -> Sql:
    """Parse one expression or query with the tokens ``found``."""
    tokens = tuple(found)
    if len(tokens) > _MOST_TOKENS:
        return Sql(tokens)
    tree = _tree(text, tokens, query=query)
    if isinstance(tree, str):
        return Sql(tokens, refusal=tree)
    return Sql(
        tokens,
        columns=None if query or _is_misread(tree, tokens) else tuple(_columns(tree)),
        selected=_selected(tree, tokens) if query else None,
        unlisted=_unlisted(tree, query=query),
    )


def _tree(text: str, tokens: Sequence[Token], *, query: bool) -> Expr | str:
    """Return the syntax tree of a text, or what sqlglot refuses, as a clause."""
    starts, plain = _without_strings(text)
    limit = _NODES_OF_A_TEXT + _NODES_OF_A_TOKEN * len(tokens)
    dialect = Databricks()  # Spark's dialect with `a:b`, which Spark 4 has too
    try:
        with _silent():
            words = dialect.tokenize(plain)
            if _types_around(words) > _MOST_TYPES_AROUND:
                return _TOO_DEEP
            parser = dialect.parser(error_message_context=len(plain), max_nodes=limit)
            trees = parser.parse(words, plain) if query else parser.parse_into(exp.Condition, words, plain)
    except ParseError as error:
        return _refusal(tokens, starts, error.errors)
    except RecursionError:
        return _TOO_DEEP
    except Exception:  # noqa: BLE001 - sqlglot also ends by other errors where it does not understand a text
        return _NOT_PARSED
    tree = trees[0] if len(trees) == 1 else None
    is_kind = isinstance(tree, exp.Query) and bool(tree.selects) if query else not isinstance(tree, exp.Query)
    return _NOT_PARSED if tree is None or not is_kind or tree.find(exp.Command) else tree


def statement_tree(text: str, dialect: str) -> Expr | None:
    """Return the syntax tree of one statement in a dialect of sqlglot, or None if it is not understood.

    The bounds are those of SQL in specs. The tree has the values of the text.
    """
    try:
        known = Dialect.get_or_raise(dialect)
        with _silent():
            words = known.tokenize(text)
            if len(words) > _MOST_TOKENS or _types_around(words) > _MOST_TYPES_AROUND:
                return None
            limit = _NODES_OF_A_TEXT + _NODES_OF_A_TOKEN * len(words)
            trees = known.parser(max_nodes=limit).parse(words, text)
    except (Exception, RecursionError):  # noqa: BLE001 - sqlglot ends by many errors where it does not understand
        return None
    return trees[0] if len(trees) == 1 else None


def _types_around(words: Sequence[SqlglotToken]) -> int:
    """Return the largest number of brackets around a token that follow the name of a type."""
    opened: list[bool] = []
    depth = most = 0
    for before, word in pairwise(words):
        if word.token_type is TokenType.L_PAREN:
            opened.append(before.token_type in DatabricksParser.TYPE_TOKENS)
            depth += opened[-1]
            most = max(most, depth)
        elif word.token_type is TokenType.R_PAREN and opened:
            depth -= opened.pop()
    return most


@contextmanager
def _silent() -> Iterator[None]:
    """Drop what sqlglot logs in this thread, as its messages quote the SQL."""
    logger = logging.getLogger("sqlglot")
    if _log_filter not in logger.filters:
        logger.addFilter(_log_filter)
    token = _parsing.set(True)
    try:
        yield
    finally:
        _parsing.reset(token)


def _log_filter(_: logging.LogRecord) -> bool:
    return not _parsing.get()


def _unlisted(tree: Expr, *, query: bool) -> str | None:
    readable = {SOURCE, *(cte.alias.lower() for cte in tree.find_all(exp.CTE))}
    for node in tree.find_all(exp.Query, exp.Table, exp.Lateral, exp.Placeholder, exp.Parameter):
        if isinstance(node, (exp.Placeholder, exp.Parameter)):
            return "a parameter"
        if not query:
            # sqlglot takes `(select)`, a column, for a query without columns.
            if isinstance(node, exp.Subquery) or (isinstance(node, exp.Select) and not node.expressions):
                continue
            return QUERY
        if isinstance(node, (exp.Table, exp.Lateral)) and isinstance(node.this, exp.Anonymous):
            if node.this.name.lower() not in TABLE_FUNCTIONS:
                return f"{shown_name([node.this.name])}()"
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            names = [part.name for part in node.parts]
            # sqlglot takes `table x` for a relation of the name `table`; x is checked by the tokens.
            if len(names) > 1 or names[0].lower() not in {*readable, "table"}:
                return shown_name(names)
    return None


def _is_misread(tree: Expr, tokens: Sequence[Token]) -> bool:
    """Return whether sqlglot takes a column of an expression for something else.

    It reads ``array[0]`` as an array, ``values`` as rows, and in ``a::array<int>[0]`` no column.
    """
    if tree.find(exp.Values, exp.Aliases) is not None:
        return True
    if any(before.keyword == "array" and after.text == "[" for before, after in pairwise(tokens)):
        return True
    casts = (node for node in tree.find_all(exp.Cast) if isinstance(node.to, exp.Cast))
    return next(casts, None) is not None


def _selected(tree: Expr, tokens: Sequence[Token]) -> frozenset[str] | None:
    """Return the names of the result of a single SELECT whose columns are columns or have names."""
    piped = any(token.text == "|>" and token.kind is TokenKind.SYMBOL for token in tokens)
    if piped or not isinstance(tree, exp.Select):
        return None
    columns = tree.expressions
    named = all(isinstance(column, (exp.Column, exp.Alias)) and not column.is_star for column in columns)
    return frozenset(column.alias_or_name.lower() for column in columns) if columns and named else None


def _columns(tree: Expr) -> Iterator[tuple[str, ...]]:
    """Yield the columns of a tree with their fields, in the order of the text.

    sqlglot tells apart what is no column: the parameters of lambdas, units, types and names of arguments.
    """
    columns = [column for column in tree.find_all(exp.Column) if not isinstance(column.this, exp.Star)]
    for column in sorted(columns, key=_position):
        names = [part.name for part in column.parts]
        node: Expr = column
        while isinstance(node.parent, exp.Dot) and node.arg_key == "this":
            node = node.parent
            if not isinstance(node.expression, exp.Identifier):
                break
            names.append(node.expression.name)
        if len(names) > 1 or column.this.args.get("quoted") or names[0].lower() not in _NO_ARGUMENTS:
            yield tuple(names)
    # In trunc(a, b) and date_trunc(b, a), sqlglot takes the column b for a unit. It has no texts of strings.
    for node in tree.find_all(exp.DateTrunc, exp.TimestampTrunc):
        unit = node.args.get("unit")
        if isinstance(unit, (exp.Literal, exp.Var)) and unit.name not in ("$", "1F"):
            yield (unit.name.lower(),)


def _position(column: Column) -> int:
    start = column.parts[0].meta.get("start", 0)
    return start if isinstance(start, int) else 0


def _without_strings(text: str) -> tuple[Sequence[int], str]:
    """Return a text without comments and with other strings, and the position of each token in it."""
    starts: list[int] = []
    parts: list[str] = []
    length = 0
    for token in lexed(text):
        if token.kind in (TokenKind.BLANK, TokenKind.COMMENT, TokenKind.HINT):
            part = " "
        else:
            starts.append(length)
            part = _SAME_SIGN.get(token.text, token.written)
        if token.kind is TokenKind.STRING:
            part = _AFTER_X if parts and parts[-1] in ("x", "X") else _STRING
        parts.append(part)
        length += len(part)
    return starts, "".join(parts)


def _refusal(tokens: Sequence[Token], starts: Sequence[int], errors: Sequence[Mapping[str, object]]) -> str:
    """Return the clause that names the token at which sqlglot stopped."""
    position = len(str(errors[0].get("start_context") or "")) if errors else 0
    at = max((at for at, start in enumerate(starts) if start <= position), default=0)
    token = tokens[at]
    shown = token.text if token.kind is TokenKind.STRING else f"'{token.text}'"
    return f"{_NOT_PARSED} at {shown}"
