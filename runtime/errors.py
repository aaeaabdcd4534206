"""What can go wrong while a table is read or written."""

from __future__ import annotations

from typing import ClassVar, Final

from parquetry.errors import ParquetryError


class StorageError(ParquetryError):
    """The store refused or broke: disk full, read-only, no permission, connection lost."""


class NotFoundError(StorageError):
    """There is no object at that path."""


class TooLargeError(StorageError):
    """The object has more bytes than are read of one of its kind."""


def is_outage(failure: BaseException) -> bool:
    """Whether the store itself refused or broke: no fault of what was asked of it, and it may pass."""
    return isinstance(failure, StorageError) and not isinstance(failure, (NotFoundError, TooLargeError))


class StaleTimelineError(NotFoundError):
    """An instant left the timeline after it was listed: archived, or undone. Read the timeline again."""


class TableNotFoundError(ParquetryError):
    """There is no Hudi table at the location."""


class UnsupportedTableError(ParquetryError):
    """The table uses a feature with which the request cannot be executed safely."""


class ForeignTableError(ParquetryError):
    """The table at a declared location is another project's, or another target's of this one, or nobody's."""


class CorruptTableError(ParquetryError):
    """A file of the table cannot be read as what its name says it is."""


class InvalidDataError(ParquetryError):
    """The rows, or the schema of the rows, cannot be written as the table declares them."""


class MissingSourceError(InvalidDataError):
    """What the path of a source means is not there: the file or folder, or the folder before wildcards."""


class SourceChangedError(InvalidDataError):
    """A file of a source changed while it was read: the source is to be listed and read again."""


class KeyUnavailableError(ParquetryError):
    """A file is encrypted, or to be, and its key cannot be had here."""


class ConflictError(ParquetryError):
    """Another writer won and retrying by ourselves did not help."""

    exit_code: ClassVar[int] = 5


class LockHeldError(ConflictError):
    """The table's lock is held by somebody who may be alive."""


class StalePlanError(ParquetryError):
    """What was reviewed does not hold any more."""

    exit_code: ClassVar[int] = 4


class PartialFailureError(ParquetryError):
    """Some actions were committed, one failed."""

    exit_code: ClassVar[int] = 6


class UnknownOutcomeError(StorageError):
    """A conditional put was sent, and whether it took effect could not be found out.

    Neither success nor failure may be concluded from it: nothing is to be undone.
    """


class MissingJavaError(ParquetryError):
    """There is no Java that Spark can run on."""


class SparkStartError(ParquetryError):
    """Spark could not be started as the settings ask."""


class LostTaskError(ParquetryError):
    """A task of Spark lost its process, or found no memory, as often as Spark tries a task."""


class SparkEndedError(ParquetryError):
    """Spark's JVM was killed, or crashed, while it worked."""


class UnsupportedSessionError(ParquetryError):
    """The Spark session is of a kind that cannot do what was asked, or its workers lack what it takes."""


class RefusedCell(Exception):  # noqa: N818 - becomes an InvalidDataError with its place, never leaves the ingest
    """A cell of a source's file is no value of its column: file, column, type and the text of the cell.

    Behind these the number of its row, counted from 1, if that is known.
    """


class RetryWrite(Exception):  # noqa: N818 - a signal between a write's body and run_write
    """The write cannot go on from the state it started from; it may from the present one."""


UNUSABLE: Final = (NotFoundError, CorruptTableError, TooLargeError)
"""What a reader passes over where what it reads is derived from something else."""
