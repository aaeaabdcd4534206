"""Readers of a forge's JSON answers, which check the type of each value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from parquetry.compiler.review.forge import ForgeError
from parquetry.runtime.spec.git_commit import commit_named
from parquetry.text.printable import quoted

_Read = TypeVar("_Read")


def read(forge: str, what: str, document: Any, reader: Callable[[Any], _Read]) -> _Read:
    """Return what ``reader`` makes of a JSON document; ``what`` names the document in errors.

    Raises:
        ForgeError: if the reader finds a value missing or of the wrong type.

    """
    try:
        return reader(document)
    except (KeyError, TypeError, ValueError) as error:
        raise ForgeError(
            "{forge}'s answer about {subject} does not have the documented form ({error}: {reason}); "
            "check the address of the API",
            forge=forge,
            subject=what,
            error=type(error).__name__,
            reason=quoted(str(error)),
        ) from error


def text_at(entry: Any, *names: str) -> str:
    """Return the string at a path of keys; raise TypeError for another type."""
    value = value_at(entry, *names)
    if not isinstance(value, str):
        raise TypeError(".".join(names))
    return value


def value_at(entry: Any, *names: str) -> Any:
    """Return the value at a path of keys, which may be null; raise KeyError if it is missing."""
    for name in names:
        if not isinstance(entry, dict):
            raise TypeError(name)
        entry = entry[name]
    return entry


def number_at(entry: Any, name: str = "number") -> int:
    """Return the integer at a key; raise TypeError for another type."""
    value = value_at(entry, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(name)
    return value


def commit_of(value: Any) -> str:
    """Return a value if it is a full commit hash; raise ValueError if not."""
    commit = commit_named(value)
    if commit is None:
        raise ValueError("no commit")
    return commit


def moment_at(entry: Any, name: str) -> datetime:
    """Return the time at a key; raise ValueError if it has no time zone."""
    moment = datetime.fromisoformat(text_at(entry, name))
    if moment.tzinfo is None:
        raise ValueError(name)
    return moment
