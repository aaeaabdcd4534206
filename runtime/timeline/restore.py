"""The state files of savepoints, and of restores to them.

Source: SavepointActionExecutor and BaseRestoreActionExecutor of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from parquetry.runtime.timeline.avro_model import AvroRecord, checked_text, checked_texts
from parquetry.runtime.timeline.rollback import InstantInfo, RollbackMetadata, instants_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMetadata(AvroRecord):
    """The files that a savepoint protects: the names of the latest files as of its commit, by partition."""

    RECORD: ClassVar[str] = "HoodieSavepointMetadata"

    created_by: str
    created_at_ms: int
    comments: str
    files: Mapping[str, tuple[str, ...]]

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieSavepointMetadata."""
        return {
            "savepointedBy": self.created_by,
            "savepointedAt": self.created_at_ms,
            "comments": self.comments,
            "partitionMetadata": {
                path: {"partitionPath": path, "savepointDataFile": list(names)}
                for path, names in self.files.items()
            },
            "version": 1,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the metadata of a HoodieSavepointMetadata."""
        return cls(
            created_by=value["savepointedBy"],
            created_at_ms=value["savepointedAt"],
            comments=value["comments"],
            files={
                path: checked_texts(partition["savepointDataFile"])
                for path, partition in value["partitionMetadata"].items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan(AvroRecord):
    """The instants that a restore to a savepoint undoes, the newest first."""

    RECORD: ClassVar[str] = "HoodieRestorePlan"

    instants: tuple[InstantInfo, ...]
    savepoint: str | None

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieRestorePlan, version 2."""
        return {
            "instantsToRollback": [instant.to_avro() for instant in self.instants],
            "version": 2,
            "savepointToRestoreTimestamp": self.savepoint,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the plan of a HoodieRestorePlan. Version 1 does not name the savepoint."""
        savepoint = value.get("savepointToRestoreTimestamp")
        return cls(
            instants=tuple(InstantInfo.of_plan(instant) for instant in value["instantsToRollback"]),
            savepoint=None if savepoint is None else checked_text(savepoint),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadata(AvroRecord):
    """The result of a completed restore, with the rollbacks by the time of the rolled-back instant."""

    RECORD: ClassVar[str] = "HoodieRestoreMetadata"

    start_time: str
    time_taken_ms: int
    instants: tuple[InstantInfo, ...]
    rollbacks: Mapping[str, tuple[RollbackMetadata, ...]]

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieRestoreMetadata."""
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
        """Return the metadata of a HoodieRestoreMetadata."""
        return cls(
            start_time=value["startRestoreTime"],
            time_taken_ms=value["timeTakenInMillis"],
            instants=instants_of(value.get("restoreInstantInfo"), value["instantsToRollback"]),
            rollbacks={
                time: tuple(RollbackMetadata.from_avro(rollback) for rollback in rollbacks if rollback)
                for time, rollbacks in value["hoodieRestoreMetadata"].items()
            },
        )
