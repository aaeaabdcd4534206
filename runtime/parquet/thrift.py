"""Thrift's compact protocol as plain values, as far as parquet's footers and indexes need it.

Unknown fields survive a round trip, which preserves the statistics of newer writers. Source: Apache Thrift,
"Thrift Compact protocol encoding" specification.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
STRUCT: Final = 12

ThriftStruct: TypeAlias = dict[int, tuple[int, Any]]
"""Fields by number, ascending, with kind and value. The kind of a boolean is TRUE, whatever its value."""


@dataclass(frozen=True, slots=True)
class List:
    """A list of elements of one kind."""

    kind: int
    items: list[Any]


MOST_INTEGER_BYTES: Final = 10
"""The length of a 64-bit integer with seven bits in each byte."""

_CONTINUED: Final = 0x80
_LONG_LIST: Final = 15
_LARGEST_DELTA: Final = 15


def decode_struct(data: bytes, start: int = 0) -> tuple[ThriftStruct, int]:
    """Return the struct that begins at ``start``, and the position after it.

    Raises:
        ValueError: If the bytes are not a struct of the compact protocol.
        IndexError: If the bytes end within the struct.
    """
    fields: ThriftStruct = {}
    number = 0
    at = start
    while header := data[at]:
        at += 1
        kind = header & 15
        if header >> 4:
            number += header >> 4
        else:
            number, at = _integer(data, at)
        if kind <= FALSE:
            fields[number] = (TRUE, kind == TRUE)
        else:
            value, at = _decoder(kind)(data, at)
            fields[number] = (kind, value)
    return fields, at + 1


def encode_struct(value: ThriftStruct) -> bytes:
    """Return the encoded struct."""
    out = bytearray()
    _put_struct(out, value)
    return bytes(out)


def field_value(fields: ThriftStruct, number: int, *default: Any) -> Any:
    """Return the value of a field, or the default if the field is missing.

    Raises:
        ValueError: If the field is missing and no default is given.
    """
    if number in fields:
        return fields[number][1]
    if default:
        return default[0]
    raise ValueError(f"the metadata lacks a field that parquet requires (number {number})")


def _decoder(kind: int) -> Callable[[bytes, int], tuple[Any, int]]:
    try:
        return _DECODERS[kind]
    except KeyError:
        raise ValueError(f"the type {kind} of Thrift's compact protocol does not occur in parquet") from None


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    if value < _CONTINUED:
        return (value >> 1) ^ -(value & 1), at + 1
    value, at = decode_length(data, at)
    return (value >> 1) ^ -(value & 1), at


def decode_length(data: bytes, at: int) -> tuple[int, int]:
    """Return the unsigned integer at position ``at``, and the position after it.

    Raises:
        ValueError: If no byte ends the integer.
    """
    byte = data[at]
    at += 1
    if byte < _CONTINUED:
        return byte, at
    result, shift = byte & 0x7F, 7
    for byte in data[at : at + MOST_INTEGER_BYTES - 1]:
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < _CONTINUED:
            return result, at
        shift += 7
    raise ValueError(f"an integer has more than {MOST_INTEGER_BYTES} bytes")


def _binary(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = decode_length(data, at)
    if at + size > len(data):
        raise IndexError("the bytes end within a text")
    return data[at : at + size], at + size


def _list(data: bytes, at: int) -> tuple[List, int]:
    kind, size = data[at] & 15, data[at] >> 4
    at += 1
    if size == _LONG_LIST:
        size, at = decode_length(data, at)
    # No element takes less than a byte.
    if at + size > len(data):
        raise IndexError("the bytes end within a list")
    decode = _boolean if kind <= FALSE else _decoder(kind)
    items = []
    for _ in range(size):
        item, at = decode(data, at)
        items.append(item)
    return List(kind, items), at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == TRUE, at + 1


def _byte(data: bytes, at: int) -> tuple[int, int]:
    return data[at], at + 1


def _double(data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from("<d", data, at)[0], at + 8


_DECODERS: Final[dict[int, Callable[[bytes, int], tuple[Any, int]]]] = {
    BYTE: _byte,
    I16: _integer,
    I32: _integer,
    I64: _integer,
    DOUBLE: _double,
    BINARY: _binary,
    LIST: _list,
    SET: _list,
    STRUCT: decode_struct,
}


def _put_struct(out: bytearray, fields: ThriftStruct) -> None:
    last = 0
    for number, (kind, value) in fields.items():
        written = FALSE if kind == TRUE and not value else kind
        if 0 < number - last <= _LARGEST_DELTA:
            out.append((number - last) << 4 | written)
        else:
            out.append(written)
            _put_integer(out, number)
        last = number
        if kind != TRUE:
            _ENCODERS[kind](out, value)
    out.append(0)


def _put_integer(out: bytearray, value: int) -> None:
    _put_length(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _put_length(out: bytearray, value: int) -> None:
    while value >= _CONTINUED:
        out.append(value & 0x7F | _CONTINUED)
        value >>= 7
    out.append(value)


def _put_binary(out: bytearray, value: bytes) -> None:
    _put_length(out, len(value))
    out += value


def _put_list(out: bytearray, value: List) -> None:
    if len(value.items) < _LONG_LIST:
        out.append(len(value.items) << 4 | value.kind)
    else:
        out.append(_LONG_LIST << 4 | value.kind)
        _put_length(out, len(value.items))
    put = _put_boolean if value.kind <= FALSE else _ENCODERS[value.kind]
    for item in value.items:
        put(out, item)


def _put_boolean(out: bytearray, value: bool) -> None:  # noqa: FBT001 - the value to encode
    out.append(TRUE if value else FALSE)


def _put_byte(out: bytearray, value: int) -> None:
    out.append(value)


def _put_double(out: bytearray, value: float) -> None:
    out += struct.pack("<d", value)


_ENCODERS: Final[dict[int, Callable[[bytearray, Any], None]]] = {
    BYTE: _put_byte,
    I16: _put_integer,
    I32: _put_integer,
    I64: _put_integer,
    DOUBLE: _put_double,
    BINARY: _put_binary,
    LIST: _put_list,
    SET: _put_list,
    STRUCT: _put_struct,
}
