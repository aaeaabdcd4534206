"""What tests came to, as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parquetry.errors import ParquetryError
from parquetry.project.model.table_tests import Unit
from parquetry.runtime.spec.codec import Brief, to_json_value


class FailedTestsError(ParquetryError):
    """Tests of tables failed, or could not be measured."""


class Status(StrEnum):
    """How a test, or one of its limits, ended; the last two have no answer."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    UNMEASURED = "unmeasured"
    NOT_EXECUTED = "not_executed"


FAILURES = frozenset({Status.FAILED, Status.UNMEASURED})
"""What ends the command with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOutcome:
    """What was measured for one limit of a test.

    ``limit`` is its key, the kind where the test is nothing but a limit. ``value`` is None where there is
    nothing to measure, such as the sizes of no files; ``partition`` is where the value was found, masked.
    """

    limit: str
    unit: Unit
    status: Status
    value: float | None
    warn: float | None = None
    error: float | None = None
    is_lower: bool = False
    partition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One test. ``origin`` is file, line and column of it; ``reason`` says why there is no answer.

    ``files_read`` are the files whose rows were read for it, None for tests that are not about rows.
    ``failures`` is the file of the project that has some of the keys that failed.
    """

    table: str
    test: str
    kind: str
    status: Status
    limits: tuple[LimitOutcome, ...] = ()
    where: str | None = None
    reason: str | None = None
    origin: str | None = None
    files_read: int | None = None
    failures: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableTests(Brief):
    """All tests of one command in their order; run and target are None for a table outside of a project.

    ``unsaved`` is why the results are in no file.
    """

    run_id: str | None
    target: str | None
    outcomes: tuple[Outcome, ...]
    unsaved: ParquetryError | None = None

    @property
    def counts(self) -> Mapping[Status, int]:
        """How many tests ended in each way."""
        found = Counter(outcome.status for outcome in self.outcomes)
        return {status: found[status] for status in Status}

    @property
    def failure(self) -> ParquetryError | None:
        """What the command ends with."""
        failed = sum(count for status, count in self.counts.items() if status in FAILURES)
        if not failed:
            return self.unsaved
        return FailedTestsError(f"{failed} of {len(self.outcomes)} tests failed")


def to_json(tests: TableTests) -> dict[str, Any]:
    """The documented shape: what the command prints, and what is left of it in a file."""
    return {
        "run_id": tests.run_id,
        "target": tests.target,
        "counts": {str(status): number for status, number in tests.counts.items()},
        "tests": [to_json_value(outcome) for outcome in tests.outcomes],
    }
