"""Which files of a source a table has taken in, and which are due.

The ledger is a sidecar: one entry per write, named by its instant T, put before T is published
and counted only while T is effective. So a write that died, was rolled back or restored away
makes its files new again without anybody touching the ledger. Entries are folded into one parquet
file when they grow many. The folded rows keep their T and are judged as entries are, until T has left
the timeline: what became of it then is remembered.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.message import Message, Value
from parquetry.runtime.errors import ConflictError, CorruptTableError, InvalidDataError, NotFoundError
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.spec.codec import from_json_value, parsed_json
from parquetry.runtime.spec.table_spec import Operation
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.timeline.effective_writes import EffectiveWrites, WriteState
from parquetry.runtime.timeline.sidecars import FOLDED, LEDGER_FOLDER, is_folded

FOLD_ABOVE = 16

_REFUSE_CHANGED = (Operation.INSERT, Operation.BULK_INSERT)

_FOLDED_SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("modified_ms", pa.int64()),
        ("etag", pa.string()),
        ("since", pa.string()),
        ("until", pa.string()),
        ("query_id", pa.string()),
        ("batch_id", pa.int64()),
        ("is_settled", pa.bool_()),
        ("reading", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file as it was when it was consumed; ``path`` starts as declared."""

    path: str
    size_bytes: int
    modified_ms: int
    etag: str | None = None

    def is_same_as(self, other: SourceFile) -> bool:
        """Whether both are the same content, judged by etag where both have one, else by size and time."""
        if self.etag is not None and other.etag is not None:
            return self.etag == other.etag and self.size_bytes == other.size_bytes
        return (self.size_bytes, self.modified_ms) == (other.size_bytes, other.modified_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """What one write takes from one source.

    ``files`` for file formats; for a Hudi table ``until``, the newest instant read, and ``since``,
    the newest one read before (None: there was none, or the entry is of a version that did not say);
    ``query_id`` and ``batch_id`` for a batch of a stream; ``reading``, a digest of all that was there, for a
    source that is read in full. ``directory`` is where relative paths of
    ``files`` start, as far as it is known: it is not recorded.
    """

    source: str
    files: tuple[SourceFile, ...] = ()
    since: str | None = None
    until: str | None = None
    query_id: str | None = None
    batch_id: int | None = None
    reading: str | None = None
    directory: str | None = field(default=None, compare=False)

    @property
    def batch(self) -> tuple[str, int] | None:
        """The query and the number of a batch of a stream; None for what is no batch."""
        return None if self.query_id is None or self.batch_id is None else (self.query_id, self.batch_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueFiles:
    """The files a run has to read, and how many of them had been read in an older version."""

    files: tuple[SourceFile, ...]
    changed: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ingest."""
        return not self.files


def entry_path(source: str, instant: str) -> str:
    """Where the ledger keeps what ``instant`` took from ``source``."""
    return f"{_folder(source)}/{instant}.json"


def is_ledger_entry(path: str) -> bool:
    """Whether a path within a table is what one write took from a source, not folded yet."""
    name = path.rpartition("/")[2]
    return path.startswith(f"{LEDGER_FOLDER}/") and name.endswith(_ENTRY) and _instant_of(name).isdigit()


def record(store: ObjectStore, instant: str, consumption: Consumption) -> None:
    """Write the entry of ``instant``; to be called before the commit is published."""
    document = {"instant": instant} | asdict(consumption)
    del document["directory"]
    store.put(entry_path(consumption.source, instant), json.dumps(document).encode())


def consumed_by(store: ObjectStore, source: str, instant: str) -> Consumption | None:
    """What ``instant`` took from ``source``; None when it took nothing."""
    try:
        return _parse(store, entry_path(source, instant))[1]
    except NotFoundError:
        # Never there, or folded away.
        entry = _entries(store, source, rows=pc.field("instant") == instant).get(instant)
        return None if entry is None else entry.consumption


def history(
    store: ObjectStore, source: str, effective: EffectiveWrites, *, batch: tuple[str, int] | None = None
) -> tuple[tuple[str, Consumption], ...]:
    """The effective entries of a source with their instants, oldest first.

    Only those of ``batch``, a stream's query and the number within it, when that is given: a stream
    has an entry for each batch that it ever wrote.
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


def ingested_by(
    found: Iterable[SourceFile],
    entries: Iterable[tuple[str, Consumption]],
    place: Callable[[str], str],
) -> Mapping[str, tuple[str, SourceFile]]:
    """Of the files found those that entries, oldest first, name: who took them last, and as what, by path.

    ``place`` says which file a path means; it is asked for files that are not named as they are now.
    """
    named = {file.path: (instant, file) for instant, entry in entries for file in entry.files}
    listed = list(found)
    taken = {f.path: named[f.path] for f in listed if f.path in named and f.is_same_as(named[f.path][1])}
    others = {place(file.path): file.path for file in listed if file.path not in taken}
    names = {path.rpartition("/")[2] for path in others.values()}
    # Whose place is asked for; the last to have taken the file is the last to be looked at.
    alike = [path for path in named if path not in taken and path.rpartition("/")[2] in names]
    for path in sorted(alike, key=lambda path: named[path][0]):
        if (meant := others.get(place(path))) is not None:
            taken[meant] = named[path]
    return taken


def newest_until(entries: Iterable[tuple[str, Consumption]]) -> str | None:
    """Up to which instant a Hudi table has been taken in by these entries; None before the first time."""
    return max((entry.until for _, entry in entries if entry.until is not None), default=None)


def newest_reading(entries: Iterable[tuple[str, Consumption]]) -> str | None:
    """What was there when the source was last read in full, by these entries, oldest first."""
    return next((entry.reading for _, entry in reversed(tuple(entries)) if entry.reading is not None), None)


def due_files(
    found: Iterable[SourceFile], taken: Mapping[str, SourceFile], operation: Operation, *, source: str
) -> DueFiles:
    """The files not consumed yet, or consumed in another version, in the order they were modified.

    Raises :class:`InvalidDataError` when a consumed file changed and the operation would insert
    its rows a second time.
    """
    new, changed = [], []
    for file in found:
        before = taken.get(file.path)
        if before is None:
            new.append(file)
        elif not file.is_same_as(before):
            changed.append(file)
    if changed and operation in _REFUSE_CHANGED:
        raise InvalidDataError(
            Message(
                f"source {source}: ",
                Value.uri(changed[0].path),
                f" changed after it was ingested, and {operation} would write its rows twice; "
                "put the new rows into a new file, or declare operation: upsert",
            )
        )
    ordered = sorted(new + changed, key=lambda file: (file.modified_ms, file.path))
    return DueFiles(files=tuple(ordered), changed=len(changed))


def fold(store: ObjectStore, source: str, effective: EffectiveWrites) -> int:
    """Put many entries into one parquet file, and remember what was asked of the archive log.

    Returns how many entries were folded. What is pending stays as it is, and what was undone for good
    goes. Safe beside other readers and writers: the folded file appears whole before anything is removed,
    entries present twice count once, and what another writer has folded is carried over.
    """
    listed = [info.path for info in store.list(_folder(source))]
    own = [path for path in listed if path.endswith(_ENTRY)]
    ready = [path for path in own if effective.counts(_instant_of(path), is_settled=True)]
    if len(ready) <= FOLD_ABOVE and not effective.has_asked_archive:
        return 0
    former = [path for path in listed if is_folded(path)]
    try:
        entries = dict(map_each(ready, lambda path: _parse(store, path)))
        tables = map_each(former, lambda path: _read_table(store, path))
    except NotFoundError:
        # Another writer folds at this moment.
        return 0
    fresh = pa.Table.from_pylist(_rows(sorted(entries.items())), schema=_FOLDED_SCHEMA)
    folded = _judged(_joined([*tables, fresh]), effective)
    if folded.num_rows:
        sink = io.BytesIO()
        pq.write_table(folded, sink)
        # A name of its own: whoever folds at the same time may know of more entries, or of fewer.
        newest = pc.max(folded.column("instant")).as_py()
        store.put(f"{_folder(source)}/{newest}.{uuid.uuid4().hex}{FOLDED}", sink.getvalue())
    store.delete_all([*former, *ready])
    return len(entries)


_LIST_ATTEMPTS = 5
_ENTRY = ".json"


def _folder(source: str) -> str:
    return f"{LEDGER_FOLDER}/{quote(source, safe='')}"


def _instant_of(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".", 1)[0]


@dataclass(frozen=True, slots=True)
class _Entry:
    consumption: Consumption
    is_settled: bool = False


def _entries(store: ObjectStore, source: str, *, rows: pc.Expression | None) -> Mapping[str, _Entry]:
    """All entries, by instant; of folded ones those whose rows are wanted."""

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
            # Folded away by another writer between the listing and the reading.
            continue
        entries: dict[str, _Entry] = {}
        for instant, entry in (pair for pairs in found for pair in pairs):
            if instant not in entries or entry.is_settled:
                entries[instant] = entry
        return entries
    raise ConflictError(
        f"{store.uri}/{_folder(source)} kept changing while it was read; run again when fewer writers "
        "ingest this source"
    )


def _parse(store: ObjectStore, path: str) -> tuple[str, Consumption]:
    try:
        document = parsed_json(store.read(path))
        instant = str(document.pop("instant"))
        consumption = from_json_value(Consumption, document, place="entry")
    except (ValueError, KeyError, TypeError, AttributeError, InvalidDataError) as error:
        raise CorruptTableError(
            f"{store.uri}/{path} is no ledger entry ({error}); delete it to have its files ingested again"
        ) from error
    return instant, consumption


def _rows(entries: Sequence[tuple[str, Consumption]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for instant, consumption in entries:
        common = {
            "instant": instant,
            "since": consumption.since,
            "until": consumption.until,
            "query_id": consumption.query_id,
            "batch_id": consumption.batch_id,
            "reading": consumption.reading,
        }
        rows.extend(common | asdict(file) for file in consumption.files)
        if not consumption.files:
            rows.append(common)
    return rows


def _read_table(store: ObjectStore, path: str) -> pa.Table:
    """A folded file; what former versions did not say is null."""
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
        if isinstance(error, OSError) and error.errno is not None:  # the store's, not Arrow's
            raise
        raise CorruptTableError(
            f"{store.uri}/{path} is no folded ledger ({error}); restore it from a copy, or delete it to have "
            "its files ingested again"
        ) from error
    return folded


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of all tables, of an instant those of the first that has it; settled if any says so."""
    parts: list[pa.Table] = []
    seen: set[str] = set()
    settled: set[str] = set()
    for table in tables:
        instants = _instants(table)
        settled |= _instants(table.filter(pc.field("is_settled")))
        parts.append(table.filter(_is_one_of(table, instants - seen)))
        seen |= instants
    return _marked(pa.concat_tables(parts), settled)


def _judged(table: pa.Table, effective: EffectiveWrites) -> pa.Table:
    """The rows without those of writes that were undone for good, and with what became of the others."""
    settled = _instants(table.filter(pc.field("is_settled")))
    states = {instant: effective.state_of(instant) for instant in _instants(table) - settled}
    rolled_back = {instant for instant, state in states.items() if state is WriteState.ROLLED_BACK}
    settled |= {instant for instant, state in states.items() if state is WriteState.SETTLED}
    return _marked(table.filter(pc.invert(_is_one_of(table, rolled_back))), settled)


def _marked(table: pa.Table, settled: set[str]) -> pa.Table:
    position = table.column_names.index("is_settled")
    return table.set_column(position, _FOLDED_SCHEMA.field("is_settled"), _is_one_of(table, settled))


def _instants(table: pa.Table) -> set[str]:
    return set(table.column("instant").unique().to_pylist())


def _is_one_of(table: pa.Table, instants: set[str]) -> pa.ChunkedArray:
    return pc.is_in(table.column("instant"), value_set=pa.array(sorted(instants), pa.string()))


def _unfolded(source: str, table: pa.Table) -> Iterator[tuple[str, _Entry]]:
    # By column, as there is a row for each file that was ever taken.
    columns = (table.column(name).to_pylist() for name in _FOLDED_SCHEMA.names)
    files: dict[str, list[SourceFile]] = {}
    said: dict[str, tuple[str | None, str | None, str | None, int | None, bool | None, str | None]] = {}
    for instant, name, size_bytes, modified_ms, etag, *rest in zip(*columns, strict=True):
        if instant not in said:
            since, until, query_id, batch_id, is_settled, reading = rest
            said[instant] = (since, until, query_id, batch_id, is_settled, reading)
            files[instant] = []
        if name is not None:
            file = SourceFile(path=name, size_bytes=size_bytes, modified_ms=modified_ms, etag=etag)
            files[instant].append(file)
    for instant, (since, until, query_id, batch_id, is_settled, reading) in said.items():
        consumption = Consumption(
            source=source,
            files=tuple(files[instant]),
            since=since,
            until=until,
            query_id=query_id,
            batch_id=batch_id,
            reading=reading,
        )
        yield instant, _Entry(consumption, bool(is_settled))
