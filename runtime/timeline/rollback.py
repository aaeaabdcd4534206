"""The state files of a rollback. Source: BaseRollbackActionExecutor of Hudi 0.15."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from parquetry.runtime.timeline.avro_model import AvroRecord, checked_text, checked_texts
from parquetry.runtime.timeline.instant import action_of


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantInfo:
    """An instant in a record of a rollback or restore."""

    time: str
    action: str

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieInstantInfo."""
        return {"commitTime": self.time, "action": self.action}

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the instant of a HoodieInstantInfo."""
        return cls(time=value["commitTime"], action=value["action"])

    @classmethod
    def of_plan(cls, value: Mapping[str, Any]) -> Self:
        """Return the instant that a plan rolls back, or raise ValueError if its time or action is invalid."""
        info = cls.from_avro(value)
        time, action = checked_text(info.time), checked_text(info.action)
        if not (time.isascii() and time.isdigit()) or action_of(action) is None:
            raise ValueError(f"{info.time}.{info.action} is not an instant")
        return info


def instants_of(named: Iterable[Mapping[str, Any]] | None, times: Iterable[str]) -> tuple[InstantInfo, ...]:
    """Return the instants that a rollback or restore record names. The oldest records contain only times."""
    instants = tuple(InstantInfo.from_avro(instant) for instant in named or ())
    return instants or tuple(InstantInfo(time=time, action="commit") for time in checked_texts(times))


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """The files that a rollback will delete in one partition. Paths are absolute, without a scheme.

    ``file_id`` and ``base_instant`` are known if the request comes from a marker.
    """

    partition: str
    files: tuple[str, ...]
    file_id: str = ""
    base_instant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan(AvroRecord):
    """The instant to roll back, and the files to delete."""

    RECORD: ClassVar[str] = "HoodieRollbackPlan"

    instant: InstantInfo
    requests: tuple[RollbackRequest, ...] = ()

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieRollbackPlan."""
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
        """Return the plan of a HoodieRollbackPlan."""
        requests = (
            RollbackRequest(
                partition=checked_text(request["partitionPath"]),
                files=checked_texts(request.get("filesToBeDeleted")),
                file_id=request.get("fileId") or "",
                base_instant=request.get("latestBaseInstant") or "",
            )
            for request in value.get("RollbackRequests") or ()
        )
        return cls(instant=InstantInfo.of_plan(value["instantToRollback"]), requests=tuple(requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBackPartition:
    """The result of a rollback in one partition. Paths are absolute, without a scheme."""

    deleted: tuple[str, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackMetadata(AvroRecord):
    """The result of a completed rollback."""

    RECORD: ClassVar[str] = "HoodieRollbackMetadata"

    start_time: str
    time_taken_ms: int
    instants: tuple[InstantInfo, ...]
    partitions: Mapping[str, RolledBackPartition] = field(default_factory=dict)

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieRollbackMetadata."""
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
        """Return the metadata of a HoodieRollbackMetadata of any version."""
        return cls(
            start_time=value["startRollbackTime"],
            time_taken_ms=value["timeTakenInMillis"],
            instants=instants_of(value.get("instantsRollback"), value["commitsRollback"]),
            partitions={
                path: RolledBackPartition(
                    deleted=checked_texts(partition["successDeleteFiles"]),
                    failed=checked_texts(partition["failedDeleteFiles"]),
                )
                for path, partition in value["partitionMetadata"].items()
            },
        )
