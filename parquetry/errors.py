"""Every failure that parquetry reports: the root, and by name the others, each defined beside what raises it.

``parquetry.errors.ConflictError`` and ``parquetry.ConflictError`` are one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

from parquetry.message import Message, Value, Writer, joined, written


class ParquetryError(Exception):
    """A failure with a cause the user can act on: what happened, where, and one remedy.

    Its arguments are the statements of its message. ``writer`` writes the parts of messages among them for
    whoever is shown the failure: the face through which it leaves sets it. ``declared`` is the place in a
    table's spec of the SQL that failed, such as ``columns.day.generated``; None where it is about none.
    ``origin`` is file, line and column of that place, once somebody has looked it up in the project.

    ``exit_code`` is what the command line returns for it. Anything that is not a
    ``ParquetryError`` is a bug and exits 70.
    """

    exit_code: ClassVar[int] = 1
    declared: str | None = None
    origin: str | None = None
    writer: Writer | None = None

    def __str__(self) -> str:
        return written(self.message, self.writer)

    @property
    def message(self) -> str:
        """The statements as one text, a message where one of them is: for texts that hold this one."""
        place = (f"{self.origin}: ",) if self.origin else ()
        return joined("", (*place, joined("; ", map(_text, self.args))))

    def reword(self, change: Callable[[str], str]) -> None:
        """Put every statement, a message among them whole, as ``change`` gives it."""
        self.args = tuple(change(_text(statement)) for statement in self.args)


def message_of(failure: BaseException) -> str:
    """What any failure says; the words of one that is none of ours are a value."""
    if isinstance(failure, ParquetryError):
        return failure.message
    if isinstance(failure, OSError) and failure.errno is not None:
        where = (": ", Value.uri(str(failure.filename), quoted=True)) if failure.filename is not None else ()
        return Message(f"[Errno {failure.errno}] {failure.strerror}", *where)
    if type(failure).__module__.startswith("parquetry."):
        return joined("; ", map(_text, failure.args))
    return Message(Value.quote(str(failure), type(failure).__name__))


def _text(statement: object) -> str:
    return statement if isinstance(statement, str) else str(statement)


@contextmanager
def failures_declared(path: str | None) -> Iterator[None]:
    """Failures of the block are about the SQL at this place of the spec, unless they name another."""
    try:
        yield
    except ParquetryError as failure:
        failure.declared = failure.declared or path
        raise


class UsageError(ParquetryError):
    """The values given do not make a request that can be executed."""

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
            "LostTaskError",
            "MissingJavaError",
            "MissingSourceError",
            "NotFoundError",
            "PartialFailureError",
            "SourceChangedError",
            "SparkEndedError",
            "SparkStartError",
            "StalePlanError",
            "StaleTimelineError",
            "StorageError",
            "TableNotFoundError",
            "TooLargeError",
            "UnknownOutcomeError",
            "UnsupportedSessionError",
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
