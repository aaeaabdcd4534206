"""Execution of a job's tests in one scan; tests whose expression fails run alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.session.connect import check_timestamp_type
from parquetry.runtime.spark.testing.checks import RowCheck, make_check
from parquetry.runtime.spark.testing.counting import TestedTable, count_failures
from parquetry.runtime.spark.testing.failing_keys import failing_keys
from parquetry.runtime.spec.row_tests import OtherTable, RowTestKind, RowTestResult, RowTests, RowTestsResult
from parquetry.runtime.table.handle import TableHandle


def execute_row_tests(
    spark: SparkSession,
    handle: TableHandle,
    tests: RowTests,
    *,
    personal: Collection[str],
    other: Callable[[OtherTable], TableHandle],
) -> RowTestsResult:
    """Run the tests, and return the failures of each test or the reason why it has no result.

    A test that Spark refuses, or cannot compute for a row, gets a problem as its answer. The others still
    run.

    Args:
        spark: The session.
        handle: The table.
        tests: The tests, and the files that they read.
        personal: The lower case names of personal columns, whose values are masked in failing keys.
        other: Opens the other table of a relationship.

    Raises:
        NotFoundError: If a file was removed.
        CorruptTableError: If a file is damaged.

    """
    check_timestamp_type(spark)
    timeline = handle.timeline()
    table = TestedTable(
        spark=spark,
        handle=handle,
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
    answers: dict[str, RowTestResult] = {}
    checks = []
    no_rows = table.rows(())
    for test in tests.tests:
        try:
            checks.append(make_check(spark, test, no_rows, other))
        except InvalidDataError as problem:
            answers[test.name] = RowTestResult(name=test.name, problem=problem.message)
    rows, scans = _count(table, checks, answers)
    key = handle.config.record_key
    for check in checks if tests.keeps else ():
        answer = answers[check.test.name]
        if any(answer.failures):
            keys = failing_keys(table, check, key=key, personal=personal, most=tests.keeps)
            answers[check.test.name] = replace(answer, keys=keys)
    read = {number for check in checks for number in check.test.files}
    return RowTestsResult(
        answers=tuple(answers[test.name] for test in tests.tests), files=len(read), rows=rows, scans=scans
    )


def _count(
    table: TestedTable, checks: Sequence[RowCheck], answers: dict[str, RowTestResult]
) -> tuple[int, int]:
    """Add the answers of the checks to ``answers``; return the number of rows read and of scans.

    If the common scan meets an expression that it cannot compute, each expression is evaluated alone.
    """
    if not checks:
        return 0, 0
    try:
        counted = count_failures(table, checks)
    except InvalidDataError as problem:
        if len(checks) == 1:
            (check,) = checks
            answers[check.test.name] = RowTestResult(name=check.test.name, problem=problem.message)
            return 0, 1
        alone = [check for check in checks if check.test.kind is RowTestKind.EXPRESSION]
        if not alone:
            raise
        together = [check for check in checks if check.test.kind is not RowTestKind.EXPRESSION]
        parts = [_count(table, part, answers) for part in (together, *([one] for one in alone)) if part]
        return max(rows for rows, _ in parts), 1 + sum(scans for _, scans in parts)
    for check, failures in zip(checks, counted.failures, strict=True):
        answers[check.test.name] = RowTestResult(name=check.test.name, failures=failures)
    return counted.rows, 1
