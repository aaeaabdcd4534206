"""Spark SQL types as a table can hold them: parsed, checked and written in one spelling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from parquetry.project.diagnostics import did_you_mean

MAX_DEPTH = 16
_MAX_PRECISION = 38
_ALIASES = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
}
_DECIMALS = frozenset({"decimal", "dec", "numeric"})
_NESTED = frozenset({"array", "map", "struct"})
_REMEDIES = {
    "timestamp_ntz": "use timestamp, or bigint for a local time",
    "varchar": "use string",
    "char": "use string",
    "character": "use string",
    "text": "use string",
    "interval": "use bigint",
    "void": "choose the type the column will have",
    "variant": "use string with JSON text",
    "datetime": "use timestamp",
    "bool": "use boolean",
    "uuid": "use string",
    "json": "use string",
}
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*)|(`(?:[^`]|``)+`)|([0-9]+)|([<>(),:]))")
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TypeProblem(ValueError):  # noqa: N818 - becomes a diagnostic, never leaves the package
    """A text that is no type of a table; ``hint`` is the remedy."""

    def __init__(self, summary: str, hint: str | None = None) -> None:
        super().__init__(summary)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts, such as ``bigint``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact numbers of ``precision`` digits, ``scale`` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Lists of one element type."""

    element: ColumnType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Mappings from strings to one value type."""

    value: ColumnType

    def __str__(self) -> str:
        return f"map<string,{self.value}>"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields in their order."""

    fields: tuple[tuple[str, ColumnType], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.fields)}>"


ColumnType: TypeAlias = Primitive | DecimalType | ArrayType | MapType | StructType


def parse_type(text: str) -> ColumnType:
    """The type a text stands for; ``str`` of it is the canonical spelling.

    Raises:
        TypeProblem: it is no type, or one that the table format cannot hold.

    """
    reader = _Reader(_tokens(text))
    parsed = reader.type(0)
    if reader.peek() is not None:
        summary = f"'{reader.peek()}' after the end of the type"
        raise TypeProblem(summary)
    return parsed


def is_cut_off(text: str) -> bool:
    """Whether a bracket of a type is open at its end, as YAML's {..} leaves decimal(10,2) without quotes."""
    return text.count("(") > text.count(")") or text.count("<") > text.count(">")


def is_nested(type_: ColumnType) -> bool:
    """Whether values have parts."""
    return isinstance(type_, (ArrayType, MapType, StructType))


def holds_array(type_: ColumnType) -> bool:
    """Whether there is an array anywhere in the type."""
    match type_:
        case ArrayType():
            return True
        case MapType(value):
            return holds_array(value)
        case StructType(fields):
            return any(holds_array(field) for _, field in fields)
    return False


def field_type(type_: ColumnType, path: Sequence[str]) -> ColumnType | None:
    """The type of a field below a struct, None where there is no such field."""
    for name in path:
        if not isinstance(type_, StructType):
            return None
        below = dict(type_.fields).get(name)
        if below is None:
            return None
        type_ = below
    return type_


def may_have_fields(type_: ColumnType, path: Sequence[str]) -> bool:
    """Whether SQL can ask a value of the type for these fields, as in ``value.a.b``; names in any case.

    Behind a list stand the fields of its elements, behind a map any of its keys.
    """
    for name in path:
        while isinstance(type_, ArrayType):
            type_ = type_.element
        if isinstance(type_, MapType):
            type_ = type_.value
            continue
        fields = type_.fields if isinstance(type_, StructType) else ()
        below = {field.lower(): held for field, held in fields}.get(name.lower())
        if below is None:
            return False
        type_ = below
    return True


def _tokens(text: str) -> list[str]:
    found = []
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            rest = stripped[position:].strip()[:20]
            summary = f"'{rest}' is not part of a type"
            raise TypeProblem(summary)
        found.append(match.group().strip())
        position = match.end()
    return found


class _Reader:
    """A recursive descent over the tokens."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if token is None:
            summary = f"the type ends where {wanted!r} is needed" if wanted else "the type ends too early"
            raise TypeProblem(summary)
        if wanted is not None and token != wanted:
            summary = f"'{token}' stands where '{wanted}' is needed"
            raise TypeProblem(summary)
        self._next += 1
        return token

    def type(self, depth: int) -> ColumnType:
        if depth > MAX_DEPTH:
            summary = f"more than {MAX_DEPTH} levels of types"
            raise TypeProblem(summary)
        name = self.take().lower()
        if name in _DECIMALS:
            return self._decimal()
        if name == "array":
            self.take("<")
            element = self.type(depth + 1)
            self.take(">")
            return ArrayType(element)
        if name == "map":
            return self._map(depth)
        if name == "struct":
            return self._struct(depth)
        if name not in _ALIASES:
            summary = f"'{name}' is not a type of a table"
            raise TypeProblem(
                summary, _REMEDIES.get(name) or did_you_mean(name, {*_ALIASES, *_DECIMALS, *_NESTED})
            )
        return Primitive(_ALIASES[name])

    def _decimal(self) -> ColumnType:
        precision, scale = 10, 0
        if self.peek() == "(":
            self.take("(")
            precision = self._number()
            if self.peek() == ",":
                self.take(",")
                scale = self._number()
            self.take(")")
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            summary = f"decimal({precision},{scale}) does not exist"
            raise TypeProblem(summary, "the precision is 1 to 38, the scale at most the precision")
        return DecimalType(precision, scale)

    def _number(self) -> int:
        token = self.take()
        if not token.isdecimal() or len(token) > 3:  # noqa: PLR2004 - more than any precision
            summary = f"'{token}' is not a number of digits"
            raise TypeProblem(summary)
        return int(token)

    def _map(self, depth: int) -> ColumnType:
        self.take("<")
        key = self.type(depth + 1)
        if key != Primitive("string"):
            summary = f"a map with {key} keys cannot be stored"
            raise TypeProblem(summary, "map keys are strings")
        self.take(",")
        value = self.type(depth + 1)
        self.take(">")
        return MapType(value)

    def _struct(self, depth: int) -> ColumnType:
        self.take("<")
        fields: dict[str, tuple[str, ColumnType]] = {}
        while True:
            name = self.take()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if not _FIELD_NAME.fullmatch(name):
                summary = f"field '{name}' needs a name of letters, digits and '_'"
                raise TypeProblem(summary)
            if name.lower() in fields:
                summary = f"field '{name}' is there twice"
                raise TypeProblem(summary)
            if self.peek() == ":":
                self.take(":")
            fields[name.lower()] = (name, self.type(depth + 1))
            if (self.peek() or "").lower() in ("not", "comment"):
                summary = f"'{self.peek()}' in a struct is not accepted"
                raise TypeProblem(summary, "nested fields may be null and have no comments")
            if self.peek() == ">":
                self.take(">")
                return StructType(tuple(fields.values()))
            self.take(",")
