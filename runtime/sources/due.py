"""What a source has that its table has not taken in yet: found without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

from parquetry.runtime.errors import MissingSourceError, TableNotFoundError
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.sources.listing import FoundFile, list_files, split_pattern
from parquetry.runtime.spec.codec import digest_of, to_json_value
from parquetry.runtime.spec.source_paths import join_base, place_of
from parquetry.runtime.spec.table_spec import Source
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.open import TableHandle, open_table
from parquetry.runtime.timeline.effective_writes import EffectiveWrites

FULL = "full"
TABLE_FORMAT = "hudi"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBatch:
    """What one write is to take from a source.

    ``files`` for file formats. For a Hudi table ``table`` is the table, read after ``since``
    (None: from its beginning) up to ``until``. ``consumption`` goes into the ledger. ``missing`` says that
    the source is not there, and that nothing is to be taken.
    """

    files: tuple[FoundFile, ...] = ()
    changed_files: int = 0
    table: TableHandle | None = None
    since: str | None = None
    until: str | None = None
    consumption: Consumption | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSize:
    """How much one write has to read: files, and their bytes as they are stored."""

    files: int
    size_bytes: int


def preview_due(
    handle: TableHandle, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> DueBatch | None:
    """What is due; None when there is nothing new. Nothing is written.

    Raises InvalidDataError when the path does not exist, unless that is to be warned of, and when a file
    changed after an insert had taken it.
    """
    return _look(handle, source, _effective(handle), directory=directory, storage=storage)


def find_due(
    handle: TableHandle, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> DueBatch | None:
    """The same for a write that is to follow: a long ledger is folded on the way.

    So is one for which the archive log was asked, that it need not be asked again.
    """
    effective = _effective(handle)
    due = _look(handle, source, effective, directory=directory, storage=storage)
    if due is not None and due.missing is not None:
        return due
    if due is not None or effective().has_asked_archive:
        ledger.fold(handle.store, source.name, effective())
    return due


def size_of(batch: DueBatch) -> DueSize:
    """What the write has to read: of a Hudi table the files that hold rows of the wanted commits."""
    if batch.table is None:
        sizes = [found.file.size_bytes for found in batch.files]
    else:
        view = batch.table.view(batch.table.timeline())
        since, until = batch.since, batch.until
        slices = view.all_slices(until) if since is None else view.changed_between(since, until).slices
        sizes = [part.size_bytes for part in slices]
    return DueSize(files=len(sizes), size_bytes=sum(sizes))


_Effective: TypeAlias = Callable[[], EffectiveWrites]


def _effective(handle: TableHandle) -> _Effective:
    """Which writes count: the timeline is read when that is asked first, and once."""
    return cache(lambda: EffectiveWrites(handle.timeline(), handle.config.archive_folder))


def _look(
    handle: TableHandle,
    source: Source,
    effective: _Effective,
    *,
    directory: str,
    storage: Mapping[str, Any],
) -> DueBatch | None:
    if source.format == TABLE_FORMAT:
        return _due_of_table(handle, source, effective, directory=directory, storage=storage)
    try:
        found = list_files(source.path, base=directory, options=storage, must_exist=True)
    except MissingSourceError as missing:
        if _is_error(source):
            raise
        return DueBatch(missing=f"{missing}, or declare if_missing: error to have the run fail")
    if source.read == FULL:
        return _in_full(handle, source, effective, found, directory=directory)
    entries = ledger.history(handle.store, source.name, effective())
    files = [f.file for f in found]
    # However the path was spelled when they were taken.
    taken = ledger.ingested_by(files, entries, partial(place_of, base=directory))
    known = {path: file for path, (_, file) in taken.items()}
    due = ledger.due_files(files, known, source.operation, source=source.name)
    if due.is_empty:
        return None
    by_path = {f.file.path: f for f in found}
    return DueBatch(
        files=tuple(by_path[file.path] for file in due.files),
        changed_files=due.changed,
        consumption=Consumption(source=source.name, files=due.files, directory=directory),
    )


def _is_error(source: Source) -> bool:
    """Whether the run is to fail when the source is not there: files that wildcards match may be to come."""
    return source.if_missing == "error" or (source.if_missing is None and not split_pattern(source.path)[1])


def _in_full(
    handle: TableHandle,
    source: Source,
    effective: _Effective,
    found: tuple[FoundFile, ...],
    *,
    directory: str,
) -> DueBatch | None:
    """All files; None when they and what is made of them are as they were when they were read last."""
    if not found:
        return None
    files = (f.file for f in found)
    # By etag where the store has one, as the ledger knows a file: copies of the same bytes are the same file.
    state = sorted((place_of(f.path, directory), f.size_bytes, f.etag or str(f.modified_ms)) for f in files)
    reading = _reading(handle, source, state)
    if _was_read(handle, source, effective, reading):
        return None
    return DueBatch(files=found, consumption=Consumption(source=source.name, reading=reading))


def _reading(handle: TableHandle, source: Source, state: object) -> str:
    """The digest of what a full read takes and makes of it: the files, the declaration, the columns."""
    columns = () if handle.spec is None else handle.spec.columns
    return digest_of(to_json_value({"source": source, "columns": columns, "state": state}))


def _was_read(handle: TableHandle, source: Source, effective: _Effective, reading: str) -> bool:
    """Whether the newest read that stands was that one."""
    return ledger.newest_reading(ledger.history(handle.store, source.name, effective())) == reading


def _due_of_table(
    handle: TableHandle,
    source: Source,
    effective: _Effective,
    *,
    directory: str,
    storage: Mapping[str, Any],
) -> DueBatch | None:
    try:
        other = open_table(open_store(join_base(directory, source.path), storage))
    except TableNotFoundError as missing:
        if source.if_missing != "warn":
            raise
        return DueBatch(missing=str(missing))
    until = other.timeline().last_settled()
    if until is None:
        return None
    if source.read == FULL:
        reading = _reading(handle, source, (other.table_id, other.store.uri, until))
        if _was_read(handle, source, effective, reading):
            return None
        consumption = Consumption(source=source.name, reading=reading)
        return DueBatch(table=other, until=until, consumption=consumption)
    entries = ledger.history(handle.store, source.name, effective())
    since = ledger.newest_until(entries)
    if since is not None and since >= until:
        return None
    consumption = Consumption(source=source.name, since=since, until=until)
    return DueBatch(table=other, since=since, until=until, consumption=consumption)
