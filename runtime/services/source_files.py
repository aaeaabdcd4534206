"""The files of a table's sources as the table knows them, and decisions about them.

A decision is a ledger entry with its own commit, which writes no rows. It takes effect completely or not at
all, and a rollback of the commit reverts it.
"""

from __future__ import annotations

import getpass
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from parquetry.message import Text, Value, command
from parquetry.runtime.commit.outcome import CommitResult, Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.due import FULL, classified_files
from parquetry.runtime.sources.identity import ClassifiedFile, FileState
from parquetry.runtime.sources.ledger import Consumption, EntryKind, SourceFile
from parquetry.runtime.spec.table_spec import Source
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.effective_writes import EffectiveWrites
from parquetry.runtime.timeline.instant import Action

BY_KEY: Final = "parquetry.by"
DECISION_KEY: Final = "parquetry.decision"
"""The decision about files: skipped or accepted."""
_OPERATION = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file of a source.

    ``state`` is new, known, changed or copy; ``instant`` is the commit that ingested the file.
    """

    path: str
    size_bytes: int
    state: str
    source: str | None = None
    instant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSource:
    """A source with its present files, or the ``problem`` that occurred when listing them."""

    source: str
    format: str
    path: str
    ingested_files: int
    last_commit: str | None
    files: tuple[ListedFile, ...] = ()
    problem: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A recorded decision: the files that it concerns, and its commit."""

    table: str
    source: str
    kind: EntryKind
    files: tuple[str, ...] = field(default=())
    instant: str | None = None


def list_source(
    handle: TableHandle, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> ListedSource:
    """Return the files of a source with their states, without Spark; nothing is written.

    ``directory`` is the folder to which relative paths refer, and ``storage`` are the options of the file
    system.
    """
    entries = _entries(handle)
    own = [(instant, entry) for instant, entry in entries if entry.source == source.name]
    taken = [(instant, entry) for instant, entry in own if entry.kind is EntryKind.INGESTED]
    listed = ListedSource(
        source=source.name,
        format=source.format,
        path=source.path,
        ingested_files=len({file.path for _, entry in taken for file in entry.files}),
        last_commit=taken[-1][0] if taken else None,
    )
    try:
        classified = classified_files(handle, source, entries, directory=directory, storage=storage)
    except InvalidDataError as error:
        return replace(listed, problem=error.message)
    files = tuple(_listed(each) for each in classified)
    if source.read == FULL:
        # The ledger entries of full reads name no files.
        listed = replace(listed, ingested_files=sum(file.state == FileState.KNOWN for file in files))
    return replace(listed, files=files)


def decide(
    handle: TableHandle,
    source: Source,
    kind: EntryKind,
    paths: Collection[str],
    *,
    directory: str,
    storage: Mapping[str, Any],
) -> Decision:
    """Record that listed files are to be ingested regardless of earlier ingestions, or never to be ingested.

    Args:
        handle: The table.
        source: The source whose files are listed.
        kind: The decision: skipped or accepted.
        paths: The paths of the files.
        directory: The folder to which relative paths refer.
        storage: The options of the file system.

    Raises:
        InvalidDataError: If the source does not list one of the paths, or is read in full.
    """
    if source.read == FULL:
        raise InvalidDataError(
            "source {source} has read: full, so its files are read together; to read them again, use "
            "{command}",
            source=source.name,
            command=command("source", "forget", f"{handle.name}.{source.name}"),
        )
    judged = classified_files(
        handle, source, _entries(handle), directory=directory, storage=storage, every=True
    )
    by_path = {each.file.path: each.file for each in judged}
    if unknown := [path for path in paths if path not in by_path]:
        raise InvalidDataError(
            "source {source} has no file {file}; see {command}",
            source=source.name,
            file=Value.uri(unknown[0]),
            command=command("source", "list", f"{handle.name}.{source.name}", "-v"),
        )
    return _record(handle, source.name, kind, [by_path[path] for path in sorted(set(paths))])


def forget(handle: TableHandle, source: str, paths: Collection[str]) -> Decision:
    """Record that ingested files are to be ingested again; without ``paths``, all files of the source.

    A source with ``read: full`` reads all of them again.

    Raises:
        InvalidDataError: If the source has not ingested one of the paths, or has ingested no files.
    """
    known = _known(handle, source)
    if unknown := [path for path in paths if path not in known]:
        raise InvalidDataError(
            "source {source} has not ingested the file {file}; see {command}",
            source=source,
            file=Value.uri(unknown[0]),
            command=command("source", "list", f"{handle.name}.{source}", "-v"),
        )
    chosen = sorted(set(paths) or known)
    was_read = source in ledger.newest_readings(_entries(handle))
    if not (chosen or was_read):
        raise InvalidDataError(
            "source {source} of {table} has ingested no files", source=source, table=handle.name
        )
    files = [known[path] for path in chosen]
    return _record(handle, source, EntryKind.ACCEPTED, files, reading="" if was_read else None)


def copy_known_files(handle: TableHandle, source: str, other: TableHandle, *, of: str | None) -> Decision:
    """Record that the files which another table has ingested count as ingested here.

    Full reads of the other table count too. ``of`` limits this to one of its sources.

    Raises:
        InvalidDataError: If the other table has ingested nothing.
    """
    known = _known(other, of)
    readings = ledger.newest_readings(_entries(other))
    reading = readings.get(of or source, ("", ""))[0]
    if not (known or reading):
        raise InvalidDataError(
            "{table} has ingested no files{preposition}{source}",
            table=other.name,
            preposition=" from " if of else "",
            source=of or "",
        )
    files = [known[path] for path in sorted(known)]
    return _record(handle, source, EntryKind.SKIPPED, files, reading=reading or None)


def _entries(handle: TableHandle) -> tuple[tuple[str, Consumption], ...]:
    """Return the ledger entries of all sources with their instants."""
    return ledger.table_history(handle.store, EffectiveWrites(handle.timeline()))


def _known(handle: TableHandle, source: str | None) -> dict[str, SourceFile]:
    """Return the files that a source has ingested and must not ingest again, by path.

    Without ``source``, the files of all sources are returned.
    """
    known: dict[str, SourceFile] = {}
    for _, entry in _entries(handle):
        for file in entry.files if source in (None, entry.source) else ():
            if entry.kind.counts_as_ingested:
                known[file.path] = file
            else:
                known.pop(file.path, None)
    return known


def _listed(each: ClassifiedFile) -> ListedFile:
    mention = each.mention
    return ListedFile(
        path=each.file.path,
        size_bytes=each.file.size_bytes,
        state=str(FileState.NEW if each.is_accepted else each.state),
        source=None if mention is None else mention.source,
        instant=None if mention is None else mention.instant,
    )


def _record(
    handle: TableHandle,
    source: str,
    kind: EntryKind,
    files: Sequence[SourceFile],
    *,
    reading: str | None = None,
) -> Decision:
    """Commit a ledger entry with the name of the user."""
    listed = tuple(instant for instant, _ in _entries(handle))
    consumption = Consumption(source=source, kind=kind, files=tuple(files), reading=reading, listed=listed)

    def body(transaction: Transaction) -> WriteOutcome:
        table, timeline = transaction.table, transaction.timeline
        return WriteOutcome(
            operation=_OPERATION,
            schema_json=table.schema_json(timeline, table.effective_spec(timeline).columns),
            extra={BY_KEY: getpass.getuser(), DECISION_KEY: str(kind)},
            footprint=Footprint(consumed=(consumption,)),
        )

    result: CommitResult = run_write(handle, action=Action.COMMIT, operation=_OPERATION, body=body)
    return Decision(
        table=handle.name,
        source=source,
        kind=kind,
        files=tuple(file.path for file in files),
        instant=result.instant,
    )
