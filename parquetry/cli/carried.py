"""What was typed to say what a command is about, carried into the commands that it prints."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """The options of the project that were typed; those from environment variables hold for any command."""

    directory: Path | None = None
    target: str | None = None
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    def into(self, command: str) -> str:
        """The command, to be typed in the same place, for the same project, target and tables."""
        options = (
            *(() if self.directory is None else ("--project", str(self.directory))),
            *(() if self.target is None else ("--target", self.target)),
            *(word for value in self.select for word in ("--select", value)),
            *(word for value in self.exclude for word in ("--exclude", value)),
            *(word for name, value in self.variables for word in ("--var", f"{name}={value}")),
        )
        return f"{command} {shlex.join(options)}" if options else command

    def without_selection(self) -> Carried:
        """For a command that is about tables of its own."""
        return replace(self, select=(), exclude=())

    def recipe(self, commands: tuple[str, ...]) -> tuple[str, ...]:
        """A recipe's commands, to be typed in the project's directory: ours for the same target."""
        there = replace(self.without_selection(), directory=None)
        return tuple(there.into(line) if line.startswith("parquetry ") else line for line in commands)
