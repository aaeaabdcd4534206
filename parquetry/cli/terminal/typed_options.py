"""What was typed to say what a command is about, carried into the commands that it prints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from parquetry import shell
from parquetry.message import Command, Phrase, written

_SELECTING: Final = frozenset({"plan", "apply", "run", "test", "drift"})
_WITHOUT_PROJECT: Final = frozenset({"init", "schema", "show", "fmt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedOptions:
    """The options of the project that were typed; those from environment variables hold for any command.

    ``base`` is the base of a branch that is planned as an untrusted one.
    """

    directory: Path | None = None
    target: str | None = None
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    base: str | None = None

    def into(self, *words: str) -> str:
        """The command, to be typed in the same place, for the same project, target and tables."""
        return shell.line(*words, *self._options(words))

    def named(self, *words: str) -> str:
        """The same between backticks."""
        return shell.named(*words, *self._options(words))

    def _options(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """What the command with these words lacks."""
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

    def with_options(self, text: str) -> str:
        """The text; of a message the commands are about the same."""
        return written(text, self.written)

    def written(self, part: Command | Phrase) -> str:
        """The part of a message as it is printed: a command with the options that it lacks."""
        if isinstance(part, Phrase) or part.words[0] in _WITHOUT_PROJECT:
            return str(part)
        typed_options = self if part.words[0] in _SELECTING else self.without_selection()
        options = typed_options._options(("parquetry", *part.words))  # noqa: SLF001 - its own class
        return str(replace(part, words=(*part.words, *options)))

    def without_selection(self) -> TypedOptions:
        """For a command that is about tables of its own."""
        return replace(self, select=(), exclude=())

    def recipe(self, commands: tuple[str, ...]) -> tuple[str, ...]:
        """A recipe's commands, to be typed in the project's directory: ours for the same target."""
        there = replace(self.without_selection(), directory=None)
        return tuple(map(there._completed, commands))  # noqa: SLF001 - its own class

    def _completed(self, command: str) -> str:
        words = shell.words_of(command)
        if words is None or words[:1] != ("parquetry",):
            return command
        options = self._options(words)
        return f"{command} {shell.line(*options)}" if options else command
