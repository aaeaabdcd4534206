"""Access to the rows of tested tables: jobs for tables of a project, and for other tables."""

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
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle, open_table


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """The way to read rows of a table: ``job`` makes the job; ``settings`` is a digest of Spark's settings.

    ``others`` opens tables that rows are compared with. Without ``passes``, all files are read each time.
    """

    job: Callable[[TableHandle, TableSpec, RowTests], JobPlan]
    others: Others
    settings: str = ""
    passes: PassesFile | None = None


def rows_of_project(workspace: Workspace, table: ResolvedTable) -> RowSource:
    """Return the row source of a project's table, with jobs that its target launches.

    Making a job raises UnappliedError if settings of the target that execute are not allowed, or are not
    applied to the table.
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
    """Return the row source of a table at a path or URI, with jobs in this process and without passes."""

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
