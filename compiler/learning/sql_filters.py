"""The filters of tables in SQL statements of engines, as conditions.

A statement is parsed by sqlglot. A part of WHERE or ON is a filter of a table if it names only columns of
that table, in the query that reads it; engines that push filters through subqueries are not followed. A part
of ON leaves out no rows of a table that an outer join keeps, so it is no filter of it. Behind a join that
adds rows of nulls, only parts that no null fulfils are filters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from parquetry.compiler.learning.conditions import UndeclarableError, conjuncts, sql_of
from parquetry.compiler.learning.spark_filters import Filter, Unread, value_of
from parquetry.project.sql.parser import statement_tree
from parquetry.runtime.layout.skipping.condition import (
    Comparator,
    Compared,
    Condition,
    Conjunction,
    Disjunction,
    IsNull,
    Like,
    Literal,
    Opaque,
    negation,
)
from parquetry.runtime.layout.skipping.files import Types
from parquetry.runtime.layout.skipping.parser import parse_date

LONGEST_STATEMENT: Final = 200_000
"""The most characters of a statement that is read."""

_COMPARED: Final[Mapping[type[exp.Expr], Comparator]] = {
    exp.EQ: Comparator.EQUAL,
    exp.NullSafeEQ: Comparator.NULL_SAFE_EQUAL,
    exp.NEQ: Comparator.NOT_EQUAL,
    exp.LT: Comparator.LESS,
    exp.LTE: Comparator.LESS_OR_EQUAL,
    exp.GT: Comparator.GREATER,
    exp.GTE: Comparator.GREATER_OR_EQUAL,
}
_MIRRORED: Final = {
    Comparator.LESS: Comparator.GREATER,
    Comparator.LESS_OR_EQUAL: Comparator.GREATER_OR_EQUAL,
    Comparator.GREATER: Comparator.LESS,
    Comparator.GREATER_OR_EQUAL: Comparator.LESS_OR_EQUAL,
}
_UTC: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(?: UTC|Z|\+00:00)", re.ASCII
)
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "double", "decimal")
_TIMESTAMPS: Final = ("timestamp", "timestamptz", "timestampltz")
_DEEPEST: Final = 100
_UNDERSTOOD: Final = frozenset(
    {"this", "expression", "expressions", "low", "high", "to", "table", "is_string", "quoted"}
)
"""The arguments of nodes that are understood. Others of sqlglot change the meaning, such as ``negate``."""


class _Refused(Exception):  # noqa: N818 - it never leaves this module
    def __init__(self, reason: Unread) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """A table that a statement reads, by the parts of its name in lower case, and its filters."""

    name: tuple[str, ...]
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The tables of the project by name, and the catalog and schema of names without one.

    ``types`` has the columns of each table by lower-case name. A key has the last parts of a name.
    """

    types: Mapping[tuple[str, ...], Types]
    context: tuple[str, ...] = ()

    def full(self, table: exp.Table) -> tuple[str, ...]:
        """Return all known parts of the name of a table in lower case."""
        parts = tuple(part.name.lower() for part in table.parts)
        missing = len(self.context) + 1 - len(parts)
        return (*self.context[: max(missing, 0)], *parts)

    def known(self, name: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the key of a table, or None if the project does not have it."""
        return next((name[at:] for at in range(len(name)) if name[at:] in self.types), None)


def tables_read(sql: str, dialect: str, naming: Naming) -> tuple[ReadTable, ...] | None:
    """Return the tables that a statement reads, as often as it names them; None if it is not understood."""
    tree = statement_tree(sql, dialect) if len(sql) <= LONGEST_STATEMENT else None
    if tree is None:
        return None
    query = tree if isinstance(tree, exp.Query) else tree.args.get("expression")
    if not isinstance(query, exp.Query):
        return ()
    if (with_ := tree.args.get("with_")) is not None and query is not tree:
        query.set("with_", with_)
    try:
        return tuple(read for scope in traverse_scope(query) for read in _tables_of(scope, naming))
    except Exception:  # noqa: BLE001 - sqlglot ends by many errors where it does not understand a text
        return None


def _tables_of(scope: Scope, naming: Naming) -> Iterator[ReadTable]:
    if not isinstance(scope.expression, exp.Select):
        return
    sources = _sources(scope)
    tables = {alias: source for alias, source in sources.items() if isinstance(source, exp.Table)}
    known = [alias for alias, table in tables.items() if naming.known(naming.full(table))]
    if not known:
        for table in tables.values():
            yield ReadTable(name=naming.full(table), filters=())
        return
    found: dict[str, list[Filter]] = {alias: [] for alias in tables}
    outer = _outer_sources(scope)
    for part in _parts(scope):
        columns = [
            column
            for column in part.tree.find_all(exp.Column)
            if column.find_ancestor(exp.Select) is scope.expression
        ]
        owners = {_owner(column, sources, outer, naming) for column in columns}
        if None in owners:
            found[known[0]].append(Unread.TABLE)
        elif not owners:
            if not _is_always_true(part.tree):
                reason = Unread.RUNTIME if part.tree.find(exp.Query) else Unread.EXPRESSION
                found[known[0]].append(reason)
        elif len(owners) == 1 and (alias := owners.pop()) in known:
            key = naming.known(naming.full(tables[alias]))
            assert key is not None, "the table is known"
            found[alias].extend(_filters(part, alias, naming.types[key]))
    for alias, table in tables.items():
        yield ReadTable(name=naming.full(table), filters=tuple(found[alias]))


def _sources(scope: Scope) -> dict[str, exp.Table | Scope]:
    """Return the tables and subqueries of FROM and joins by their names in lower case; no two are equal."""
    names = [name for name, _ in scope.references if name in scope.sources]
    found = {name.lower(): scope.sources[name] for name in names}
    if len(found) < len(names):
        raise ValueError
    return found


def _outer_sources(scope: Scope) -> frozenset[str]:
    """Return the names of the sources of the queries around a subquery, which it may compare with."""
    found: set[str] = set()
    around = scope.parent
    while around is not None:
        found.update(alias.lower() for alias in around.selected_sources)
        around = around.parent
    return frozenset(found)


def _is_always_true(part: exp.Expr) -> bool:
    """Return whether a part is ``TRUE`` or ``1 = 1``, which programs write before others."""
    if isinstance(part, exp.Boolean):
        return bool(part.this)
    return isinstance(part, exp.EQ) and isinstance(part.this, exp.Literal) and part.this == part.expression


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of WHERE or ON, the sources whose rows it can leave out, and those that have rows of nulls."""

    tree: exp.Expr
    filtered: frozenset[str]
    nullable: frozenset[str]


def _parts(scope: Scope) -> list[_Part]:
    """Return the parts of WHERE, and those of ON at any depth of joins."""
    from_, joins, where = (scope.expression.args.get(name) for name in ("from_", "joins", "where"))
    parts: list[_Part] = []
    names = nullable = frozenset[str]()
    if from_ is not None:
        names, nullable = _joined(from_.this, joins or (), parts)
    trees = () if where is None else _conjuncts(where.this)
    return [*(_Part(tree, names, nullable) for tree in trees), *parts]


def _joined(
    first: exp.Expr, joins: Iterable[exp.Join], parts: list[_Part]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of joined sources and those of them that have rows of nulls; add the parts of ON."""
    names, nullable = _source(first, parts)
    for join in joins:
        right, right_nullable = _source(join.this, parts)
        nullable |= right_nullable
        is_selecting = join.kind in ("SEMI", "ANTI")
        if is_selecting and join.side == "RIGHT":
            raise ValueError(join.side)
        keeps_left = join.kind == "ANTI" or (join.side in ("LEFT", "FULL") and not is_selecting)
        keeps_right = join.side in ("RIGHT", "FULL")
        filtered = frozenset[str]().union(() if keeps_left else names, () if keeps_right else right)
        if (condition := join.args.get("on")) is not None:
            parts += [_Part(tree, filtered, nullable) for tree in _conjuncts(condition)]
        if keeps_left and not is_selecting:
            nullable |= right
        if keeps_right:
            nullable |= names
        names |= right
    return names, nullable


def _source(source: exp.Expr, parts: list[_Part]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names in an item of FROM, which may be joins in brackets, and those with rows of nulls."""
    inner = source.this if isinstance(source, exp.Subquery) else None
    if isinstance(inner, exp.Table | exp.Subquery):
        return _source(inner, parts)
    name = frozenset({source.alias_or_name.lower()})
    nested = source.args.get("joins")
    if not nested:
        return name, frozenset()
    bare = source.copy()
    bare.set("joins", None)
    return _joined(bare, nested, parts)


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    todo = [tree]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.And):
            todo += [part.expression, part.this]
        elif isinstance(part, exp.Paren):
            todo.append(part.this)
        else:
            yield part


def _owner(
    column: exp.Column, sources: Mapping[str, exp.Table | Scope], outer: Collection[str], naming: Naming
) -> str | None:
    """Return the name of the source of a column; None if it may be of another or is a field of a struct."""
    if qualifier := column.table.lower():
        if qualifier in sources:
            return qualifier
        return qualifier if qualifier in outer and not column.db else None
    if len(sources) == 1 and isinstance(next(iter(sources.values())), exp.Table):
        return next(iter(sources))
    keys = {
        alias: naming.known(naming.full(source)) if isinstance(source, exp.Table) else None
        for alias, source in sources.items()
    }
    if None in keys.values():
        return None
    having = [alias for alias, key in keys.items() if key and column.name.lower() in naming.types[key]]
    return having[0] if len(having) == 1 else None


def _filters(part: _Part, name: str, types: Types) -> Iterator[Filter]:
    """Yield a part that names one source alone as filters of it."""
    if name not in part.filtered:
        yield Unread.KEPT
        return
    try:
        condition = _condition(part.tree, types, 0)
        found = [*conjuncts(condition)]
        for each in found:
            sql_of(each)  # raises UndeclarableError
        is_certain = name not in part.nullable or not _accepts_null(condition)
        yield from found if is_certain else [Unread.EXPRESSION]
    except _Refused as refused:
        yield Unread.RUNTIME if part.tree.find(exp.Query) else refused.reason
    except UndeclarableError:
        yield Unread.VALUE


def _accepts_null(condition: Condition) -> bool:
    match condition:
        case Conjunction(parts=parts) | Disjunction(parts=parts):
            return any(map(_accepts_null, parts))
        case IsNull(negated=negated):
            return not negated
        case Compared(operator=operator):
            return operator is Comparator.NULL_SAFE_EQUAL
    return False


def _condition(tree: exp.Expr, types: Types, depth: int) -> Condition:  # noqa: PLR0911 - a node, an answer
    """Return a tree as a condition; raise _Refused if it is another one."""
    if depth > _DEEPEST:
        raise _Refused(Unread.EXPRESSION)
    _check_arguments(tree)
    match tree:
        case exp.Paren():
            return _condition(tree.this, types, depth + 1)
        case exp.And() | exp.Or():
            sides = [_condition(side, types, depth + 1) for side in (tree.this, tree.expression)]
            kind = Conjunction if isinstance(tree, exp.And) else Disjunction
            return kind(tuple(part for side in sides for part in _same(side, kind)))
        case exp.Not():
            return _negated(_condition(tree.this, types, depth + 1))
        case exp.Is(expression=exp.Null()):
            return IsNull(column=_column(tree.this))
        case exp.Between():
            column = _column(tree.this)
            low, high = (_literal(tree.args[side], column, types) for side in ("low", "high"))
            return Conjunction(
                (
                    Compared(column=column, operator=Comparator.GREATER_OR_EQUAL, literal=low),
                    Compared(column=column, operator=Comparator.LESS_OR_EQUAL, literal=high),
                )
            )
        case exp.In():
            column = _column(tree.this)
            values = [_literal(each, column, types) for each in tree.expressions]
            if not values:
                raise _Refused(Unread.EXPRESSION)
            return Disjunction(
                tuple(
                    Compared(column=column, operator=Comparator.EQUAL, literal=value, listed=True)
                    for value in values
                )
            )
        case exp.Like():
            return _like(tree, types)
        case exp.Column() if types.get(tree.name.lower()) == "boolean":
            return Compared(column=_column(tree), operator=Comparator.EQUAL, literal=True)
    operator = _COMPARED.get(type(tree))
    if operator is None:
        raise _Refused(Unread.EXPRESSION)
    left, right = tree.this, tree.expression
    if not isinstance(left, exp.Column):
        left, right, operator = right, left, _MIRRORED.get(operator, operator)
    column = _column(left)
    return Compared(column=column, operator=operator, literal=_literal(right, column, types))


def _same(condition: Condition, kind: type[Conjunction | Disjunction]) -> tuple[Condition, ...]:
    """Return the parts of a condition if the same word joins them, else the condition alone."""
    if not isinstance(condition, kind):
        return (condition,)
    listed = any(isinstance(part, Compared) and part.listed for part in condition.parts)
    return (condition,) if listed else condition.parts


def _negated(condition: Condition) -> Condition:
    found = negation(condition)
    if isinstance(found, Opaque):
        raise _Refused(Unread.EXPRESSION)
    return found


def _like(tree: exp.Like, types: Types) -> Condition:
    column, pattern = _column(tree.this), tree.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise _Refused(Unread.EXPRESSION)
    if types.get(column.lower()) != "string":
        raise _Refused(Unread.TYPE)
    text = str(pattern.this)
    prefix = re.split(r"[%_]", text, maxsplit=1)[0]
    if prefix == text:
        return Compared(column=column, operator=Comparator.EQUAL, literal=text)
    return Like(column=column, pattern=text, prefix=prefix)


def _is_cut_off(cast: exp.Cast) -> bool:
    """Return whether the type has a length or a precision that may change a text.

    sqlglot gives TIMESTAMP of a text the precision of the text.
    """
    if cast.to.this.name.lower() not in _TIMESTAMPS:
        return bool(cast.to.expressions)
    precision = cast.to.expressions[0].name if cast.to.expressions else "6"
    fraction = re.match(r"[^.]*\.?(\d*)", cast.this.name)
    return fraction is None or not precision.isdecimal() or len(fraction[1]) > int(precision)


def _check_arguments(tree: exp.Expr) -> None:
    if any(value for name, value in tree.args.items() if name not in _UNDERSTOOD):
        raise _Refused(Unread.EXPRESSION)


def _column(tree: exp.Expr) -> str:
    if not isinstance(tree, exp.Column) or not isinstance(tree.this, exp.Identifier):
        raise _Refused(Unread.EXPRESSION)
    _check_arguments(tree)
    return str(tree.name)


def _literal(tree: exp.Expr, column: str, types: Types) -> Literal:
    """Return a value of SQL as a literal of the type of the column it is compared with."""
    kind = types.get(column.lower())
    if kind is None:
        raise _Refused(Unread.TYPE)
    sign = ""
    if isinstance(tree, exp.Neg):
        sign, tree = "-", tree.this
    cast_to = ""
    if isinstance(tree, exp.Cast) and not sign:
        _check_arguments(tree)
        if _is_cut_off(tree):
            raise _Refused(Unread.EXPRESSION)
        cast_to, tree = tree.to.this.name.lower(), tree.this
    if isinstance(tree, exp.Boolean) and kind == "boolean" and not (sign or cast_to):
        return bool(tree.this)
    if not isinstance(tree, exp.Literal) or (sign and tree.is_string):
        raise _Refused(Unread.EXPRESSION)
    text = str(tree.this)
    found: Literal | None = None
    if not tree.is_string:
        is_number = kind.startswith(_NUMBERS) and not cast_to
        found = value_of(kind, f"{sign}{text}".upper(), None) if is_number else None
    elif kind == "string" and cast_to in ("", "varchar", "text"):
        found = text
    elif kind == "date" and cast_to in ("", "date"):
        found = parse_date(text)
    elif kind == "timestamp" and cast_to in ("", *_TIMESTAMPS):
        if (moment := _UTC.fullmatch(text)) is None:
            raise _Refused(Unread.ZONE)
        found = value_of(kind, f"{moment[1]}Z", None)
    if found is None:
        raise _Refused(Unread.VALUE)
    return found
