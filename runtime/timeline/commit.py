"""The content of a completed commit or replacecommit: HoodieCommitMetadata as JSON.

Source: HoodieCommitMetadata, HoodieReplaceCommitMetadata and HoodieWriteStat of Hudi 0.15.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from parquetry.errors import message_of
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.codec import parsed_json

SCHEMA_KEY: Final = "schema"
NEW_FILE_GROUP: Final = "null"

REPLACING_OPERATIONS: Final = frozenset(
    {"INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE", "DELETE_PARTITION", "CLUSTER"}
)
SCHEMA_PRESERVING_OPERATIONS: Final = frozenset({"CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"})

_Json = TypeVar("_Json", str, int, dict[str, Any], list[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """The write statistics of one file group.

    ``num_writes`` counts all rows of the new file, including those copied from the old slice. ``prev_commit``
    is the instant of the slice that was merged, or None for a new file group. ``path`` is relative to the
    table, and empty if the writer left it out (in a workload profile).
    """

    file_id: str
    path: str = ""
    partition_path: str = ""
    prev_commit: str | None = None
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    file_size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The content of a commit: files by partition, replaced file groups, and named text values.

    ``operation`` is Hudi's name, such as ``UPSERT``. ``replaced`` maps each partition to the file ids that
    this instant replaced; only replacecommits have it.
    """

    operation: str
    stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def schema(self) -> str | None:
        """The table's Avro schema as of this commit, without Hudi's meta columns, or None."""
        return self.extra.get(SCHEMA_KEY) or None

    @property
    def partitions(self) -> frozenset[str]:
        """All partitions that gained or lost files."""
        return frozenset(self.stats) | frozenset(self.replaced)

    def all_stats(self) -> Iterator[WriteStat]:
        """Yield the write statistics of the files in all partitions."""
        for stats in self.stats.values():
            yield from stats

    @property
    def replaces(self) -> bool:
        """True if Hudi's record for it is HoodieReplaceCommitMetadata, as of every replacecommit."""
        return bool(self.replaced) or self.operation in REPLACING_OPERATIONS

    def to_document(self) -> dict[str, Any]:
        """Return the content of a state file as JSON values, with Hudi's field names in Hudi's order."""
        document: dict[str, Any] = {
            "partitionToWriteStats": {
                partition: [_stat_to_json(stat) for stat in stats] for partition, stats in self.stats.items()
            },
            "compacted": False,
            "extraMetadata": dict(self.extra),
            "operationType": self.operation,
        }
        if self.replaces:
            document["partitionToReplaceFileIds"] = {
                partition: list(file_ids) for partition, file_ids in self.replaced.items()
            }
        return document

    def to_json(self) -> bytes:
        """Return the content of a state file of layout 1."""
        return json.dumps(self.to_document(), ensure_ascii=False, indent=1).encode()

    @classmethod
    def from_json(cls, content: bytes | str, *, place: str = "commit metadata") -> CommitMetadata:
        """Return the commit in a JSON text of any Hudi version.

        Unknown fields are ignored, and missing ones get defaults.

        Raises:
            CorruptTableError: If the text is not a JSON object or a field has the wrong type. The message
                starts with ``place``.

        """
        try:
            document = parsed_json(content)
        except ValueError as error:
            raise CorruptTableError(
                "{place}: not JSON ({reason})", place=place, reason=message_of(error)
            ) from error
        if not isinstance(document, dict):
            raise CorruptTableError(
                "{place}: a JSON object was expected, not {found}", place=place, found=type(document).__name__
            )
        return cls.from_document(document, place=place)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, place: str = "commit metadata") -> CommitMetadata:
        """Return the commit in a parsed JSON object or an archived entry, as :meth:`from_json` does."""
        stats = _member(document, "partitionToWriteStats", {}, place)
        replaced = _member(document, "partitionToReplaceFileIds", {}, place)
        extra = _member(document, "extraMetadata", {}, place)
        return cls(
            operation=_member(document, "operationType", "UNKNOWN", place),
            stats={
                partition: tuple(
                    _stat_from_json(stat, partition, place) for stat in _expect(entries, [], place)
                )
                for partition, entries in stats.items()
            },
            extra={key: value for key, value in extra.items() if isinstance(value, str)},
            replaced={
                partition: tuple(_expect(file_id, "", place) for file_id in _expect(file_ids, [], place))
                for partition, file_ids in replaced.items()
            },
        )


def _stat_to_json(stat: WriteStat) -> dict[str, Any]:
    return {
        "fileId": stat.file_id,
        "path": stat.path or None,
        "cdcStats": None,
        "prevCommit": stat.prev_commit or NEW_FILE_GROUP,
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_update_writes,
        "numInserts": stat.num_inserts,
        "totalWriteBytes": stat.file_size_bytes,
        "totalWriteErrors": 0,
        "tempPath": None,
        "partitionPath": stat.partition_path,
        "totalLogRecords": 0,
        "totalLogFilesCompacted": 0,
        "totalLogSizeCompacted": 0,
        "totalUpdatedRecordsCompacted": 0,
        "totalLogBlocks": 0,
        "totalCorruptLogBlock": 0,
        "totalRollbackBlocks": 0,
        "fileSizeInBytes": stat.file_size_bytes,
        "minEventTime": None,
        "maxEventTime": None,
        "runtimeStats": None,
    }


def _stat_from_json(value: object, partition: str, place: str) -> WriteStat:
    stat = _expect(value, {}, place)
    previous = _member(stat, "prevCommit", NEW_FILE_GROUP, place)
    return WriteStat(
        file_id=_member(stat, "fileId", "", place),
        path=_member(stat, "path", "", place),
        partition_path=_member(stat, "partitionPath", partition, place),
        prev_commit=None if previous == NEW_FILE_GROUP else previous,
        num_writes=_member(stat, "numWrites", 0, place),
        num_deletes=_member(stat, "numDeletes", 0, place),
        num_update_writes=_member(stat, "numUpdateWrites", 0, place),
        num_inserts=_member(stat, "numInserts", 0, place),
        file_size_bytes=_member(stat, "fileSizeInBytes", 0, place)
        or _member(stat, "totalWriteBytes", 0, place),
    )


def _member(document: Mapping[str, Any], key: str, default: _Json, place: str) -> _Json:
    """Return a member of a JSON object, or the default if it is absent.

    It must have the type of the default.
    """
    value = document.get(key)
    if value is None:
        return default
    # The location is formatted only for an error message, as commits have a hundred thousand members.
    return value if isinstance(value, type(default)) else _expect(value, default, f"{place}: {key}")


def _expect(value: object, like: _Json, place: str) -> _Json:
    if not isinstance(value, type(like)):
        found = quoted_library_text(f"{value!r:.80}")
        raise CorruptTableError(
            "{place}: {expected} was expected, not {found}",
            place=place,
            expected=type(like).__name__,
            found=found,
        )
    return value
