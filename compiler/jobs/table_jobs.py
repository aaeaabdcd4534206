"""The jobs of a table by its applied record, as far as the project declares the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from parquetry.compiler.jobs.declared_rules import check_declared, check_named
from parquetry.compiler.jobs.results import FILES, OPEN, Diagnose, JobOutcome, attempt
from parquetry.compiler.plan.target_changes import check_allowed, check_in_force
from parquetry.compiler.workspace.observation import Observation, check_files, observe
from parquetry.compiler.workspace.opened import Workspace, job
from parquetry.project import ResolvedTable
from parquetry.runtime.clustering.plan.due import trigger_of
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements
from parquetry.runtime.spec.table_spec import Source
from parquetry.runtime.table.signing import check_signed
from parquetry.runtime.timeline.last_clustering import last_clustering


class Only(StrEnum):
    """A part of a run."""

    INGEST = "ingest"
    SERVICES = "services"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJobs:
    """The jobs of a table.

    Attributes:
        table: The table.
        first: The ingest jobs, and outcomes that report why a job is impossible.
        clustering: The clustering, if runs start it.
        services: The clean and the archive.
        clustered: The instant of the last clustering, empty if there is none.
        unapplied: Settings of the target that the jobs use although the table records other values.
    """

    table: ResolvedTable
    first: tuple[JobPlan | JobOutcome, ...]
    clustering: tuple[JobPlan, ...] = ()
    services: tuple[JobPlan, ...] = ()
    clustered: str = ""
    unapplied: tuple[str, ...] = ()

    @property
    def plans(self) -> tuple[JobPlan, ...]:
        """All jobs that may run."""
        jobs = (*self.first, *self.clustering, *self.services)
        return tuple(job for job in jobs if isinstance(job, JobPlan))


def table_jobs(
    workspace: Workspace, table: ResolvedTable, only: Only | None, diagnose: Diagnose, *, applied: bool
) -> TableJobs:
    """Return the jobs of a table; ``applied`` is as in :func:`observe_applied`."""
    observation = attempt(
        table.name, OPEN, lambda: observe_applied(workspace, table, trusts_record=applied), diagnose
    )
    if isinstance(observation, JobOutcome):
        return TableJobs(table=table, first=(observation,))
    handle = observation.handle
    assert handle.spec is not None, "what is applied has a spec"
    # Writes to partitions with damaged files are refused later. Jobs in other partitions continue.
    checked = attempt(table.name, FILES, lambda: check_files(observation, every_partition=False), diagnose)
    first: list[JobPlan | JobOutcome] = [checked] if isinstance(checked, JobOutcome) else []
    if only is not Only.SERVICES:
        first += [
            _job(workspace, table, observation, JobKind.INGEST, source=source)
            for source in handle.spec.sources
        ]
    jobs = TableJobs(
        table=table, first=tuple(first), unapplied=check_in_force(workspace, table, handle.applied)
    )
    if only is Only.INGEST:
        return jobs
    jobs = replace(jobs, services=(_job(workspace, table, observation, JobKind.SERVICES),))
    if trigger_of(handle) is not Trigger.ASYNC:
        return jobs
    # An error here is ignored, because the job fails with the same error and reports it.
    clustered = attempt(table.name, JobKind.CLUSTER, lambda: last_clustering(handle.timeline()), diagnose)
    return replace(
        jobs,
        clustering=(_job(workspace, table, observation, JobKind.CLUSTER),),
        clustered="" if isinstance(clustered, JobOutcome) else clustered,
    )


def cluster_job(workspace: Workspace, table: ResolvedTable, *, applied: bool = False) -> JobPlan:
    """Return the job that clusters the due files of a table by its applied spec, whatever its trigger is.

    If ``applied`` is True, the applied record may differ from the declared spec.

    Raises:
        UnappliedError: If no spec is applied, or if a setting of the target may not be used.
        ForeignTableError: If the table belongs to another project or target.
        StalePlanError: If the applied spec is not the declared one.
    """
    check_allowed(workspace)
    return _job(workspace, table, observe_applied(workspace, table, trusts_record=applied), JobKind.CLUSTER)


def observe_applied(workspace: Workspace, table: ResolvedTable, *, trusts_record: bool) -> Observation:
    """Return the table with its applied spec.

    Unless ``trusts_record`` is set, the applied spec must equal the declared one.

    Raises:
        ForeignTableError: If the table belongs to another project or target.
        UnappliedError: If no spec is applied.
        StalePlanError: If the applied spec must not be used because it is not declared.
    """
    observation = observe(workspace.store(table), declared=table.spec)
    if observation is not None:
        observation.check_owner(workspace.owner)
    if observation is None or not observation.is_applied or observation.handle.spec is None:
        raise workspace.unapplied_error(table)
    if observation.handle.fault is not None:
        raise observation.handle.fault.error()
    check_signed(observation.handle.store.uri, observation.handle.record_signature, workspace.signing_keys)
    if not trusts_record:
        check_declared(observation, table.spec)
    else:
        check_named(observation, table.spec)
    check_in_force(workspace, table, observation.handle.applied)
    return observation


def _job(
    workspace: Workspace,
    table: ResolvedTable,
    observation: Observation,
    kind: JobKind,
    *,
    source: Source | None = None,
) -> JobPlan:
    """Return a job of a table by its applied spec, which fails if the table has changed since."""
    spec, applied = observation.handle.spec, observation.handle.applied
    assert spec is not None, "what is applied has a spec"
    assert applied is not None, "what is applied has a record"
    requirements = Requirements(
        exists=True,
        table_id=observation.handle.table_id,
        applied_number=applied.number,
        applied_digest=applied.digest,
    )
    plan = job(workspace, table, spec, kind=kind, source=source, requirements=requirements)
    return replace(plan, plan_id=applied.plan_id)
