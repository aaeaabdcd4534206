"""The archive log, which holds the instants that left the active timeline (Hudi's log file format 1).

A file holds blocks of Avro records, one record for each state file of an instant. We write each batch to a
new file and never append. Source: HoodieLogFormatWriter, HoodieLogFileReader and HoodieAvroDataBlock of Hudi
0.15, compared byte by byte with logs that Hudi wrote.
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import fastavro

from parquetry.errors import message_of
from parquetry.runtime.errors import UNUSABLE, CorruptTableError, NotFoundError
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.timeline.archive_entry import ARCHIVED_ENTRY
from parquetry.runtime.timeline.avro_model import AVRO_FAILURES, check_bounded, record_schema
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, State

_MAGIC: Final = b"#HUDI#"
_LOG_VERSION: Final = 1
_AVRO_DATA_BLOCK: Final = 3
_DATA_BLOCK_VERSION: Final = 3
_SCHEMA_HEADER: Final = 2

FILE_NAME = re.compile(r"\.commits_\.archive\.(\d+)(?:_.*)?")


ChangeEntry = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A function that returns the new form of an archived entry, or an equal one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInstant:
    """One state of an archived instant.

    ``entry`` is its complete Avro record, with the field names of the archive log. ``completed_at`` is the
    completion time, which only layout 2 has.
    """

    time: str
    action: str
    state: str
    entry: Mapping[str, Any]
    completed_at: str | None = None

    @property
    def position(self) -> str:
        """The position of a completed instant in incremental reads."""
        return self.completed_at or self.time

    @property
    def is_completed_write(self) -> bool:
        """True if it is a completed commit or replacecommit."""
        return self.action in WRITE_ACTIONS and self.state == State.COMPLETED

    def commit_metadata(self) -> CommitMetadata:
        """Return the content of a completed write."""
        content = self.entry.get("hoodieReplaceCommitMetadata") or self.entry.get("hoodieCommitMetadata")
        return CommitMetadata.from_document(content or {}, place=f"archived write {self.time}")


def write_archive_log(store: ObjectStore, folder: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """Write the entries, in their order, to a new log file with the next number, and return its path.

    Args:
        store: The store of the table.
        folder: The archive folder, relative to the table.
        entries: Entries of :func:`parquetry.runtime.timeline.archive_entry.archive_entries`.

    """
    content = encode_log(entries)
    version = max(_log_paths(store, folder), default=0)
    while True:
        version += 1
        path = f"{folder}/.commits_.archive.{version}_1-0-1"
        if store.put_if_absent(path, content) is not PutOutcome.LOST:
            return path


def read_newest_log(store: ObjectStore, folder: str) -> list[ArchivedInstant]:
    """Return the instants of the log file with the highest number, or an empty list without log files.

    Raises:
        CorruptTableError: If the file is not an archive log or is truncated.

    """
    versions = _log_paths(store, folder)
    if not versions:
        return []
    path = versions[max(versions)]
    return decode_log(store.read(path, most_bytes=MOST_BYTES), place=f"{store.uri}/{path}")


def newest_logs_first(store: ObjectStore, folder: str) -> Iterator[tuple[int, list[ArchivedInstant] | None]]:
    """Yield the number and the instants of each log file, from the highest number down.

    Each file is read when the iterator reaches it. The instants are None if the file has been deleted since
    the listing or cannot be read.
    """
    for number, path in sorted(_log_paths(store, folder).items(), reverse=True):
        log = None
        with suppress(*UNUSABLE):
            log = decode_log(store.read(path, most_bytes=MOST_BYTES), place=f"{store.uri}/{path}")
        yield number, log


def encode_log(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the content of a log file with one block of these entries."""
    text = json.dumps(record_schema(ARCHIVED_ENTRY), separators=(",", ":"))
    header = struct.pack(">iii", 1, _SCHEMA_HEADER, len(text.encode())) + text.encode()
    return _block(header, text, entries, footer=struct.pack(">i", 0))


def change_logs(store: ObjectStore, folder: str, change: ChangeEntry) -> int:
    """Apply ``change`` to each entry of the log files, and return the number of files rewritten.

    Each file is put as a whole.
    """
    changes = 0
    for _, path in sorted(_log_paths(store, folder).items()):
        try:
            content = changed_log(
                store.read(path, most_bytes=MOST_BYTES), change, place=f"{store.uri}/{path}"
            )
        except NotFoundError:  # Hudi has merged it into another log
            continue
        if content is not None:
            store.put(path, content)
            changes += 1
    return changes


def delete_logs(store: ObjectStore, folder: str) -> None:
    """Delete the log files, and no other file of the folder."""
    store.delete_all(_log_paths(store, folder).values())


def changed_log(content: bytes, change: ChangeEntry, *, place: str) -> bytes | None:
    """Return the content of a log file with ``change`` applied to each entry, or None if no entry changes.

    Each block keeps its own schema. Blocks without a changed entry keep their bytes.

    Args:
        content: The content of the log file.
        change: Returns the new entry for an entry, or an equal one.
        place: The location of the file for error messages.

    Raises:
        CorruptTableError: If the content is not an archive log or is truncated.

    """
    log, blocks, is_changed = io.BytesIO(content), [], False
    with _corrupt_log_errors(place):
        while log.read(len(_MAGIC)):
            start = log.tell()
            length, _, kind = _unpack(log, ">qii")
            end = start + length + 8
            block = content[start - len(_MAGIC) : end]
            if kind == _AVRO_DATA_BLOCK:
                header_start = log.tell()
                schema_text = dict(_header(log))[_SCHEMA_HEADER]
                header = content[header_start : log.tell()]
                (size,) = _unpack(log, ">q")
                footer = content[log.tell() + size : end - 8]
                entries = [archived.entry for archived in _records(log, schema_text)]
                changed = [change(entry) for entry in entries]
                if changed != entries:
                    block, is_changed = _block(header, schema_text, changed, footer=footer), True
            blocks.append(block)
            log.seek(end)
    return b"".join(blocks) if is_changed else None


def _block(header: bytes, schema_text: str, entries: Iterable[Mapping[str, Any]], *, footer: bytes) -> bytes:
    schema = fastavro.parse_schema(json.loads(schema_text))
    records = [_encode_record(schema, entry) for entry in entries]
    content = struct.pack(">ii", _DATA_BLOCK_VERSION, len(records)) + b"".join(records)
    length = 4 + 4 + len(header) + 8 + len(content) + len(footer) + 8
    return b"".join(
        (
            _MAGIC,
            struct.pack(">qii", length, _LOG_VERSION, _AVRO_DATA_BLOCK),
            header,
            struct.pack(">q", len(content)),
            content,
            footer,
            struct.pack(">q", length + len(_MAGIC)),
        )
    )


def decode_log(content: bytes, *, place: str) -> list[ArchivedInstant]:
    """Return the entries of all Avro blocks of a log file. Blocks of other types are skipped.

    Raises:
        CorruptTableError: If the content is not an archive log or is truncated.

    """
    with _corrupt_log_errors(place):
        return list(_blocks(io.BytesIO(content)))


@contextmanager
def _corrupt_log_errors(place: str) -> Iterator[None]:
    try:
        yield
    except AVRO_FAILURES as error:
        raise CorruptTableError(
            "{place}: not an archive log, or truncated ({reason}); restore the file from a copy, or "
            "move it away: only the history of archived instants is lost",
            place=place,
            reason=message_of(error),
        ) from error


def _blocks(log: io.BytesIO) -> Iterator[ArchivedInstant]:
    while magic := log.read(len(_MAGIC)):
        if magic != _MAGIC:
            raise ValueError(f"{magic!r} where a block should begin")
        start = log.tell()
        length, _, kind = _unpack(log, ">qii")
        header = dict(_header(log))
        if kind == _AVRO_DATA_BLOCK:
            _unpack(log, ">q")
            yield from _records(log, header[_SCHEMA_HEADER])
        if start + length < log.tell():
            raise ValueError(f"a block is longer than its length of {length} bytes")
        log.seek(start + length)
        (total,) = _unpack(log, ">q")
        if total != length + len(_MAGIC):
            raise ValueError(f"the trailing length {total} of a block differs from its length {length}")


def _header(log: io.BytesIO) -> Iterator[tuple[int, str]]:
    (count,) = _unpack(log, ">i")
    for _ in range(count):
        key, size = _unpack(log, ">ii")
        yield key, _exactly(log, size).decode()


def _records(log: io.BytesIO, schema_text: str) -> Iterator[ArchivedInstant]:
    document = parsed_json(schema_text)
    check_bounded(document)
    schema = fastavro.parse_schema(document)
    _, count = _unpack(log, ">ii")
    for _ in range(count):
        (size,) = _unpack(log, ">i")
        entry = fastavro.schemaless_reader(io.BytesIO(_exactly(log, size)), schema, None)
        if not isinstance(entry, dict):
            raise TypeError(f"a {type(entry).__name__} where a record should be")
        yield ArchivedInstant(
            time=entry["commitTime"] or "",
            action=entry["actionType"] or "",
            state=(entry.get("actionState") or "COMPLETED").lower(),
            entry=entry,
        )


def _encode_record(schema: Any, entry: Mapping[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, entry)
    return struct.pack(">i", body.tell()) + body.getvalue()


def _log_paths(store: ObjectStore, folder: str) -> dict[int, str]:
    """Return the path of each log file by its number."""
    names = ((info.path, FILE_NAME.fullmatch(info.path.rpartition("/")[2])) for info in store.list(folder))
    return {int(match[1]): path for path, match in names if match}


def _unpack(log: io.BytesIO, layout: str) -> tuple[int, ...]:
    return struct.unpack(layout, _exactly(log, struct.calcsize(layout)))


def _exactly(log: io.BytesIO, size: int) -> bytes:
    """Return the next ``size`` bytes, or raise an error if the log ends before."""
    content = log.read(size)
    if size < 0 or len(content) < size:
        raise EOFError(f"{size} bytes were expected, {len(content)} are left")
    return content
