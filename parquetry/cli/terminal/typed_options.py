"""The options of the project that were typed, which are added to the commands in messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from parquetry.message import Command, Phrase, Text, in_full
from parquetry.text import shell

_SELECTING: Final = frozenset({"plan", "apply", "run", "test", "drift"})
_WITHOUT_PROJECT: Final = frozenset({"init", "schema", "show", "fmt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedOptions:
    """The options of the project that the user typed.

    Those from environment variables are left out, as they apply to every command.

    ``base`` is the base of a branch that is planned as an untrusted one.
    """

    directory: Path | None = None
    target: str | None = None
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    base: str | None = None

    def into(self, *words: str) -> str:
        """Return the command line for the same project, target and tables, to type in the same directory."""
        return shell.line(*words, *self._options(words))

    def named(self, *words: str) -> str:
        """Return the command as :meth:`into` does, between backticks."""
        return shell.named(*words, *self._options(words))

    def _options(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return the options that the command with these words lacks."""
        options = (
            *(() if self.directory is None else (("--project", str(self.directory)),)),
            *(() if self.target is None else (("--target", self.target),)),
            *(("--select", value) for value in self.select),
            *(("--exclude", value) for value in self.exclude),
            *(("--var", f"{name}={value}") for name, value in self.variables),
        )
        untrusted = self.base is not None and words[1:2] == ("plan",) and "--untrusted" not in words
        base = ("--untrusted", *(("--base", self.base) if self.base else ())) if untrusted else ()
        return (*base, *(word for pair in options if pair[0] not in words for word in pair))

    def with_options(self, text: Text) -> str:
        """Return a text; if it is a message, its commands get the options that they lack."""
        return in_full(text, self.written)

    def written(self, part: Command | Phrase) -> str:
        """Return the text of a part of a message; a command gets the options that it lacks."""
        if isinstance(part, Phrase) or part.words[0] in _WITHOUT_PROJECT:
            return str(part)
        typed_options = self if part.words[0] in _SELECTING else self.without_selection()
        options = typed_options._options(("parquetry", *part.words))  # noqa: SLF001 - its own class
        return str(replace(part, words=(*part.words, *options)))

    def without_selection(self) -> TypedOptions:
        """Return the options without selectors, for a command that names its tables."""
        return replace(self, select=(), exclude=())

    def recipe(self, commands: tuple[str, ...]) -> tuple[str, ...]:
        """Return a recipe's commands, to type in the project's directory; parquetry's get the options."""
        there = replace(self.without_selection(), directory=None)
        return tuple(map(there._completed, commands))  # noqa: SLF001 - its own class

    def _completed(self, command: str) -> str:
        """Return a command of parquetry with the options that it lacks, another one as it is."""
        words = shell.words_of(command)
        if words is None or words[:1] != ("parquetry",):
            return command
        options = self._options(words)
        return f"{command} {shell.line(*options)}" if options else command
