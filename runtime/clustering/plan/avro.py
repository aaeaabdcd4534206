"""Clustering plans in Hudi's Avro format, which Hudi can execute too.

Source: ClusteringPlanStrategy.buildClusteringPlan and ClusteringUtils of Hudi 0.15.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.layout.clustering.model import ClusteringFile, PlannedGroup
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.clustering import ClusteringScope, ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.codec import from_json_value, parsed_json, to_json_value
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.file_names import absolute_path
from parquetry.runtime.timeline.clustering_plan import ClusteringGroup, ClusteringPlan, ClusteringSlice

EXECUTION_KEY: Final = "parquetry.execution"
TARGET_KEY: Final = "parquetry.target_file_size_bytes"
STRATEGY_KEY: Final = "parquetry.plan_strategy"
SCOPE_KEY: Final = "parquetry.scope"
"""The key in a group that marks it as one order over a partition, beyond the limits of a group."""

SORT_COLUMNS_PARAM: Final = "hoodie.clustering.plan.strategy.sort.columns"
TARGET_PARAM: Final = "hoodie.clustering.plan.strategy.target.file.max.bytes"
LAYOUT_PARAM: Final = "hoodie.layout.optimize.strategy"

_MB: Final = 1024 * 1024
_LAYOUTS: Final = {"sort": "LINEAR", "zorder": "ZORDER", "hilbert": "HILBERT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedExecution:
    """The execution policy and target size of a plan of this project, whatever spec was applied since."""

    execution: ExecutionPolicy
    target_file_size_bytes: int


def avro_plan(store: ObjectStore, groups: Iterable[PlannedGroup], spec: ClusteringSpec) -> ClusteringPlan:
    """Return the Avro plan of these groups under the clustering policy."""
    execution = spec.execution
    params = {TARGET_PARAM: str(spec.plan.target_file_size_bytes)}
    if execution.columns:
        params[SORT_COLUMNS_PARAM] = ",".join(execution.columns)
        params[LAYOUT_PARAM] = _LAYOUTS.get(execution.strategy, "LINEAR")
    return ClusteringPlan(
        groups=tuple(_avro_group(store, group) for group in groups),
        strategy_params=params,
        extra={
            EXECUTION_KEY: json.dumps(to_json_value(execution), sort_keys=True),
            TARGET_KEY: str(spec.plan.target_file_size_bytes),
            STRATEGY_KEY: spec.plan.strategy,
        },
    )


def execution_of(plan: ClusteringPlan) -> PlannedExecution | None:
    """Return how a plan of this project is to be executed, or None for a plan of another program.

    Raises:
        CorruptTableError: If the plan's entry about its execution cannot be read.

    """
    if EXECUTION_KEY not in plan.extra:
        return None
    try:
        return PlannedExecution(
            execution=from_json_value(
                ExecutionPolicy,
                parsed_json(plan.extra[EXECUTION_KEY]),
                place=f"clustering plan: {EXECUTION_KEY}",
            ),
            target_file_size_bytes=int(plan.extra[TARGET_KEY]),
        )
    except (ValueError, KeyError) as error:
        raise CorruptTableError(
            "a clustering plan has no valid execution policy ({error}); roll the plan back",
            error=quoted_library_text(repr(error), kind=type(error).__name__),
        ) from error


def _avro_group(store: ObjectStore, group: PlannedGroup) -> ClusteringGroup:
    size = group.size_bytes / _MB
    return ClusteringGroup(
        slices=tuple(_avro_slice(store, file) for file in group.files),
        output_files=group.output_files,
        metrics={
            "TOTAL_IO_READ_MB": size,
            "TOTAL_IO_WRITE_MB": size,
            "TOTAL_IO_MB": 2 * size,
            "TOTAL_LOG_FILES": 0.0,
            "TOTAL_LOG_FILES_SIZE": 0.0,
        },
        extra={SCOPE_KEY: ClusteringScope.PARTITION.value}
        if group.scope is ClusteringScope.PARTITION
        else {},
    )


def _avro_slice(store: ObjectStore, file: ClusteringFile) -> ClusteringSlice:
    return ClusteringSlice(
        partition=file.partition,
        file_id=file.file_id,
        path=f"{_scheme(store)}{absolute_path(store, file.path)}",
    )


def _scheme(store: ObjectStore) -> str:
    """Return the text before an absolute path in Hadoop's form: ``file:``, or ``s3a://`` with the bucket."""
    scheme, _, rest = store.uri.partition("://")
    if scheme == "file":
        return "file:"
    return f"{'s3a' if scheme == 's3' else scheme}://{rest.partition('/')[0]}"
