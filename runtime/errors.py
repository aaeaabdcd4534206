"""Errors of reads and writes of tables."""

from __future__ import annotations

from typing import ClassVar, Final

from parquetry.errors import MessageError, ParquetryError


class StorageError(ParquetryError):
    """The store rejected a request or failed: disk full, read-only, no permission, connection lost."""


class NotFoundError(StorageError):
    """There is no object at that path."""


class TooLargeError(StorageError):
    """The object exceeds the size limit for a complete read."""


def is_outage(failure: BaseException) -> bool:
    """Return whether the store itself failed, which may be temporary and does not depend on the request."""
    return isinstance(failure, StorageError) and not isinstance(failure, (NotFoundError, TooLargeError))


class StaleTimelineError(NotFoundError):
    """An instant was archived or rolled back after the listing. Read the timeline again."""


class TableNotFoundError(ParquetryError):
    """There is no Hudi table at the location."""


class UnsupportedTableError(ParquetryError):
    """The table uses a feature with which the request cannot be executed safely."""


class ForeignTableError(ParquetryError):
    """The table at a declared location belongs to another project, to another target, or to no project."""


class CorruptTableError(ParquetryError):
    """A file of the table does not have the content that its name implies."""


class InvalidDataError(ParquetryError):
    """The rows, or their schema, cannot be written to the table as declared."""


class MissingSourceError(InvalidDataError):
    """The path of a source does not exist: the file or folder, or the folder before its wildcards."""


class SourceChangedError(InvalidDataError):
    """A file of a source changed while it was read. The source must be listed and read again."""


class KeyUnavailableError(ParquetryError):
    """The key of an encrypted file, or of a file to encrypt, is not available here."""


class CatalogError(ParquetryError):
    """A catalog refused a request or could not be reached. The table itself is not affected.

    ``is_outage`` is True if the catalog could not be asked at all, so that other requests would fail too.
    """

    is_outage: bool = False


class ConflictError(ParquetryError):
    """Another writer won, and automatic retries did not help."""

    exit_code: ClassVar[int] = 5


class LockHeldError(ConflictError):
    """Another writer, which may be alive, holds the lock of the table."""


class StalePlanError(ParquetryError):
    """The reviewed state is no longer current."""

    exit_code: ClassVar[int] = 4


class PartialFailureError(ParquetryError):
    """Some actions were committed, and one failed."""

    exit_code: ClassVar[int] = 6


class UnknownOutcomeError(StorageError):
    """A conditional put was sent, and its outcome could not be determined.

    It counts neither as success nor as failure, so nothing may be rolled back because of it.
    """


class MissingJavaError(ParquetryError):
    """There is no Java on which Spark can run."""


class SparkStartError(ParquetryError):
    """Spark could not be started with the settings."""


class LostTaskError(ParquetryError):
    """A task of Spark lost its process or ran out of memory in all of Spark's attempts."""


class SparkEndedError(ParquetryError):
    """Spark's JVM was killed or crashed during its work."""


class UnsupportedSessionError(ParquetryError):
    """The Spark session has a type that does not support the request, or its workers lack a requirement."""


class RefusedCell(Exception):  # noqa: N818 - becomes an InvalidDataError with its place, never leaves the ingest
    """A cell of a source's file is not a valid value of its column.

    The arguments are the file, the column, the type and the text of the cell, and the number of its row,
    counted from 1, if it is known.
    """


class RetryWrite(MessageError):  # noqa: N818 - a signal between a write's body and run_write
    """The write cannot continue from the state in which it started, but may succeed from the current one."""


UNUSABLE: Final = (NotFoundError, CorruptTableError, TooLargeError)
"""Errors of reading a file without which a reader can continue, for example because it is derived."""
