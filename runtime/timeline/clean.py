"""The state files of a clean. Source: CleanPlanActionExecutor of Hudi 0.15."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from parquetry.runtime.timeline.avro_model import AvroRecord, checked_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPlan(AvroRecord):
    """The files that a clean will delete, as ``.requested`` and ``.inflight`` contain them.

    ``earliest_commit_to_retain`` limits time travel, and is None if retention counts versions. Paths are
    absolute, with a scheme. ``policy`` is Hudi's name, such as ``KEEP_LATEST_COMMITS``.
    """

    RECORD: ClassVar[str] = "HoodieCleanerPlan"

    policy: str
    earliest_commit_to_retain: str | None
    earliest_action: str = "commit"
    last_completed_commit: str = ""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partitions_to_delete: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieCleanerPlan, version 2."""
        earliest = self.earliest_commit_to_retain
        return {
            "earliestInstantToRetain": None
            if earliest is None
            else {"timestamp": earliest, "action": self.earliest_action, "state": "COMPLETED"},
            "lastCompletedCommitTimestamp": self.last_completed_commit,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": 2,
            "filePathsToBeDeletedPerPartition": {
                partition: [{"filePath": path, "isBootstrapBaseFile": False} for path in paths]
                for partition, paths in self.files.items()
            },
            "partitionsToBeDeleted": list(self.partitions_to_delete),
            "extraMetadata": dict(self.extra) or None,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the plan of a HoodieCleanerPlan of any version."""
        earliest = value.get("earliestInstantToRetain") or {}
        by_path = value.get("filePathsToBeDeletedPerPartition") or {}
        by_name = value.get("filesToBeDeletedPerPartition") or {}
        files = {
            partition: checked_texts(info["filePath"] for info in infos)
            for partition, infos in by_path.items()
        }
        return cls(
            policy=value["policy"],
            earliest_commit_to_retain=earliest.get("timestamp") or None,
            earliest_action=earliest.get("action") or "commit",
            last_completed_commit=value.get("lastCompletedCommitTimestamp") or "",
            files=files or {partition: checked_texts(names) for partition, names in by_name.items()},
            partitions_to_delete=checked_texts(value.get("partitionsToBeDeleted")),
            extra=value.get("extraMetadata") or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedPartition:
    """The result of a clean in one partition. File names have no folders."""

    policy: str
    deleted: tuple[str, ...]
    failed: tuple[str, ...] = ()
    partition_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanMetadata(AvroRecord):
    """The result of a completed clean.

    ``earliest_commit_to_retain`` is exact, as Spark rejects time travel before it. It is None if retention
    counts versions.
    """

    RECORD: ClassVar[str] = "HoodieCleanMetadata"

    start_time: str
    time_taken_ms: int
    earliest_commit_to_retain: str | None
    last_completed_commit: str = ""
    partitions: Mapping[str, CleanedPartition] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the deleted files, by partition."""
        return {path: done.deleted for path, done in self.partitions.items()}

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieCleanMetadata, version 2."""
        return {
            "startCleanTime": self.start_time,
            "timeTakenInMillis": self.time_taken_ms,
            "totalFilesDeleted": sum(len(partition.deleted) for partition in self.partitions.values()),
            "earliestCommitToRetain": self.earliest_commit_to_retain or "",
            "lastCompletedCommitTimestamp": self.last_completed_commit,
            "partitionMetadata": {
                path: {
                    "partitionPath": path,
                    "policy": partition.policy,
                    "deletePathPatterns": [*partition.deleted, *partition.failed],
                    "successDeleteFiles": list(partition.deleted),
                    "failedDeleteFiles": list(partition.failed),
                    "isPartitionDeleted": partition.partition_deleted,
                }
                for path, partition in self.partitions.items()
            },
            "version": 2,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": dict(self.extra) or None,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the metadata of a HoodieCleanMetadata. Version 1 contains full paths."""
        return cls(
            start_time=value["startCleanTime"],
            time_taken_ms=value["timeTakenInMillis"],
            earliest_commit_to_retain=value["earliestCommitToRetain"] or None,
            last_completed_commit=value.get("lastCompletedCommitTimestamp") or "",
            partitions={
                path: CleanedPartition(
                    policy=partition["policy"],
                    deleted=_names(partition["successDeleteFiles"]),
                    failed=_names(partition["failedDeleteFiles"]),
                    partition_deleted=bool(partition.get("isPartitionDeleted")),
                )
                for path, partition in value["partitionMetadata"].items()
            },
            extra=value.get("extraMetadata") or {},
        )


def _names(paths: list[str]) -> tuple[str, ...]:
    return tuple(path.rpartition("/")[2] for path in paths)
