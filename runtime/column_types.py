"""Spark SQL types of columns as a tree, parsed from and printed as their text.

The grammar is that of Spark's ``DataType.fromDDL``; the types are those a Hudi table can hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from parquetry.runtime.errors import InvalidDataError

AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The names that Avro takes; the text of a struct quotes others."""

_MAX_PRECISION = 38
_MOST_DIGITS: Final = 9
_LONGEST_SHOWN: Final = 200
# Types come from tables too, where others can write them.
_DEEPEST: Final = 100
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[^\s<>(),:`'\"]+)|`(?P<quoted>(?:[^`]|``)*)`|(?P<text>'(?:[^'\\]|\\.)*')|(?P<sign>[<>(),:]))"
)

_PRIMITIVES = {
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
    "timestamp_ntz": "timestamp_ntz",
}
_REMEDIES = {
    "varchar": "declare string",
    "char": "declare string",
    "variant": "declare string and store JSON text",
    "interval": "declare bigint and store a number of units",
    "void": "declare the type the values will have",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """A type without parameters, by Spark's name: boolean ... timestamp, and timestamp_ntz to read."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal:
    """A decimal number of ``precision`` digits, ``scale`` of them behind the point."""

    precision: int
    scale: int

    @property
    def fixed_size_bytes(self) -> int:
        """The fewest bytes of a two's complement number that hold every value."""
        largest: int = 10**self.precision - 1
        return (largest.bit_length() + 8) // 8

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """A list; elements may be null unless ``element_nullable`` is False."""

    element: ColumnType
    element_nullable: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """A map from strings; values may be null unless ``value_nullable`` is False."""

    value: ColumnType
    value_nullable: bool = True

    def __str__(self) -> str:
        return f"map<string,{self.value}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class StructField:
    """A named part of a struct."""

    name: str
    type: ColumnType
    nullable: bool = True

    def __str__(self) -> str:
        name = self.name if AVRO_NAME.fullmatch(self.name) else "`" + self.name.replace("`", "``") + "`"
        return f"{name}:{self.type}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Named fields, in order."""

    fields: tuple[StructField, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"


ColumnType: TypeAlias = Primitive | Decimal | Array | Map | Struct


def parse_type(text: str) -> ColumnType:
    """The tree of a Spark SQL type such as ``map<string,array<decimal(10,2)>>``.

    InvalidDataError says what was not understood and what to declare instead.
    """
    parser = _Parser(text)
    parsed = parser.type()
    parser.end()
    return parsed


class _Parser:
    """A recursive descent over the tokens of one type."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._tokens: list[tuple[str, bool]] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise self._error(stripped[position:])
            quoted = match["quoted"]
            token = (
                match["word"] or match["text"] or match["sign"]
                if quoted is None
                else quoted.replace("``", "`")
            )
            self._tokens.append((token, quoted is not None))
            position = match.end()
        self._at = 0

    def type(self) -> ColumnType:
        self._depth += 1
        word = self._take().lower()
        if self._depth > _DEEPEST:
            raise self._error(word, f"a type has at most {_DEEPEST} levels")
        parsed = self._type(word)
        self._depth -= 1
        return parsed

    def _type(self, word: str) -> ColumnType:
        match word:
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "array":
                self._expect("<")
                element = self.type()
                self._expect(">")
                return Array(element=element)
            case "map":
                return self._map()
            case "struct":
                return self._struct()
        if word in _PRIMITIVES:
            return Primitive(name=_PRIMITIVES[word])
        raise self._error(
            word, _REMEDIES.get(word, "declare a Spark SQL type such as string, bigint or decimal(10,2)")
        )

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._error(self._tokens[self._at][0])

    def _decimal(self) -> Decimal:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._take()
            precision = self._number()
            if self._peek() == ",":
                self._take()
                scale = self._number()
            self._expect(")")
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            raise self._error(
                f"decimal({precision},{scale})", "declare 1 to 38 digits, no fewer than the scale"
            )
        return Decimal(precision=precision, scale=scale)

    def _map(self) -> Map:
        self._expect("<")
        key = self.type()
        if key != Primitive(name="string"):
            raise self._error(str(key), "Hudi's maps have string keys: declare map<string,...>")
        self._expect(",")
        value = self.type()
        self._expect(">")
        return Map(value=value)

    def _struct(self) -> Struct:
        self._expect("<")
        fields: list[StructField] = []
        while self._peek() != ">":
            if fields:
                self._expect(",")
            fields.append(self._field())
        self._expect(">")
        return Struct(fields=tuple(fields))

    def _field(self) -> StructField:
        name = self._take()
        if self._peek() == ":":
            self._take()
        field_type = self.type()
        nullable = True
        if (self._peek() or "").lower() == "not":
            self._take()
            self._expect("null")
            nullable = False
        if (self._peek() or "").lower() == "comment":
            self._take()
            self._take()
        return StructField(name=name, type=field_type, nullable=nullable)

    def _number(self) -> int:
        word = self._take()
        if not (word.isascii() and word.isdigit()) or len(word) > _MOST_DIGITS:
            raise self._error(word, "a number of digits was expected")
        return int(word)

    def _peek(self) -> str | None:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        if self._at == len(self._tokens):
            raise self._error("its end")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _expect(self, sign: str) -> None:
        taken = self._take()
        if taken.lower() != sign:
            raise self._error(taken, f"{sign!r} was expected there")

    def _error(self, token: str, remedy: str = "declare a Spark SQL type") -> InvalidDataError:
        return InvalidDataError(f"type {_cut(self._text)!r} is not understood at {_cut(token)!r}: {remedy}")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
