"""Rows of every type that a table can hold, made from a seed; independent of parquetry's own type mapping."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
Maker = Callable[[random.Random], Any]

ALPHABET = string.ascii_letters + string.digits + " _-.,:;'\"\\/%=äßΩ中🙂\t"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """A column's Spark SQL type, the Arrow type of its files and a maker of values."""

    spark: str
    arrow: pa.DataType
    make: Maker


def _text(rnd: random.Random) -> str:
    return "".join(rnd.choice(ALPHABET) for _ in range(rnd.randrange(0, 12)))


def _word(rnd: random.Random) -> str:
    return rnd.choice(["", "a", "Ω", "x y", "long " * 5, "中文"])


def _integer(bits: int) -> Maker:
    top = 2 ** (bits - 1)
    return lambda rnd: rnd.choice([0, -1, top - 1, -top, rnd.randrange(-top, top)])


def _decimal(precision: int, scale: int) -> Maker:
    top = 10**precision - 1
    exact = Context(prec=precision)
    numbers = [0, 1, -101, top, -top]
    return lambda rnd: Decimal(rnd.choice([*numbers, rnd.randrange(-top, top)])).scaleb(-scale, exact)


def _float(rnd: random.Random) -> float:
    return float(
        rnd.choice([0.0, -1.5, float("nan"), float("inf"), float("-inf"), rnd.randrange(-(2**20), 2**20) / 8])
    )


def _date(rnd: random.Random) -> date:
    return rnd.choice(
        [
            date(1970, 1, 1),
            date(1901, 3, 4),
            date(9999, 12, 31),
            date(2013, 1, 1) + timedelta(rnd.randrange(900)),
        ]
    )


def _timestamp(rnd: random.Random) -> datetime:
    micros = rnd.choice(
        [0, -1, 1, -62_000_000_000_123, 1_700_000_000_123_456, rnd.randrange(-(10**15), 2 * 10**15)]
    )
    return EPOCH + timedelta(microseconds=micros)


def _list(of: Maker) -> Maker:
    return lambda rnd: [of(rnd) for _ in range(rnd.randrange(4))]


def _map(of: Maker) -> Maker:
    return lambda rnd: [(f"k{i}", of(rnd)) for i in range(rnd.randrange(4))]


def _struct(**fields: Maker) -> Maker:
    return lambda rnd: {name: maybe(make)(rnd) for name, make in fields.items()}


def maybe(make: Maker, share: float = 0.2) -> Maker:
    """A maker that sometimes gives None."""
    return lambda rnd: None if rnd.random() < share else make(rnd)


def _struct_type(**fields: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


MICROS = pa.timestamp("us", tz="UTC")
TYPES: Mapping[str, ColumnType] = {
    "c_boolean": ColumnType(spark="boolean", arrow=pa.bool_(), make=lambda r: r.random() < 0.5),
    "c_short": ColumnType(spark="smallint", arrow=pa.int16(), make=_integer(16)),
    "c_int": ColumnType(spark="int", arrow=pa.int32(), make=_integer(32)),
    "c_long": ColumnType(spark="bigint", arrow=pa.int64(), make=_integer(64)),
    "c_float": ColumnType(spark="float", arrow=pa.float32(), make=_float),
    "c_double": ColumnType(spark="double", arrow=pa.float64(), make=_float),
    "c_string": ColumnType(spark="string", arrow=pa.string(), make=_text),
    "c_binary": ColumnType(spark="binary", arrow=pa.binary(), make=lambda r: r.randbytes(r.randrange(9))),
    "c_date": ColumnType(spark="date", arrow=pa.date32(), make=_date),
    "c_timestamp": ColumnType(spark="timestamp", arrow=MICROS, make=_timestamp),
    "c_price": ColumnType(spark="decimal(10,2)", arrow=pa.decimal128(10, 2), make=_decimal(10, 2)),
    "c_amount": ColumnType(spark="decimal(22,4)", arrow=pa.decimal128(22, 4), make=_decimal(22, 4)),
    "c_huge": ColumnType(spark="decimal(38,10)", arrow=pa.decimal128(38, 10), make=_decimal(38, 10)),
    "c_words": ColumnType(spark="array<string>", arrow=pa.list_(pa.string()), make=_list(_word)),
    "c_struct": ColumnType(
        spark="struct<a:int,d:decimal(7,3),inner:struct<t:timestamp,w:array<string>>>",
        arrow=_struct_type(
            a=pa.int32(), d=pa.decimal128(7, 3), inner=_struct_type(t=MICROS, w=pa.list_(pa.string()))
        ),
        make=_struct(a=_integer(32), d=_decimal(7, 3), inner=_struct(t=_timestamp, w=_list(_word))),
    ),
    "c_map": ColumnType(
        spark="map<string,bigint>", arrow=pa.map_(pa.string(), pa.int64()), make=_map(maybe(_integer(64)))
    ),
    "c_structs": ColumnType(
        spark="array<struct<n:bigint,p:decimal(9,1)>>",
        arrow=pa.list_(_struct_type(n=pa.int64(), p=pa.decimal128(9, 1))),
        make=_list(_struct(n=_integer(64), p=_decimal(9, 1))),
    ),
    "c_map_of_structs": ColumnType(
        spark="map<string,struct<s:string,d:date>>",
        arrow=pa.map_(pa.string(), _struct_type(s=pa.string(), d=pa.date32())),
        make=_map(_struct(s=_word, d=_date)),
    ),
}


def make_row(rnd: random.Random, names: Iterable[str] | None = None, *, nulls: float = 0.2) -> dict[str, Any]:
    """Values for the typed columns, None now and then."""
    return {name: maybe(TYPES[name].make, nulls)(rnd) for name in (names or TYPES)}


def arrow_schema(extra: Mapping[str, pa.DataType], names: Iterable[str] | None = None) -> pa.Schema:
    """`extra` columns first, then the typed ones."""
    typed = [pa.field(name, TYPES[name].arrow) for name in (names or TYPES)]
    return pa.schema([pa.field(name, kind) for name, kind in extra.items()] + typed)


def to_arrow(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """The rows in that schema, columns that a row lacks null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
