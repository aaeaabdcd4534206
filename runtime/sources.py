"""Which files of a source a table has taken in, and which are due.

The ledger is a sidecar: one entry per write, named by its instant T, put before T is published
and counted only while T is effective. So a write that died, was rolled back or restored away
makes its files new again without anybody touching the ledger. Entries whose writes nothing can undo
any more are folded into one parquet file when they grow many; the folded rows keep their T.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.runtime.errors import ConflictError, CorruptTableError, InvalidDataError, NotFoundError
from parquetry.runtime.parallel import map_each
from parquetry.runtime.parquet_input import read_parquet
from parquetry.runtime.spec import Operation
from parquetry.runtime.storage import ObjectStore

LEDGER_FOLDER = ".hoodie/.parquetry/sources"
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
    ``query_id`` and ``batch_id`` for a batch of a stream.
    """

    source: str
    files: tuple[SourceFile, ...] = ()
    since: str | None = None
    until: str | None = None
    query_id: str | None = None
    batch_id: int | None = None

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
    store.put(entry_path(consumption.source, instant), json.dumps(document).encode())


def consumed_by(store: ObjectStore, source: str, instant: str) -> Consumption | None:
    """What ``instant`` took from ``source``; None when it took nothing or its entry is folded."""
    try:
        return _parse(store, entry_path(source, instant))[1]
    except NotFoundError:
        return None


def history(
    store: ObjectStore,
    source: str,
    is_effective: Callable[[str], bool],
    *,
    batch: tuple[str, int] | None = None,
) -> tuple[tuple[str, Consumption], ...]:
    """The effective entries of a source with their instants, oldest first.

    Only those of ``batch``, a stream's query and the number within it, when that is given: a stream
    has an entry for each batch that it ever wrote.
    """
    entries: dict[str, Consumption] = {}
    for _ in range(_LIST_ATTEMPTS):
        try:
            paths = [info.path for info in store.list(_folder(source))]
            entries = dict(_read_each(store, source, paths, batch=batch))
            break
        except NotFoundError:
            # Folded away by another writer between the listing and the reading.
            continue
    else:
        raise ConflictError(
            f"{store.uri}/{_folder(source)} kept changing while it was read; run again when fewer writers "
            "ingest this source"
        )
    return tuple((t, entries[t]) for t in sorted(entries) if is_effective(t))


def consumed(
    store: ObjectStore,
    source: str,
    is_effective: Callable[[str], bool],
    *,
    place: Callable[[str], str] = str,
) -> Mapping[str, SourceFile]:
    """The newest consumed version of every file, by ``place`` of its path: by the path without it."""
    files: dict[str, SourceFile] = {}
    for _, consumption in history(store, source, is_effective):
        files.update((place(file.path), file) for file in consumption.files)
    return files


def newest_until(entries: Iterable[tuple[str, Consumption]]) -> str | None:
    """Up to which instant a Hudi table has been taken in by these entries; None before the first time."""
    return max((entry.until for _, entry in entries if entry.until is not None), default=None)


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
            f"source {source}: {changed[0].path} changed after it was ingested, and {operation} would write "
            "its rows twice; put the new rows into a new file, or declare operation: upsert"
        )
    ordered = sorted(new + changed, key=lambda file: (file.modified_ms, file.path))
    return DueFiles(files=tuple(ordered), changed=len(changed))


def fold(store: ObjectStore, source: str, is_settled: Callable[[str], bool]) -> int:
    """Put many settled entries into one parquet file; returns how many were folded.

    Only writes that nothing can undo any more are folded. Safe beside other readers and writers: the
    folded file appears whole before anything is removed, entries present twice count once, and what
    another writer has folded is carried over as it is.
    """
    listed = [info.path for info in store.list(_folder(source))]
    settled = [path for path in listed if path.endswith(_ENTRY) and is_settled(_instant_of(path))]
    if len(settled) <= FOLD_ABOVE:
        return 0
    former = [path for path in listed if path.endswith(_FOLDED)]
    try:
        entries = dict(_read_each(store, source, [*former, *settled]))
    except NotFoundError:
        # Another writer folds at this moment.
        return 0
    sink = io.BytesIO()
    rows = _rows([(instant, entries[instant]) for instant in sorted(entries)])
    pq.write_table(pa.Table.from_pylist(rows, schema=_FOLDED_SCHEMA), sink)
    # A name of its own: whoever folds at the same time may know of more entries, or of fewer.
    store.put(f"{_folder(source)}/{max(entries)}.{uuid.uuid4().hex}{_FOLDED}", sink.getvalue())
    store.delete_all([*former, *settled])
    return len(settled)


_LIST_ATTEMPTS = 5
_ENTRY = ".json"
_FOLDED = ".folded.parquet"


def _folder(source: str) -> str:
    return f"{LEDGER_FOLDER}/{quote(source, safe='')}"


def _instant_of(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".", 1)[0]


def _read_each(
    store: ObjectStore, source: str, paths: Iterable[str], *, batch: tuple[str, int] | None = None
) -> Iterable[tuple[str, Consumption]]:
    def read(path: str) -> Iterable[tuple[str, Consumption]]:
        if path.endswith(_FOLDED):
            return tuple(_read_folded(store, source, path, batch))
        instant, entry = _parse(store, path)
        return ((instant, entry),) if batch in (None, entry.batch) else ()

    wanted = [path for path in paths if path.endswith((_ENTRY, _FOLDED))]
    return (entry for entries in map_each(wanted, read) for entry in entries)


def _parse(store: ObjectStore, path: str) -> tuple[str, Consumption]:
    try:
        document = json.loads(store.read(path))
        files = tuple(SourceFile(**file) for file in document["files"])
        consumption = Consumption(
            source=document["source"],
            files=files,
            since=document.get("since"),
            until=document["until"],
            query_id=document["query_id"],
            batch_id=document["batch_id"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(
            f"{store.uri}/{path} is no ledger entry ({error}); delete it to have its files ingested again"
        ) from error
    return document["instant"], consumption


def _rows(entries: Sequence[tuple[str, Consumption]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for instant, consumption in entries:
        common = {
            "instant": instant,
            "since": consumption.since,
            "until": consumption.until,
            "query_id": consumption.query_id,
            "batch_id": consumption.batch_id,
        }
        rows.extend(common | asdict(file) for file in consumption.files)
        if not consumption.files:
            rows.append(common)
    return rows


def _read_folded(
    store: ObjectStore, source: str, path: str, batch: tuple[str, int] | None
) -> Iterable[tuple[str, Consumption]]:
    with store.open_input(path) as handle:
        table = read_parquet(handle)
    if batch is not None:
        query_id, batch_id = batch
        table = table.filter((pc.field("query_id") == query_id) & (pc.field("batch_id") == batch_id))
    # By column, as there is a row for each file that was ever taken. Former versions have no ``since``.
    columns = (
        table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows
        for name in _FOLDED_SCHEMA.names
    )
    files: dict[str, list[SourceFile]] = {}
    said: dict[str, tuple[str | None, str | None, str | None, int | None]] = {}
    for instant, name, size_bytes, modified_ms, etag, since, until, query, number in zip(
        *columns, strict=True
    ):
        if instant not in said:
            said[instant] = (since, until, query, number)
            files[instant] = []
        if name is not None:
            file = SourceFile(path=name, size_bytes=size_bytes, modified_ms=modified_ms, etag=etag)
            files[instant].append(file)
    for instant, (since, until, query, number) in said.items():
        yield (
            instant,
            Consumption(
                source=source,
                files=tuple(files[instant]),
                since=since,
                until=until,
                query_id=query,
                batch_id=number,
            ),
        )
