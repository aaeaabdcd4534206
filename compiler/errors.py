"""Errors between the project's files and a table."""

from __future__ import annotations

from typing import ClassVar

from parquetry.errors import ParquetryError
from parquetry.message import Field, Text, message
from parquetry.project.diagnostics.model import Diagnostic, render_text


class SpecError(ParquetryError):
    """The project's files have errors. ``diagnostics`` contains all of them, and the message shows them."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], *, files: int) -> None:
        super().__init__(message(render_text(diagnostics, files=files).rstrip("\n")))
        self.diagnostics = diagnostics
        self.files = files


class UnknownTableError(ParquetryError):
    """The project has no table of that name."""

    exit_code: ClassVar[int] = 2


class UnappliedError(ParquetryError):
    """A command that uses applied records found none."""


class JobFailedError(ParquetryError):
    """A job in another process failed. Its exit code becomes the exit code of this error."""

    def __init__(
        self, sentence: Text, *, exit_code: int, declared: str | None = None, **fields: Field
    ) -> None:
        super().__init__(sentence, **fields)
        self.exit_code = exit_code  # type: ignore[misc]  # this one is only known now
        self.declared = declared


class UnexpectedError(ParquetryError):
    """A bug ended a job. The message names the file with its report."""

    exit_code: ClassVar[int] = 70


class UnsavedResultsError(ParquetryError):
    """A run ended, but its results could not be written. The message names the file."""


class MissingPackageError(ParquetryError):
    """A command needs a package that only an extra of parquetry installs."""


class BlockedPlanError(ParquetryError):
    """The plan contains changes that must not be applied."""


class UnnamedPlaceError(ParquetryError):
    """An untrusted branch names something that its base does not, so it is not read."""


class UnacceptableDriftError(ParquetryError):
    """A table changed in a way that a spec cannot declare."""
