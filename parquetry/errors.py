"""The root of all errors that parquetry raises, and the other errors by name.

Each error is defined beside the code that raises it. ``parquetry.errors.ConflictError`` and
``parquetry.ConflictError`` are one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

from parquetry.message import Field, Message, Text, Value, Writer, message


class MessageError(Exception):
    """An exception with a message: ``MessageError("{file} is empty", file=...)``."""

    def __init__(self, sentence: Text, **fields: Field) -> None:
        """Make an exception of a literal sentence with a field for each name in it, or of a message."""
        if isinstance(sentence, str):
            sentence = Message(sentence, **fields)  # type: ignore[misc]  # the caller's is a literal
        self._statement = sentence
        super().__init__(self._statement)

    def __str__(self) -> str:
        return self.in_full()

    def in_full(self) -> str:
        """Return the text with all values, also personal ones, for the exits."""
        return self.message.in_full()

    @property
    def message(self) -> Message:
        """The sentence with the fields."""
        return self._statement

    def reword(self, change: Callable[[Message], Message]) -> None:
        """Replace the message by the result of ``change``."""
        self._statement = change(self._statement)
        self.args = (self._statement,)


class ParquetryError(MessageError):
    """A failure with a cause that the user can act on: what happened, where, and one remedy.

    ``writer`` turns commands and phrases in the message into text for the reader; the interface through which
    the failure leaves (command line or Python) sets it. ``declared`` is the path in a table's spec of the SQL
    that failed, such as ``columns.day.generated``, or None if no SQL failed. ``origin`` is the file, line and
    column of that SQL, once they were looked up in the project; the message begins with it. ``result`` is
    what was done before the failure, if the failure reports it.

    ``exit_code`` is what the command line returns for the failure. An exception that is not a
    ``ParquetryError`` is a bug and exits with 70.
    """

    exit_code: ClassVar[int] = 1
    declared: str | None = None
    origin: str | None = None
    writer: Writer | None = None
    result: Any = None

    def in_full(self) -> str:
        """Return the text with all values for the reader that the ``writer`` knows."""
        return self.message.in_full(self.writer)

    @property
    def message(self) -> Message:
        """The sentence with the fields, after the origin if it is known."""
        if self.origin is None:
            return self._statement
        return Message("{origin}: {statement}", origin=self.origin, statement=self._statement)


def message_of(failure: BaseException) -> Message:
    """Return the message of any exception; the text of a foreign exception becomes one maskable value."""
    if isinstance(failure, MessageError):
        return failure.message
    if isinstance(failure, OSError) and failure.errno is not None:
        errno, reason = failure.errno, failure.strerror
        if failure.filename is None:
            return Message("[Errno {errno}] {reason}", errno=errno, reason=reason)
        file = Value.uri(str(failure.filename), quoted=True)
        return Message("[Errno {errno}] {reason}: {file}", errno=errno, reason=reason, file=file)
    if type(failure).__module__.startswith("parquetry."):
        return message("; ".join(map(str, failure.args)))
    return Message("{words}", words=Value.quote(str(failure), type(failure).__name__))


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
            "CatalogError",
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
            "MissingPackageError",
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
