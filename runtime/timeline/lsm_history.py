"""The archive of layout 2, which holds the completed instants that left the active timeline.

Its Parquet files ``<min time>_<max time>_<level>.parquet`` have one row for each instant. ``manifest_<n>``
names all Parquet files that count, and ``_version_`` contains the number of the manifest that counts. We add
each batch as a file of level 0. Hudi merges several files into one of the next level, and deletes files
that no recent manifest names. Source: LSMTimeline, LSMTimelineWriter and
MetadataConversionUtils.createLSMTimelineInstant of Hudi 1.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.errors import message_of
from parquetry.runtime.errors import (
    UNUSABLE,
    CorruptTableError,
    NotFoundError,
    StaleTimelineError,
    TooLargeError,
)
from parquetry.runtime.spec.codec import json_object
from parquetry.runtime.storage.model import ObjectInfo, ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import logging_failures
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.timeline.archive_log import ArchivedInstant, ChangeEntry
from parquetry.runtime.timeline.avro_model import decode_container, encoded_again, record_schema
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, Action, Instant, State

_VERSION_NAME: Final = "_version_"
_VERSION_TEXT = re.compile(rb"[0-9]{1,9}")
_MANIFEST_NAME = re.compile(r"manifest_([0-9]{1,9})")
FILE_NAME = re.compile(r"([0-9]{1,20})_([0-9]{1,20})_[0-9]\.parquet")
_KEPT_MANIFESTS: Final = 3
"""The number of newest manifests that stay, as in Hudi: readers may still use the older ones of them."""

_PART_BYTES: Final = 1 << 28

_SMALL_FILE_BYTES: Final = 1 << 23
"""The size up to which a file is read completely, even if only some columns are needed."""

_BATCH_ROWS: Final = 64
_VERSION_OF_ROWS: Final = 1
_SCHEMA: Final = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_FOOTER: Final = {
    "parquet.avro.schema": json.dumps(record_schema("HoodieLSMTimelineInstant"), separators=(",", ":")),
    "writer.model.name": "avro",
}
_FIELDS: Final = ("instantTime", "completionTime", "action", "metadata", "plan")
_TIMES: Final = ("instantTime", "completionTime", "action")
_BRANCHES: Final[Mapping[str, str]] = {
    Action.COMMIT: "hoodieCommitMetadata",
    Action.DELTACOMMIT: "hoodieCommitMetadata",
    Action.REPLACECOMMIT: "hoodieReplaceCommitMetadata",
    Action.CLEAN: "hoodieCleanMetadata",
    Action.ROLLBACK: "hoodieRollbackMetadata",
    Action.SAVEPOINT: "hoodieSavePointMetadata",
    Action.INDEXING: "hoodieIndexCommitMetadata",
}
"""The fields of the archive log for the contents of completed instants."""

_PLANNED: Final = frozenset({Action.REPLACECOMMIT, Action.CLEAN})
"""The actions whose plan is archived. It is the content of the requested file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A completed instant as a row of the archive.

    ``metadata`` is the content of the completed file, and ``plan`` that of the requested one. Both are None
    if the file is empty or absent. Rows that Hudi archived contain the inflight file as the plan of a
    replacecommit, if that file is not empty.
    """

    time: str
    completed_at: str | None
    action: str
    metadata: bytes | None
    plan: bytes | None

    @property
    def key(self) -> tuple[str, str]:
        """The time and the action, which identify the instant."""
        return self.time, self.action


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFile:
    """A Parquet file of the archive as its manifest lists it. Its name contains the range of the times."""

    name: str
    size_bytes: int

    @property
    def first(self) -> str:
        """The smallest time of its instants."""
        return self.name.split("_")[0]

    @property
    def last(self) -> str:
        """The greatest time of its instants."""
        return self.name.split("_")[1]


def newest_files_first(store: ObjectStore, folder: str) -> Iterator[tuple[int, list[ArchivedInstant] | None]]:
    """Yield the position in the manifest and the instants of each file, the file with the newest time first.

    Each file is read when the iterator reaches it. The instants are None if the file is missing or cannot be
    read. If the manifest is, the only pair is ``(0, None)``.
    """
    try:
        files = live_files(store, folder)
    except UNUSABLE:
        yield 0, None
        return
    numbered = sorted(enumerate(files, 1), key=lambda pair: (pair[1].last, pair[0]), reverse=True)
    for number, file in numbered:
        instants = None
        with suppress(*UNUSABLE):
            place = _place(store, folder, file)
            instants = [_archived_instant(row, place=place) for row in read_rows(store, folder, file)]
        yield number, instants


def live_files(store: ObjectStore, folder: str) -> tuple[HistoryFile, ...]:
    """Return the files of the archive in the order of the manifest, or an empty tuple without an archive.

    Raises:
        CorruptTableError: If the manifest that counts is missing or damaged.

    """
    number = _current_version(store, folder)
    return () if number is None else _read_manifest(store, folder, number)


def read_rows(store: ObjectStore, folder: str, file: HistoryFile) -> list[HistoryRow]:
    """Return the rows of a file.

    Raises:
        NotFoundError: If the file is absent.
        CorruptTableError: If it is not a file of an archive, or is truncated.

    """
    content = store.read(f"{folder}/{file.name}", most_bytes=MOST_BYTES)
    place = _place(store, folder, file)
    return _decode_rows(pa.BufferReader(content), len(content), _FIELDS, place=place)


def completion_times(store: ObjectStore, folder: str, *, since_ms: int = 0) -> dict[str, str]:
    """Return the completion times of archived writes by their requested times.

    Only the columns with the times are read. If two files disagree about a write, the newer one counts.

    Args:
        store: The store of the table.
        folder: The archive folder, relative to the table.
        since_ms: Files that were last modified before this time of the store's clock are left out.

    Raises:
        CorruptTableError: If a file or the manifest is missing or cannot be read.
        StaleTimelineError: If a file was merged into another one during the read.

    """
    files = live_files(store, folder)
    wanted = _modified_since(store, folder, files, since_ms) if since_ms else files

    def times_of(file: HistoryFile) -> list[HistoryRow]:
        try:
            return _read_times(store, folder, file)
        except NotFoundError as error:
            if live_files(store, folder) != files:
                raise StaleTimelineError(
                    "{table}: the archive changed while it was read; run again", table=store.uri
                ) from error
            raise CorruptTableError(
                "{place}: this file of the archive is missing; restore it from a copy, or read the whole "
                "table and continue from its newest commit",
                place=_place(store, folder, file),
            ) from error

    oldest_first = sorted(wanted, key=lambda file: file.last)
    return {
        row.time: row.completed_at
        for rows in map_each(oldest_first, times_of)
        for row in rows
        if row.action in WRITE_ACTIONS and row.completed_at is not None
    }


def entries(
    store: ObjectStore, files: Mapping[str, ObjectInfo], instants: Iterable[Instant]
) -> Iterator[HistoryRow]:
    """Yield the rows of completed instants, in their order.

    Args:
        store: The store of the table.
        files: The state files of the timeline by name.
        instants: Completed instants of layout 2.

    Raises:
        CorruptTableError: If a completed or requested file is not an Avro container. Its instant must not
            leave the timeline.

    """
    for instant in instants:
        plan = None
        if instant.action in _PLANNED and instant.requested.file_name in files:
            plan = _content(store, instant.requested.path)
        yield HistoryRow(
            time=instant.time,
            completed_at=instant.completed_at,
            action=str(instant.action),
            metadata=_content(store, instant.path),
            plan=plan,
        )


def append(
    store: ObjectStore, folder: str, rows: Iterable[HistoryRow], *, part_bytes: int = _PART_BYTES
) -> None:
    """Add rows to the archive, except those of instants that it contains.

    The lock of the table must be held. Readers see either none of the rows or all of them. After a crash, the
    same call adds what is missing. Afterwards the instants may leave the timeline.

    Args:
        store: The store of the table.
        folder: The archive folder, relative to the table.
        rows: The rows, ascending by time.
        part_bytes: The size of the contents of instants at which a new Parquet file is begun.

    Raises:
        CorruptTableError: If the manifest that counts is missing or damaged.

    """
    snapshot = _newest_snapshot(store, folder)
    added: list[HistoryFile] = []
    for part in _parts(rows, part_bytes):
        missing = _without_archived(store, folder, (*snapshot.files, *added), part)
        if missing:
            added.append(_put_file(store, folder, missing))
    while True:
        files = (*snapshot.files, *(file for file in added if file not in snapshot.files))
        number = snapshot.number
        if files == snapshot.files or _put_manifest(store, folder, number := number + 1, files):
            break
        snapshot = _newest_snapshot(store, folder)
    if number:
        _publish(store, folder, number)


def change_files(store: ObjectStore, folder: str, change: ChangeEntry) -> int:
    """Apply ``change`` to the entries of all archived instants, and return the number of files rewritten.

    The lock of the table must be held. Each file is put as a whole, then a manifest with the new sizes. If a
    call ended in between, the next one puts and publishes the manifest.

    Raises:
        CorruptTableError: If the manifest that counts or a file is damaged.

    """
    snapshot = _newest_snapshot(store, folder)
    files: list[HistoryFile] = []
    rewritten = 0
    for file in snapshot.files:
        path, place = f"{folder}/{file.name}", _place(store, folder, file)
        content = store.read(path, most_bytes=MOST_BYTES)
        rows = _decode_rows(pa.BufferReader(content), len(content), _FIELDS, place=place)
        changed = [_changed_row(row, change, place=place) for row in rows]
        if changed != rows:
            content = _encode_rows(changed)
            store.put(path, content)
            rewritten += 1
        files.append(replace(file, size_bytes=len(content)))
    number, is_same = snapshot.number, tuple(files) == snapshot.files
    if number and (is_same or _put_manifest(store, folder, number := number + 1, files)):
        _publish(store, folder, number)
    return rewritten


def _changed_row(row: HistoryRow, change: ChangeEntry, *, place: str) -> HistoryRow:
    """Return the row with ``change`` applied to the content of its completed file."""
    branch = _BRANCHES.get(row.action)
    if branch is None or not row.metadata:
        return row
    entry = _archived_instant(row, place=place).entry
    changed = change(entry)
    return row if changed == entry else replace(row, metadata=encoded_again(row.metadata, changed[branch]))


def _publish(store: ObjectStore, folder: str, number: int) -> None:
    """Make a manifest the one that counts, and delete manifests that no reader uses any more."""
    if _version_in_file(store, folder) != number:
        store.put(f"{folder}/{_VERSION_NAME}", str(number).encode())
    with logging_failures(store.uri, "old manifests of the archive are left behind"):
        manifests = sorted(_manifests(store, folder))
        store.delete_all(_manifest_path(folder, old) for old in manifests[:-_KEPT_MANIFESTS] if old < number)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """A manifest: its number, 0 if the archive is empty, and the files that it lists."""

    number: int
    files: tuple[HistoryFile, ...]


def _newest_snapshot(store: ObjectStore, folder: str) -> _Snapshot:
    """Return the manifest to which the next one adds files.

    A writer that died before it changed ``_version_`` may have left a newer manifest than the one that
    counts. If it is damaged, it is deleted.

    Raises:
        CorruptTableError: If the manifest that counts is missing or damaged.

    """
    manifests = _manifests(store, folder)
    current = _version_in_file(store, folder)
    if current is None:
        current = max(manifests, default=0)
    for number in sorted(manifests, reverse=True):
        if number <= current:
            break
        try:
            return _Snapshot(number=number, files=_read_manifest(store, folder, number))
        except CorruptTableError:
            store.delete(_manifest_path(folder, number))
    return _Snapshot(number=current, files=_read_manifest(store, folder, current) if current else ())


def _current_version(store: ObjectStore, folder: str) -> int | None:
    """Return the number of the manifest that counts, or None without an archive.

    Hudi deletes ``_version_`` before it writes it anew. Without it the greatest number counts.
    """
    number = _version_in_file(store, folder)
    return max(_manifests(store, folder), default=None) if number is None else number


def _version_in_file(store: ObjectStore, folder: str) -> int | None:
    """Return the number in ``_version_``, or None if the file is absent or contains something else."""
    try:
        text = store.read(f"{folder}/{_VERSION_NAME}", most_bytes=16)
    except (NotFoundError, TooLargeError):
        return None
    return int(text) if _VERSION_TEXT.fullmatch(text) else None


def _manifests(store: ObjectStore, folder: str) -> list[int]:
    """Return the numbers of all manifests."""
    matches = (_MANIFEST_NAME.fullmatch(info.path.rpartition("/")[2]) for info in store.list(folder))
    return [int(match[1]) for match in matches if match]


def _manifest_path(folder: str, number: int) -> str:
    return f"{folder}/manifest_{number}"


def _read_manifest(store: ObjectStore, folder: str, number: int) -> tuple[HistoryFile, ...]:
    """Return the files that a manifest lists. It is untrusted: a name may lead nowhere else."""
    path = _manifest_path(folder, number)
    place = f"{store.uri}/{path}"
    try:
        listed = json_object(store.read(path), place=place).get("files")
    except (NotFoundError, TooLargeError) as error:
        raise CorruptTableError(
            "{place} is missing or too large, although {folder}/{version} names it; restore it from a copy, "
            "or delete {version}: then the manifest with the greatest number counts",
            place=place,
            folder=folder,
            version=_VERSION_NAME,
        ) from error
    if not isinstance(listed, list):
        raise CorruptTableError("{place}: a list of files was expected; restore it from a copy", place=place)
    return tuple(_listed_file(member, place) for member in listed)


def _listed_file(member: Any, place: str) -> HistoryFile:
    if isinstance(member, dict):
        name, size_bytes = member.get("fileName"), member.get("fileLen", 0)
        if isinstance(name, str) and FILE_NAME.fullmatch(name) and isinstance(size_bytes, int):
            return HistoryFile(name=name, size_bytes=size_bytes)
    raise CorruptTableError(
        "{place}: it lists something other than files of an archive; restore it from a copy", place=place
    )


def _put_manifest(store: ObjectStore, folder: str, number: int, files: Iterable[HistoryFile]) -> bool:
    """Create a manifest, and return False if another writer has taken its number."""
    listed = [{"fileName": file.name, "fileLen": file.size_bytes} for file in files]
    content = json.dumps({"files": listed}, indent=1).encode()
    return store.put_if_absent(_manifest_path(folder, number), content) is not PutOutcome.LOST


def _put_file(store: ObjectStore, folder: str, rows: Sequence[HistoryRow]) -> HistoryFile:
    """Write the rows to a new file, and return it. The same file of a writer that died is taken."""
    content = _encode_rows(rows)
    times = [row.time for row in rows]
    first, last = min(times), max(times)
    while True:
        file = HistoryFile(name=f"{first}_{last}_0.parquet", size_bytes=len(content))
        path = f"{folder}/{file.name}"
        if store.put_if_absent(path, content) is not PutOutcome.LOST or _has(store, path, content):
            return file
        last = f"{int(last) + 1:0{len(last)}}"


def _has(store: ObjectStore, path: str, content: bytes) -> bool:
    with suppress(*UNUSABLE):
        return store.read(path, most_bytes=len(content)) == content
    return False


def _parts(rows: Iterable[HistoryRow], part_bytes: int) -> Iterator[list[HistoryRow]]:
    """Yield the rows in lists, each of which ends when its contents have at least ``part_bytes`` bytes."""
    part: list[HistoryRow] = []
    size_bytes = 0
    for row in rows:
        part.append(row)
        size_bytes += len(row.metadata or b"") + len(row.plan or b"")
        if size_bytes >= part_bytes:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _without_archived(
    store: ObjectStore, folder: str, files: Iterable[HistoryFile], rows: Collection[HistoryRow]
) -> list[HistoryRow]:
    """Return the rows whose instants none of the files contains. Unreadable files are ignored."""
    first, last = min(row.time for row in rows), max(row.time for row in rows)
    archived: set[tuple[str, str]] = set()
    for file in files:
        if file.first <= last and file.last >= first:
            with suppress(*UNUSABLE):
                archived.update(row.key for row in _read_times(store, folder, file))
    return [row for row in rows if row.key not in archived]


def _modified_since(
    store: ObjectStore, folder: str, files: Iterable[HistoryFile], since_ms: int
) -> list[HistoryFile]:
    """Return the files that were modified since then, and those that are missing."""
    modified = {info.path.rpartition("/")[2]: info.modified_ms for info in store.list(folder)}
    return [file for file in files if modified.get(file.name, since_ms) >= since_ms]


def _place(store: ObjectStore, folder: str, file: HistoryFile) -> str:
    """Return the location of a file for error messages."""
    return f"{file.name} in {store.uri}/{folder}"


def _read_times(store: ObjectStore, folder: str, file: HistoryFile) -> list[HistoryRow]:
    """Return the rows of a file without their contents. Of a large file only these columns are read."""
    path, place = f"{folder}/{file.name}", _place(store, folder, file)
    try:
        content = store.read(path, most_bytes=_SMALL_FILE_BYTES)
    except TooLargeError:
        with store.open_input(path) as source:
            return _decode_rows(source, source.size(), _TIMES, place=place)
    return _decode_rows(pa.BufferReader(content), len(content), _TIMES, place=place)


def _content(store: ObjectStore, path: str) -> bytes | None:
    """Return the content of a state file if it is an Avro container, or None if it is empty."""
    content = store.read(path)
    if not content:
        return None
    decode_container(content, place=f"{store.uri}/{path}")
    return content


def _archived_instant(row: HistoryRow, *, place: str) -> ArchivedInstant:
    """Return the instant of a row, whose content has the name of its field in the archive log."""
    entry: dict[str, Any] = {
        "commitTime": row.time,
        "actionType": row.action,
        "actionState": State.COMPLETED.upper(),
        "stateTransitionTime": row.completed_at,
    }
    branch = _BRANCHES.get(row.action)
    if branch is not None:
        entry[branch] = decode_container(row.metadata, place=place) if row.metadata else None
    return ArchivedInstant(
        time=row.time,
        action=row.action,
        state=State.COMPLETED,
        entry=entry,
        completed_at=row.completed_at,
    )


def _encode_rows(rows: Iterable[HistoryRow]) -> bytes:
    """Return the content of a file with these rows. Equal rows give equal bytes."""
    values = [
        (row.time, row.completed_at, row.action, row.metadata, row.plan, _VERSION_OF_ROWS) for row in rows
    ]
    columns = zip(zip(*values, strict=True), _SCHEMA, strict=True)
    target = BytesIO()
    with pq.ParquetWriter(
        target,
        _SCHEMA,
        compression="gzip",
        use_dictionary=False,
        write_statistics=["instantTime", "completionTime"],
        store_schema=False,
    ) as writer:
        writer.write_table(
            pa.Table.from_arrays([pa.array(column, field.type) for column, field in columns], schema=_SCHEMA)
        )
        writer.add_key_value_metadata(_FOOTER)
    return target.getvalue()


def _decode_rows(source: Any, size_bytes: int, columns: Sequence[str], *, place: str) -> list[HistoryRow]:
    """Return the rows of an untrusted file with these columns. The contents of other columns are None.

    Args:
        source: The open file.
        size_bytes: The size of the file.
        columns: The names of the columns.
        place: The location of the file for error messages.

    Raises:
        CorruptTableError: If it is not a file of an archive, or its contents are larger than any that is
            read completely.

    """
    try:
        return list(_rows(source, size_bytes, columns))
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        # A single changed byte can raise any of these errors, as it may change a name, a type or a value.
        raise CorruptTableError(
            "{place}: not a file of the archive, or truncated ({reason}); restore the file from a copy: only "
            "the history of archived instants is lost",
            place=place,
            reason=message_of(error),
        ) from error


def _rows(source: Any, size_bytes: int, columns: Sequence[str]) -> Iterator[HistoryRow]:
    # Arrow's other readers pass the file to threads of their own: see runtime/parquet/small_files.py.
    with pq.ParquetFile(source, pre_buffer=False) as file:
        for name in columns:
            _check_type(name, file.schema_arrow.field(name).type)
        if file.metadata.num_rows > size_bytes:
            raise ValueError(f"{file.metadata.num_rows} rows in {size_bytes} bytes")
        unpacked_bytes = 0
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns), use_threads=False):
            unpacked_bytes += batch.nbytes
            if unpacked_bytes > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES} bytes of contents")
            for row in batch.to_pylist():
                yield HistoryRow(
                    time=row["instantTime"] or "",
                    completed_at=row["completionTime"],
                    action=row["action"] or "",
                    metadata=row.get("metadata") or None,
                    plan=row.get("plan") or None,
                )


def _check_type(name: str, found: pa.DataType) -> None:
    expected = _SCHEMA.field(name).type
    if found != expected:
        raise TypeError(f"column {name} of type {found}, not {expected}")
