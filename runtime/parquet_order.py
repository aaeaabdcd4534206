"""In which order a parquet column's smallest and largest values are compared.

Values are as statistics and page indexes store them: plain, without a length in front. Source: "Column
order" and the logical types of apache/parquet-format.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from parquetry.runtime.parquet_thrift import Struct

Key: TypeAlias = Callable[[bytes], Any]
"""What to compare of a value; ValueError when it is none of the column, or a NaN."""

_TYPE: Final = 1
_CONVERTED_TYPE: Final = 6
_LOGICAL_TYPE: Final = 10

_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY, _FIXED = 0, 1, 2, 4, 5, 6, 7
_UNSIGNED_TYPES: Final = frozenset({11, 12, 13, 14})
_CONVERTED_DECIMAL: Final = 5
_CONVERTED_INTERVAL: Final = 21
_STRING, _ENUM, _DECIMAL, _INTEGER, _JSON, _BSON, _UUID = 1, 4, 5, 10, 12, 13, 14
_BYTEWISE: Final = frozenset({_STRING, _ENUM, _JSON, _BSON, _UUID})
_LAYOUTS: Final = {_INT32: "<i", _INT64: "<q", _FLOAT: "<f", _DOUBLE: "<d"}
_SIGNED: Final = 2


def order_of(column: Struct) -> Key | None:
    """What to compare of the values of a leaf, by its element in the schema; None where that is not known."""
    physical = column[_TYPE][1]
    converted = column[_CONVERTED_TYPE][1] if _CONVERTED_TYPE in column else None
    logical = column[_LOGICAL_TYPE][1] if _LOGICAL_TYPE in column else {}
    if physical == _BOOLEAN:
        return _number("<?")
    if physical in {_INT32, _INT64}:
        signed = logical[_INTEGER][1][_SIGNED][1] if _INTEGER in logical else converted not in _UNSIGNED_TYPES
        return _number(_LAYOUTS[physical] if signed else _LAYOUTS[physical].upper())
    if physical in {_FLOAT, _DOUBLE}:
        return _float(_LAYOUTS[physical])
    if physical in {_BYTE_ARRAY, _FIXED}:
        if _DECIMAL in logical or converted == _CONVERTED_DECIMAL:
            return _unscaled
        if converted != _CONVERTED_INTERVAL and _BYTEWISE.issuperset(logical):
            return bytes
    return None


def _number(layout: str) -> Key:
    decode = struct.Struct(layout)

    def key(raw: bytes) -> Any:
        if len(raw) != decode.size:
            raise ValueError(f"{raw!r} is no number of {decode.size} bytes")
        return decode.unpack(raw)[0]

    return key


def _float(layout: str) -> Key:
    number = _number(layout)

    def key(raw: bytes) -> tuple[float, float]:
        value = number(raw)
        if math.isnan(value):
            raise ValueError("a bound is NaN")
        return value, math.copysign(1.0, value)

    return key


def _unscaled(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)
