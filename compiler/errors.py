"""What can go wrong between the project's files and a table."""

from __future__ import annotations

from typing import ClassVar

from parquetry.errors import ParquetryError
from parquetry.project.diagnostics.model import Diagnostic, render_text


class SpecError(ParquetryError):
    """The project's files have errors; ``diagnostics`` holds them all, the message shows them."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], *, files: int) -> None:
        super().__init__(render_text(diagnostics, files=files).rstrip("\n"))
        self.diagnostics = diagnostics
        self.files = files


class UnknownTableError(ParquetryError):
    """There is no such table in the project."""

    exit_code: ClassVar[int] = 2


class UnappliedError(ParquetryError):
    """A command that acts on applied records found none."""


class JobFailedError(ParquetryError):
    """A job in another process failed; its exit code is this error's."""

    def __init__(self, *statements: str, exit_code: int, declared: str | None = None) -> None:
        super().__init__(*statements)
        self.exit_code = exit_code  # type: ignore[misc]  # this one is only known now
        self.declared = declared


class UnexpectedError(ParquetryError):
    """A bug ended a job; the message names the file with its report."""

    exit_code: ClassVar[int] = 70


class UnsavedResultsError(ParquetryError):
    """A run is over, and its results could not be written down; the message names the file."""


class BlockedPlanError(ParquetryError):
    """The plan holds changes that may not be applied."""


class UnnamedPlaceError(ParquetryError):
    """An untrusted branch names what its base does not: it is not looked at."""


class UnacceptableDriftError(ParquetryError):
    """A table has changed in a way that no spec can say."""
