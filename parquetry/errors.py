"""Every failure that parquetry reports: the root, and by name the others, each defined beside what raises it.

``parquetry.errors.ConflictError`` and ``parquetry.ConflictError`` are one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar


class ParquetryError(Exception):
    """A failure with a cause the user can act on: what happened, where, and one remedy.

    Its arguments are the statements of its message. ``declared`` is the place in a table's spec of the SQL
    that failed, such as ``columns.day.generated``; None where it is about none. ``origin`` is file, line and
    column of that place, once somebody has looked it up in the project.

    ``exit_code`` is what the command line returns for it. Anything that is not a
    ``ParquetryError`` is a bug and exits 70.
    """

    exit_code: ClassVar[int] = 1
    declared: str | None = None
    origin: str | None = None

    def __str__(self) -> str:
        said = "; ".join(map(str, self.args))
        return f"{self.origin}: {said}" if self.origin else said

    def reword(self, change: Callable[[str], str]) -> None:
        """Put every statement as ``change`` gives it."""
        self.args = tuple(change(str(statement)) for statement in self.args)


@contextmanager
def failures_declared(path: str | None) -> Iterator[None]:
    """Failures of the block are about the SQL at this place of the spec, unless they name another."""
    try:
        yield
    except ParquetryError as failure:
        failure.declared = failure.declared or path
        raise


class UsageError(ParquetryError):
    """The values given do not make a request that can be carried out."""

    exit_code: ClassVar[int] = 2


HOMES = {
    **dict.fromkeys(
        (
            "ConflictError",
            "CorruptTableError",
            "ForeignTableError",
            "InvalidDataError",
            "KeyUnavailableError",
            "LockHeldError",
            "MissingJavaError",
            "MissingSourceError",
            "NotFoundError",
            "PartialFailureError",
            "SparkEndedError",
            "SparkStartError",
            "StalePlanError",
            "StaleTimelineError",
            "StorageError",
            "TableNotFoundError",
            "UnknownOutcomeError",
            "UnsupportedTableError",
        ),
        "parquetry.runtime.errors",
    ),
    "PartlyClusteredError": "parquetry.runtime.clustering.plan.execution",
    **dict.fromkeys(
        (
            "BlockedPlanError",
            "JobFailedError",
            "SpecError",
            "UnacceptableDriftError",
            "UnappliedError",
            "UnexpectedError",
            "UnknownTableError",
            "UnnamedPlaceError",
            "UnsavedResultsError",
        ),
        "parquetry.compiler.errors",
    ),
    "LinkInTheWayError": "parquetry.confined_folder",
    "SelectionError": "parquetry.project.model.selection",
    "UndeclaredVariableError": "parquetry.project.loading.project_file",
    "RevisionError": "parquetry.compiler.workspace.revisions",
}
"""Where the other errors that Python meets are defined; a module is imported when its error is asked for."""


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'parquetry.errors' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(["ParquetryError", "UsageError", *HOMES])
