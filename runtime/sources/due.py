"""The data of a source that its table has not ingested yet, found without Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias

from parquetry.message import Message, Text, Value, command
from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    MissingSourceError,
    SourceChangedError,
    TableNotFoundError,
    UnsupportedTableError,
)
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.identity import (
    ClassifiedFile,
    FileState,
    classify,
    digests_of,
    keep_hints,
    read_hints,
    with_contents,
)
from parquetry.runtime.sources.ledger import Consumption, SourceFile
from parquetry.runtime.sources.listing import FoundFile, list_files, split_pattern
from parquetry.runtime.sources.removals import removal_between
from parquetry.runtime.spec.codec import digest_of, to_json_value
from parquetry.runtime.spec.source_paths import join_base, normalised_path
from parquetry.runtime.spec.table_spec import MODIFIED, Operation, Source
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.effective_writes import EffectiveWrites

FULL = "full"
SET_ASIDE = "set_aside"
KEEP = "keep"
TABLE_FORMAT = "hudi"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFile:
    """A file that is not ingested until a user decides, and the reason."""

    path: str
    reason: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFile:
    """A new file that is not ingested because another new file has the same content."""

    path: str
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """The files of a source that were already ingested from elsewhere: by which source, in which commit."""

    source: str
    instant: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBySource:
    """The known files that one source has ingested, in ``commits``, such as ``3 commits up to T``."""

    source: str
    commits: str
    files: int
    size_bytes: int


def sums_by_source(known: Sequence[KnownFiles]) -> tuple[KnownBySource, ...]:
    """Return the sums of known files by the source that ingested them."""
    by_source: dict[str, list[KnownFiles]] = {}
    for each in known:
        by_source.setdefault(each.source, []).append(each)
    return tuple(
        KnownBySource(
            source=source,
            commits=f"commit {of[0].instant}"
            if len(of) == 1
            else f"{len(of)} commits up to {max(each.instant for each in of)}",
            files=sum(each.files for each in of),
            size_bytes=sum(each.size_bytes for each in of),
        )
        for source, of in by_source.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBatch:
    """The data that one write ingests from a source.

    ``name`` is TABLE.SOURCE if files are left out. ``files`` are the files of a file format. For a Hudi
    table, ``table`` is read as of ``as_of``, or incrementally after the position ``since`` (None: from its
    beginning) up to ``until``. ``consumption`` is
    recorded in the ledger; without it, nothing is ingested. ``missing_warning`` is the warning that the
    source does not exist. Three kinds of files are left out: ``known`` files were ingested from another path
    or source, ``copies`` have the content of another new file, and ``refused`` files need a decision.
    ``removal`` describes how the table has lost rows.
    """

    name: str = ""
    files: tuple[FoundFile, ...] = ()
    changed_files: int = 0
    known: tuple[KnownFiles, ...] = ()
    copies: tuple[CopiedFile, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    table: TableHandle | None = None
    as_of: str | None = None
    since: str | None = None
    until: str | None = None
    consumption: Consumption | None = None
    missing_warning: Text | None = None
    removal: str | None = None

    @property
    def warnings(self) -> tuple[Text, ...]:
        """The data that was left out, and how to ingest it anyway."""
        if self.missing_warning is not None:
            return (self.missing_warning,)
        known = (
            f"left out {each.files} {'file' if each.files == 1 else 'files'} that source {each.source} has "
            f"already ingested in {each.commits}"
            for each in sums_by_source(self.known)
        )
        copies = (
            Message(
                "{file} was left out, as {original} has the same content; to ingest both, use {command}",
                file=each.path,
                original=each.of,
                command=command("source", "accept", self.name, each.path),
            )
            for each in self.copies
        )
        removal = () if self.removal is None else (f"{self.removal}: this table keeps the rows",)
        return (*known, *copies, *removal)

    def file_in(self, message: str) -> str | None:
        """Return the path of the one file that a message names, or None if it names none or several."""
        named = [each.file.path for each in self.files if each.file.path in message]
        longest = [path for path in named if not any(path != other and path in other for other in named)]
        return longest[0] if len(longest) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSize:
    """The amount that one write has to read: files, and their stored bytes."""

    files: int
    size_bytes: int


def preview_due(
    handle: TableHandle, source: Source, *, directory: str, storage: Mapping[str, Any]
) -> DueBatch | None:
    """Return what is due, or None if there is nothing new and nothing to report. Nothing is written.

    Args:
        handle: The table that ingests the source.
        source: The source.
        directory: The folder to which relative paths refer.
        storage: The options of the file system.

    Raises:
        MissingSourceError: If the path does not exist and this is an error for the source (``if_missing``).
        InvalidDataError: If a file changed after an insert had ingested it.

    """
    return _find(handle, source, _effective(handle), directory=directory, storage=storage, writes=False)


def preview_new_table(source: Source, *, directory: str, storage: Mapping[str, Any]) -> DueBatch | None:
    """Return what is due for a table that does not exist yet: all data of the source, or None without data.

    Args:
        source: The source.
        directory: The folder to which relative paths refer.
        storage: The options of the file system.

    Raises:
        MissingSourceError: If the path does not exist and this is an error for the source (``if_missing``).

    """
    consumption = Consumption(source=source.name)
    if source.format == TABLE_FORMAT:
        other = open_table(open_store(join_base(directory, source.path), storage, source.allowed))
        as_of = other.timeline().last_before_pending()
        return None if as_of is None else DueBatch(table=other, as_of=as_of, consumption=consumption)
    found = _list_or_warn(source, directory=directory, storage=storage)
    if isinstance(found, DueBatch):
        return found
    return DueBatch(files=found, consumption=consumption) if found else None


def find_due(
    handle: TableHandle,
    source: Source,
    *,
    directory: str,
    storage: Mapping[str, Any],
    excluded_paths: Collection[str] = (),
) -> DueBatch | None:
    """Return what is due for the write that follows, or None if nothing is.

    In contrast to :func:`preview_due`, digests of files are computed and stored, and a long ledger is folded.
    A ledger for which the archive log was read is folded too, so that the log need not be read again.

    Args:
        handle: The table that ingests the source.
        source: The source.
        directory: The folder to which relative paths refer.
        storage: The options of the file system.
        excluded_paths: The paths of files that are left out.

    """
    effective = _effective(handle)
    due = _find(
        handle,
        source,
        effective,
        directory=directory,
        storage=storage,
        writes=True,
        excluded_paths=excluded_paths,
    )
    if due is not None and due.missing_warning is not None:
        return due
    if (due is not None and due.consumption is not None) or effective().has_unknown_writes:
        ledger.fold(handle.store, source.name, effective())
    return due


def check_unchanged(
    source: Source, files: Iterable[FoundFile], *, directory: str, storage: Mapping[str, Any]
) -> None:
    """Raise SourceChangedError if one of the files has changed since it was listed.

    It is then unknown which data was read. A file that is gone was either read completely, or its read has
    failed.
    """
    current = {found.file.path: found for found in list_files(source.path, base=directory, options=storage)}
    for found in files:
        now = current.get(found.file.path, found)
        if now.identity != found.identity or not now.file.is_same_as(found.file):
            raise SourceChangedError("{file} changed while it was read", file=Value.uri(found.file.path))


def size_of(batch: DueBatch) -> DueSize:
    """Return the amount that the write reads; of a Hudi table, the files with rows of the due commits."""
    if batch.table is None:
        sizes = [found.file.size_bytes for found in batch.files]
    else:
        view = batch.table.view(batch.table.timeline())
        as_of, since, until = batch.as_of, batch.since or "0", batch.until
        slices = view.changed_between(since, until).slices if as_of is None else view.all_slices(as_of)
        sizes = [part.size_bytes for part in slices]
    return DueSize(files=len(sizes), size_bytes=sum(sizes))


_DUPLICATING_OPERATIONS = (Operation.INSERT, Operation.BULK_INSERT)
"""The operations that write the rows of a file twice if the file is ingested twice."""

_Locate: TypeAlias = Callable[[str], str]
_Effective: TypeAlias = Callable[[], EffectiveWrites]


def _effective(handle: TableHandle) -> _Effective:
    """Return a function that returns the effective writes. Its first call reads the timeline."""
    return cache(lambda: EffectiveWrites(handle.timeline()))


def _find(
    handle: TableHandle,
    source: Source,
    effective: _Effective,
    *,
    directory: str,
    storage: Mapping[str, Any],
    writes: bool,
    excluded_paths: Collection[str] = (),
) -> DueBatch | None:
    """Return what is due, or None. If ``writes`` is set, digests of files are computed and stored."""
    if source.format == TABLE_FORMAT:
        return _due_of_table(handle, source, effective, directory=directory, storage=storage)
    found = _list_or_warn(source, directory=directory, storage=storage)
    if isinstance(found, DueBatch):
        return found
    found = tuple(each for each in found if each.file.path not in excluded_paths)
    if source.read == FULL:
        return _due_of_full_read(handle, source, effective, found, storage=storage, writes=writes)
    entries = ledger.table_history(handle.store, effective())
    hints = read_hints(handle.store, source.name)
    files = _classified(source, found, entries, hints, directory=directory, storage=storage, every=writes)
    locate: _Locate = partial(normalised_path, base=directory)
    elsewhere = {each.file.path: each.file for each in _known_elsewhere(source, files, locate)}
    if writes and any(not _is_noted(file, hints) for file in elsewhere.values()):
        # Store their digests, so that they are neither read nor reported again.
        keep_hints(handle.store, source.name, elsewhere.values())
    due = _due_of_files(handle, source, files, locate, reported=hints if writes else ())
    if due is None or due.consumption is None:
        return due
    consumption = replace(
        due.consumption,
        directory=directory,
        listed=tuple(instant for instant, _ in entries),
        ignores_other_sources=source.ingest_again is not None,
    )
    return replace(due, consumption=consumption)


def _list_or_warn(
    source: Source, *, directory: str, storage: Mapping[str, Any]
) -> tuple[FoundFile, ...] | DueBatch:
    """Return the files of a source. If its path does not exist, return a warning or raise the error."""
    try:
        return list_files(source.path, base=directory, options=storage, must_exist=True)
    except MissingSourceError as error:
        if _is_error(source):
            raise
        warning = Message(
            "{reason}, or, to let the run fail, declare if_missing: error", reason=error.message
        )
        return DueBatch(missing_warning=warning)


def classified_files(
    handle: TableHandle,
    source: Source,
    entries: Sequence[tuple[str, Consumption]],
    *,
    directory: str,
    storage: Mapping[str, Any],
    every: bool = False,
) -> tuple[ClassifiedFile, ...]:
    """Return the files of a source with their states according to the ledger.

    The files of a source that is read in full are all new, or all known.

    Args:
        handle: The table that ingests the source.
        source: The source.
        entries: The effective entries of the ledger, oldest first.
        directory: The folder to which relative paths refer.
        storage: The options of the file system.
        every: Whether all files without an etag get digests.

    Raises:
        InvalidDataError: If the source cannot be listed, or is a table.
    """
    if source.format == TABLE_FORMAT:
        raise InvalidDataError(
            "source {source} reads a Hudi table, so it has no files to list", source=source.name
        )
    found = list_files(source.path, base=directory, options=storage, must_exist=True)
    if source.read == FULL:
        due = found and _due_of_full_read(
            handle, source, _effective(handle), found, storage=storage, writes=False
        )
        state = FileState.NEW if due and due.files else FileState.KNOWN
        return tuple(ClassifiedFile(found=each, state=state) for each in found)
    hints = read_hints(handle.store, source.name)
    return _classified(source, found, entries, hints, directory=directory, storage=storage, every=every)


def _classified(
    source: Source,
    found: Iterable[FoundFile],
    entries: Sequence[tuple[str, Consumption]],
    hints: Mapping[str, SourceFile],
    *,
    directory: str,
    storage: Mapping[str, Any],
    every: bool,
) -> tuple[ClassifiedFile, ...]:
    """Return the files of a source with their states according to the ledger."""
    if source.ingest_again is not None:
        entries = tuple(pair for pair in entries if pair[1].source == source.name)
    return classify(
        found,
        entries,
        locate=partial(normalised_path, base=directory),
        hints=hints,
        digests=partial(digests_of, storage=storage),
        every=every,
        ingests_copies=source.operation not in _DUPLICATING_OPERATIONS,
    )


def _due_of_files(
    handle: TableHandle,
    source: Source,
    files: Sequence[ClassifiedFile],
    locate: _Locate,
    *,
    reported: Collection[str],
) -> DueBatch | None:
    """Return the files to ingest, in the order that the source declares, or None.

    Known files in ``reported`` were reported before and are not reported again.
    """
    changed = tuple(each for each in files if each.state is FileState.CHANGED)
    name = f"{handle.name}.{source.name}"
    refused = (
        tuple(_refused(name, source, each) for each in changed)
        if source.operation in _DUPLICATING_OPERATIONS
        else ()
    )
    if refused and source.bad_files != SET_ASIDE:
        others = f" ({len(refused) - 1} more changed)" if len(refused) > 1 else ""
        raise InvalidDataError(
            "source {source}: {file} {reason}{others}",
            source=source.name,
            file=Value.uri(refused[0].path),
            reason=refused[0].reason,
            others=others,
        )
    due = [
        each
        for each in files
        if each.state is FileState.NEW or (each.state is FileState.CHANGED and not refused)
    ]
    by_time = source.file_order == MODIFIED
    due.sort(key=lambda each: (each.file.modified_ms if by_time else 0, each.file.path))
    copies = tuple(each for each in files if each.state is FileState.COPY)
    known = _sums_by_commit(
        each
        for each in _known_elsewhere(source, files, locate)
        if not (_is_own(source, each, locate) or each.file.path in reported)
    )
    if not (due or copies or known or refused):
        return None
    # From then on, a copy counts as ingested.
    taken = tuple(each.file for each in (*due, *copies)) if due else ()
    return DueBatch(
        name=name,
        files=tuple(each.found for each in due),
        changed_files=0 if refused else len(changed),
        known=known,
        copies=tuple(CopiedFile(path=each.file.path, of=each.copy_of or "") for each in copies),
        refused=refused,
        consumption=Consumption(source=source.name, files=taken) if taken else None,
    )


def _refused(name: str, source: Source, each: ClassifiedFile) -> RefusedFile:
    """Return the reason why a changed file is not ingested without a decision."""
    when = "" if each.mention is None else f" after commit {each.mention.instant} ingested it"
    return RefusedFile(
        path=each.file.path,
        reason=Message(
            "changed{when}, and {operation} would write its rows twice; put the new rows into a new file, "
            "declare operation: upsert, or decide with {accept_command} or {skip_command}",
            when=when,
            operation=source.operation,
            accept_command=command("source", "accept", name, each.file.path),
            skip_command=command("source", "skip", name, each.file.path),
        ),
    )


def _known_elsewhere(
    source: Source, files: Iterable[ClassifiedFile], locate: _Locate
) -> Iterator[ClassifiedFile]:
    """Yield the known files that no entry of this source names in their present state."""
    for each in files:
        mention = each.mention if each.state is FileState.KNOWN else None
        if mention is None:
            continue
        if not (_is_own(source, each, locate) and mention.file.is_same_as(each.file)):
            yield each


def _is_own(source: Source, each: ClassifiedFile, locate: _Locate) -> bool:
    """Return whether this source itself ingested the file from the path that the file has now."""
    mention = each.mention
    if mention is None or mention.source != source.name:
        return False
    return mention.file.path == each.file.path or locate(mention.file.path) == locate(each.file.path)


def _is_noted(file: SourceFile, hints: Mapping[str, SourceFile]) -> bool:
    """Return whether the hints contain the file in its present state."""
    hint = hints.get(file.path)
    return hint is not None and hint.is_same_as(file)


def _sums_by_commit(files: Iterable[ClassifiedFile]) -> tuple[KnownFiles, ...]:
    """Return the number and size of known files by source and commit, in the order of the commits."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for each in files:
        assert each.mention is not None, "what is known was taken by somebody"
        commit = (each.mention.instant, each.mention.source)
        count, size = sums.get(commit, (0, 0))
        sums[commit] = (count + 1, size + each.file.size_bytes)
    return tuple(
        KnownFiles(source=source, instant=instant, files=count, size_bytes=size)
        for (instant, source), (count, size) in sorted(sums.items())
    )


def _is_error(source: Source) -> bool:
    """Return whether a missing source is an error.

    Unless the source declares otherwise, it is an error for a path without wildcards. With wildcards it is
    not, because files may appear later.
    """
    return source.if_missing == "error" or (source.if_missing is None and not split_pattern(source.path)[1])


def _due_of_full_read(
    handle: TableHandle,
    source: Source,
    effective: _Effective,
    found: tuple[FoundFile, ...],
    *,
    storage: Mapping[str, Any],
    writes: bool,
) -> DueBatch | None:
    """Return all files, or None if nothing has changed since they were last read in full.

    Files, declaration and columns are compared. A file is identified by its content and its path below the
    source's folder, because columns may come from the path.
    """
    entries = ledger.table_history(handle.store, effective())
    readings = ledger.newest_readings(entries)
    if not found:
        return _all_files_deleted(source) if source.name in readings else None
    if not (readings or writes):
        return DueBatch(files=found, consumption=Consumption(source=source.name))
    hints = read_hints(handle.store, source.name)
    found = with_contents(found, hints, digests=partial(digests_of, storage=storage))
    are_new = any(not _is_noted(each.file, hints) for each in found)
    if writes and are_new:
        keep_hints(handle.store, source.name, (each.file for each in found))
    top = split_pattern(source.path)[0].rstrip("/")
    state = sorted((each.file.path.removeprefix(top).lstrip("/"), *each.file.contents[0]) for each in found)
    reading = _digest_of_full_read(handle, source, state)
    consumption = Consumption(source=source.name, reading=reading)
    equal = ledger.equal_full_read(entries, consumption)
    if equal is None:
        return DueBatch(files=found, consumption=consumption)
    if equal[0] == source.name or (writes and not are_new):
        return None
    size = sum(each.file.size_bytes for each in found)
    return DueBatch(known=(KnownFiles(source=equal[0], instant=equal[1], files=len(found), size_bytes=size),))


def _all_files_deleted(source: Source) -> DueBatch:
    """Return a warning, or raise an error, because a source that was read before has no files any more."""
    warning = Message(
        "source {source}: all its files were deleted, but the table keeps the rows of the last read; restore "
        "the files, or delete the rows",
        source=source.name,
    )
    if source.if_missing != "warn":
        raise MissingSourceError("{warning} and declare if_missing: warn", warning=warning)
    return DueBatch(missing_warning=warning)


def _digest_of_full_read(handle: TableHandle, source: Source, state: object) -> str:
    """Return the digest that identifies a full read: its files, the source's declaration and the columns.

    The name and the path of the source do not change the digest. ``state`` identifies the files.
    """
    columns = () if handle.spec is None else handle.spec.columns
    declaration = replace(source, name="", path="")
    return digest_of(to_json_value({"source": declaration, "columns": columns, "state": state}))


def _due_of_table(
    handle: TableHandle,
    source: Source,
    effective: _Effective,
    *,
    directory: str,
    storage: Mapping[str, Any],
) -> DueBatch | None:
    """Return the commits of a Hudi table that are due, or None."""
    try:
        other = open_table(open_store(join_base(directory, source.path), storage, source.allowed))
    except TableNotFoundError as error:
        if source.if_missing != "warn":
            raise
        return DueBatch(missing_warning=error.message)
    timeline = other.timeline()
    as_of, until = timeline.last_before_pending(), timeline.newest_position()
    if as_of is None or until is None:
        return None
    entries = ledger.table_history(handle.store, effective())
    if source.read == FULL:
        reading = _digest_of_full_read(handle, source, (other.table_id or other.store.uri, as_of))
        consumption = Consumption(source=source.name, reading=reading)
        if ledger.equal_full_read(entries, consumption) is not None:
            return None
        return DueBatch(table=other, as_of=as_of, consumption=consumption)
    if not other.config.meta_columns.has_commit_times:
        raise UnsupportedTableError(
            "source {source}: {table} has no commit times (hoodie.populate.meta.fields=false), so it "
            "has no changes; read the whole table (read: full with operation: insert_overwrite_table)",
            source=source.name,
            table=other.store.uri,
        )
    # The name of the source may have changed since it read that table.
    mine = Consumption(source=source.name, table_id=other.table_id)
    last = ledger.newest_read(pair for pair in entries if mine.reads_same_table_as(pair[1]))
    since = None if last is None else last.until
    removal = None
    if last is not None and since is not None:
        removal = removal_between(other, since, until)
        _check_position(source, other, timeline, last)
    if removal is not None and source.removed_rows != KEEP:
        raise InvalidDataError(
            "source {source}: {removal}, and an incremental read does not return removed rows; read "
            "the whole table (read: full with operation: insert_overwrite_table), or keep the rows "
            "(removed_rows: keep)",
            source=source.name,
            removal=removal,
        )
    if since is not None and since >= until:
        return None if removal is None else DueBatch(removal=removal)
    consumption = replace(
        mine,
        since=since,
        until=until,
        until_time=next(write.time for write in timeline.completed_writes if write.position == until),
        files=_ingested_there(other, since, until),
    )
    return DueBatch(table=other, since=since, until=until, consumption=consumption, removal=removal)


def _check_position(source: Source, other: TableHandle, timeline: Timeline, last: Consumption) -> None:
    """Raise InvalidDataError if the position up to which the table was read has another meaning by now."""
    time, position = last.until_time, last.until
    with suppress(CorruptTableError):  # the read from that position raises it
        if time is None or position is None or timeline.keeps_position(time, position):
            return
        raise InvalidDataError(
            "source {source}: the version of {table} was changed after the source had read it up to "
            "{position}, a completion time that no commit has any more; read the whole table (read: full "
            "with operation: insert_overwrite_table)",
            source=source.name,
            table=Value.uri(other.store.uri),
            position=position,
        )


def _ingested_there(other: TableHandle, since: str | None, until: str) -> tuple[SourceFile, ...]:
    """Return the files that another table ingested between two positions; a reader of its rows has them too.

    Only files with known content are returned, because their paths may refer to another folder.
    """
    entries = ledger.table_history(other.store, _effective(other)())
    positions = other.timeline().positions_after(since or "0")
    return tuple(
        file
        for instant, entry in entries
        if (since or "0") < positions.get(instant, instant) <= until and entry.kind.counts_as_ingested
        for file in entry.files
        if file.content_id is not None
    )
