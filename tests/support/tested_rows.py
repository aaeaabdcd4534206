"""Small tables, and tests of their rows, executed on a Spark session with the answers of a model beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parquetry.compiler.testing.execution import RowExecution, execute_tests
from parquetry.compiler.testing.model import Outcome, TableTests
from parquetry.compiler.testing.passes import PassesFile
from parquetry.compiler.testing.tables import TableUnderTest, rows_anywhere
from parquetry.runtime.main import JobResult, execute
from parquetry.runtime.spec.job import JobPlan
from parquetry.runtime.storage.open import open_store
from tests.support.small_table import SmallTable
from tests.support.tested_layouts import under_test

Row = tuple[str, int | None, str]
"""id, v, p"""


@dataclass(slots=True)
class Launched:
    """Executes jobs in a session, and keeps what they were and answered. Without a session it refuses them."""

    session: Any = None
    jobs: list[JobPlan] = field(default_factory=list)
    results: list[JobResult] = field(default_factory=list)

    def __call__(self, job: JobPlan) -> JobResult:
        assert self.session is not None, "a job was launched"
        self.jobs.append(JobPlan.from_json(job.to_json()))
        self.results.append(execute(self.jobs[-1], session=lambda _: self.session))
        return self.results[-1]

    @property
    def files(self) -> list[str]:
        """The files that the newest job was given."""
        tests = self.jobs[-1].tests
        assert tests is not None
        return [file.path for file in tests.files]


def answered(
    table: SmallTable,
    tests: Sequence[Mapping[str, object]],
    launch: Callable[[JobPlan], JobResult],
    *,
    project: Path | None = None,
    one: TableUnderTest | None = None,
    **how: Any,
) -> TableTests:
    """What the tests come to, or those of ``one``; with the folder of a ``project`` passes are remembered there."""
    location = table.store.uri
    rows = rows_anywhere(location, "small", open_store)
    if project is not None:
        rows = replace(rows, passes=PassesFile(root=project, target="dev", table="small"))
    one = replace(one or under_test(table, tests), rows=rows)

    def raised(bug: Exception) -> Any:
        raise bug

    execution = RowExecution(launch=launch, diagnose=raised, **how)
    return execute_tests([one], run_id=None, target=None, rows=execution)


def failures(outcome: Outcome) -> list[float | None]:
    """What was counted for each limit."""
    return [limit.value for limit in outcome.limits]


def rows_of_files(table: SmallTable) -> list[Row]:
    """All rows, those of one key too, which a dictionary would hide."""
    import pyarrow.parquet as pq

    handle = table.handle
    folder = table.store.uri.removeprefix("file://")
    found = []
    for part in handle.view(handle.timeline()).all_slices():
        rows = pq.read_table(f"{folder}/{part.path}", columns=["id", "v", "p"], partitioning=None)
        found += [(row["id"], row["v"], row["p"]) for row in rows.to_pylist()]
    return found


def duplicates(keys: Sequence[tuple[object, ...]]) -> int:
    """How many keys without a null are there more than once."""
    return sum(count > 1 for count in Counter(key for key in keys if None not in key).values())


def orphans(keys: Sequence[tuple[object, ...]], others: Sequence[tuple[object, ...]]) -> int:
    """How many of the keys without a null have no other."""
    known = set(others)
    return sum(None not in key and key not in known for key in keys)
