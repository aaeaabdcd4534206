"""JSON files, and frozen dataclasses to plain JSON values and back, strictly.

Field names are the keys. Reading refuses what the class does not have, and says where.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from parquetry.runtime.errors import CorruptTableError, InvalidDataError

_BRIEF_TEXT = 60

_Record = TypeVar("_Record")


class Brief:
    """A record that prints as one short line: scalars as they are, collections by their size.

    Fields that hold their default are left out, and so are those that ``repr=False`` hides.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={_brief(getattr(self, field.name))}"
            for field in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
            if field.repr and getattr(self, field.name) != _default(field)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _brief(value: object) -> str:
    if isinstance(value, Mapping | list | tuple | frozenset | set):
        return f"<{len(value)}>"
    if isinstance(value, BaseException) or (is_dataclass(value) and not isinstance(value, Brief)):
        return type(value).__name__
    text = repr(str(value) if isinstance(value, StrEnum) else value)
    shortens = isinstance(value, str) and len(text) > _BRIEF_TEXT
    return f"{text[:_BRIEF_TEXT]}..." if shortens else text


def to_json_value(value: Any) -> Any:
    """Plain JSON values: every field of a dataclass by its name, tuples as lists, enums as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json_value(member) for key, member in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [to_json_value(member) for member in value]
    return value


def json_object(content: bytes, *, place: str) -> dict[str, Any]:
    """The JSON object that a file of the table holds; CorruptTableError names ``place`` for anything else."""
    try:
        document = json.loads(content)
    except ValueError as error:
        raise CorruptTableError(f"{place}: not JSON ({error}); restore the file from a copy") from error
    if not isinstance(document, dict):
        raise CorruptTableError(f"{place}: no JSON object; restore the file from a copy")
    return document


def from_json_value(record: type[_Record], value: object, *, place: str) -> _Record:
    """The dataclass that :func:`to_json_value` wrote; fields with a default may be missing.

    InvalidDataError names the place (such as ``spec.columns[2].type``), the value and what was
    expected, for unknown keys, missing ones and values of another type.
    """
    if not isinstance(value, Mapping):
        raise _unexpected(value, "an object", place)
    known = {field.name: field for field in fields(record)}  # type: ignore[arg-type]  # the bound would leak into every caller
    unknown = sorted(set(value) - set(known), key=str)
    if unknown:
        raise InvalidDataError(
            f"{place}.{unknown[0]}: unknown key; {record.__name__} has {', '.join(known)}. "
            f"A newer parquetry may have written it: upgrade"
        )
    hints = _hints(record)  # type: ignore[arg-type]  # a class can be hashed
    arguments = {}
    for name, field in known.items():
        if name in value:
            arguments[name] = _decode(hints[name], value[name], f"{place}.{name}")
        elif _is_required(field):
            raise InvalidDataError(f"{place}.{name}: missing")
    return record(**arguments)


@cache
def _hints(record: type) -> Mapping[str, Any]:
    """The types of the fields, whose annotations are text and evaluated anew by every question."""
    return get_type_hints(record)


def _decode(hint: Any, value: object, place: str) -> Any:
    if hint is Any:
        return value
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (branch for branch in arguments if branch is not type(None))
        return None if value is None else _decode(inner, value, place)
    if origin is not None:
        return _decode_collection(origin, arguments, value, place)
    if is_dataclass(hint):
        return from_json_value(hint, value, place=place)  # type: ignore[arg-type]  # is_dataclass leaves the instance in
    return _decode_scalar(hint, value, place)


def _decode_collection(origin: Any, arguments: tuple[Any, ...], value: object, place: str) -> Any:
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _unexpected(value, "a list", place)
        return tuple(_decode(arguments[0], member, f"{place}[{index}]") for index, member in enumerate(value))
    if not isinstance(value, Mapping):
        raise _unexpected(value, "an object", place)
    return {str(key): _decode(arguments[1], member, f"{place}.{key}") for key, member in value.items()}


def _decode_scalar(hint: Any, value: object, place: str) -> Any:
    if issubclass(hint, StrEnum):
        if value not in list(hint):
            raise _unexpected(value, f"one of {', '.join(hint)}", place)
        return hint(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise _unexpected(value, _WORDS.get(hint, hint.__name__), place)
    return value


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _unexpected(value: object, expected: str, place: str) -> InvalidDataError:
    return InvalidDataError(f"{place}: {expected} was expected, not {value!r:.80}")


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
