"""Comparisons of functions and arithmetic in Spark's event logs, as SQL.

``((i#1 % 2) = 0)`` is ``(i % 2) = 0``. Statistics cannot answer them, so a query with one reads what its
other parts leave. A value that is a text is not understood here: filters of sources lack these terms, so they
do not confirm where the text ends. Neither are times, as functions of them depend on the zone of a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from parquetry.compiler.learning.conditions import column_sql, literal_sql
from parquetry.runtime.layout.skipping.condition import Literal, Opaque
from parquetry.runtime.layout.skipping.files import Types
from parquetry.runtime.layout.skipping.parser import spaced, tokens

_DEEPEST: Final = 50
_COLUMN: Final = re.compile(r"([A-Za-z_][\w-]*)#[0-9]+L?((?:\.[A-Za-z_][\w-]*)*)")
_VALUE: Final = re.compile(r"-?[0-9][0-9.E+-]*")
_COMPARISON: Final = re.compile(r" (<=>|<=|>=|=|<|>) ")
_ARITHMETIC: Final = re.compile(r" ([-+*/%]) ")
_CALL: Final = re.compile(r"([a-z_]+)\(")
_CAST_TO: Final = re.compile(r" as (tinyint|smallint|int|bigint|double|string|date|decimal\(\d+,\d+\))\)")
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_NUMBERS: Final = ("integer", "double", "decimal")
_FUNCTIONS: Final = {
    "length": ("string", "integer"),
    **dict.fromkeys(("trim", "ltrim", "rtrim", "lower", "upper"), ("string", "string")),
    **dict.fromkeys(
        ("year", "quarter", "month", "dayofmonth", "dayofweek", "dayofyear", "weekofyear"),
        ("date", "integer"),
    ),
}
"""The kinds of the argument and of the result, by the name of the function."""


class UnknownTermError(Exception):
    """A term that is not understood."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """SQL with the kind of its values; a written value has the kind of what it stands beside."""

    sql: str
    kind: str | None


@dataclass(slots=True)
class Terms:
    """Comparisons between columns of these types; ``value_of`` returns a printed value of a type."""

    types: Types
    value_of: Callable[[str, str], Literal | None]
    _depth: int = 0

    def comparison(self, text: str, at: int) -> tuple[int, Opaque]:
        """Return the end of the comparison in brackets that begins at a position, and the comparison.

        Raises:
            UnknownTermError: If it is not understood.

        """
        self._depth = 0
        end, operator, left, right, _ = self._pair(text, at, _COMPARISON)
        sql = f"{left.sql} {operator} {right.sql}"
        return end, Opaque(spaced(token.written for token in tokens(sql)[:-1]))

    def _pair(
        self, text: str, at: int, operators: re.Pattern[str]
    ) -> tuple[int, str, _Operand, _Operand, str]:
        """Return the end, the operator, both operands and their kind of a pair in brackets."""
        end, left = self._operand(text, _after(text, at, "("))
        operator = operators.match(text, end)
        if operator is None:
            raise UnknownTermError
        end, right = self._operand(text, operator.end())
        kind = left.kind or right.kind
        if kind not in (*_NUMBERS, "date") or {left.kind, right.kind} - {kind, None}:
            raise UnknownTermError
        left, right = self._beside(left, kind), self._beside(right, kind)
        return _after(text, end, ")"), operator[1], left, right, kind

    def _beside(self, operand: _Operand, kind: str) -> _Operand:
        """Return an operand whose kind is known."""
        if operand.kind is not None:
            return operand
        literal = self.value_of({"integer": "bigint"}.get(kind, kind), operand.sql)
        if literal is None:
            raise UnknownTermError
        return _Operand(literal_sql(literal), kind)

    def _operand(self, text: str, at: int) -> tuple[int, _Operand]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnknownTermError
        if (column := _COLUMN.match(text, at)) is not None:
            name = column[1] + column[2]
            return column.end(), _Operand(column_sql(name), _kind(self.types.get(name.lower(), "")))
        if (call := _CALL.match(text, at)) is not None:
            return self._call(text, call.end(), call[1])
        if (value := _VALUE.match(text, at)) is not None:
            return value.end(), _Operand(value[0], None)
        end, operator, left, right, kind = self._pair(text, at, _ARITHMETIC)
        if kind not in _NUMBERS:
            raise UnknownTermError
        return end, _Operand(f"({left.sql} {operator} {right.sql})", kind)

    def _call(self, text: str, at: int, name: str) -> tuple[int, _Operand]:
        end, argument = self._operand(text, at)
        if name == "cast":
            type_ = _CAST_TO.match(text, end)
            if type_ is None or argument.kind is None:
                raise UnknownTermError
            return type_.end(), _Operand(f"cast({argument.sql} as {type_[1]})", _kind(type_[1]))
        if name in ("trim", "ltrim", "rtrim"):
            end = _after(text, end, ", None")
        if name == "abs" and argument.kind in _NUMBERS:
            result = argument.kind
        elif name in _FUNCTIONS and _FUNCTIONS[name][0] == argument.kind:
            result = _FUNCTIONS[name][1]
        else:
            raise UnknownTermError
        return _after(text, end, ")"), _Operand(f"{name}({argument.sql})", result)


def _kind(type_: str) -> str:
    """Return the kind of a type whose values functions treat alike; raise UnknownTermError for another."""
    if type_ in _INTEGERS:
        return "integer"
    kind = type_.partition("(")[0]
    if kind not in ("double", "decimal", "string", "date"):
        raise UnknownTermError
    return kind


def _after(text: str, at: int, sign: str) -> int:
    """Return the position after a sign; raise UnknownTermError if it is not there."""
    if not text.startswith(sign, at):
        raise UnknownTermError
    return at + len(sign)
