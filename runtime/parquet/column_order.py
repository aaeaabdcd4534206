"""The sort order of the values of a parquet column, for their bounds.

Values are in the form of statistics and page indexes: plain encoding without a length in front. Source:
"Column order" and the logical types of apache/parquet-format.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from parquetry.runtime.parquet.fields import ConvertedType, IntType, LogicalType, PhysicalType, SchemaElement
from parquetry.runtime.parquet.thrift import ThriftStruct

Key: TypeAlias = Callable[[bytes], Any]
"""The sort key of a stored value; ValueError for a NaN, or if the bytes are not a value of the column."""


_UNSIGNED_TYPES: Final = frozenset(
    {ConvertedType.UINT_8, ConvertedType.UINT_16, ConvertedType.UINT_32, ConvertedType.UINT_64}
)
_BYTEWISE: Final = frozenset(
    {LogicalType.STRING, LogicalType.ENUM, LogicalType.JSON, LogicalType.BSON, LogicalType.UUID}
)
_LAYOUTS: Final = {
    PhysicalType.INT32: "<i",
    PhysicalType.INT64: "<q",
    PhysicalType.FLOAT: "<f",
    PhysicalType.DOUBLE: "<d",
}


def order_of(column: ThriftStruct) -> Key | None:
    """Return the sort key of a leaf's values, given its schema element; None if the order is unknown."""
    physical = column[SchemaElement.TYPE][1]
    converted = column[SchemaElement.CONVERTED_TYPE][1] if SchemaElement.CONVERTED_TYPE in column else None
    logical = column[SchemaElement.LOGICAL_TYPE][1] if SchemaElement.LOGICAL_TYPE in column else {}
    if physical == PhysicalType.BOOLEAN:
        return _number("<?")
    if physical in {PhysicalType.INT32, PhysicalType.INT64}:
        signed = (
            logical[LogicalType.INTEGER][1][IntType.IS_SIGNED][1]
            if LogicalType.INTEGER in logical
            else converted not in _UNSIGNED_TYPES
        )
        return _number(_LAYOUTS[physical] if signed else _LAYOUTS[physical].upper())
    if physical in {PhysicalType.FLOAT, PhysicalType.DOUBLE}:
        return _float(_LAYOUTS[physical])
    if physical in {PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY}:
        if LogicalType.DECIMAL in logical or converted == ConvertedType.DECIMAL:
            return _unscaled
        if converted != ConvertedType.INTERVAL and _BYTEWISE.issuperset(logical):
            return bytes
    return None


def _number(layout: str) -> Key:
    decode = struct.Struct(layout)

    def key(raw: bytes) -> Any:
        if len(raw) != decode.size:
            raise ValueError(f"a bound does not have the {decode.size} bytes of a number")
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
