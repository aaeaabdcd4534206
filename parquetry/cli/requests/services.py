"""Table services by hand: lookup of the table, the budget and the Spark session."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parquetry.cli.requests.options import ProjectRequest
from parquetry.errors import ParquetryError, UsageError

if TYPE_CHECKING:
    from parquetry.runtime.catalog.sync import SyncResult
    from parquetry.runtime.clustering.plan.due import DueClustering, ScheduledClustering
    from parquetry.runtime.clustering.plan.execution import ClusteringResult
    from parquetry.runtime.publish.publishing import PublishedTable
    from parquetry.runtime.spark.purge import PurgeReport, Survey
    from parquetry.runtime.spec.job import SparkSettings
    from parquetry.runtime.table.handle import TableHandle


def open_named(request: ProjectRequest, table: str, *, applied: bool) -> TableHandle:
    """Return the table with this name, path or URI."""
    from parquetry.cli.requests.workspaces import table_named

    return table_named(request, table, applied=applied).open()


def open_in_force(request: ProjectRequest, table: str, *, applied: bool) -> TableHandle:
    """Return the table for a service that writes; a service that uses no spec passes ``applied=True``.

    Raises:
        UnappliedError: Settings of the target that can execute code are not allowed, or not applied to the
            table.

    """
    from parquetry.cli.requests.workspaces import table_in_force

    return table_in_force(request, table, applied=applied).open()


def publish_tables(
    request: ProjectRequest, table: str | None
) -> tuple[tuple[PublishedTable, ...], tuple[ParquetryError, ...]]:
    """Publish the table, or all selected tables that declare ``publish``.

    Returns:
        The tables that were published, and the failures of the others.
    """
    from parquetry.cli.requests.workspaces import workspace_of
    from parquetry.runtime.publish.publishing import PublishedTable, formats_of, publish

    declared = () if table is not None else workspace_of(request).tables
    names = [one.name for one in declared if one.spec.publish is not None] if table is None else [table]
    published: list[PublishedTable] = []
    failures: list[ParquetryError] = []
    for name in names:
        try:
            handle = open_in_force(request, name, applied=True)
            with handle.failures_masked():
                results = publish(handle, formats_of(handle))
        except ParquetryError as error:
            failures.append(error)
        else:
            published.append(PublishedTable(table=handle.name, formats=results))
    return tuple(published), tuple(failures)


def sync_tables(
    request: ProjectRequest, table: str | None, *, drops: bool
) -> tuple[tuple[SyncResult, ...], tuple[ParquetryError, ...]]:
    """Bring the entry of the table, or of all selected tables, in its catalog to the newest state.

    Returns:
        The results of the tables whose applied spec names a catalog, and the failures of the others.

    Raises:
        UsageError: If ``table`` is a path or URI, for which no catalog is known.
    """
    from parquetry.cli.requests.workspaces import is_location, workspace_of
    from parquetry.compiler.workspace.catalogs import sync_table
    from parquetry.runtime.errors import CatalogError

    if table is not None and is_location(table):
        raise UsageError("a catalog is known for tables of the project alone; give the name of the table")
    workspace = workspace_of(request)
    names = [one.name for one in workspace.tables if one.spec.extra.catalog] if table is None else [table]
    outages: set[str | None] = set()
    synced: list[SyncResult] = []
    failures: list[ParquetryError] = []
    for name in names:
        catalog = workspace.table(name).spec.extra.catalog
        if catalog in outages:
            continue
        try:
            handle = open_in_force(request, name, applied=True)
            result = sync_table(workspace, workspace.table(name), handle, restores=True, drops=drops)
            synced += [] if result is None else [result]
        except ParquetryError as error:
            if isinstance(error, CatalogError) and error.is_outage:
                # Each table would take as long as the retries of the first one.
                outages.add(catalog)
            failures.append(error)
    return tuple(synced), tuple(failures)


def due_groups(request: ProjectRequest, table: str, handle: TableHandle) -> DueClustering:
    """Return what a run would rewrite now, within the target's budget; nothing is written, no JVM starts."""
    from parquetry.runtime.clustering.plan.due import due_clustering
    from parquetry.runtime.layout.clustering.run_budget import RunBudget

    return due_clustering(handle, budget=RunBudget(limit_bytes=_budget(request, table)))


def schedule_groups(request: ProjectRequest, table: str, handle: TableHandle) -> ScheduledClustering:
    """Write a clustering plan to the timeline, within the target's budget, and return it; starts no JVM."""
    from parquetry.runtime.clustering.plan.due import schedule_clustering
    from parquetry.runtime.layout.clustering.run_budget import RunBudget

    return schedule_clustering(handle, budget=RunBudget(limit_bytes=_budget(request, table)))


def _budget(request: ProjectRequest, table: str) -> int:
    """Return the target's budget in bytes, or the default budget for a table given by its location."""
    from parquetry.cli.requests.workspaces import is_location, workspace_of
    from parquetry.project.model.resolved import SERVICES_BYTES

    if is_location(table):
        return SERVICES_BYTES
    return workspace_of(request).project.target.services_bytes


def run_clustering(
    request: ProjectRequest, table: str, *, instant: str | None, applied: bool
) -> ClusteringResult:
    """Cluster within the target's budget, or execute the pending plan of an instant."""
    from parquetry.cli.requests.workspaces import is_location, workspace_of
    from parquetry.compiler.jobs.launch import launcher_for, new_run_id
    from parquetry.compiler.jobs.table_jobs import cluster_job
    from parquetry.runtime.clustering.plan.execution import ClusteringResult
    from parquetry.runtime.main import cluster_in_own_session

    if instant is None and not is_location(table):
        workspace = workspace_of(request)
        job = cluster_job(workspace, workspace.table(table), applied=applied)
        launch = launcher_for(workspace, new_run_id())((job,))
        return launch(job).clustering or ClusteringResult()
    settings, log = spark_of(request, table, applied=applied)
    handle = open_named(request, table, applied=applied)
    return cluster_in_own_session(
        handle, settings, instant=instant, budget_bytes=_budget(request, table), log=log
    )


def spark_of(request: ProjectRequest, table: str, *, applied: bool) -> tuple[SparkSettings, Path | None]:
    """Return the target's settings of Spark, and the file for Spark's log in the folder of a new run.

    For a table given by its location, the settings are those of a session on this machine, and the file is
    temporary. The file is None if it cannot be written.
    """
    from parquetry.cli.requests.workspaces import is_location, workspace_of
    from parquetry.compiler.jobs.launch import hide_pandas_warnings, new_run_id
    from parquetry.compiler.jobs.table_jobs import cluster_job
    from parquetry.runtime.spark_log import NAME, open_log
    from parquetry.runtime.spec.job import SparkSettings

    hide_pandas_warnings()
    if is_location(table):
        root = Path(tempfile.mkdtemp(prefix="parquetry-"))
        return SparkSettings(), open_log(root / NAME, root=root)
    workspace = workspace_of(request)
    job = cluster_job(workspace, workspace.table(table), applied=applied)
    root = workspace.project.root
    return job.spark, open_log(root / Path("target", "runs", new_run_id(), NAME), root=root)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPurge:
    """A purge that is ready to execute, and the survey of what it would do."""

    survey: Survey
    handle: TableHandle
    settings: SparkSettings
    log: Path | None

    def execute(self) -> PurgeReport:
        """Purge, and return what was done and which files still contain a value."""
        from parquetry.runtime.main import purge_in_own_session

        return purge_in_own_session(self.handle, self.settings, self.survey, log=self.log)


def survey_purge(
    request: ProjectRequest, table: str, *, where: str | None, keys: Path | None
) -> SurveyedPurge:
    """Survey the rows with these keys, or those that fulfil the condition, and return the purge of them.

    Args:
        request: The project.
        table: The name, path or URI of the table.
        where: An SQL condition, or None.
        keys: A file with record keys, or None.

    """
    from parquetry.runtime.main import survey_in_own_session

    handle = open_in_force(request, table, applied=True)
    settings, log = spark_of(request, table, applied=True)
    found = survey_in_own_session(handle, settings, where=where, keys=keys, log=log)
    return SurveyedPurge(survey=found, handle=handle, settings=settings, log=log)
