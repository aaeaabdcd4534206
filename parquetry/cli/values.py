"""Outcomes as text shows them: every text of others in them on one line.

Views put lines together out of such texts. An end of a line within one, in a description or the name of
a file, would begin a line that looks like one of ours.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from parquetry.printable import quoted

_Outcome = TypeVar("_Outcome")


def shown_values(outcome: _Outcome) -> _Outcome:
    """The outcome with each text that holds what cannot be seen in quotes, with escapes.

    The same object where there is no such text. Errors in it stay as they are.
    """
    shown: _Outcome = _shown(outcome)
    return shown


def _shown(value: Any) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return value if value.isprintable() else quoted(value)
    if isinstance(value, Mapping):
        made = {_shown(key): _shown(item) for key, item in value.items()}
        return value if _same(made.items(), value.items()) else made
    if isinstance(value, tuple | list):
        return _shown_items(value)
    is_data = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return _shown_fields(value) if is_data else value


def _shown_items(value: Any) -> Any:
    items = [_shown(item) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _same(made: Any, old: Any) -> bool:
    return all(a is c and b is d for (a, b), (c, d) in zip(made, old, strict=True))


def _shown_fields(value: Any) -> Any:
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    changed = {name: new for name, old in fields.items() if (new := _shown(old)) is not old}
    if not changed:
        return value
    made = copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(made, name, new)
    return made
