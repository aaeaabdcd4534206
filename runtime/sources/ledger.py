"""The source ledger: the record of all data that a table has ingested from its sources.

The ledger belongs to the table. It has one entry per write, named by the write's instant T. The entry is put
before T is published, and counts only while T is effective. So if a write dies, is rolled back or is restored
away, its files are new again without any change of the ledger. Many entries are folded into one Parquet file.
Folded rows keep their T and are checked as entries are, until T has left the timeline; then its final state
is recorded.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.errors import message_of
from parquetry.runtime.errors import ConflictError, CorruptTableError, InvalidDataError, NotFoundError
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.spec.codec import from_json_value, parsed_json
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timeline.effective_writes import EffectiveWrites, WriteState
from parquetry.runtime.timeline.sidecars import FOLDED, LEDGER_FOLDER, is_folded

FOLD_ABOVE = 16

_FOLDED_SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("modified_ms", pa.int64()),
        ("etag", pa.string()),
        ("digest", pa.string()),
        ("kind", pa.string()),
        ("table_id", pa.string()),
        ("since", pa.string()),
        ("until", pa.string()),
        ("until_time", pa.string()),
        ("query_id", pa.string()),
        ("batch_id", pa.int64()),
        ("is_settled", pa.bool_()),
        ("reading", pa.string()),
    ]
)


_OF_FILE = ["path", "size_bytes", "modified_ms", "etag", "digest"]


class EntryKind(StrEnum):
    """The effect of an entry on its files."""

    INGESTED = "ingested"
    SKIPPED = "skipped"
    """The files count as ingested, without their rows."""
    ACCEPTED = "accepted"
    """The content of the files is to be ingested, regardless of earlier ingestions."""

    @property
    def counts_as_ingested(self) -> bool:
        """True if the files must not be ingested any more."""
        return self is not EntryKind.ACCEPTED


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file in the state in which it was consumed.

    ``path`` begins like the declared path of the source. ``digest`` is the SHA-256 digest of the bytes.
    """

    path: str
    size_bytes: int
    modified_ms: int
    etag: str | None = None
    digest: str | None = None

    @property
    def content_id(self) -> str | None:
        """The etag or digest, which identifies the content together with the size; None without both."""
        return next(iter(content_id for _, content_id in self.contents), None)

    @property
    def contents(self) -> tuple[tuple[int, str], ...]:
        """The identifiers of the content: size with etag, and size with digest.

        Two files that share an identifier have the same content.
        """
        tokens = (("etag", self.etag), ("sha256", self.digest))
        return tuple((self.size_bytes, f"{kind}:{value}") for kind, value in tokens if value is not None)

    def is_same_as(self, other: SourceFile) -> bool:
        """Return whether a file of the same path is unchanged: by its etags, else by size and time."""
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag and self.size_bytes == other.size_bytes
        return (self.size_bytes, self.modified_ms) == (other.size_bytes, other.modified_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """The data that one write ingests from one source.

    ``files`` are the files of a file format. For the Hudi table ``table_id``, ``until`` is the newest
    position read, ``until_time`` the time of the write there, ``since`` the newest position that was read
    before (None: there was none), and ``files`` those that the table had ingested. ``query_id`` and
    ``batch_id`` identify a batch of a stream. ``reading`` is a digest of all data of a source that is read in
    full (empty: it is to be read again).

    Three fields are not recorded, as only the write itself needs them. ``directory`` is the folder to which
    relative paths of ``files`` refer, if it is known. ``listed`` are the instants whose entries were known
    when the source was listed. ``ignores_other_sources`` means that entries of other sources do not count.
    """

    source: str
    kind: EntryKind = EntryKind.INGESTED
    files: tuple[SourceFile, ...] = ()
    table_id: str | None = None
    since: str | None = None
    until: str | None = None
    until_time: str | None = None
    query_id: str | None = None
    batch_id: int | None = None
    reading: str | None = None
    directory: str | None = field(default=None, compare=False)
    listed: tuple[str, ...] = field(default=(), compare=False)
    ignores_other_sources: bool = field(default=False, compare=False)

    def reads_same_table_as(self, other: Consumption) -> bool:
        """Return whether both read the same Hudi table.

        Tables without an id are compared by the name of the source.
        """
        if self.table_id is None or other.table_id is None:
            return self.source == other.source
        return self.table_id == other.table_id

    @property
    def batch(self) -> tuple[str, int] | None:
        """The query and the number of a stream's batch, or None for other data."""
        return None if self.query_id is None or self.batch_id is None else (self.query_id, self.batch_id)


def entry_path(source: str, instant: str) -> str:
    """Return the path of the ledger entry of ``instant`` for ``source``."""
    return f"{_folder(source)}/{instant}.json"


def hints_path(source: str) -> str:
    """Return the path of the note with digests of a source's files that no entry contains."""
    return f"{_folder(source)}/{_HINTS}"


def is_ledger_entry(path: str) -> bool:
    """Return whether a path within a table is that of a ledger entry that is not folded yet."""
    name = path.rpartition("/")[2]
    return path.startswith(f"{LEDGER_FOLDER}/") and name.endswith(_ENTRY) and _instant_of(name).isdigit()


def record(store: ObjectStore, instant: str, consumption: Consumption) -> None:
    """Write the entry of ``instant``. Call this before the commit is published."""
    document = {"instant": instant} | asdict(consumption)
    for unrecorded in ("directory", "listed", "ignores_other_sources"):
        del document[unrecorded]
    store.put(entry_path(consumption.source, instant), json.dumps(document).encode())


def consumed_by(store: ObjectStore, source: str, instant: str) -> Consumption | None:
    """Return the data that ``instant`` consumed from ``source``, or None if it consumed nothing."""
    try:
        return _parse(store, entry_path(source, instant))[1]
    except NotFoundError:
        # The entry never existed, or was folded.
        entry = _entries(store, source, rows=pc.field("instant") == instant).get(instant)
        return None if entry is None else entry.consumption


def history(
    store: ObjectStore, source: str, effective: EffectiveWrites, *, batch: tuple[str, int] | None = None
) -> tuple[tuple[str, Consumption], ...]:
    """Return the effective entries of a source with their instants, oldest first.

    A stream has an entry for each batch that it ever wrote. So ``batch``, a stream's query and batch number,
    limits the result to this batch.
    """
    rows = None
    if batch is not None:
        rows = (pc.field("query_id") == batch[0]) & (pc.field("batch_id") == batch[1])
    entries = _entries(store, source, rows=rows)
    return tuple(
        (instant, entry.consumption)
        for instant, entry in sorted(entries.items())
        if batch in (None, entry.consumption.batch) and effective.counts(instant, is_settled=entry.is_settled)
    )


def table_history(store: ObjectStore, effective: EffectiveWrites) -> tuple[tuple[str, Consumption], ...]:
    """Return the effective entries of all sources except streams, each with its instant, oldest first."""
    folders = (path.rstrip("/").rpartition("/")[2] for path in store.list_folders(LEDGER_FOLDER))
    sources = sorted(name for name in map(unquote, folders) if not name.startswith(STREAM))
    found = map_each(sources, lambda source: history(store, source, effective))
    return tuple(sorted((pair for entries in found for pair in entries), key=lambda pair: pair[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAgain:
    """The data that is new to a source after writes are rolled back; a table or a stream has no files."""

    source: str
    files: int
    size_bytes: int


def read_again(store: ObjectStore, instants: Collection[str]) -> tuple[ReadAgain, ...]:
    """Return the data that becomes new to its sources when these writes are rolled back, by source.

    Call this before the writes are rolled back.
    """
    return tuple(
        ReadAgain(source=source, files=len(files), size_bytes=sum(file.size_bytes for file in files))
        for source, files in ingested_by(store, instants).items()
    )


def ingested_by(store: ObjectStore, instants: Collection[str]) -> Mapping[str, Sequence[SourceFile]]:
    """Return the files that these writes have ingested, by source. Tables and streams have no files."""
    rows = pc.field("instant").isin(sorted(instants))
    folders = (path.rstrip("/").rpartition("/")[2] for path in store.list_folders(LEDGER_FOLDER))
    found = {}
    for source in sorted(map(unquote, folders)):
        entries = _entries(store, source, rows=rows)
        taken = [entries[each].consumption for each in instants if each in entries]
        ingested = [each for each in taken if each.kind is EntryKind.INGESTED]
        if ingested:
            found[source] = [file for each in ingested if each.table_id is None for file in each.files]
    return found


def common_files(
    files: Iterable[SourceFile], entry: Consumption, locate: Callable[[str], str]
) -> tuple[SourceFile, ...]:
    """Return those of the files that the write of the entry has consumed.

    Such a file has the same content, or is unchanged at the same location. ``locate`` returns the absolute
    location of a path.
    """
    contents = {content for file in entry.files for content in file.contents}
    listed = tuple(files)
    names = {file.path.rpartition("/")[2] for file in listed}
    at = {locate(f.path): f for f in entry.files if f.path.rpartition("/")[2] in names}

    def is_taken(file: SourceFile) -> bool:
        if contents.intersection(file.contents):
            return True
        other = at.get(locate(file.path))
        return other is not None and file.is_same_as(other)

    return tuple(file for file in listed if is_taken(file))


def newest_read(entries: Iterable[tuple[str, Consumption]]) -> Consumption | None:
    """Return the entry that ingested a Hudi table up to the newest position, or None without entries."""
    reads = (entry for _, entry in entries if entry.until is not None)
    return max(reads, key=lambda entry: entry.until or "", default=None)


def newest_readings(entries: Iterable[tuple[str, Consumption]]) -> Mapping[str, tuple[str, str]]:
    """Return the digest and the instant of the last full read of each source, by source.

    ``entries`` are in the order of time, oldest first.
    """
    return {entry.source: (entry.reading, time) for time, entry in entries if entry.reading is not None}


def equal_full_read(entries: Iterable[tuple[str, Consumption]], mine: Consumption) -> tuple[str, str] | None:
    """Return the source and the instant of the last full read if it read the same data as ``mine``, or None.

    If the source of ``mine`` was never read, all sources are compared, because it may have been renamed.
    """
    readings = newest_readings(entries)
    sources = [mine.source] if mine.source in readings else readings
    found = (each for each in sources if readings[each][0] == mine.reading)
    return next(((each, readings[each][1]) for each in found), None)


def fold(store: ObjectStore, source: str, effective: EffectiveWrites) -> int:
    """Fold many entries into one Parquet file, and return the number of entries that were folded.

    The states of archived writes are recorded too, so that the archive log need not be read again. Entries of
    pending writes stay, and those of writes that were rolled back for good are deleted. Folding is safe
    beside other readers and writers: the folded file appears as a whole before anything is deleted, duplicate
    entries count once, and entries that another writer has folded are kept.
    """
    listed = [info.path for info in store.list(_folder(source))]
    own = [path for path in listed if path.endswith(_ENTRY)]
    ready = [path for path in own if effective.counts(_instant_of(path), is_settled=True)]
    if len(ready) <= FOLD_ABOVE and not effective.has_unknown_writes:
        return 0
    former = [path for path in listed if is_folded(path)]
    try:
        entries = dict(map_each(ready, lambda path: _parse(store, path)))
        tables = map_each(former, lambda path: _read_table(store, path))
    except NotFoundError:
        # Another writer folds at the same time.
        return 0
    fresh = pa.Table.from_pylist(_rows(sorted(entries.items())), schema=_FOLDED_SCHEMA)
    folded = _with_final_states(_joined([*tables, fresh]), effective)
    if folded.num_rows:
        sink = io.BytesIO()
        pq.write_table(folded, sink)
        # The name is unique, because a concurrent writer may fold more entries, or fewer.
        newest = pc.max(folded.column("instant")).as_py()
        store.put(f"{_folder(source)}/{newest}.{uuid.uuid4().hex}{FOLDED}", sink.getvalue())
    store.delete_all([*former, *ready])
    return len(entries)


_LIST_ATTEMPTS = 5
_ENTRY = ".json"
_HINTS = "hints"
STREAM = "stream:"
"""The prefix of the source names of streams."""


def _folder(source: str) -> str:
    return f"{LEDGER_FOLDER}/{quote(source, safe='')}"


def _instant_of(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".", 1)[0]


@dataclass(frozen=True, slots=True)
class _Entry:
    consumption: Consumption
    is_settled: bool = False


def _entries(store: ObjectStore, source: str, *, rows: pc.Expression | None) -> Mapping[str, _Entry]:
    """Return all entries by instant. In folded files, only the rows that ``rows`` selects are read."""

    def read(path: str) -> Iterable[tuple[str, _Entry]]:
        if not is_folded(path):
            instant, consumption = _parse(store, path)
            return ((instant, _Entry(consumption)),)
        table = _read_table(store, path)
        return tuple(_unfolded(source, table if rows is None else table.filter(rows)))

    for _ in range(_LIST_ATTEMPTS):
        listed = [info.path for info in store.list(_folder(source))]
        try:
            found = map_each([path for path in listed if path.endswith(_ENTRY) or is_folded(path)], read)
        except NotFoundError:
            # Another writer folded the entry between the listing and the read.
            continue
        entries: dict[str, _Entry] = {}
        for instant, entry in (pair for pairs in found for pair in pairs):
            if instant not in entries or entry.is_settled:
                entries[instant] = entry
        return entries
    raise ConflictError(
        "{table}/{folder} changed each time it was read; run again when fewer writers ingest this source",
        table=store.uri,
        folder=_folder(source),
    )


def _parse(store: ObjectStore, path: str) -> tuple[str, Consumption]:
    try:
        document = parsed_json(store.read(path))
        instant = str(document.pop("instant"))
        consumption = from_json_value(Consumption, document, place="entry")
    except (ValueError, KeyError, TypeError, AttributeError, InvalidDataError) as error:
        raise CorruptTableError(
            "{table}/{file} is not a valid ledger entry ({reason}); to ingest its files again, delete it",
            table=store.uri,
            file=path,
            reason=message_of(error),
        ) from error
    return instant, consumption


def _rows(entries: Sequence[tuple[str, Consumption]]) -> list[dict[str, Any]]:
    """Return the rows of a folded file, one per source file, or one for an entry without files."""
    rows: list[dict[str, Any]] = []
    for instant, consumption in entries:
        common = {
            "instant": instant,
            "kind": str(consumption.kind),
            "table_id": consumption.table_id,
            "since": consumption.since,
            "until": consumption.until,
            "until_time": consumption.until_time,
            "query_id": consumption.query_id,
            "batch_id": consumption.batch_id,
            "reading": consumption.reading,
        }
        rows.extend(common | asdict(file) for file in consumption.files)
        if not consumption.files:
            rows.append(common)
    return rows


def _read_table(store: ObjectStore, path: str) -> pa.Table:
    """Read a folded file; columns that earlier versions did not write are null."""
    try:
        with store.open_input(path) as handle:
            table = read_parquet(handle)
        columns = [
            table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in _FOLDED_SCHEMA
        ]
        folded = pa.Table.from_arrays(columns, schema=_FOLDED_SCHEMA)
        folded.validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # an error of the store, not of Arrow
            raise
        raise CorruptTableError(
            "{table}/{file} is not a valid folded ledger ({reason}); restore it from a copy, or, to "
            "ingest its files again, delete it",
            table=store.uri,
            file=path,
            reason=message_of(error),
        ) from error
    return folded


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Join the tables. If several have rows of an instant, those of the first table are kept.

    An instant is settled if it is settled in any of the tables.
    """
    parts: list[pa.Table] = []
    seen: set[str] = set()
    settled: set[str] = set()
    for table in tables:
        instants = _instants(table)
        settled |= _instants(table.filter(pc.field("is_settled")))
        parts.append(table.filter(_is_one_of(table, instants - seen)))
        seen |= instants
    return _with_settled(pa.concat_tables(parts), settled)


def _with_final_states(table: pa.Table, effective: EffectiveWrites) -> pa.Table:
    """Return the rows of all writes that were not rolled back, with those marked whose state is final."""
    settled = _instants(table.filter(pc.field("is_settled")))
    states = {instant: effective.state_of(instant) for instant in _instants(table) - settled}
    rolled_back = {instant for instant, state in states.items() if state is WriteState.ROLLED_BACK}
    settled |= {instant for instant, state in states.items() if state is WriteState.SETTLED}
    return _with_settled(table.filter(pc.invert(_is_one_of(table, rolled_back))), settled)


def _with_settled(table: pa.Table, settled: set[str]) -> pa.Table:
    """Return the rows with ``is_settled`` set for these instants."""
    position = table.column_names.index("is_settled")
    return table.set_column(position, _FOLDED_SCHEMA.field("is_settled"), _is_one_of(table, settled))


def _instants(table: pa.Table) -> set[str]:
    return set(table.column("instant").unique().to_pylist())


def _is_one_of(table: pa.Table, instants: set[str]) -> pa.ChunkedArray:
    return pc.is_in(table.column("instant"), value_set=pa.array(sorted(instants), pa.string()))


def _unfolded(source: str, table: pa.Table) -> Iterator[tuple[str, _Entry]]:
    # Read by column, because there is a row for each file that was ever ingested.
    """Yield the entries of a folded table by instant."""
    files: dict[str, list[SourceFile]] = {}
    of_file = zip(*(table.column(name).to_pylist() for name in ("instant", *_OF_FILE)), strict=True)
    for instant, path, size_bytes, modified_ms, etag, digest in of_file:
        listed = files.setdefault(instant, [])
        if path is not None:
            listed.append(
                SourceFile(
                    path=path, size_bytes=size_bytes, modified_ms=modified_ms, etag=etag, digest=digest
                )
            )
    codes = table.column("instant").combine_chunks().dictionary_encode().indices
    first = np.unique(codes.to_numpy(), return_index=True)[1]
    for row in table.take(first).drop_columns(_OF_FILE).to_pylist():
        instant, is_settled = row.pop("instant"), row.pop("is_settled")
        kind = EntryKind(row.pop("kind") or EntryKind.INGESTED)
        yield (
            instant,
            _Entry(
                Consumption(source=source, kind=kind, files=tuple(files[instant]), **row), bool(is_settled)
            ),
        )
