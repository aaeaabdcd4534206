"""The outcomes of tests as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parquetry.errors import ParquetryError
from parquetry.message import PARTITION_FIELD, Text
from parquetry.project.model.table_tests import Unit
from parquetry.runtime.spec.codec import Brief, to_json_value


class FailedTestsError(ParquetryError):
    """Tests of tables failed or could not be measured."""


class Status(StrEnum):
    """The status of a test or of one of its limits; the last two mean that there is no value."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    UNMEASURED = "unmeasured"
    NOT_EXECUTED = "not_executed"


FAILURES = frozenset({Status.FAILED, Status.UNMEASURED})
"""The statuses with which the command ends with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOutcome:
    """The measured value of one limit of a test, and the limit.

    ``limit`` is the limit's key, or the kind if the test consists of a limit only. ``value`` is None if there
    is nothing to measure, such as sizes without any file. ``partition`` is the partition with the value.
    """

    limit: str
    unit: Unit
    status: Status
    value: float | None
    warn: float | None = None
    error: float | None = None
    is_lower: bool = False
    partition: str | None = field(default=None, metadata=PARTITION_FIELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One test. ``origin`` is its file, line and column; ``reason`` is set if there is no value.

    ``files_read`` is the number of files whose rows were read, or None for tests that are not about rows.
    ``failures`` is the file in the project with some of the failing keys.
    """

    table: str
    test: str
    kind: str
    status: Status
    limits: tuple[LimitOutcome, ...] = ()
    where: str | None = None
    reason: Text | None = None
    origin: str | None = None
    files_read: int | None = None
    failures: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableTests(Brief):
    """The tests of one command in order; run and target are None for a table outside of a project.

    ``unsaved`` is the reason why the results could not be saved.
    """

    run_id: str | None
    target: str | None
    outcomes: tuple[Outcome, ...]
    unsaved: ParquetryError | None = None

    @property
    def counts(self) -> Mapping[Status, int]:
        """The number of tests by status."""
        found = Counter(outcome.status for outcome in self.outcomes)
        return {status: found[status] for status in Status}

    @property
    def failure(self) -> ParquetryError | None:
        """The error with which the command ends, or None."""
        failed = sum(count for status, count in self.counts.items() if status in FAILURES)
        if not failed:
            return self.unsaved
        return FailedTestsError("{failed} of {tests} tests failed", failed=failed, tests=len(self.outcomes))


def to_json(tests: TableTests) -> dict[str, Any]:
    """Return the documented JSON of the tests, for the command's output and the results file."""
    return {
        "run_id": tests.run_id,
        "target": tests.target,
        "counts": {str(status): number for status, number in tests.counts.items()},
        "tests": [to_json_value(outcome) for outcome in tests.outcomes],
    }
