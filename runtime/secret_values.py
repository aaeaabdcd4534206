"""What secret variables hold, kept out of messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from parquetry.runtime.personal_data import MASK

_PREFIX: Final = "PARQUETRY_SECRET_"
_SHORTEST: Final = 4
_HIDDEN: Final[set[str]] = set()


def hide(names: Iterable[str]) -> None:
    """Keep the values of these variables out of messages too, from now on: they were read for credentials."""
    _HIDDEN.update(names)


def is_hidden(name: str) -> bool:
    """Whether the value of a variable may not be seen."""
    return name.startswith(_PREFIX) or name in _HIDDEN


def without_secrets(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text with ``***`` for the value of every variable that may not be seen.

    Values of fewer than four characters stay: other words would be mistaken for them.
    """
    values = {value for name, value in environment.items() if is_hidden(name)}
    for value in sorted((v for v in values if len(v) >= _SHORTEST), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text
