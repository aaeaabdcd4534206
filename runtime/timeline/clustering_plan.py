"""The content of ``.replacecommit.requested``: the operation and, for clustering, the plan.

A replacecommit is a clustering if and only if the operation in this file is ``CLUSTER``. Source:
ClusteringUtils of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from parquetry.runtime.timeline.avro_model import AvroRecord

CLUSTER: Final = "CLUSTER"
SORT_AND_SIZE_STRATEGY: Final = (
    "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringSlice:
    """An input file. ``path`` is absolute, with a scheme."""

    partition: str
    file_id: str
    path: str

    @property
    def key(self) -> tuple[str, str]:
        """The file group: partition and file id."""
        return self.partition, self.file_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringGroup:
    """Files that are rewritten together into ``output_files`` new files."""

    slices: tuple[ClusteringSlice, ...]
    output_files: int = 1
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringPlan:
    """The clustering groups, and the execution strategy for a Hudi job: a Java class and its parameters."""

    groups: tuple[ClusteringGroup, ...]
    strategy: str = SORT_AND_SIZE_STRATEGY
    strategy_params: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedReplace(AvroRecord):
    """The request of a replacecommit. ``operation`` is Hudi's name, or None if the writer recorded none."""

    RECORD: ClassVar[str] = "HoodieRequestedReplaceMetadata"

    operation: str | None
    plan: ClusteringPlan | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_clustering(self) -> bool:
        """True if the operation is a clustering, which moves rows and changes none."""
        return self.operation == CLUSTER

    def to_avro(self) -> dict[str, Any]:
        """Return the HoodieRequestedReplaceMetadata."""
        return {
            "operationType": self.operation,
            "clusteringPlan": None if self.plan is None else _plan_to_avro(self.plan),
            "extraMetadata": dict(self.extra),
            "version": 1,
        }

    @classmethod
    def from_avro(cls, value: Mapping[str, Any]) -> Self:
        """Return the request of a HoodieRequestedReplaceMetadata of any version."""
        plan = value.get("clusteringPlan")
        return cls(
            operation=value.get("operationType"),
            plan=None if plan is None else _plan_from_avro(plan),
            extra=value.get("extraMetadata") or {},
        )


def _plan_to_avro(plan: ClusteringPlan) -> dict[str, Any]:
    return {
        "inputGroups": [
            {
                "slices": [
                    {
                        "dataFilePath": part.path,
                        "deltaFilePaths": [],
                        "fileId": part.file_id,
                        "partitionPath": part.partition,
                        "bootstrapFilePath": "",
                        "version": 1,
                    }
                    for part in group.slices
                ],
                "metrics": dict(group.metrics),
                "numOutputFileGroups": group.output_files,
                "extraMetadata": dict(group.extra) or None,
                "version": 1,
            }
            for group in plan.groups
        ],
        "strategy": {
            "strategyClassName": plan.strategy,
            "strategyParams": dict(plan.strategy_params),
            "version": 1,
        },
        "extraMetadata": dict(plan.extra),
        "version": 1,
        "preserveHoodieMetadata": True,
    }


def _plan_from_avro(value: Mapping[str, Any]) -> ClusteringPlan:
    strategy = value.get("strategy") or {}
    return ClusteringPlan(
        groups=tuple(
            ClusteringGroup(
                slices=tuple(
                    ClusteringSlice(
                        partition=part.get("partitionPath") or "",
                        file_id=part["fileId"],
                        path=part.get("dataFilePath") or "",
                    )
                    for part in group.get("slices") or ()
                ),
                output_files=group.get("numOutputFileGroups") or 1,
                metrics=group.get("metrics") or {},
                extra=group.get("extraMetadata") or {},
            )
            for group in value.get("inputGroups") or ()
        ),
        strategy=strategy.get("strategyClassName") or SORT_AND_SIZE_STRATEGY,
        strategy_params=strategy.get("strategyParams") or {},
        extra=value.get("extraMetadata") or {},
    )
