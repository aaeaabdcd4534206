"""The tests of a job, executed: all in one scan, and alone only where an expression cannot be computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.session.connect import check_session
from parquetry.runtime.spark.testing.checks import RowCheck, check_of
from parquetry.runtime.spark.testing.counting import TestedTable, count_failures
from parquetry.runtime.spark.testing.failing_keys import failing_keys
from parquetry.runtime.spec.row_tests import OtherTable, RowAnswer, RowsTested, RowTestKind, RowTests
from parquetry.runtime.table.open import TableHandle


def execute_row_tests(
    spark: SparkSession,
    handle: TableHandle,
    tests: RowTests,
    *,
    personal: Collection[str],
    other: Callable[[OtherTable], TableHandle],
) -> RowsTested:
    """The failures of each test, or why it has no answer.

    A test that Spark refuses, or cannot compute for a row, is a problem of its own. Files that are gone or
    damaged fail all of them: NotFoundError and CorruptTableError, as for any read.
    """
    check_session(spark)
    timeline = handle.timeline()
    table = TestedTable(
        spark=spark,
        store=handle.store,
        timeline=timeline,
        columns=handle.effective_spec(timeline).columns,
        files=[
            FileSlice(
                partition=file.partition,
                file_id=file.file_id,
                instant=file.instant,
                path=file.path,
                size_bytes=file.size_bytes,
            )
            for file in tests.files
        ],
    )
    answers: dict[str, RowAnswer] = {}
    checks = []
    no_rows = table.rows(())
    for test in tests.tests:
        try:
            checks.append(check_of(spark, test, no_rows, other))
        except InvalidDataError as problem:
            answers[test.name] = RowAnswer(name=test.name, problem=problem.message)
    rows, scans = _count(table, checks, answers)
    key = handle.config.record_key
    for check in checks if tests.keeps else ():
        answer = answers[check.test.name]
        if any(answer.failures):
            keys = failing_keys(table, check, key=key, personal=personal, most=tests.keeps)
            answers[check.test.name] = replace(answer, keys=keys)
    read = {number for check in checks for number in check.test.files}
    return RowsTested(
        answers=tuple(answers[test.name] for test in tests.tests), files=len(read), rows=rows, scans=scans
    )


def _count(table: TestedTable, checks: Sequence[RowCheck], answers: dict[str, RowAnswer]) -> tuple[int, int]:
    """How many rows were read, in how many scans; the answers of the checks are added.

    Where the scan of all meets what it cannot compute, expressions are evaluated one by one.
    """
    if not checks:
        return 0, 0
    try:
        counted = count_failures(table, checks)
    except InvalidDataError as problem:
        if len(checks) == 1:
            (check,) = checks
            answers[check.test.name] = RowAnswer(name=check.test.name, problem=problem.message)
            return 0, 1
        alone = [check for check in checks if check.test.kind is RowTestKind.EXPRESSION]
        if not alone:
            raise
        together = [check for check in checks if check.test.kind is not RowTestKind.EXPRESSION]
        parts = [_count(table, part, answers) for part in (together, *([one] for one in alone)) if part]
        return max(rows for rows, _ in parts), 1 + sum(scans for _, scans in parts)
    for check, failures in zip(checks, counted.failures, strict=True):
        answers[check.test.name] = RowAnswer(name=check.test.name, failures=failures)
    return counted.rows, 1
