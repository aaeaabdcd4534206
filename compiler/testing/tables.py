"""Tables under test: their tests from a project or a file, the selection of tests, and access to rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from parquetry.compiler.errors import SpecError, UnknownTableError
from parquetry.compiler.plan.target_changes import check_allowed, check_in_force
from parquetry.compiler.testing.passes import PassesFile, digest_of_texts
from parquetry.compiler.testing.rows import Others
from parquetry.compiler.workspace.named_file import read_named
from parquetry.compiler.workspace.opened import Workspace, job, selected
from parquetry.errors import ParquetryError
from parquetry.project import ResolvedTable, SelectionError
from parquetry.project.diagnostics.model import one_of
from parquetry.project.loading.tests_file import load_tests_file
from parquetry.project.model.table_tests import names_of
from parquetry.runtime.errors import TableNotFoundError
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements, TableOwner
from parquetry.runtime.spec.row_tests import RowTests
from parquetry.runtime.spec.table_spec import Extra, TableSpec, TableTest
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle, open_table

_METHOD: Final = "test:"

_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """The way to read rows of a table.

    ``job`` makes the job, and ``settings_digest`` is the digest of Spark's settings. ``others`` opens tables
    that rows are compared with. Without ``passes``, all files are read each time.
    """

    job: Callable[[TableHandle, TableSpec, RowTests], JobPlan]
    others: Others
    settings_digest: str = ""
    passes: PassesFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTest:
    """A test with its name and its position in a file."""

    name: str
    test: TableTest
    origin: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnderTest:
    """A table, and its tests to execute.

    ``declared`` is None if no project declares the table; then its applied record is its spec, and ``extra``
    has the queries that tests name. ``missing`` makes the error for a table that does not exist.
    """

    name: str
    store: Callable[[], ObjectStore]
    tests: tuple[DeclaredTest, ...]
    declared: TableSpec | None
    extra: Extra
    owner: TableOwner | None = None
    missing: Callable[[], ParquetryError] | None = None
    rows: RowSource | None = None


def declared_tests(
    tests: Sequence[TableTest], origin: Callable[[str], str | None]
) -> tuple[DeclaredTest, ...]:
    """Return a table's tests with their names; ``origin`` returns the position of a path in the spec."""
    return tuple(
        DeclaredTest(name=name, test=test, origin=origin(f"tests.{test.name or index}"))
        for index, (name, test) in enumerate(zip(names_of(tests), tests, strict=True))
    )


def tests_of(workspace: Workspace, table: ResolvedTable) -> TableUnderTest:
    """Return a table of a project with all its tests."""

    def origin(path: str) -> str | None:
        position = table.origin(path)
        return None if position.file is None else str(position)

    return TableUnderTest(
        name=table.name,
        store=lambda: workspace.store(table),
        tests=declared_tests(table.spec.extra.tests, origin),
        declared=table.spec,
        extra=table.spec.extra,
        owner=workspace.owner,
        missing=lambda: workspace.unapplied_error(table),
        rows=rows_of_project(workspace, table),
    )


def tests_in_file(location: str, file: Path, *, store: Callable[[str], ObjectStore]) -> TableUnderTest:
    """Return the table at a location with the tests of a file.

    Raises:
        SpecError: if the file has errors.

    """
    found = load_tests_file(str(file), read_named(file))
    if found.diagnostics:
        raise SpecError(found.diagnostics, files=1)
    opened = store(location)
    named = zip(names_of(found.tests), found.tests, found.origins, strict=True)
    return TableUnderTest(
        name=location,
        store=lambda: opened,
        tests=tuple(DeclaredTest(name=name, test=test, origin=origin) for name, test, origin in named),
        declared=None,
        extra=Extra(queries=found.queries),
        rows=rows_anywhere(opened.uri, location, store),
    )


def selected_tests(
    workspace: Workspace, *, select: Sequence[str], exclude: Sequence[str]
) -> tuple[TableUnderTest, ...]:
    """Return the workspace's tables with their selected tests, without tables that have none.

    ``test:NAME``, which may be a glob, is a term like others: joined by a comma, it selects the tests that
    match all terms.

    Raises:
        SelectionError: if a term matches no test.

    """
    tables = [tests_of(workspace, table) for table in workspace.tables]
    everything = frozenset((table.name, test.name) for table in tables for test in table.tests)
    wanted = _union(workspace, everything, select) if select else everything
    wanted -= _union(workspace, everything, exclude)
    chosen = (
        replace(table, tests=tuple(test for test in table.tests if (table.name, test.name) in wanted))
        for table in tables
    )
    return tuple(table for table in chosen if table.tests)


def rows_of_project(workspace: Workspace, table: ResolvedTable) -> RowSource:
    """Return the row source of a project's table, with jobs that its target launches.

    Making a job raises UnappliedError if settings of the target that execute are not allowed, or are not
    applied to the table.
    """
    project = workspace.project
    spark = project.target.spark
    settings = json.dumps([spark.conf, spark.packages], sort_keys=True, default=str)

    def make_job(handle: TableHandle, spec: TableSpec, tests: RowTests) -> JobPlan:
        check_allowed(workspace)
        if handle.applied is not None:
            check_in_force(workspace, table, handle.applied)
        requirements = Requirements(exists=True)
        plan = job(workspace, table, spec, kind=JobKind.TEST, requirements=requirements)
        return replace(plan, tests=tests)

    def open_other(name: str) -> tuple[str, TableHandle]:
        other = workspace.table(name)
        try:
            return other.location, open_table(workspace.store(other), owner=workspace.owner)
        except TableNotFoundError:
            raise workspace.unapplied_error(other) from None

    return RowSource(
        job=make_job,
        others=open_other,
        settings_digest=digest_of_texts([settings]),
        passes=PassesFile(root=project.root, target=project.target.name, table=table.name),
    )


def rows_anywhere(location: str, name: str, store: Callable[[str], ObjectStore]) -> RowSource:
    """Return the row source of a table at a path or URI, with jobs in this process and without passes."""

    def make_job(_: TableHandle, spec: TableSpec, tests: RowTests) -> JobPlan:
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

    def open_other(location: str) -> tuple[str, TableHandle]:
        if "/" not in location:
            raise UnknownTableError("{location!r} is not the path or URI of a table", location=location)
        other = store(location)
        return other.uri, open_table(other)

    return RowSource(job=make_job, others=open_other)


def _union(workspace: Workspace, everything: frozenset[_Pair], selectors: Sequence[str]) -> frozenset[_Pair]:
    """Return the pairs of table and test that at least one selector matches."""
    found: frozenset[_Pair] = frozenset()
    for selector in selectors:
        terms = [term.strip() for term in selector.split(",")]
        names = [term.removeprefix(_METHOD) for term in terms if term.startswith(_METHOD)]
        others = ",".join(term for term in terms if not term.startswith(_METHOD))
        matched = everything
        if others or not names:
            tables = {table.name for table in selected(workspace, select=(others,)).tables}
            matched = frozenset(pair for pair in matched if pair[0] in tables)
        for name in names:
            if not name:
                raise SelectionError(
                    "selector {selector!r} has nothing after 'test:'; write test:NAME", selector=selector
                )
            by_name = frozenset(pair for pair in everything if fnmatchcase(pair[1], name))
            if not by_name:
                hint = one_of("test", name, {test for _, test in everything})
                raise SelectionError(
                    "selector {selector!r} matches no test; {hint}", selector=selector, hint=hint
                )
            matched &= by_name
        found |= matched
    return found
