"""Where rows of tested tables come from: jobs for tables of a project, and for those of none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from parquetry.compiler.errors import UnknownTableError
from parquetry.compiler.plan.settings_in_force import check_allowed, check_in_force
from parquetry.compiler.testing.passes import PassesFile, digest_of_texts
from parquetry.compiler.testing.rows import Others
from parquetry.compiler.workspace.opened import Workspace, job
from parquetry.project import ResolvedTable
from parquetry.runtime.errors import TableNotFoundError
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements
from parquetry.runtime.spec.row_tests import RowTests
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.open import TableHandle, open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """How rows of a table are read: ``job`` makes the job, and ``settings`` stand for those of its Spark.

    ``others`` gives tables that rows are compared with. Without ``passes`` all is read every time.
    """

    job: Callable[[TableHandle, TableSpec, RowTests], JobPlan]
    others: Others
    settings: str = ""
    passes: PassesFile | None = None


def rows_of_project(workspace: Workspace, table: ResolvedTable) -> RowSource:
    """Rows of a table of the project, by jobs that its target launches.

    UnappliedError, when a job is asked for, where settings of the target that execute are not allowed, or
    not applied to the table.
    """
    project = workspace.project
    spark = project.target.spark

    def tested(handle: TableHandle, spec: TableSpec, tests: RowTests) -> JobPlan:
        check_allowed(workspace)
        if handle.applied is not None:
            check_in_force(workspace, table, handle.applied)
        requirements = Requirements(exists=True)
        plan = job(workspace, table, spec, kind=JobKind.TEST, requirements=requirements)
        return replace(plan, tests=tests)

    def other(name: str) -> tuple[str, TableHandle]:
        found = workspace.table(name)
        try:
            return found.location, open_table(workspace.store(found), owner=workspace.owner)
        except TableNotFoundError:
            raise workspace.unapplied(found) from None

    return RowSource(
        job=tested,
        others=other,
        settings=digest_of_texts([json.dumps([spark.conf, spark.packages], sort_keys=True, default=str)]),
        passes=PassesFile(root=project.root, target=project.target.name, table=table.name),
    )


def rows_anywhere(location: str, name: str, store: Callable[[str], ObjectStore]) -> RowSource:
    """Rows of a table at a path or URI, by jobs in this process. Nothing is remembered of them."""

    def tested(_: TableHandle, spec: TableSpec, tests: RowTests) -> JobPlan:
        return JobPlan(
            kind=JobKind.TEST,
            project="",
            target="",
            table=name,
            location=location,
            directory="",
            requirements=Requirements(exists=True),
            spec=spec,
            tests=tests,
        )

    def other(place: str) -> tuple[str, TableHandle]:
        if "/" not in place:
            raise UnknownTableError(f"{place!r} is no path or URI of a table")
        there = store(place)
        return there.uri, open_table(there)

    return RowSource(job=tested, others=other)
