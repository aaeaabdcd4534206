"""Spark SQL types of columns as a tree, parsed from and printed as their text.

The grammar is that of Spark's ``DataType.fromDDL``; the types are those a Hudi table can hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.meta_columns import META_COLUMNS
from parquetry.runtime.spec import Column

RESERVED_PREFIX: Final = "_hoodie_"
DELETE_FLAG: Final = "_hoodie_is_deleted"
CONTROL_COLUMNS: Final = frozenset(
    {
        "__bucket",
        "__delete",
        "__file",
        "__generated_wrong",
        "__hash",
        "__ordering",
        "__origin",
        "__partition",
        "__position",
        "__ref",
    }
)
"""What travels beside a table's own columns while rows are written."""

_MAX_PRECISION = 38
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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
        name = self.name if _AVRO_NAME.fullmatch(self.name) else "`" + self.name.replace("`", "``") + "`"
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


def check_new_columns(columns: Iterable[Column]) -> None:
    """Refuses columns that a table is not to be given: those of :func:`check_columns`, and two names.

    Names that begin with ``_hoodie_`` in any case are Hudi's own, but for ``_hoodie_is_deleted``,
    which is boolean. A table that another program gave such columns can be written.
    """
    columns = tuple(columns)
    for column in columns:
        if column.name.lower().startswith(RESERVED_PREFIX) and column.name != DELETE_FLAG:
            raise _reserved(column)
        if column.name == DELETE_FLAG and parse_type(column.type) != Primitive(name="boolean"):
            raise InvalidDataError(
                f"column {column.name!r} is {column.type}: Hudi deletes by it; declare boolean, or rename it"
            )
    check_columns(columns)


def check_columns(columns: Iterable[Column]) -> None:
    """Refuses columns that no table can be written with: by name, by type, or twice.

    Names must be Avro names at every level (Hudi stores the schema as Avro), differ by more than
    case (Spark's default), not begin with ``_hoodie_`` (Hudi's own columns) but for
    ``_hoodie_is_deleted``, not be one of Hudi's five columns in other letters, and not be one of
    :data:`CONTROL_COLUMNS`.
    """
    seen: dict[str, str] = {}
    for column in columns:
        reserved = column.name.startswith(RESERVED_PREFIX) and column.name != DELETE_FLAG
        if reserved or column.name.lower() in META_COLUMNS:
            raise _reserved(column)
        if column.name.lower() in CONTROL_COLUMNS:
            raise InvalidDataError(
                f"column {column.name!r}: writing needs a column of that name for itself; rename it"
            )
        _check_name(column.name, seen, f"column {column.name!r}")
        _check_type(parse_type(column.type), f"column {column.name!r}")


def deletes_by_flag(columns: Iterable[Column]) -> bool:
    """Whether a true ``_hoodie_is_deleted`` in rows of a table with these columns deletes.

    Not where the table itself has a column of that name and another type than boolean, which Hudi
    takes for one like any other.
    """
    return all(
        column.name.lower() != DELETE_FLAG or parse_type(column.type) == Primitive(name="boolean")
        for column in columns
    )


def is_widening(old: ColumnType, new: ColumnType) -> bool:
    """Whether every file of the old type reads right as the new one, in Spark, Hudi and hudi-rs.

    These are Avro's own promotions that lose nothing, and new nullable fields in structs.
    A decimal may grow only within its stored size: Avro cannot resolve fixed values of different
    sizes. Equal types count as widening.
    """
    match old, new:
        case Primitive(), Primitive():
            return old == new or new.name in _PROMOTIONS.get(old.name, frozenset())
        case Decimal(), Decimal():
            return (
                old.scale == new.scale
                and old.precision <= new.precision
                and old.fixed_size_bytes == new.fixed_size_bytes
            )
        case Array(), Array():
            return new.element_nullable >= old.element_nullable and is_widening(old.element, new.element)
        case Map(), Map():
            return new.value_nullable >= old.value_nullable and is_widening(old.value, new.value)
        case Struct(), Struct():
            return _struct_widens(old, new)
    return False


def in_order_of(old: ColumnType, wide: ColumnType) -> ColumnType:
    """The wider type, the fields of its structs in the order of the old one, new fields behind them."""
    match old, wide:
        case Array(), Array():
            return replace(wide, element=in_order_of(old.element, wide.element))
        case Map(), Map():
            return replace(wide, value=in_order_of(old.value, wide.value))
        case Struct(), Struct():
            fields = {field.name: field for field in wide.fields}
            known = [(field.type, fields.pop(field.name)) for field in old.fields]
            kept = (replace(field, type=in_order_of(kind, field.type)) for kind, field in known)
            return Struct(fields=(*kept, *fields.values()))
    return wide


_PROMOTIONS = {
    "tinyint": frozenset({"smallint", "int", "bigint", "double"}),
    "smallint": frozenset({"int", "bigint", "double"}),
    "int": frozenset({"bigint", "double"}),
    "float": frozenset({"double"}),
}


def _struct_widens(old: Struct, new: Struct) -> bool:
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    if not before.keys() <= after.keys():
        return False
    kept = (
        after[name].nullable >= field.nullable and is_widening(field.type, after[name].type)
        for name, field in before.items()
    )
    added = (field.nullable for name, field in after.items() if name not in before)
    return all(kept) and all(added)


def _check_type(column_type: ColumnType, place: str) -> None:
    match column_type:
        case Primitive(name="timestamp_ntz"):
            raise InvalidDataError(
                f"{place}: Hudi tables of version 6 cannot hold timestamp_ntz; declare timestamp, "
                f"or bigint with the microseconds of the wall clock"
            )
        case Array(element=inner) | Map(value=inner):
            _check_type(inner, place)
        case Struct(fields=fields):
            if not fields:
                raise InvalidDataError(f"{place}: a struct needs a field; parquet cannot store an empty one")
            seen: dict[str, str] = {}
            for field in fields:
                _check_name(field.name, seen, f"{place}, field {field.name!r}")
                _check_type(field.type, f"{place}, field {field.name!r}")
        case _:
            pass


def _check_name(name: str, seen: dict[str, str], place: str) -> None:
    if not _AVRO_NAME.fullmatch(name):
        raise InvalidDataError(
            f"{place}: Hudi stores the schema as Avro, whose names are letters, digits and underscores "
            f"and do not begin with a digit; rename it"
        )
    other = seen.setdefault(name.lower(), name)
    if other is not name:
        raise InvalidDataError(
            f"{place}: the name is taken by {other!r}, Spark does not tell case apart; rename one"
        )


def _reserved(column: Column) -> InvalidDataError:
    return InvalidDataError(
        f"column {column.name!r}: names that begin with {RESERVED_PREFIX} belong to Hudi; rename it"
    )


class _Parser:
    """A recursive descent over the tokens of one type."""

    def __init__(self, text: str) -> None:
        self._text = text
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
        word = self._take().lower()
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
        if not (word.isascii() and word.isdigit()):
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
        return InvalidDataError(f"type {self._text!r} is not understood at {token!r}: {remedy}")
