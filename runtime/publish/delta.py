"""Delta Lake's log in ``_delta_log``, over the files of a Hudi table.

The log is written through the store of the table, so a commit is one *put if absent* on every storage. The
protocol needs a feature of writers that no other program supports: others read the table, and refuse to write
to it or to vacuum it. Readers and writers hold a commit in memory, so a large one leaves the bounds of its
files to its checkpoint, which is written while they are read. Source: Delta's PROTOCOL.md.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.message import Message, Text, Value, command
from parquetry.runtime.errors import ForeignTableError, UnsupportedTableError
from parquetry.runtime.parquet.announcement import announce_chunks, announce_ranges
from parquetry.runtime.publish.delta_types import (
    date_text,
    delta_schema,
    delta_statistics,
    partition_text,
    unreadable_change,
    unreadable_column,
)
from parquetry.runtime.publish.model import (
    INSTANT_KEY,
    LEFTOVER_MS,
    AddedFiles,
    PartitionValues,
    Published,
    PublishedFile,
    Snapshot,
    is_too_slow,
    recorded_state,
    state_properties,
)
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.paths import finished_name
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.version import VERSION

LOG_FOLDER: Final = "_delta_log"
WRITER_FEATURE: Final = "parquetry"
"""The feature of writers that keeps other programs from writing."""

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_LAST_CHECKPOINT: Final = f"{LOG_FOLDER}/_last_checkpoint"
_COMMITS_PER_CHECKPOINT: Final = 10
_LARGE_COMMIT: Final = 1000
_FILES_PER_ROW_GROUP: Final = 2000
_FILES_AT_ONCE: Final = 100
_BOUNDS_KEY: Final = "parquetry.bounds"
"""Commits whose files have their bounds in the checkpoint of the version have this key."""
_NONCE_KEY: Final = "parquetry.nonce"
_PATH_COLUMN: Final = "add.path"
_METADATA_KEY: Final = "parquetry.metadata"
_PROTOCOL: Final = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [WRITER_FEATURE]}
_CONFIGURATION: Final = {
    # If another program can vacuum in spite of the protocol, it finds no file that is old enough.
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.enableExpiredLogCleanup": "false",
}
_TEXTS: Final = pa.map_(pa.string(), pa.string())
_ADD: Final = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)
_ACTIONS: Final = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", _ADD),
        (
            "remove",
            # No row has one, but Spark demands the fields that a removal cannot lack.
            pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())]),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)


_AddAction: TypeAlias = Mapping[str, Any]


class _BeatenError(Exception):
    """Another process has written the version, or this one was too slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State(Published):
    """The state of the newest version, with the action ``metaData`` and the version of the last checkpoint.

    ``added`` are the lines of ``add`` actions since that checkpoint by path, ``touched`` all paths that they
    or ``remove`` actions name.
    """

    version: int
    metadata: Mapping[str, Any]
    checkpoint: int = -1
    added: Mapping[str, bytes] = field(default_factory=dict)
    touched: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The versions that have a commit and a checkpoint in the log, ascending."""

    commits: tuple[int, ...]
    checkpoints: tuple[int, ...]


class DeltaLog:
    """The published format ``delta`` of the table in a store. Its log lies in the folder of the table."""

    name: Final = "delta"

    def __init__(self, store: ObjectStore, *, commits_per_checkpoint: int = _COMMITS_PER_CHECKPOINT) -> None:
        self._store = store
        self._commits_per_checkpoint = commits_per_checkpoint

    def published(self) -> _State | None:
        """Return the state of the newest version, or None if there is no log."""
        files = self._files()
        if not files.commits and not files.checkpoints:
            return None
        newest = max((*files.commits, *files.checkpoints))
        state = self._newest_checkpoint(files, newest)
        versions = range(state.checkpoint + 1, newest + 1)
        if missing := set(versions) - set(files.commits):
            raise self._foreign(f"the version {min(missing)} is missing")
        texts = map_each(
            versions, lambda version: self._store.read(_commit_path(version), most_bytes=MOST_BYTES)
        )
        return self._replayed(state, zip(versions, texts, strict=True))

    def paths(self, state: Published, folders: Mapping[str, PartitionValues] | None = None) -> frozenset[str]:
        """Return the paths of the files that the state names, in these folders or in all."""
        state = _own(state)
        found = self._checkpointed_paths(state.checkpoint, folders) - state.touched | state.added.keys()
        return frozenset(path for path in found if folders is None or path.rpartition("/")[0] in folders)

    def publish(
        self,
        snapshot: Snapshot,
        added: AddedFiles,
        removed: Sequence[str],
        *,
        before: Published | None,
    ) -> bool:
        """Write the next version of the log, and a checkpoint when one is due."""
        began_ms = self._store.now_ms()
        former = None if before is None else _own(before)
        metadata = self._metadata(snapshot, former)
        version, last = (0, -1) if former is None else (former.version + 1, former.checkpoint)
        is_large = len(added) + len(removed) >= _LARGE_COMMIT
        is_due = is_large or version - last >= self._commits_per_checkpoint
        info = self._commit_info(snapshot, is_large=is_large)
        state = _State(
            version=version,
            instant=snapshot.instant,
            writes=snapshot.writes,
            settled=snapshot.settled,
            metadata=metadata,
            checkpoint=last,
        )
        try:
            with self._checkpoint(state, former, removed) if is_due else nullcontext(_left_out) as keep:
                content = BytesIO()
                content.write(_line("commitInfo", info))
                if former is None:
                    content.write(_line("protocol", _PROTOCOL))
                if former is None or metadata != former.metadata:
                    content.write(_line("metaData", metadata))
                for file, add in self._adds(snapshot, added, former):
                    keep(add)
                    stats = json.dumps({"numRecords": file.statistics.rows}) if is_large else add["stats"]
                    content.write(_line("add", {**add, "stats": stats}))
                for path in removed:
                    content.write(_line("remove", _removal(path, snapshot)))
                self._put_commit(version, content.getvalue(), nonce=info[_NONCE_KEY], began_ms=began_ms)
        except _BeatenError:
            return False
        return True

    def _put_commit(self, version: int, content: bytes, *, nonce: str, began_ms: int) -> None:
        if len(content) > MOST_BYTES:
            raise self._unsupported("a change of so many files", "readers read the whole commit at once")
        if (
            is_too_slow(self._store, began_ms)
            or self._store.put_if_absent(_commit_path(version), content, nonce=nonce) is PutOutcome.LOST
            # Others may have written the version, and a clean deleted it. If not, the next attempt finds it.
            or self._is_overtaken(version)
        ):
            raise _BeatenError

    def _is_overtaken(self, version: int) -> bool:
        """Return whether there is a newer checkpoint. Without one, no clean deletes the version."""
        return any(found > version for found in self._files().checkpoints)

    def repair(self, before: Published) -> None:
        """Do nothing: a commit of the log is one file."""

    def expire(self, earliest: str, savepoints: Sequence[str]) -> None:  # noqa: ARG002 - no tags
        """Delete the commits and checkpoints that only states before ``earliest`` need."""
        self._store.delete_all(list(self._leftovers()))
        files = self._files()
        kept = next((v for v in files.commits if self._instant_of(v) >= earliest), None)
        checkpoint = max((v for v in files.checkpoints if kept is not None and v <= kept), default=None)
        if checkpoint is None:
            return
        for version in files.commits:
            if version < checkpoint:
                self._store.delete(_commit_path(version))
        self._store.delete_all([_checkpoint_path(v) for v in files.checkpoints if v < checkpoint])

    def _leftovers(self) -> Iterator[str]:
        """Yield old files of the log that a killed process did not finish."""
        latest_ms = self._store.now_ms() - LEFTOVER_MS
        for info in self._store.list(LOG_FOLDER):
            name = finished_name(info.path)
            is_own = name is not None and (
                _COMMIT.fullmatch(name)
                or _CHECKPOINT.fullmatch(name)
                or _LAST_CHECKPOINT.endswith(f"/{name}")
            )
            if is_own and info.modified_ms < latest_ms:
                yield info.path

    def _files(self) -> _Files:
        names = [info.path.rpartition("/")[2] for info in self._store.list(LOG_FOLDER)]
        commits = sorted(int(found[1]) for found in map(_COMMIT.fullmatch, names) if found)
        checkpoints = sorted(int(found[1]) for found in map(_CHECKPOINT.fullmatch, names) if found)
        return _Files(commits=tuple(commits), checkpoints=tuple(checkpoints))

    def _newest_checkpoint(self, files: _Files, newest: int) -> _State:
        """Return the state of the newest checkpoint that parquetry wrote, or that before the version 0."""
        for version in reversed([v for v in files.checkpoints if v <= newest]):
            with self._store.open_input(_checkpoint_path(version)) as source:
                stored = pq.ParquetFile(source, pre_buffer=False).schema_arrow.metadata or {}
            if _METADATA_KEY.encode() in stored:
                footer = {name.decode(): text.decode() for name, text in stored.items()}
                return _State(
                    **recorded_state(footer),
                    version=version,
                    metadata=parsed_json(footer[_METADATA_KEY]),
                    checkpoint=version,
                )
        return _State(version=-1, instant="", writes=frozenset(), metadata={})

    def _checkpointed_paths(self, version: int, folders: Collection[str] | None) -> set[str]:
        """Return the paths in the row groups of a checkpoint that may have files in these folders."""
        if version == -1:
            return set()
        with self._store.open_input(_checkpoint_path(version)) as source:
            file = pq.ParquetFile(source, pre_buffer=False)
            column = next(n for n in range(len(file.schema)) if file.schema.column(n).path == _PATH_COLUMN)
            chunks = [file.metadata.row_group(n).column(column) for n in range(file.num_row_groups)]
            chosen = [n for n, chunk in enumerate(chunks) if folders is None or _may_hold(chunk, folders)]
            announce_ranges(source, (_bytes_of(chunks[n]) for n in chosen))
            rows = file.read_row_groups(chosen, [_PATH_COLUMN], use_threads=False).column("add")
        named = pc.drop_null(pc.struct_field(rows.combine_chunks(), "path")).to_pylist()
        return set(map(unquote, named))

    def _replayed(self, state: _State, commits: Iterator[tuple[int, bytes]]) -> _State:
        """Return the state after the commits."""
        added, touched, incomplete = dict(state.added), set(state.touched), set(state.incomplete)
        for version, content in commits:
            info: Mapping[str, Any] | None = None
            metadata = state.metadata
            for line in content.splitlines():
                action = _action(line)
                info = action.get("commitInfo", info)
                metadata = action.get("metaData", metadata)
                for kind in action.keys() & {"add", "remove"}:
                    path = unquote(action[kind]["path"])
                    touched.add(path)
                    added.pop(path, None)
                    incomplete.discard(path)
                    if kind == "add":
                        added[path] = line
                        # The checkpoint of the version would have been read instead of the commit.
                        if info is not None and _BOUNDS_KEY in info:
                            incomplete.add(path)
            if not isinstance(info, dict) or not isinstance(info.get(INSTANT_KEY), str):
                what = None if info is None else info.get("operation")
                raise self._foreign(f"another program wrote the version {version} ({what})")
            state = replace(state, **recorded_state(info), version=version, metadata=metadata)
        return replace(state, added=added, touched=frozenset(touched), incomplete=frozenset(incomplete))

    def _instant_of(self, version: int) -> str:
        content = self._store.read(_commit_path(version), most_bytes=MOST_BYTES)
        return str(_action(content.partition(b"\n")[0])["commitInfo"][INSTANT_KEY])

    def _commit_info(self, snapshot: Snapshot, *, is_large: bool) -> dict[str, Any]:
        return {
            "timestamp": snapshot.completed_ms,
            "operation": snapshot.operation,
            "operationParameters": {},
            "engineInfo": f"parquetry/{VERSION}",
            **state_properties(snapshot),
            "parquetry.savepoints": ",".join(snapshot.savepoints),
            **({_BOUNDS_KEY: "checkpoint"} if is_large else {}),
            _NONCE_KEY: uuid.uuid4().hex,
        }

    def _metadata(self, snapshot: Snapshot, before: _State | None) -> Mapping[str, Any]:
        """Return the action ``metaData`` of the snapshot."""
        try:
            schema = delta_schema(snapshot.columns)
        except ValueError as error:
            raise self._unsupported(str(error), "Delta has no such type") from error
        former = {} if before is None else before.metadata
        if former and (column := unreadable_change(former["schemaString"], schema)) is not None:
            raise self._unsupported(column, "Delta's readers do not convert older files to its new type")
        if former and former["partitionColumns"] != list(snapshot.partition_by):
            raise self._unsupported(str(snapshot.partition_by), "the partition columns have changed")
        return {
            "id": former.get("id") or snapshot.table_id or str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": list(snapshot.partition_by),
            "configuration": dict(_CONFIGURATION),
            "createdTime": former.get("createdTime", snapshot.completed_ms),
        }

    def _adds(
        self, snapshot: Snapshot, added: AddedFiles, former: _State | None
    ) -> Iterator[tuple[PublishedFile, _AddAction]]:
        """Yield the files with their ``add`` actions."""
        kinds = {column.name: column.type for column in snapshot.columns}
        known = frozenset[str]() if former is None else former.incomplete
        for file in added:
            changes = not snapshot.same_rows and file.path not in known
            yield file, {**self._add(file, snapshot, kinds), "dataChange": changes}

    def _add(self, file: PublishedFile, snapshot: Snapshot, kinds: Mapping[str, str]) -> _AddAction:
        if file.statistics.encrypted:
            raise self._unsupported(Value.file(file.path), "Delta's readers cannot read encrypted files")
        column = unreadable_column(file, kinds)
        if column is not None:
            raise self._unsupported(
                column,
                Message(
                    "{file} has values of a type that Delta's readers do not convert",
                    file=Value.file(file.path),
                ),
            )
        stored = {name: kind for name, kind in kinds.items() if name not in snapshot.partition_by}
        return {
            "path": _quoted(file.path),
            "partitionValues": {
                name: date_text(int(value))
                if kinds[name] == "date" and value is not None
                else partition_text(value)
                for name, value in zip(snapshot.partition_by, file.partition, strict=True)
            },
            "size": file.size_bytes,
            "modificationTime": file.modified_ms,
            "stats": delta_statistics(file, stored),
        }

    @contextmanager
    def _checkpoint(
        self, state: _State, former: _State | None, removed: Sequence[str]
    ) -> Iterator[Callable[[_AddAction], None]]:
        """Yield a function that adds an action ``add`` of the version to its checkpoint.

        The checkpoint appears when the block ends without an error, with the other files of the state. The
        hint of the last checkpoint then names it, unless there is a newer one.
        """
        footer = {
            **state_properties(state),
            _METADATA_KEY: json.dumps(state.metadata, ensure_ascii=False),
        }
        head = [{"protocol": _PROTOCOL}, {"metaData": state.metadata}]
        with (
            self._store.create_file(_checkpoint_path(state.version)) as sink,
            pq.ParquetWriter(sink, _ACTIONS.with_metadata(footer), compression="snappy") as target,
        ):
            target.write_table(pa.Table.from_pylist(head, schema=_ACTIONS))
            rows = _RowGroups(target)
            if former is not None:
                for files in self._former_adds(former, removed):
                    rows.write(files)
                replaced = former.incomplete.union(removed)
                for path in former.added.keys() - replaced:
                    rows.add(_action(former.added[path])["add"])
            yield rows.add
            rows.end()
        hint = {"version": state.version, "size": len(head) + rows.count}
        if not self._is_overtaken(state.version):
            self._store.put(_LAST_CHECKPOINT, json.dumps(hint).encode())

    def _former_adds(self, former: _State, removed: Sequence[str]) -> Iterator[pa.Array]:
        """Yield the ``add`` actions of the last checkpoint that are still valid in the next version."""
        if former.checkpoint < 0:
            return
        touched = pa.array([*map(_quoted, former.touched), *map(_quoted, removed)], pa.string())
        with self._store.open_input(_checkpoint_path(former.checkpoint)) as source:
            file = pq.ParquetFile(source, pre_buffer=False)
            announce_chunks(source, file.metadata, ["add"])
            for batch in file.iter_batches(_FILES_AT_ONCE, columns=["add"], use_threads=False):
                files = batch.column("add").drop_null()
                is_kept = pc.invert(pc.is_in(pc.struct_field(files, "path"), value_set=touched))
                yield files.filter(is_kept).cast(_ADD)

    def _foreign(self, reason: str) -> ForeignTableError:
        return ForeignTableError(
            "{table}: {folder} is not published any more, because {reason}; the Hudi table is unharmed. "
            "Delete the folder {folder} and run {command}, which publishes the table anew",
            table=self._store.uri,
            folder=LOG_FOLDER,
            reason=reason,
            command=command("publish", "TABLE"),
        )

    def _unsupported(self, what: str | Value, reason: Text) -> UnsupportedTableError:
        return UnsupportedTableError(
            "{table}: {what} cannot be published to Delta: {reason}; remove publish.delta from the table",
            table=self._store.uri,
            what=what,
            reason=reason,
        )


class _RowGroups:
    """The row groups of a checkpoint with the actions ``add``. Few files are in memory at once.

    ``count`` is the number of the files.
    """

    def __init__(self, target: pq.ParquetWriter) -> None:
        self.count = 0
        self._target = target
        self._arrays: list[pa.Array] = []
        self._actions: list[Mapping[str, Any]] = []

    def add(self, action: _AddAction) -> None:
        """Write an action."""
        self._actions.append(_checkpointed(action))
        if len(self._actions) == _FILES_AT_ONCE:
            self._convert()

    def write(self, files: pa.Array) -> None:
        """Write actions."""
        self._arrays.append(files)
        self.count += len(files)
        if sum(map(len, self._arrays)) >= _FILES_PER_ROW_GROUP:
            self._flush()

    def end(self) -> None:
        """Write what is left."""
        self._convert()
        self._flush()

    def _convert(self) -> None:
        actions, self._actions = self._actions, []
        self.write(pa.array(actions, _ADD))

    def _flush(self) -> None:
        files = pa.chunked_array(self._arrays, _ADD)
        if not files:
            return
        columns = {
            one.name: files if one.name == "add" else pa.nulls(len(files), one.type) for one in _ACTIONS
        }
        self._target.write_table(pa.table(columns, schema=_ACTIONS))
        self._arrays = []


def _own(state: Published) -> _State:
    if not isinstance(state, _State):
        raise TypeError(state)
    return state


def _left_out(_action: _AddAction) -> None:
    """Do nothing: no checkpoint is due."""


def _may_hold(chunk: pq.ColumnChunkMetaData, folders: Collection[str]) -> bool:
    """Return whether a row group can have paths in one of the folders. The root has all folders."""
    bounds = chunk.statistics
    if bounds is None or not bounds.has_min_max or "" in folders:
        return True
    quoted = map(_quoted, folders)
    return any(f"{folder}/" <= bounds.max and bounds.min < f"{folder}0" for folder in quoted)


def _bytes_of(chunk: pq.ColumnChunkMetaData) -> range:
    start = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
    return range(start, start + chunk.total_compressed_size)


def _commit_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020}.json"


def _checkpoint_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020}.checkpoint.parquet"


def _quoted(path: str) -> str:
    """Return the path as a relative URI."""
    return quote(path, safe="/=")


def _line(kind: str, action: Mapping[str, Any]) -> bytes:
    return json.dumps({kind: action}, ensure_ascii=False).encode() + b"\n"


def _removal(path: str, snapshot: Snapshot) -> Mapping[str, Any]:
    return {
        "path": _quoted(path),
        "deletionTimestamp": snapshot.completed_ms,
        "dataChange": not snapshot.same_rows,
    }


def _checkpointed(add: _AddAction) -> _AddAction:
    """Return an ``add`` action as a row of a checkpoint, where no file changes data."""
    return {**add, "partitionValues": list(add["partitionValues"].items()), "dataChange": False}


def _action(line: bytes) -> dict[str, Any]:
    action = parsed_json(line)
    return action if isinstance(action, dict) else {}
