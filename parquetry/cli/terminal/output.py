"""The output of commands: results go to stdout, everything else to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import click

from parquetry.cli.terminal.messages import write_message
from parquetry.cli.terminal.styles import printable, styled
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.terminal.values import printable_outcome
from parquetry.cli.terminal.wrap import wrap_lines
from parquetry.errors import ParquetryError
from parquetry.message import Text, texts
from parquetry.text.printable import json_text, without_commands, without_escapes

_Outcome_contra = TypeVar("_Outcome_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    """Colours for text, or none."""

    enabled: bool

    def bold(self, text: str) -> str:
        """Return the text emphasised."""
        return self._style(text, "bold")

    def dim(self, text: str) -> str:
        """Return the text as less important."""
        return self._style(text, "dim")

    def good(self, text: str) -> str:
        """Return the text as done, added or small enough."""
        return self._style(text, "green")

    def warn(self, text: str) -> str:
        """Return the text as in need of attention."""
        return self._style(text, "yellow")

    def bad(self, text: str) -> str:
        """Return the text as wrong, removed or blocked."""
        return self._style(text, "red")

    def _style(self, text: str, style: str) -> str:
        return styled(text, style) if self.enabled else text


class View(Protocol[_Outcome_contra]):
    """A rendering of one kind of outcome, as text and as JSON."""

    def text(self, outcome: _Outcome_contra, paint: Paint) -> str:
        """Return the outcome as text for people."""
        ...

    def json(self, outcome: _Outcome_contra) -> Any:
        """Return the outcome for scripts, as plain JSON values."""
        ...


def json_document(view: View[_Outcome_contra], outcome: _Outcome_contra) -> str:
    """Return the outcome's JSON as indented text."""
    return json_text(texts(view.json(outcome)), indent=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The user's choices for output; ``typed_options`` are added to the commands that answers name."""

    format: str = "text"
    color: str = "auto"
    quiet: bool = False
    verbose: bool = False
    log_format: str = "text"
    typed_options: TypedOptions = field(default_factory=TypedOptions)

    @property
    def paint(self) -> Paint:
        """The colours for stdout: enabled by --color, or on a terminal unless NO_COLOR is set."""
        automatic = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        return Paint(enabled=self.color == "always" or (self.color == "auto" and automatic))

    def show(self, view: View[_Outcome_contra], outcome: _Outcome_contra, *, verbatim: bool = False) -> None:
        """Write the outcome to stdout in the chosen format.

        Lines of text are wrapped to fit the terminal, unless the text is for programs: ``verbatim``.
        """
        if self.format == "json":
            click.echo(json_document(view, outcome))
        else:
            if verbatim:
                text = printable(view.text(outcome, self.paint), escaped=without_escapes)
            else:
                text = wrap_lines(
                    printable(
                        view.text(printable_outcome(outcome, self.typed_options.with_options), self.paint)
                    )
                )
            if text:  # a reader of `ls --format name` would take an empty line for a name
                click.echo(without_commands(text), color=self.paint.enabled)

    def note(self, message: Text, **facts: Any) -> None:
        """Report progress on stderr, unless --quiet is given."""
        if self.quiet:
            return
        write_message(self.typed_options.with_options(message), log_format=self.log_format, **facts)

    def ended(self, failure: ParquetryError | None) -> int:
        """Return the exit code of a command: 0, or that of the failure, which is reported on stderr."""
        if failure is None:
            return 0
        self.error(failure.message, exit_code=failure.exit_code)
        return failure.exit_code

    def ended_with(self, failures: Sequence[ParquetryError]) -> int:
        """Return the exit code of a command: 0, or that of the first failure; all are reported on stderr."""
        return next(iter([self.ended(failure) for failure in failures]), 0)

    def warn(self, message: Text, **facts: Any) -> None:
        """Report on stderr what needs attention although the command did its work."""
        text = self.typed_options.with_options(message)
        write_message(text, log_format=self.log_format, level="warning", **facts)

    def error(self, message: Text, **facts: Any) -> None:
        """Report on stderr why something failed."""
        write_message(
            self.typed_options.with_options(message), log_format=self.log_format, level="error", **facts
        )
