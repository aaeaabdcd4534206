"""What the Avro files of the timeline say: clean, rollback, savepoint and restore.

Each class is one of Hudi's records: ``encode`` gives the bytes of a state file, ``decode`` reads
those of any Hudi version. Procedures and meanings: CleanPlanActionExecutor, BaseRollbackActionExecutor,
SavepointActionExecutor and BaseRestoreActionExecutor of Hudi 0.15.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.avro_model import decode_container, encode_container


class AvroRecord(ABC):
    """A record that is the whole content of a state file; ``RECORD`` is Hudi's name for it."""

    __slots__ = ()
    RECORD: ClassVar[str]

    @abstractmethod
    def to_avro(self) -> dict[str, Any]:
        """The record's Avro value."""

    @classmethod
    @abstractmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The record of an Avro value; fields that old versions lack get defaults."""

    def encode(self) -> bytes:
        """The bytes of the state file; equal records give equal bytes."""
        return encode_container(self.RECORD, self.to_avro())

    @classmethod
    def decode(cls, content: bytes, *, place: str) -> Self:
        """The record in a state file; CorruptTableError, naming ``place``, for anything else."""
        value = decode_container(content, place=place)
        try:
            return cls.from_avro(value)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptTableError(f"{place}: not a {cls.RECORD} ({error!r})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantInfo:
    """An instant as rollbacks and restores name it."""

    time: str
    action: str

    def to_avro(self) -> dict[str, Any]:
        """Its HoodieInstantInfo."""
        return {"commitTime": self.time, "action": self.action}

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The instant of a HoodieInstantInfo."""
        return cls(time=value["commitTime"], action=value["action"])


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPlan(AvroRecord):
    """Which files a clean is to delete. ``.requested`` and ``.inflight`` both hold it.

    ``earliest_commit_to_retain`` bounds time travel; None when versions are kept by number. Paths
    are absolute, with scheme. ``policy`` is Hudi's name, such as ``KEEP_LATEST_COMMITS``.
    """

    RECORD: ClassVar[str] = "HoodieCleanerPlan"

    policy: str
    earliest_commit_to_retain: str | None = None
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
        files = {partition: tuple(info["filePath"] for info in infos) for partition, infos in by_path.items()}
        return cls(
            policy=value["policy"],
            earliest_commit_to_retain=earliest.get("timestamp") or None,
            earliest_action=earliest.get("action") or "commit",
            last_completed_commit=value.get("lastCompletedCommitTimestamp") or "",
            files=files or {partition: tuple(names) for partition, names in by_name.items()},
            partitions_to_delete=tuple(value.get("partitionsToBeDeleted") or ()),
            extra=value.get("extraMetadata") or {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedPartition:
    """What a clean did in one partition; file names without folders."""

    policy: str
    deleted: tuple[str, ...] = ()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """Files that a rollback is to delete in one partition; absolute paths without scheme.

    ``file_id`` and ``base_instant`` are known when the request comes from a marker.
    """

    partition: str
    files: tuple[str, ...]
    file_id: str = ""
    base_instant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan(AvroRecord):
    """Which instant is undone, and by deleting what."""

    RECORD: ClassVar[str] = "HoodieRollbackPlan"

    instant: InstantInfo
    requests: tuple[RollbackRequest, ...] = ()

    def to_avro(self) -> dict[str, Any]:
        """Its HoodieRollbackPlan."""
        return {
            "instantToRollback": self.instant.to_avro(),
            "RollbackRequests": [
                {
                    "partitionPath": request.partition,
                    "fileId": request.file_id,
                    "latestBaseInstant": request.base_instant,
                    "filesToBeDeleted": list(request.files),
                    "logBlocksToBeDeleted": {},
                }
                for request in self.requests
            ],
            "version": 1,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The plan of a HoodieRollbackPlan."""
        requests = (
            RollbackRequest(
                partition=request["partitionPath"],
                files=tuple(request.get("filesToBeDeleted") or ()),
                file_id=request.get("fileId") or "",
                base_instant=request.get("latestBaseInstant") or "",
            )
            for request in value.get("RollbackRequests") or ()
        )
        return cls(instant=InstantInfo.from_avro(value["instantToRollback"]), requests=tuple(requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBackPartition:
    """What a rollback did in one partition; absolute paths without scheme."""

    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackMetadata(AvroRecord):
    """What a completed rollback did."""

    RECORD: ClassVar[str] = "HoodieRollbackMetadata"

    start_time: str
    time_taken_ms: int
    instants: tuple[InstantInfo, ...]
    partitions: Mapping[str, RolledBackPartition] = field(default_factory=dict)

    def to_avro(self) -> dict[str, Any]:
        """Its HoodieRollbackMetadata."""
        return {
            "startRollbackTime": self.start_time,
            "timeTakenInMillis": self.time_taken_ms,
            "totalFilesDeleted": sum(len(partition.deleted) for partition in self.partitions.values()),
            "commitsRollback": [instant.time for instant in self.instants],
            "partitionMetadata": {
                path: {
                    "partitionPath": path,
                    "successDeleteFiles": list(partition.deleted),
                    "failedDeleteFiles": list(partition.failed),
                    "rollbackLogFiles": {},
                    "logFilesFromFailedCommit": {},
                }
                for path, partition in self.partitions.items()
            },
            "version": 1,
            "instantsRollback": [instant.to_avro() for instant in self.instants],
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The metadata of a HoodieRollbackMetadata; the oldest versions name only the times."""
        instants = tuple(InstantInfo.from_avro(instant) for instant in value.get("instantsRollback") or ())
        return cls(
            start_time=value["startRollbackTime"],
            time_taken_ms=value["timeTakenInMillis"],
            instants=instants
            or tuple(InstantInfo(time=time, action="commit") for time in value["commitsRollback"]),
            partitions={
                path: RolledBackPartition(
                    deleted=tuple(partition["successDeleteFiles"]),
                    failed=tuple(partition["failedDeleteFiles"]),
                )
                for path, partition in value["partitionMetadata"].items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMetadata(AvroRecord):
    """Which files a savepoint protects: names by partition, the latest ones as of its commit."""

    RECORD: ClassVar[str] = "HoodieSavepointMetadata"

    by: str
    at_ms: int
    comments: str
    files: Mapping[str, tuple[str, ...]]

    def to_avro(self) -> dict[str, Any]:
        """Its HoodieSavepointMetadata."""
        return {
            "savepointedBy": self.by,
            "savepointedAt": self.at_ms,
            "comments": self.comments,
            "partitionMetadata": {
                path: {"partitionPath": path, "savepointDataFile": list(names)}
                for path, names in self.files.items()
            },
            "version": 1,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The savepoint of a HoodieSavepointMetadata."""
        return cls(
            by=value["savepointedBy"],
            at_ms=value["savepointedAt"],
            comments=value["comments"],
            files={
                path: tuple(partition["savepointDataFile"])
                for path, partition in value["partitionMetadata"].items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan(AvroRecord):
    """Which instants a restore undoes, newest first, to get back to a savepoint."""

    RECORD: ClassVar[str] = "HoodieRestorePlan"

    instants: tuple[InstantInfo, ...]
    savepoint: str | None

    def to_avro(self) -> dict[str, Any]:
        """Its HoodieRestorePlan, version 2."""
        return {
            "instantsToRollback": [instant.to_avro() for instant in self.instants],
            "version": 2,
            "savepointToRestoreTimestamp": self.savepoint,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The plan of a HoodieRestorePlan; version 1 does not name the savepoint."""
        return cls(
            instants=tuple(InstantInfo.from_avro(instant) for instant in value["instantsToRollback"]),
            savepoint=value.get("savepointToRestoreTimestamp"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadata(AvroRecord):
    """What a completed restore did: the rollbacks by the time of the instant undone."""

    RECORD: ClassVar[str] = "HoodieRestoreMetadata"

    start_time: str
    time_taken_ms: int
    instants: tuple[InstantInfo, ...]
    rollbacks: Mapping[str, tuple[RollbackMetadata, ...]]

    def to_avro(self) -> dict[str, Any]:
        """Its HoodieRestoreMetadata."""
        return {
            "startRestoreTime": self.start_time,
            "timeTakenInMillis": self.time_taken_ms,
            "instantsToRollback": [instant.time for instant in self.instants],
            "hoodieRestoreMetadata": {
                time: [rollback.to_avro() for rollback in rollbacks]
                for time, rollbacks in self.rollbacks.items()
            },
            "version": 1,
            "restoreInstantInfo": [instant.to_avro() for instant in self.instants],
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """The metadata of a HoodieRestoreMetadata."""
        instants = tuple(InstantInfo.from_avro(instant) for instant in value.get("restoreInstantInfo") or ())
        return cls(
            start_time=value["startRestoreTime"],
            time_taken_ms=value["timeTakenInMillis"],
            instants=instants
            or tuple(InstantInfo(time=time, action="commit") for time in value["instantsToRollback"]),
            rollbacks={
                time: tuple(RollbackMetadata.from_avro(rollback) for rollback in rollbacks if rollback)
                for time, rollbacks in value["hoodieRestoreMetadata"].items()
            },
        )


def _names(paths: list[str]) -> tuple[str, ...]:
    return tuple(path.rpartition("/")[2] for path in paths)
