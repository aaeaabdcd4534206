"""`test`: the declared tests of tables, executed as far as the layout tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from parquetry.compiler.errors import SpecError
from parquetry.compiler.evidence.figures import in_turn
from parquetry.compiler.testing.kinds import KINDS, Measure
from parquetry.compiler.testing.live_table import LiveTable, RowsNeededError
from parquetry.compiler.testing.model import FAILURES, LimitOutcome, Outcome, Status, TableTests, to_json
from parquetry.compiler.workspace.masking import masked_by, masked_sql
from parquetry.compiler.workspace.named_file import read_named
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.run_results import save_results
from parquetry.errors import ParquetryError
from parquetry.project import ResolvedTable
from parquetry.project.loading.tests_file import load_tests_file
from parquetry.project.model.table_tests import (
    ERROR,
    ITSELF,
    LIMITS,
    LOWER_LIMITS,
    WARN,
    limit_of,
    names_of,
    unit_of,
)
from parquetry.runtime.errors import StaleTimelineError, TableNotFoundError
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.masking import failures_masked, masked_partition, pii_columns
from parquetry.runtime.spec.table_spec import Extra, TableSpec, TableTest
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.open import TableHandle, open_table
from parquetry.runtime.timeline.rereading import read_again

_OF_ROWS = "it reads rows, which this command does not"
_STOPPED = "an earlier test failed, and --fail-fast stops there"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTest:
    """A test with its name, and the place of it."""

    name: str
    test: TableTest
    origin: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUnderTest:
    """A table, and the tests of it that are to be executed.

    ``declared`` is None where no project declares the table: its own record says what it is, and ``extra``
    has the queries that tests name.
    """

    name: str
    store: Callable[[], ObjectStore]
    tests: tuple[DeclaredTest, ...]
    declared: TableSpec | None
    extra: Extra
    owner: TableOwner | None = None
    missing: Callable[[], ParquetryError] | None = None


def declared_tests(
    tests: Sequence[TableTest], origin: Callable[[str], str | None]
) -> tuple[DeclaredTest, ...]:
    """The tests of one table with their names; ``origin`` gives the place of a path in the spec."""
    return tuple(
        DeclaredTest(name=name, test=test, origin=origin(f"tests.{test.name or index}"))
        for index, (name, test) in enumerate(zip(names_of(tests), tests, strict=True))
    )


def tests_of(workspace: Workspace, table: ResolvedTable) -> TableUnderTest:
    """A table of a project with all its tests."""

    def origin(path: str) -> str | None:
        place = table.origin(path)
        return None if place.file is None else str(place)

    return TableUnderTest(
        name=table.name,
        store=lambda: workspace.store(table),
        tests=declared_tests(table.spec.extra.tests, origin),
        declared=table.spec,
        extra=table.spec.extra,
        owner=workspace.owner,
        missing=lambda: workspace.unapplied(table),
    )


def tests_in_file(location: str, store: ObjectStore, file: Path) -> TableUnderTest:
    """Any table by its location, with the tests of a file; SpecError for what is wrong with the file."""
    found = load_tests_file(str(file), read_named(file))
    if found.diagnostics:
        raise SpecError(found.diagnostics, files=1)
    named = zip(names_of(found.tests), found.tests, found.origins, strict=True)
    return TableUnderTest(
        name=location,
        store=lambda: store,
        tests=tuple(DeclaredTest(name=name, test=test, origin=origin) for name, test, origin in named),
        declared=None,
        extra=Extra(queries=found.queries),
    )


def execute_tests(
    tables: Sequence[TableUnderTest], *, run_id: str | None, target: str | None, fail_fast: bool = False
) -> TableTests:
    """What the tests came to, in their order; tables are looked at side by side.

    With ``fail_fast`` one after the other, and after the first failure none is measured.
    """
    outcomes: list[Outcome] = []
    if fail_fast:
        for table in tables:
            stopped = any(outcome.status in FAILURES for outcome in outcomes)
            outcomes += _stopped(table) if stopped else _outcomes(table, fail_fast=True)
    else:
        found = map_each(tables, partial(_outcomes, fail_fast=False))
        outcomes = [outcome for each in found for outcome in each]
    return TableTests(run_id=run_id, target=target, outcomes=tuple(outcomes))


def execute_tests_of(
    workspace: Workspace, tables: Sequence[TableUnderTest], *, run_id: str, fail_fast: bool
) -> TableTests:
    """The same for tables of a project, where the results are left in ``target/runs/<run id>/results.json``.

    Where that cannot be written, the result says so.
    """
    project = workspace.project
    result = execute_tests(tables, run_id=run_id, target=project.target.name, fail_fast=fail_fast)
    unsaved = save_results(project.root, run_id, to_json(result), kept="the tests wrote nothing else")
    return replace(result, unsaved=unsaved)


def _outcomes(table: TableUnderTest, *, fail_fast: bool) -> tuple[Outcome, ...]:
    if not any(declared.test.kind in KINDS for declared in table.tests):
        return tuple(_of_rows(table, declared) for declared in table.tests)
    try:
        return _measured(table, fail_fast=fail_fast)
    except ParquetryError as failure:
        if isinstance(failure, TableNotFoundError) and table.missing is not None:
            failure = table.missing()
        reason = failure.message
        return tuple(
            _without_answer(table, declared, Status.UNMEASURED, reason)
            if declared.test.kind in KINDS
            else _of_rows(table, declared)
            for declared in table.tests
        )


@read_again
def _measured(table: TableUnderTest, *, fail_fast: bool) -> tuple[Outcome, ...]:
    handle = open_table(table.store(), owner=table.owner)
    shown_by = masked_by(handle.spec, table.declared)
    with failures_masked(shown_by, location=handle.store.uri):
        live = LiveTable(handle, _spec(table, handle), [declared.test for declared in table.tests])
        with in_turn(len(live.slices)):
            return tuple(_each(table, live, shown_by, fail_fast=fail_fast))


def _spec(table: TableUnderTest, handle: TableHandle) -> TableSpec:
    """What the tests are held against: the declared spec, else what the table says of itself."""
    if table.declared is not None:
        return table.declared
    spec = handle.effective_spec(handle.timeline())
    return replace(spec, extra=replace(spec.extra, queries=table.extra.queries or spec.extra.queries))


def _each(
    table: TableUnderTest, live: LiveTable, shown_by: TableSpec | None, *, fail_fast: bool
) -> Iterator[Outcome]:
    has_failed = False
    for declared in table.tests:
        if declared.test.kind not in KINDS:
            yield _of_rows(table, declared)
        elif has_failed and fail_fast:
            yield _without_answer(table, declared, Status.NOT_EXECUTED, _STOPPED)
        else:
            outcome = _outcome(table, declared, live, shown_by)
            has_failed = has_failed or outcome.status in FAILURES
            yield outcome


def _outcome(
    table: TableUnderTest, declared: DeclaredTest, live: LiveTable, shown_by: TableSpec | None
) -> Outcome:
    test = declared.test
    try:
        with failures_masked(shown_by, location=live.handle.store.uri):
            measures = list(KINDS[test.kind](live.scope(test.where), test))
    except StaleTimelineError:
        raise
    except RowsNeededError as failure:
        return _without_answer(table, declared, Status.NOT_EXECUTED, failure.message, shown_by)
    except ParquetryError as failure:
        return _without_answer(table, declared, Status.UNMEASURED, failure.message, shown_by)
    limits = tuple(
        _held(test, measure, limit, shown_by)
        for measure in measures
        if (limit := limit_of(test, measure.limit))
    )
    status = max((limit.status for limit in limits), key=list(Status).index, default=Status.PASSED)
    return replace(_without_answer(table, declared, status, None, shown_by), limits=limits)


def _held(
    test: TableTest, measure: Measure, limit: Mapping[str, float], shown_by: TableSpec | None
) -> LimitOutcome:
    is_lower = test.kind in LIMITS and measure.limit in LOWER_LIMITS
    status = Status.PASSED
    for severity, reached in ((WARN, Status.WARNED), (ERROR, Status.FAILED)):
        bound = limit.get(severity)
        if bound is None or measure.value is None:
            continue
        if measure.value < bound if is_lower else measure.value > bound:
            status = reached
    partition = measure.partition
    return LimitOutcome(
        limit=test.kind if measure.limit == ITSELF else measure.limit,
        unit=unit_of(test, measure.limit),
        status=status,
        value=measure.value,
        warn=limit.get(WARN),
        error=limit.get(ERROR),
        is_lower=is_lower,
        partition=None if partition is None else masked_partition(partition, shown_by),
    )


def _of_rows(table: TableUnderTest, declared: DeclaredTest) -> Outcome:
    return _without_answer(table, declared, Status.NOT_EXECUTED, _OF_ROWS)


def _stopped(table: TableUnderTest) -> Iterator[Outcome]:
    for declared in table.tests:
        yield _without_answer(table, declared, Status.NOT_EXECUTED, _STOPPED)


def _without_answer(
    table: TableUnderTest,
    declared: DeclaredTest,
    status: Status,
    reason: str | None,
    shown_by: TableSpec | None = None,
) -> Outcome:
    where, personal_by = declared.test.where, shown_by or table.declared
    pii = frozenset[str]() if personal_by is None else pii_columns(personal_by.columns)
    return Outcome(
        table=table.name,
        test=declared.name,
        kind=declared.test.kind,
        status=status,
        where=None if where is None else masked_sql(where, pii),
        reason=reason,
        origin=declared.origin,
    )
