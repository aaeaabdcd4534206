"""Spark SQL types of columns as a tree, parsed from text and converted back to text.

The grammar is that of Spark's ``DataType.fromDDL`` without comments on fields, which tables do not store. A
field of a struct may be ``NOT NULL``. Elements of arrays and values of maps may always be null, as the
grammar cannot declare otherwise. The rules for types that a table can store are in ``rules``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from parquetry.runtime.errors import InvalidDataError

AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The names that Avro accepts. The text of a struct quotes other names."""

_MAX_PRECISION = 38
_MOST_DIGITS: Final = 9
_LONGEST_SHOWN: Final = 200
# Types also come from tables, which are untrusted.
_DEEPEST: Final = 100
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[^\s<>(),:`'\"]+)|`(?P<quoted>(?:[^`]|``)*)`|(?P<text>'(?:[^'\\]|\\.)*')|(?P<sign>[<>(),:]))"
)
_NO_NAME = re.compile(r"[<>(),:']")

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
_DECIMALS = frozenset({"decimal", "dec", "numeric"})
TYPE_NAMES: Final = frozenset({*_PRIMITIVES, *_DECIMALS, "array", "map", "struct"})
"""All words with which a type may begin."""

_EXAMPLE: Final = "write a type such as bigint or array<string>"
_REMEDIES = {
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


class TypeSyntaxError(InvalidDataError):
    """A text is not a type: the ``problem``, its ``remedy``, and the ``unknown`` word, if any."""

    def __init__(
        self, text: str, problem: str, *, remedy: str = _EXAMPLE, unknown: str | None = None
    ) -> None:
        super().__init__(
            "type {type!r} is not understood: {problem}; {remedy}",
            type=_shortened(text),
            problem=problem,
            remedy=remedy,
        )
        self.text = text
        self.problem = problem
        self.remedy = remedy
        self.unknown = unknown

    def __reduce__(self) -> tuple[object, ...]:
        return _type_syntax_error, (self.text, self.problem, self.remedy, self.unknown)


def _type_syntax_error(text: str, problem: str, remedy: str, unknown: str | None) -> TypeSyntaxError:
    return TypeSyntaxError(text, problem, remedy=remedy, unknown=unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """A type without parameters, by Spark's name. timestamp_ntz can be read, but not stored."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal:
    """A decimal number of ``precision`` digits, of which ``scale`` are after the decimal point."""

    precision: int
    scale: int

    @property
    def fixed_size_bytes(self) -> int:
        """The minimum number of bytes of a two's complement number that holds every value."""
        largest: int = 10**self.precision - 1
        return (largest.bit_length() + 8) // 8

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """A list. Elements may be null unless ``element_nullable`` is False."""

    element: ColumnType
    element_nullable: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """A map from strings. Values may be null unless ``value_nullable`` is False."""

    value: ColumnType
    value_nullable: bool = True

    def __str__(self) -> str:
        return f"map<string,{self.value}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class StructField:
    """A named field of a struct."""

    name: str
    type: ColumnType
    nullable: bool = True

    def __str__(self) -> str:
        name = self.name if AVRO_NAME.fullmatch(self.name) else "`" + self.name.replace("`", "``") + "`"
        return f"{name}:{self.type}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """An ordered list of named fields."""

    fields: tuple[StructField, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"


ColumnType: TypeAlias = Primitive | Decimal | Array | Map | Struct


@lru_cache(maxsize=1024)
def parse_type(text: str) -> ColumnType:
    """Return the tree of a Spark SQL type such as ``map<string,array<decimal(10,2)>>``.

    ``str`` of the tree is the canonical spelling. Nearly all columns have one of a few types, so results are
    cached.

    Raises:
        TypeSyntaxError: If the text is not a type.

    """
    parser = _Parser(text)
    parsed = parser.type()
    parser.end()
    return parsed


def is_nested(column_type: ColumnType) -> bool:
    """Return whether the type is an array, map or struct."""
    return isinstance(column_type, Array | Map | Struct)


def holds_array(column_type: ColumnType) -> bool:
    """Return whether the type contains an array at any depth."""
    match column_type:
        case Array():
            return True
        case Map(value=value):
            return holds_array(value)
        case Struct(fields=fields):
            return any(holds_array(field.type) for field in fields)
    return False


def field_type(column_type: ColumnType, path: Sequence[str]) -> ColumnType | None:
    """Return the type of a nested field of a struct, or None if there is no such field."""
    for name in path:
        fields = column_type.fields if isinstance(column_type, Struct) else ()
        below = next((field.type for field in fields if field.name == name), None)
        if below is None:
            return None
        column_type = below
    return column_type


def may_have_fields(column_type: ColumnType, path: Sequence[str]) -> bool:
    """Return whether SQL can read these fields of a value, as in ``value.a.b``. Names have any case.

    The fields of a list are those of its elements. A map has any key as a field.
    """
    for name in path:
        while isinstance(column_type, Array):
            column_type = column_type.element
        if isinstance(column_type, Map):
            column_type = column_type.value
            continue
        fields = column_type.fields if isinstance(column_type, Struct) else ()
        below = next((field.type for field in fields if field.name.lower() == name.lower()), None)
        if below is None:
            return False
        column_type = below
    return True


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a sign, a quoted text, or a name in backticks, which is never a sign or a keyword."""

    text: str
    quoted: bool = False


class _Parser:
    """A recursive descent parser of one type."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._tokens: list[_Token] = []
        self._position = 0
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise self._error(f"{_shortened(stripped[position:].strip())!r} is not part of a type")
            quoted = match["quoted"]
            self._tokens.append(
                _Token(match["word"] or match["text"] or match["sign"])
                if quoted is None
                else _Token(quoted.replace("``", "`"), quoted=True)
            )
            position = match.end()

    def type(self) -> ColumnType:
        self._depth += 1
        token = self._take()
        if self._depth > _DEEPEST:
            raise self._error(f"a type has at most {_DEEPEST} levels")
        parsed = self._type(token.text.lower(), token)
        self._depth -= 1
        return parsed

    def _type(self, word: str, token: _Token) -> ColumnType:
        if word in _DECIMALS and not token.quoted:
            return self._decimal()
        match word:
            case _ if token.quoted or word not in TYPE_NAMES:
                known = _REMEDIES.get(word)
                raise self._error(
                    f"{_shortened(word)!r} is not a type of a table",
                    known or _EXAMPLE,
                    unknown=None if known else word,
                )
            case "array":
                self._expect("<")
                element = self._part("elements of an array")
                self._expect(">")
                return Array(element=element)
            case "map":
                return self._map()
            case "struct":
                return self._struct()
        return Primitive(name=_PRIMITIVES[word])

    def end(self) -> None:
        if self._position < len(self._tokens):
            raise self._error(f"{_shortened(self._tokens[self._position].text)!r} after the end of the type")

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
                f"decimal({precision},{scale}) does not exist",
                f"the precision is 1 to {_MAX_PRECISION}, the scale at most the precision",
            )
        return Decimal(precision=precision, scale=scale)

    def _map(self) -> Map:
        self._expect("<")
        key = self.type()
        if key != Primitive(name="string"):
            raise self._error(
                f"a map with {_shortened(str(key))} keys cannot be stored", "map keys are strings"
            )
        self._expect(",")
        value = self._part("values of a map")
        self._expect(">")
        return Map(value=value)

    def _part(self, parts: str) -> ColumnType:
        parsed = self.type()
        if self._peek() == "not":
            raise self._error(
                f"'not null' after the {parts}, which may always be null",
                "only fields of structs can be NOT NULL",
            )
        return parsed

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
        token = self._take()
        name = token.text
        if not token.quoted and _NO_NAME.match(name):
            raise self._error(f"{_shortened(name)!r} was found where the name of a field was expected")
        if self._peek() == ":":
            self._take()
        field_type = self.type()
        nullable = True
        if self._peek() == "not":
            self._take()
            self._expect("null")
            nullable = False
        if self._peek() == "comment":
            raise self._error(
                f"'comment' after field {_shortened(name)!r}",
                "fields have no comments; use the description of the column",
            )
        return StructField(name=name, type=field_type, nullable=nullable)

    def _number(self) -> int:
        word = self._take().text
        if not (word.isascii() and word.isdigit()) or len(word) > _MOST_DIGITS:
            raise self._error(f"{_shortened(word)!r} is not a number of digits")
        return int(word)

    def _peek(self) -> str | None:
        """Return the next sign or keyword in lower case, or None at the end or before a quoted name."""
        if self._position == len(self._tokens) or self._tokens[self._position].quoted:
            return None
        return self._tokens[self._position].text.lower()

    def _take(self, expected: str | None = None) -> _Token:
        if self._position == len(self._tokens):
            raise self._error(
                f"the type ends where {expected!r} was expected" if expected else "the type ends too early"
            )
        self._position += 1
        return self._tokens[self._position - 1]

    def _expect(self, expected: str) -> None:
        taken = self._take(expected)
        if taken.quoted or taken.text.lower() != expected:
            raise self._error(f"{_shortened(taken.text)!r} was found where {expected!r} was expected")

    def _error(self, problem: str, remedy: str = _EXAMPLE, *, unknown: str | None = None) -> TypeSyntaxError:
        return TypeSyntaxError(self._text, problem, remedy=remedy, unknown=unknown)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
