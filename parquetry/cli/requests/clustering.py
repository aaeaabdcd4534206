"""Clustering by hand: where the table, the budget and the Spark session come from."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from parquetry.cli.requests.options import ProjectRequest

if TYPE_CHECKING:
    from parquetry.runtime.clustering.plan.due import DueClustering, ScheduledClustering
    from parquetry.runtime.clustering.plan.execution import ClusteringResult
    from parquetry.runtime.spec.job import SparkSettings
    from parquetry.runtime.spec.table_spec import TableSpec
    from parquetry.runtime.table.open import TableHandle


def opened(request: ProjectRequest, table: str, *, applied: bool) -> tuple[TableHandle, TableSpec | None]:
    """The table of that name in the project, or at that path or URI; and the spec to mask its values by."""
    from parquetry.cli.requests.workspaces import table_named
    from parquetry.compiler.workspace.masking import masked_by

    named = table_named(request, table, applied=applied)
    handle = named.open()
    return handle, masked_by(handle.spec, named.declared)


def schedulable(request: ProjectRequest, table: str, *, applied: bool) -> TableHandle:
    """The table, to leave a plan on its timeline: with the target's settings allowed and applied."""
    from parquetry.cli.requests.workspaces import table_in_force

    return table_in_force(request, table, applied=applied).open()


def due_of(request: ProjectRequest, table: str, handle: TableHandle) -> DueClustering:
    """What a run would rewrite now, within the target's budget; nothing is written, no JVM starts."""
    from parquetry.runtime.clustering.plan.due import due_clustering
    from parquetry.runtime.layout.clustering.run_budget import RunBudget

    return due_clustering(handle, budget=RunBudget(limit_bytes=_budget(request, table)))


def schedule(request: ProjectRequest, table: str, handle: TableHandle) -> ScheduledClustering:
    """The plan that was left on the timeline, within the target's budget; no JVM starts."""
    from parquetry.runtime.clustering.plan.due import schedule_clustering
    from parquetry.runtime.layout.clustering.run_budget import RunBudget

    return schedule_clustering(handle, budget=RunBudget(limit_bytes=_budget(request, table)))


def _budget(request: ProjectRequest, table: str) -> int:
    """Of a table that is named by its place, that of a target that declares none."""
    from parquetry.cli.requests.workspaces import is_location, workspace_of
    from parquetry.project.model.resolved import SERVICES_BYTES

    if is_location(table):
        return SERVICES_BYTES
    return workspace_of(request).project.target.budget.services_bytes


def run_clustering(
    request: ProjectRequest, table: str, *, instant: str | None, applied: bool
) -> ClusteringResult:
    """What was done: a run within the target's budget, or the pending plan of an instant."""
    from parquetry.cli.requests.workspaces import is_location, workspace_of
    from parquetry.compiler.jobs.launch import launcher_for, new_run_id
    from parquetry.compiler.jobs.run import cluster_job
    from parquetry.runtime.clustering.plan.execution import ClusteringResult
    from parquetry.runtime.main import cluster_by_hand

    if instant is None and not is_location(table):
        workspace = workspace_of(request)
        job = cluster_job(workspace, workspace.table(table), applied=applied)
        launch = launcher_for(workspace, new_run_id())((job,))
        return launch(job).clustering or ClusteringResult()
    settings, log = spark_of(request, table, applied=applied)
    handle, _ = opened(request, table, applied=applied)
    return cluster_by_hand(handle, settings, instant=instant, budget_bytes=_budget(request, table), log=log)


def spark_of(request: ProjectRequest, table: str, *, applied: bool) -> tuple[SparkSettings, Path | None]:
    """The target's settings of Spark, and the file of a run that takes what Spark says.

    For a table that is named by its place, a session on this machine and a temporary file.
    """
    from parquetry.cli.requests.workspaces import is_location, workspace_of
    from parquetry.compiler.jobs.launch import hide_pandas_warnings, new_run_id
    from parquetry.compiler.jobs.run import cluster_job
    from parquetry.runtime.spark_log import NAME, keep_log
    from parquetry.runtime.spec.job import SparkSettings

    hide_pandas_warnings()
    if is_location(table):
        root = Path(tempfile.mkdtemp(prefix="parquetry-"))
        return SparkSettings(), keep_log(root / NAME, root=root)
    workspace = workspace_of(request)
    job = cluster_job(workspace, workspace.table(table), applied=applied)
    root = workspace.project.root
    return job.spark, keep_log(root / Path("target", "runs", new_run_id(), NAME), root=root)
