"""The root of all errors that parquetry raises, and the other errors by name.

Each error is defined beside the code that raises it. ``parquetry.errors.ConflictError`` and
``parquetry.ConflictError`` are one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

from parquetry.message import Message, Value, Writer, joined, written


class ParquetryError(Exception):
    """A failure with a cause that the user can act on: what happened, where, and one remedy.

    Its arguments are the statements of its message. ``writer`` turns commands and phrases in them into text
    for the reader; the interface through which the failure leaves (command line or Python) sets it.
    ``declared`` is the path in a table's spec of the SQL that failed, such as ``columns.day.generated``, or
    None if no SQL failed. ``origin`` is the file, line and column of that SQL, once they were looked up in
    the project.

    ``exit_code`` is what the command line returns for the failure. An exception that is not a
    ``ParquetryError`` is a bug and exits with 70.
    """

    exit_code: ClassVar[int] = 1
    declared: str | None = None
    origin: str | None = None
    writer: Writer | None = None

    def __str__(self) -> str:
        return written(self.message, self.writer)

    @property
    def message(self) -> str:
        """The statements as one text, to be part of another text. It is a `Message` if a statement is one."""
        place = (f"{self.origin}: ",) if self.origin else ()
        return joined("", (*place, joined("; ", map(_text, self.args))))

    def reword(self, change: Callable[[str], str]) -> None:
        """Replace every statement by the result of ``change``."""
        self.args = tuple(change(_text(statement)) for statement in self.args)


def message_of(failure: BaseException) -> str:
    """Return the message of any exception; the text of a foreign exception becomes one maskable value."""
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
def failures_at(path: str | None) -> Iterator[None]:
    """Yield; a failure in the block gets this path in the spec as its ``declared``, unless it has one."""
    try:
        yield
    except ParquetryError as failure:
        failure.declared = failure.declared or path
        raise


class UsageError(ParquetryError):
    """The given values do not make a request that can be executed."""

    exit_code: ClassVar[int] = 2


MODULES = {
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
    "RevisionError": "parquetry.compiler.git.revisions",
}
"""The modules of the errors that Python users meet. A module is imported when its error is first used."""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'parquetry.errors' has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(["ParquetryError", "UsageError", *MODULES])
