"""Messages for users of Python: commands and phrases in them become calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from parquetry.errors import ParquetryError
from parquetry.message import Command, Message, Phrase, Text, in_full, with_parts

_Outcome = TypeVar("_Outcome")


def in_python(text: Text) -> str:
    """Return the text; in a message, commands become calls where Python has one."""
    return in_full(text, called)


def called(part: Command | Phrase) -> str:
    """Return the text of a command or phrase for a reader who calls functions instead of typing commands."""
    if isinstance(part, Phrase):
        return part.called
    call = _call(part.words)
    if call is None:
        return str(part)
    if not part.imperative:
        return call
    return f"call {call} on the project" if part.words[0] in ("apply", "run") else f"call {call}"


def _call(words: tuple[str, ...]) -> str | None:  # noqa: PLR0911 - a table
    match words:
        case ("apply", *_):
            return "plan().apply()"
        case ("run", *_):
            return "run()"
        case ("plan", "--out", *_):
            return "Plan.save()"
        case ("timeline" | "inspect" as report, *_):
            return f"Table.{report}()"
        case ("doctor", "--accept-loss", *_):
            return "Table.accept_loss()"
        case ("service", "clean", *_):
            return "Table.clean()"
        case ("service", "rollback", _, instant):
            return f"Table.rollback({instant!r})"
        case ("service", "savepoint", _, "--delete", instant):
            return f"Table.delete_savepoint({instant!r})"
        case _:
            return None


def with_texts(outcome: _Outcome) -> _Outcome:
    """Return the outcome of a call with a text for each message in it; commands in these texts are calls."""
    return with_parts(outcome, lambda part, _: in_python(part) if isinstance(part, Message) else part)


@contextmanager
def python_messages() -> Iterator[None]:
    """Yield; the message of a failure in the block names Python calls instead of commands."""
    try:
        yield
    except ParquetryError as failure:
        found = getattr(failure, "diagnostics", None)
        if found is None:
            failure.writer = called
            raise
        from parquetry.compiler.errors import SpecError  # noqa: PLC0415 - only where it was raised

        diagnostics = (
            replace(d, summary=in_python(d.summary), hint=d.hint and in_python(d.hint)) for d in found
        )
        raise SpecError(tuple(diagnostics), files=getattr(failure, "files", 0)) from None
