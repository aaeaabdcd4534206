"""The execution of declared tests. Tests that have to read rows run as one Spark job per table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from parquetry.compiler.evidence.figures import memory_turn
from parquetry.compiler.security.masking import masked_sql
from parquetry.compiler.testing.kinds import KINDS, Measure
from parquetry.compiler.testing.live_table import LiveTable
from parquetry.compiler.testing.model import FAILURES, LimitOutcome, Outcome, Status, TableTests, to_json
from parquetry.compiler.testing.passes import Passes, PassesFile
from parquetry.compiler.testing.rows import RowsToRead, job_of, rows_to_read
from parquetry.compiler.testing.tables import DeclaredTest, TableUnderTest
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.run_results import save_results
from parquetry.errors import ParquetryError
from parquetry.message import Text
from parquetry.project.model.table_tests import (
    ERROR,
    ITSELF,
    LIMITS,
    LOWER_LIMITS,
    OF_ROWS,
    WARN,
    limit_of,
    unit_of,
)
from parquetry.runtime.errors import StaleTimelineError, TableNotFoundError
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.job import JobPlan
from parquetry.runtime.spec.masking import (
    cleared,
    personal_column_names,
    pii_columns,
)
from parquetry.runtime.spec.row_tests import FailingKeys, RowTestResult
from parquetry.runtime.spec.table_spec import TableSpec, TableTest
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.rereading import retry_stale

_OF_ROWS_ONLY = "it needs rows, and --no-spark reads none"
_NO_ANSWER = "the job that reads its rows ended without a result"
_STOPPED = "an earlier test failed, and --fail-fast stops after that"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExecution:
    """The execution of jobs that read rows. ``full`` ignores earlier passes and reads all files.

    ``save`` keeps failing keys of a table's test, at most ``keeps`` each, and returns the name of the file.
    ``diagnose`` turns an unexpected exception into an error for the user.
    """

    launch: Callable[[JobPlan], JobResult]
    diagnose: Callable[[Exception], ParquetryError]
    full: bool = False
    keeps: int = 0
    save: Callable[[str, str, FailingKeys], str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """The tests of a table before rows are read: an outcome, or what is still to read, for each test.

    ``passed`` are tests of rows that passed without any rows being read.
    """

    found: tuple[Outcome | RowsToRead, ...]
    handle: TableHandle | None = None
    spec: TableSpec | None = None
    instant: str = ""
    passed: tuple[RowsToRead, ...] = ()


def execute_tests(
    tables: Sequence[TableUnderTest],
    *,
    run_id: str | None,
    target: str | None,
    fail_fast: bool = False,
    rows: RowExecution | None = None,
) -> TableTests:
    """Execute tests and return their outcomes in order.

    Tables are measured in parallel; then the rows of one table after the other are read, by a job that only
    starts if rows have to be read.

    Args:
        tables: the tables with their tests.
        run_id: the id for the result.
        target: the target for the result.
        fail_fast: True to measure table after table, and to stop after the first failure.
        rows: the execution of jobs; None to skip tests that have to read rows.

    """
    outcomes: list[Outcome] = []
    if fail_fast:
        for table in tables:
            stopped = any(outcome.status in FAILURES for outcome in outcomes)
            outcomes += (
                _stopped(table)
                if stopped
                else _outcomes(table, _measure_reporting(table, rows, stops=True), rows, stops=True)
            )
    else:
        for table, measured in zip(
            tables, map_each(tables, partial(_measure_reporting, rows=rows, stops=False)), strict=True
        ):
            outcomes += _outcomes(table, measured, rows, stops=False)
    return TableTests(run_id=run_id, target=target, outcomes=tuple(outcomes))


def execute_tests_of(
    workspace: Workspace,
    tables: Sequence[TableUnderTest],
    *,
    run_id: str,
    fail_fast: bool,
    rows: RowExecution | None = None,
) -> TableTests:
    """Execute tests of a project and save the result to ``target/runs/<run id>/results.json``.

    If the file cannot be written, ``unsaved`` of the result has the reason.
    """
    project = workspace.project
    result = execute_tests(tables, run_id=run_id, target=project.target.name, fail_fast=fail_fast, rows=rows)
    unsaved = save_results(project.root, run_id, to_json(result), kept="the tests wrote nothing else")
    return replace(result, unsaved=unsaved)


def _measure_reporting(table: TableUnderTest, rows: RowExecution | None, *, stops: bool) -> _Measured:
    """Measure a table; if that fails, return the reason as the outcome of each of its tests."""
    try:
        return _measure(table, rows, stops=stops)
    except ParquetryError as failure:
        if isinstance(failure, TableNotFoundError) and table.missing is not None:
            failure = table.missing()
        reason = failure.message
        return _Measured(
            found=tuple(
                _outcome_without_value(table, declared, Status.UNMEASURED, reason) for declared in table.tests
            )
        )


@retry_stale
def _measure(table: TableUnderTest, rows: RowExecution | None, *, stops: bool) -> _Measured:
    """Open a table, and return the results of its tests as far as no rows have to be read."""
    handle = open_table(table.store(), owner=table.owner, declared=table.declared)
    with handle.failures_masked():
        spec = _spec(table, handle)
        live = LiveTable(handle, spec, [declared.test for declared in table.tests])
        with memory_turn(len(live.slices)):
            passes = _passes(table, rows)
            keeps_keys = rows is not None and rows.keeps > 0
            each = [*_results(table, live, passes, stops=stops, keeps_keys=keeps_keys)]
            return _Measured(
                found=tuple(found for found, _ in each),
                handle=handle,
                spec=spec,
                instant=live.view.newest,
                passed=tuple(passed for _, passed in each if passed is not None),
            )


def _passes(table: TableUnderTest, rows: RowExecution | None) -> Passes:
    """Return the earlier passes of the table, or none if all files are to be read."""
    kept = table.rows.passes if table.rows else None
    return Passes() if kept is None or (rows is not None and rows.full) else kept.read()


def _spec(table: TableUnderTest, handle: TableHandle) -> TableSpec:
    """Return the spec to test against: the declared one, or else the applied one with the file's queries."""
    if table.declared is not None:
        return table.declared
    spec = handle.effective_spec(handle.timeline())
    return replace(spec, extra=replace(spec.extra, queries=table.extra.queries or spec.extra.queries))


def _results(
    table: TableUnderTest,
    live: LiveTable,
    passes: Passes,
    *,
    stops: bool,
    keeps_keys: bool,
) -> Iterator[tuple[Outcome | RowsToRead, RowsToRead | None]]:
    """Yield the result of each test: its outcome, or the rows that a job still has to read for it.

    Beside it is the test itself if it passed because no file was left to read. If ``stops`` is True, the
    tests after a failure are not executed.
    """
    has_failed = False
    for declared in table.tests:
        if has_failed and stops:
            yield _outcome_without_value(table, declared, Status.NOT_EXECUTED, _STOPPED, live.handle), None
            continue
        found = _outcome(table, declared, live, passes, keeps_keys=keeps_keys)
        passed_test = None
        if isinstance(found, RowsToRead) and not found.files:
            passed_test = None if any(found.known) else found
            found = _answered(table, declared, found, (0,) * len(found.limits), live.handle)
        if isinstance(found, Outcome):
            has_failed = has_failed or found.status in FAILURES
        yield found, passed_test


def _outcome(
    table: TableUnderTest,
    declared: DeclaredTest,
    live: LiveTable,
    passes: Passes,
    *,
    keeps_keys: bool,
) -> Outcome | RowsToRead:
    """Return the outcome of a test, or the rows to read for it; a failure becomes an outcome."""
    test, source = declared.test, table.rows
    try:
        scope = live.scope(test.where)
        if test.kind in OF_ROWS:
            return rows_to_read(
                scope,
                declared.name,
                test,
                passes=passes,
                settings_digest=source.settings_digest if source else "",
                others=source.others if source else None,
                keeps_keys=keeps_keys,
            )
        measures = list(KINDS[test.kind](scope, test))
    except StaleTimelineError:
        raise
    except ParquetryError as failure:
        return _outcome_without_value(table, declared, Status.UNMEASURED, failure.message, live.handle)
    return _compared(table, declared, measures, live.handle)


def _outcomes(
    table: TableUnderTest, measured: _Measured, rows: RowExecution | None, *, stops: bool
) -> list[Outcome]:
    """Return the outcomes of all tests of a table with personal values masked, to be shown and saved."""
    outcomes = _all_outcomes(table, measured, rows, stops=stops)
    if measured.handle is None:
        return cleared(outcomes, table.declared, location="")
    return measured.handle.cleared(outcomes)


def _all_outcomes(
    table: TableUnderTest, measured: _Measured, rows: RowExecution | None, *, stops: bool
) -> list[Outcome]:
    """Return the outcomes of all tests of a table, and run its job if a test has to read rows."""
    unanswered = [found for found in measured.found if isinstance(found, RowsToRead)]
    passed = [*measured.passed]
    answers: Mapping[str, RowTestResult] = {}
    problem: Text | None = None
    known = [found for found in measured.found if isinstance(found, Outcome)]
    is_over = stops and any(outcome.status in FAILURES for outcome in known)
    if unanswered and rows is not None and table.rows is not None and not is_over:
        try:
            answers = {answer.name: answer for answer in _read(table, measured, unanswered, rows)}
            problem = _NO_ANSWER  # for tests without an answer
        except ParquetryError as failure:
            problem = failure.message
        except Exception as bug:  # noqa: BLE001  # a bug with one table must not hide the other tables' tests
            problem = rows.diagnose(bug).message
    outcomes = []
    for declared, found in zip(table.tests, measured.found, strict=True):
        if isinstance(found, Outcome):
            outcomes.append(found)
            continue
        answer = answers.get(found.name)
        why = problem if answer is None else answer.problem
        if why is not None or answer is None:
            status = Status.NOT_EXECUTED if why is None else Status.UNMEASURED
            outcomes.append(
                _outcome_without_value(
                    table,
                    declared,
                    status,
                    why or (_STOPPED if is_over else _OF_ROWS_ONLY),
                    measured.handle,
                )
            )
            continue
        outcome = _answered(table, declared, found, answer.failures, measured.handle)
        if answer.keys is not None and rows is not None and rows.save is not None:
            outcome = replace(outcome, failures=rows.save(table.name, found.name, answer.keys))
        if not any(answer.failures) and not any(found.known):
            passed.append(found)
        outcomes.append(outcome)
    if table.rows is not None and table.rows.passes is not None and rows is not None:
        _remember(table.rows.passes, passed, measured.instant)
    return outcomes


def _read(
    table: TableUnderTest, measured: _Measured, unanswered: Sequence[RowsToRead], rows: RowExecution
) -> Sequence[RowTestResult]:
    """Run the job that reads rows of a table, and return its result for each test."""
    assert table.rows is not None, "rows are read of tables that have a source of them"
    assert measured.handle is not None, "what waits for rows has been opened"
    assert measured.spec is not None, "and has a spec"
    # The job masks its messages by this spec.
    spec = measured.handle.shown_by or measured.spec
    plan = table.rows.job(measured.handle, spec, job_of(unanswered, keeps=rows.keeps))
    tested = rows.launch(plan).tested
    return tested.answers if tested is not None else ()


def _remember(file: PassesFile, passed: Sequence[RowsToRead], instant: str) -> None:
    """Save which files passed the tests whose passes last."""
    lasting = {one.name: (one.definition, instant, one.live) for one in passed if one.definition is not None}
    if lasting:
        file.write(file.read().with_passed(lasting))


def _answered(
    table: TableUnderTest,
    declared: DeclaredTest,
    found: RowsToRead,
    failures: Sequence[int],
    handle: TableHandle | None,
) -> Outcome:
    """Return the outcome of a test of rows, from failures that statistics know or the job counted."""
    totals = map(sum, zip(found.known, failures, strict=True))
    measures = [Measure(total, limit) for total, limit in zip(totals, found.limits, strict=True)]
    return replace(_compared(table, declared, measures, handle), files_read=len(found.files))


def _compared(
    table: TableUnderTest, declared: DeclaredTest, measures: Sequence[Measure], handle: TableHandle | None
) -> Outcome:
    """Return the outcome of a test after a comparison of each measure with its limit."""
    limits = tuple(
        _limit_outcome(declared.test, measure, limit)
        for measure in measures
        if (limit := limit_of(declared.test, measure.limit))
    )
    status = max((limit.status for limit in limits), key=list(Status).index, default=Status.PASSED)
    return replace(_outcome_without_value(table, declared, status, None, handle), limits=limits)


def _limit_outcome(test: TableTest, measure: Measure, limit: Mapping[str, float]) -> LimitOutcome:
    """Compare a measure with a limit, which has a value for warnings and one for errors."""
    is_lower = test.kind in LIMITS and measure.limit in LOWER_LIMITS
    status = Status.PASSED
    for severity, reached in ((WARN, Status.WARNED), (ERROR, Status.FAILED)):
        bound = limit.get(severity)
        if bound is None or measure.value is None:
            continue
        if measure.value < bound if is_lower else measure.value > bound:
            status = reached
    return LimitOutcome(
        limit=test.kind if measure.limit == ITSELF else measure.limit,
        unit=unit_of(test, measure.limit),
        status=status,
        value=measure.value,
        warn=limit.get(WARN),
        error=limit.get(ERROR),
        is_lower=is_lower,
        partition=measure.partition,
    )


def _stopped(table: TableUnderTest) -> Iterator[Outcome]:
    """Yield an outcome for each test of a table that was not executed after a failure."""
    for declared in table.tests:
        yield _outcome_without_value(table, declared, Status.NOT_EXECUTED, _STOPPED)


def _outcome_without_value(
    table: TableUnderTest,
    declared: DeclaredTest,
    status: Status,
    reason: Text | None,
    handle: TableHandle | None = None,
) -> Outcome:
    """Return an outcome with a status and a reason, but without measures."""
    where = declared.test.where
    personal_by = table.declared if handle is None else handle.shown_by
    pii = (
        frozenset[str]()
        if personal_by is None
        else personal_column_names(personal_by, pii_columns(personal_by.columns))
    )
    return Outcome(
        table=table.name,
        test=declared.name,
        kind=declared.test.kind,
        status=status,
        where=None if where is None else masked_sql(where, pii),
        reason=reason,
        origin=declared.origin,
    )
