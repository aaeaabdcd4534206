"""What a forge answers, of which every value is checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from parquetry.compiler.review.forge import ForgeError
from parquetry.printable import quoted
from parquetry.runtime.spec.git_commit import commit_named

_Read = TypeVar("_Read")


def read(forge: str, what: str, document: Any, reader: Callable[[Any], _Read]) -> _Read:
    """What ``reader`` makes of a document; ForgeError where something is missing or of another kind."""
    try:
        return reader(document)
    except (KeyError, TypeError, ValueError) as error:
        raise ForgeError(
            f"{forge}'s answer about {what} is not of the form that its API has ({type(error).__name__}: "
            f"{quoted(str(error))}); look at the address of the API"
        ) from error


def text_at(entry: Any, *names: str) -> str:
    """A text, at names one below the other."""
    value = value_at(entry, *names)
    if not isinstance(value, str):
        raise TypeError(".".join(names))
    return value


def value_at(entry: Any, *names: str) -> Any:
    """Any value that is there, maybe null."""
    for name in names:
        if not isinstance(entry, dict):
            raise TypeError(name)
        entry = entry[name]
    return entry


def number_at(entry: Any, name: str = "number") -> int:
    """A whole number."""
    value = value_at(entry, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(name)
    return value


def commit_of(value: Any) -> str:
    """The whole name of a commit."""
    commit = commit_named(value)
    if commit is None:
        raise ValueError("no commit")
    return commit


def moment_at(entry: Any, name: str) -> datetime:
    """A time with its zone."""
    moment = datetime.fromisoformat(text_at(entry, name))
    if moment.tzinfo is None:
        raise ValueError(name)
    return moment
