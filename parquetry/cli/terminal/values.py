"""Outcomes prepared for text output: every text of others in them is on one line.

Views join such texts into lines. A line end within one, in a description or the name of a file, would begin a
line that looks like one of parquetry's.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from operator import is_
from typing import Any, TypeVar

from parquetry.message import Message, Text, in_full
from parquetry.text.printable import quoted

_Outcome = TypeVar("_Outcome")


def printable_outcome(outcome: _Outcome, with_options: Callable[[Text], str] | None = None) -> _Outcome:
    """Return the outcome; each text with invisible characters in it is quoted and escaped.

    ``with_options`` first turns each message into text; without it messages stay messages. If nothing
    changes, the result is the same object. Errors in the outcome stay as they are.
    """
    shown: _Outcome = _shown(outcome, with_options, {})
    return shown


def _shown(value: Any, with_options: Callable[[Text], str] | None, seen: dict[int, Any]) -> Any:
    """Return the value; ``seen`` has the converted parts by their ids, so that each is converted once."""
    if isinstance(value, Message):
        text = (with_options or in_full)(value)
        is_kept = with_options is None and text.isprintable()
        return value if is_kept else _shown(text, with_options, seen)
    if isinstance(value, str):
        return value if value.isprintable() or isinstance(value, Enum) else quoted(value)
    names = _fields_of(type(value))  # type: ignore[arg-type]  # a type is hashable
    if names is None and not isinstance(value, Mapping | tuple | list):
        return value
    if id(value) not in seen:
        seen[id(value)] = _shown_parts(value, names, with_options, seen)
    return seen[id(value)]


def _shown_parts(
    value: Any,
    names: tuple[str, ...] | None,
    with_options: Callable[[Text], str] | None,
    seen: dict[int, Any],
) -> Any:
    """Return a compound value with its parts converted; the same object if no part changes."""
    if names is not None:
        fields = ((name, getattr(value, name)) for name in names)
        changed = {name: new for name, old in fields if (new := _shown(old, with_options, seen)) is not old}
        return _changed(value, changed) if changed else value
    if isinstance(value, Mapping):
        made = {
            _shown(key, with_options, seen): _shown(item, with_options, seen) for key, item in value.items()
        }
        return value if _same(made.items(), value.items()) else made
    items = [_shown(item, with_options, seen) for item in value]
    if all(map(is_, items, value)):
        return value
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


@cache
def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the names of a dataclass's fields, or None for another type."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def _same(made: Any, old: Any) -> bool:
    """Return whether two sequences of key and value consist of the same objects."""
    return all(a is c and b is d for (a, b), (c, d) in zip(made, old, strict=True))


def _changed(value: Any, changed: Mapping[str, Any]) -> Any:
    """Return a copy of a dataclass with other values of some fields, even if it is frozen."""
    made = copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(made, name, new)
    return made
