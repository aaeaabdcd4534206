"""Delta Lake's log in ``_delta_log``, over the files of a Hudi table.

The log is written through the store of the table, so a commit is one *put if absent* on every storage. The
protocol needs a feature of writers that no other program supports: others read the table, and refuse to write
to it or to vacuum it. Source: Delta's PROTOCOL.md.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.message import Message, Text, Value, command
from parquetry.runtime.errors import ForeignTableError, UnsupportedTableError
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.publish.delta_types import (
    date_text,
    delta_schema,
    delta_statistics,
    partition_text,
    unreadable_change,
    unreadable_column,
)
from parquetry.runtime.publish.model import INSTANT_KEY, WRITES_KEY, Published, PublishedFile, Snapshot
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.parallel import map_each
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
_NONCE_KEY: Final = "parquetry.nonce"
_METADATA_KEY: Final = b"parquetry.metadata"
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
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())])),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _State(Published):
    """The state of the newest version, with the action ``metaData`` and the version of the last checkpoint.

    ``added`` are the ``add`` actions since that checkpoint by path, ``touched`` all paths that they or
    ``remove`` actions name.
    """

    version: int
    metadata: Mapping[str, Any]
    checkpoint: int
    added: Mapping[str, Mapping[str, Any]]
    touched: frozenset[str]


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
        checkpoint, content = self._newest_checkpoint(files, newest)
        state = _State(
            version=checkpoint,
            instant=content[0],
            writes=frozenset(filter(None, content[1].split(","))),
            paths=content[3],
            metadata=content[2],
            checkpoint=checkpoint,
            added={},
            touched=frozenset(),
        )
        versions = range(checkpoint + 1, newest + 1)
        if missing := set(versions) - set(files.commits):
            raise self._foreign(f"the version {min(missing)} is missing")
        texts = map_each(
            versions, lambda version: self._store.read(_commit_path(version), most_bytes=MOST_BYTES)
        )
        return self._replayed(state, zip(versions, texts, strict=True))

    def publish(
        self,
        snapshot: Snapshot,
        added: Sequence[PublishedFile],
        removed: Sequence[str],
        *,
        before: Published | None,
    ) -> bool:
        """Write the next version of the log, and a checkpoint when one is due."""
        if not (before is None or isinstance(before, _State)):
            raise TypeError(before)
        metadata = self._metadata(snapshot, before)
        kinds = {column.name: column.type for column in snapshot.columns}
        actions = [self._commit_info(snapshot)]
        if before is None:
            actions.append({"protocol": _PROTOCOL})
        if before is None or metadata != before.metadata:
            actions.append({"metaData": metadata})
        changes = not snapshot.same_rows
        actions += [{"add": self._add(file, snapshot, kinds, changes)} for file in added]
        actions += [
            {
                "remove": {
                    "path": _quoted(p),
                    "deletionTimestamp": snapshot.completed_ms,
                    "dataChange": changes,
                }
            }
            for p in removed
        ]
        version = 0 if before is None else before.version + 1
        content = "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions).encode()
        if len(content) > MOST_BYTES:
            raise self._unsupported(
                f"a change of {len(added) + len(removed)} files", "readers read the whole commit at once"
            )
        nonce = actions[0]["commitInfo"][_NONCE_KEY]
        if self._store.put_if_absent(_commit_path(version), content, nonce=nonce) is PutOutcome.LOST:
            return False
        last = -1 if before is None else before.checkpoint
        if len(added) + len(removed) >= _LARGE_COMMIT or version - last >= self._commits_per_checkpoint:
            state = self.published()
            if state is not None and state.checkpoint < state.version:
                self._write_checkpoint(state)
        return True

    def repair(self, before: Published) -> None:
        """Do nothing: a commit of the log is one file."""

    def expire(self, earliest: str, savepoints: Sequence[str]) -> None:  # noqa: ARG002
        """Delete the commits and checkpoints that only states before ``earliest`` need."""
        files = self._files()
        kept = next((v for v in files.commits if self._instant_of(v) >= earliest), None)
        checkpoint = max((v for v in files.checkpoints if kept is not None and v <= kept), default=None)
        if checkpoint is None:
            return
        for version in files.commits:
            if version < checkpoint:
                self._store.delete(_commit_path(version))
        self._store.delete_all([_checkpoint_path(v) for v in files.checkpoints if v < checkpoint])

    def _files(self) -> _Files:
        names = [info.path.rpartition("/")[2] for info in self._store.list(LOG_FOLDER)]
        commits = sorted(int(found[1]) for found in map(_COMMIT.fullmatch, names) if found)
        checkpoints = sorted(int(found[1]) for found in map(_CHECKPOINT.fullmatch, names) if found)
        return _Files(commits=tuple(commits), checkpoints=tuple(checkpoints))

    def _newest_checkpoint(
        self, files: _Files, newest: int
    ) -> tuple[int, tuple[str, str, Mapping[str, Any], frozenset[str]]]:
        """Return the version and the content of the newest checkpoint that parquetry wrote, or -1."""
        for version in reversed([v for v in files.checkpoints if v <= newest]):
            with self._store.open_input(_checkpoint_path(version)) as source:
                file = pq.ParquetFile(source, pre_buffer=False)
                footer = file.schema_arrow.metadata or {}
                if _METADATA_KEY not in footer:
                    continue
                paths = file.read(["add.path"], use_threads=False).column("add").combine_chunks()
            named = pc.drop_null(pc.struct_field(paths, "path")).to_pylist()
            instant, writes = footer[INSTANT_KEY.encode()].decode(), footer[WRITES_KEY.encode()].decode()
            metadata = parsed_json(footer[_METADATA_KEY])
            return version, (instant, writes, metadata, frozenset(map(unquote, named)))
        return -1, ("", "", {}, frozenset())

    def _replayed(self, state: _State, commits: Iterator[tuple[int, bytes]]) -> _State:
        """Return the state after the commits."""
        paths, added, touched = set(state.paths), dict(state.added), set(state.touched)
        version, instant, writes, metadata = state.version, state.instant, state.writes, state.metadata
        for version, content in commits:
            info: Mapping[str, Any] | None = None
            for line in content.splitlines():
                action = _action(line)
                info = action.get("commitInfo", info)
                metadata = action.get("metaData", metadata)
                for kind in ("add", "remove"):
                    if kind in action:
                        path = unquote(action[kind]["path"])
                        touched.add(path)
                        paths.discard(path)
                        added.pop(path, None)
                        if kind == "add":
                            paths.add(path)
                            added[path] = action["add"]
            if not isinstance(info, dict) or not isinstance(info.get(INSTANT_KEY), str):
                what = None if info is None else info.get("operation")
                raise self._foreign(f"another program wrote the version {version} ({what})")
            instant, writes = info[INSTANT_KEY], frozenset(filter(None, info[WRITES_KEY].split(",")))
        return _State(
            version=version,
            instant=instant,
            writes=writes,
            paths=frozenset(paths),
            metadata=metadata,
            checkpoint=state.checkpoint,
            added=added,
            touched=frozenset(touched),
        )

    def _instant_of(self, version: int) -> str:
        content = self._store.read(_commit_path(version), most_bytes=MOST_BYTES)
        return str(_action(content.partition(b"\n")[0])["commitInfo"][INSTANT_KEY])

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

    def _commit_info(self, snapshot: Snapshot) -> dict[str, Any]:
        return {
            "commitInfo": {
                "timestamp": snapshot.completed_ms,
                "operation": snapshot.operation,
                "operationParameters": {},
                "engineInfo": f"parquetry/{VERSION}",
                INSTANT_KEY: snapshot.instant,
                WRITES_KEY: ",".join(sorted(snapshot.writes)),
                "parquetry.savepoints": ",".join(snapshot.savepoints),
                _NONCE_KEY: uuid.uuid4().hex,
            }
        }

    def _add(
        self,
        file: PublishedFile,
        snapshot: Snapshot,
        kinds: Mapping[str, str],
        changes: bool,  # noqa: FBT001
    ) -> dict[str, Any]:
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
            "dataChange": changes,
            "stats": delta_statistics(file, stored),
        }

    def _write_checkpoint(self, state: _State) -> None:
        """Write the checkpoint of the newest version, and the hint that names it."""
        head = pa.Table.from_pylist(
            [{"protocol": _PROTOCOL}, {"metaData": state.metadata}], schema=_ACTIONS
        ).select(_ACTIONS.names)
        adds = [pa.array([_checkpointed(add) for add in state.added.values()], _ADD)]
        if state.checkpoint >= 0:
            with self._store.open_input(_checkpoint_path(state.checkpoint)) as source:
                rows = read_parquet(source, ["add"]).column("add").combine_chunks()
            former = rows.filter(pc.is_valid(rows))
            touched = pa.array([_quoted(path) for path in state.touched], pa.string())
            kept = pc.invert(pc.is_in(pc.struct_field(former, "path"), value_set=touched))
            adds.append(former.filter(kept).cast(_ADD))
        files = pa.chunked_array(adds, _ADD)
        body = pa.table(
            {
                field.name: files if field.name == "add" else pa.nulls(len(files), field.type)
                for field in _ACTIONS
            }
        )
        footer = {
            INSTANT_KEY: state.instant,
            WRITES_KEY: ",".join(sorted(state.writes)),
            _METADATA_KEY.decode(): json.dumps(state.metadata, ensure_ascii=False),
        }
        table = pa.concat_tables([head, body]).replace_schema_metadata(footer)
        target = BytesIO()
        pq.write_table(table, target, compression="snappy")
        self._store.put(_checkpoint_path(state.version), target.getvalue())
        hint = {"version": state.version, "size": len(table)}
        self._store.put(_LAST_CHECKPOINT, json.dumps(hint).encode())

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


def _commit_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020}.json"


def _checkpoint_path(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020}.checkpoint.parquet"


def _quoted(path: str) -> str:
    """Return the path as a relative URI."""
    return quote(path, safe="/=")


def _checkpointed(add: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ``add`` action as a row of a checkpoint, where no file changes data."""
    return {**add, "partitionValues": list(add["partitionValues"].items()), "dataChange": False}


def _action(line: bytes) -> dict[str, Any]:
    action = parsed_json(line)
    return action if isinstance(action, dict) else {}
