"""What was typed to say what a command is about, carried into the commands that it prints."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

_NAMED: Final = re.compile(r"`(parquetry ([a-z]+)[^`\n]*)`")
_SELECTING: Final = frozenset({"plan", "apply", "run", "drift"})
_WITHOUT_PROJECT: Final = frozenset({"init", "schema", "show", "fmt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """The options of the project that were typed; those from environment variables hold for any command.

    ``base`` is the base of a branch that is planned as an untrusted one.
    """

    directory: Path | None = None
    target: str | None = None
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    base: str | None = None

    def into(self, command: str) -> str:
        """The command, to be typed in the same place, for the same project, target and tables."""
        options = (
            *(() if self.directory is None else (("--project", str(self.directory)),)),
            *(() if self.target is None else (("--target", self.target),)),
            *(("--select", value) for value in self.select),
            *(("--exclude", value) for value in self.exclude),
            *(("--var", f"{name}={value}") for name, value in self.variables),
        )
        there = command.split()
        if self.base is not None and there[1:2] == ["plan"] and "--untrusted" not in there:
            command = " ".join(
                [command, "--untrusted", *(["--base", shlex.quote(self.base)] if self.base else [])]
            )
        return " ".join([command, *(shlex.join(pair) for pair in options if pair[0] not in there)])

    def told(self, text: str) -> str:
        """The text with the commands that it names between backticks made to be about the same."""

        def carrying(named: re.Match[str]) -> str:
            command, verb = named.groups()
            if verb in _WITHOUT_PROJECT:
                return named[0]
            carried = self if verb in _SELECTING else self.without_selection()
            return f"`{carried.into(command)}`"

        return _NAMED.sub(carrying, text)

    def without_selection(self) -> Carried:
        """For a command that is about tables of its own."""
        return replace(self, select=(), exclude=())

    def recipe(self, commands: tuple[str, ...]) -> tuple[str, ...]:
        """A recipe's commands, to be typed in the project's directory: ours for the same target."""
        there = replace(self.without_selection(), directory=None)
        return tuple(there.into(line) if line.startswith("parquetry ") else line for line in commands)
