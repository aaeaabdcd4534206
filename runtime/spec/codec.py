"""JSON files, and the strict conversion of frozen dataclasses to plain JSON values and back.

The names of fields are the keys. Reading refuses keys that the class does not have, and reports their place.
"""

from __future__ import annotations

import hashlib
import json
import re
import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from parquetry.errors import message_of
from parquetry.message import Message, texts
from parquetry.runtime.errors import CorruptTableError, InvalidDataError
from parquetry.text.html import html_table

MAX_DEPTH: Final = 200
"""The maximum number of nested objects and lists of a JSON text. Each nested struct takes four."""

_OMITTED: Final = "parquetry.omitted"


def omit(*values: object) -> Mapping[str, Any]:
    """Return the metadata of a field that is omitted from JSON while it has one of the values."""
    return MappingProxyType({_OMITTED: values})


OMIT_EMPTY: Final = omit(None, ())
"""The metadata of a field that is omitted from JSON while it is None or an empty tuple."""

_TOO_DEEP: Final = f"it has more than {MAX_DEPTH} levels of objects and lists"
_INT64_DIGITS: Final = 20
_LONG_NUMBER: Final = re.compile(r"\d{19}|\d[eE]\+?\d{3}")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BRIEF_TEXT = 60

_Record = TypeVar("_Record")
_Reader: TypeAlias = Callable[[object, str], Any]
"""Converts a JSON value. The text is its place for error messages."""


class Brief:
    """A record with a short ``repr``, and the same as a table in notebooks.

    Scalars are in full, collections as their size.

    Fields with their default value, and fields with ``repr=False``, are left out.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._shown())})"

    def _repr_html_(self) -> str:
        return html_table(type(self).__name__, self._shown())

    def _shown(self) -> list[tuple[str, str]]:
        return [
            (field.name, _brief(getattr(self, field.name)))
            for field in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
            if field.repr and getattr(self, field.name) != _default(field)
        ]


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _brief(value: object) -> str:
    if isinstance(value, Mapping | list | tuple | frozenset | set):
        return f"<{len(value)}>"
    if isinstance(value, BaseException) or (is_dataclass(value) and not isinstance(value, Brief)):
        return type(value).__name__
    text = repr(str(value) if isinstance(value, StrEnum | Message) else value)
    shortens = isinstance(value, str | Message) and len(text) > _BRIEF_TEXT
    return f"{text[:_BRIEF_TEXT]}..." if shortens else text


def to_json_value(value: Any, *, messages: bool = False) -> Any:
    """Return plain JSON values: dataclasses as objects by field name, tuples as lists, enums as text.

    Messages become their texts, or stay messages if ``messages``.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: to_json_value(getattr(value, name), messages=messages)
            for name, omitted in _written_fields(type(value))
            if not (omitted and getattr(value, name) in omitted)
        }
    if isinstance(value, StrEnum) or (isinstance(value, Message) and not messages):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json_value(member, messages=messages) for key, member in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [to_json_value(member, messages=messages) for member in value]
    return value


@cache
def _written_fields(record: type) -> tuple[tuple[str, tuple[object, ...]], ...]:
    """Return the names of the fields, each with the values that JSON omits."""
    return tuple((field.name, field.metadata.get(_OMITTED, ())) for field in fields(record))


def parsed_json(content: bytes | str) -> Any:
    """Return the value of an untrusted JSON text in UTF-8.

    Raises:
        ValueError: If the text is not JSON, or later steps could fail on it: duplicate keys in an object,
            more than :data:`MAX_DEPTH` levels, NaN and infinite numbers, integers of more than 64 bits,
            unpaired surrogates.

    """
    text = content if isinstance(content, str) else content.decode()
    hooks: dict[str, Any] = {"parse_constant": _refuse_constant, "object_pairs_hook": _unique}
    if _LONG_NUMBER.search(text):
        hooks |= {"parse_int": _integer, "parse_float": _finite}
    try:
        value = json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    if not isinstance(content, bytes) or _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def json_object(content: bytes, *, place: str) -> dict[str, Any]:
    """Return the JSON object in a file of the table.

    Raises:
        CorruptTableError: If the content is not a JSON object. The message starts with ``place``.

    """
    try:
        document = parsed_json(content)
    except ValueError as error:
        raise CorruptTableError(
            "{place}: not JSON ({error}); restore the file from a copy", place=place, error=message_of(error)
        ) from error
    if not isinstance(document, dict):
        raise CorruptTableError("{place}: not a JSON object; restore the file from a copy", place=place)
    return document


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _integer(digits: str) -> int:
    # Python refuses to parse more than some thousand digits, and is slow with slightly fewer.
    if len(digits) > _INT64_DIGITS or not -(1 << 63) <= int(digits) < 1 << 63:
        raise ValueError(f"{digits[:20]}... does not fit into 64 bits")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:20]} is out of the range of a double")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:_BRIEF_TEXT]!r} is a duplicate")
    return members


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [part for part in level if isinstance(part, dict | list)]
        if not level:
            return
        nested = (part.values() if isinstance(part, dict) else part for part in level)
        level = [member for members in nested for member in members]
    raise ValueError(_TOO_DEEP)


def from_json_value(record: type[_Record], value: object, *, place: str) -> _Record:
    """Return the dataclass from the values of :func:`to_json_value`. Fields with a default may be missing.

    Raises:
        InvalidDataError: If a key is unknown or missing, or a value has the wrong type. The message has the
            place, such as ``spec.columns[2].type``, the value and the expected type.

    """
    if not isinstance(value, Mapping):
        raise _unexpected(value, "an object", place)
    known = {field.name: field for field in fields(record)}  # type: ignore[arg-type]  # the bound would leak into every caller
    unknown = sorted(set(value) - set(known), key=str)
    if unknown:
        raise InvalidDataError(
            "{place}.{key}: unknown key; {record} has {known_keys}. A newer parquetry may have written "
            "it: upgrade",
            place=place,
            key=unknown[0],
            record=record.__name__,
            known_keys=[*known],
        )
    readers = _readers(record)  # type: ignore[arg-type]  # a class can be hashed
    arguments = {}
    for name, field in known.items():
        if name in value:
            arguments[name] = readers[name](value[name], f"{place}.{name}")
        elif _is_required(field):
            raise InvalidDataError("{place}.{key}: missing", place=place, key=name)
    return record(**arguments)


@cache
def _readers(record: type) -> Mapping[str, _Reader]:
    """Return the reader of each field. Annotations are texts, which are evaluated once for each class."""
    return {name: _reader(hint) for name, hint in get_type_hints(record).items()}


def _reader(hint: Any) -> _Reader:  # noqa: PLR0911 - a case, an answer
    if hint is Any:
        return lambda value, _: value
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (branch for branch in arguments if branch not in (type(None), Message))
        read = _read_text if Message in arguments else _reader(inner)
        if type(None) not in arguments:
            return read
        return lambda value, place: None if value is None else read(value, place)
    if origin is tuple:
        return partial(_read_list, _reader(arguments[0]))
    if origin is not None:
        return partial(_read_object, _reader(arguments[1]))
    if is_dataclass(hint):
        return lambda value, place: from_json_value(hint, value, place=place)  # type: ignore[arg-type]  # is_dataclass leaves the instance in
    return partial(_read_enum if issubclass(hint, StrEnum) else _read_scalar, hint)


def _read_list(read: _Reader, value: object, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _unexpected(value, "a list", place)
    return tuple(read(member, f"{place}[{index}]") for index, member in enumerate(value))


def _read_object(read: _Reader, value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _unexpected(value, "an object", place)
    return {str(key): read(member, f"{place}.{key}") for key, member in value.items()}


def _read_enum(hint: type[StrEnum], value: Any, place: str) -> StrEnum:
    if value not in list(hint):
        raise _unexpected(value, f"one of {', '.join(hint)}", place)
    return hint(value)


def _read_scalar(hint: type, value: object, place: str) -> object:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise _unexpected(value, _TYPE_NAMES.get(hint, hint.__name__), place)
    return value


def _read_text(value: object, place: str) -> object:
    """Return a text, or the message in its place (:func:`parquetry.message.with_commands`)."""
    return value if isinstance(value, Message) else _read_scalar(str, value, place)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _unexpected(value: object, expected: str, place: str) -> InvalidDataError:
    return InvalidDataError(
        "{place}: {expected} was expected, not {found:.80}",
        place=place,
        expected=expected,
        found=repr(value),
    )


_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces, so that equal values give equal texts."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=texts
    )


def digest_of(value: Any) -> str:
    """Return ``sha256:`` and the hexadecimal digest of the value's canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()
