"""What the state files of a clean say. Source: CleanPlanActionExecutor of Hudi 0.15."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from parquetry.runtime.timeline.avro_model import AvroRecord, texts


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPlan(AvroRecord):
    """Which files a clean is to delete. ``.requested`` and ``.inflight`` both hold it.

    ``earliest_commit_to_retain`` bounds time travel; None when versions are kept by number. Paths
    are absolute, with scheme. ``policy`` is Hudi's name, such as ``KEEP_LATEST_COMMITS``.
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
        """Its HoodieCleanerPlan, version 2."""
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
        """The plan of a HoodieCleanerPlan of any version."""
        earliest = value.get("earliestInstantToRetain") or {}
        by_path = value.get("filePathsToBeDeletedPerPartition") or {}
        by_name = value.get("filesToBeDeletedPerPartition") or {}
        files = {partition: texts(info["filePath"] for info in infos) for partition, infos in by_path.items()}
        return cls(
            policy=value["policy"],
            earliest_commit_to_retain=earliest.get("timestamp") or None,
            earliest_action=earliest.get("action") or "commit",
            last_completed_commit=value.get("lastCompletedCommitTimestamp") or "",
            files=files or {partition: texts(names) for partition, names in by_name.items()},
            partitions_to_delete=texts(value.get("partitionsToBeDeleted")),
            extra=value.get("extraMetadata") or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedPartition:
    """What a clean did in one partition; file names without folders."""

    policy: str
    deleted: tuple[str, ...]
    failed: tuple[str, ...] = ()
    partition_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanMetadata(AvroRecord):
    """What a completed clean did.

    ``earliest_commit_to_retain`` is honest: Spark refuses time travel before it. None when versions
    are kept by number.
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
        """The names of the files that went, by partition."""
        return {path: done.deleted for path, done in self.partitions.items()}

    def to_avro(self) -> dict[str, Any]:
        """Its HoodieCleanMetadata, version 2."""
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
        """The metadata of a HoodieCleanMetadata; version 1 holds full paths."""
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
