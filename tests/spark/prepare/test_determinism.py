"""What was materialised is what is stored, whatever happens to the tasks that write it.

The source gives other rows each time that it is computed. The table's rows are compared, by
hudi-rs, with what the write has materialised; every file that appeared twice had the same bytes.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.effort import in_full
from tests.support.fault_store import Deed, Fault, FaultStore
from tests.support.orphans import leftovers
from tests.support.random_rows import kept_rows, make_random_table, stored_rows
from tests.support.soundness import unsound
from tests.support.spark_crash import AT_ONCE, DATA_FILE
from tests.support.spark_writer import SparkWriter
from tests.support.standalone_spark import CLUSTER, SPECULATION

pytestmark = pytest.mark.spark

SOAK = pytest.mark.long
STAGE_FILE = r"\.parquetry/stage/.*\.(rows|keys)$"
IDS = 1500

FEW_BYTES_A_PARTITION = {
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
}
NOBODY_IS_KILLED = {"spark.python.task.killTimeout": "1h"}


@pytest.fixture(scope="module")
def retrying(tmp_path_factory) -> Iterator[SparkWriter]:
    """A local Spark that tries a failed task again."""
    conf = {"spark.master": "local[2,4]", "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k"}
    with SparkWriter(tmp_path_factory.mktemp("retrying"), conf=conf) as writer:
        yield writer


@pytest.fixture(scope="module")
def executors(standalone, tmp_path_factory) -> Iterator[SparkWriter]:
    """A driver with two executors; slow tasks get a second attempt, and the first one runs on."""
    conf = {"spark.master": standalone, **CLUSTER, **FEW_BYTES_A_PARTITION, **SPECULATION, **NOBODY_IS_KILLED}
    with SparkWriter(tmp_path_factory.mktemp("executors"), conf=conf) as writer:
        yield writer


FAILURES = {
    "after a file is there": Fault(deed=Deed.FAIL, kind="create_file", path=DATA_FILE, when="after", times=2),
    "with its process": Fault(deed=Deed.KILL_THIS, kind="create_file", path=DATA_FILE, when="before", skip=1),
    "when it reads": Fault(deed=Deed.FAIL, kind="open_input", path=DATA_FILE, when="before", skip=1),
    "before a file is there": Fault(
        deed=Deed.FAIL, kind="create_file", path=DATA_FILE, when="before", times=2
    ),
    "when it asks whether it is wanted": Fault(
        deed=Deed.FAIL, kind="stat", path=r"\.inflight$", when="before"
    ),
}
A_FEW = ("after a file is there", "with its process", "when it reads")


@pytest.mark.parametrize("failures", [A_FEW, *(pytest.param((f,), marks=SOAK) for f in FAILURES)])
def test_a_task_attempt_fails(failures, retrying, tmp_path) -> None:
    trial = Trial(retrying, tmp_path)
    trial.write("upsert", 0, IDS)
    for number, failure in enumerate(failures, 1):
        trial.write("upsert", number * IDS // 2, IDS, fault=FAILURES[failure])
    trial.write("insert", 5 * IDS, IDS // 3, fault=FAILURES["after a file is there"])
    trial.check()


KILLED = {
    "before a file is there": Fault(
        deed=Deed.KILL_EXECUTOR, kind="create_file", path=DATA_FILE, when="before", skip=1
    ),
    "after a file is there": Fault(
        deed=Deed.KILL_EXECUTOR, kind="create_file", path=DATA_FILE, when="after", skip=1
    ),
    "while it stages": Fault(
        deed=Deed.KILL_EXECUTOR, kind="create_file", path=STAGE_FILE, when="after", skip=1
    ),
}


@SOAK  # the test of a slow task kills one too
@pytest.mark.parametrize("moment", KILLED)
def test_an_executor_is_killed(moment, executors, tmp_path) -> None:
    trial = Trial(executors, tmp_path)
    trial.write("upsert", 0, IDS, fault=KILLED[moment] if in_full() else None)
    trial.write("upsert", IDS // 2, IDS, fault=KILLED[moment])
    trial.check()


@pytest.mark.parametrize("operation", ["upsert", pytest.param("insert", marks=SOAK)])
def test_a_slow_task_outlives_the_commit_of_its_second_attempt(operation, executors, tmp_path) -> None:
    slow = Fault(deed=Deed.SLEEP, kind="create_file", path=DATA_FILE, when="before", skip=2, seconds=15.0)
    trial = Trial(executors, tmp_path)
    trial.write("upsert", 0, IDS, fault=KILLED["before a file is there"])
    trial.write(operation, IDS // 2 if operation == "upsert" else IDS, IDS, fault=slow)
    trial.holds_what_was_materialised()
    twice = trial.written_twice()
    deadline = time.monotonic() + 120
    while trial.written_twice() == twice and time.monotonic() < deadline:
        time.sleep(0.2)
    assert trial.written_twice() > twice, "the slow task has not come to an end"
    # Its bucket may roll over into further files, each with a marker put after the commit.
    while (now := trial.written_twice()) > twice:
        twice = now
        time.sleep(3)
    trial.check()


@SOAK
def test_a_slow_task_is_killed_when_its_second_attempt_has_ended(standalone, executors, tmp_path) -> None:
    executors.ask("stop")
    conf = {"spark.master": standalone, **CLUSTER, **FEW_BYTES_A_PARTITION, **SPECULATION}
    slow = Fault(deed=Deed.SLEEP, kind="create_file", path=DATA_FILE, when="before", skip=2, seconds=120.0)
    with SparkWriter(tmp_path / "writer", conf=conf) as writer:
        trial = Trial(writer, tmp_path)
        trial.write("upsert", 0, IDS, fault=slow)
        trial.write("upsert", IDS // 2, IDS, fault=slow)
        trial.check()


class Trial:
    """A table, what was materialised for it, and what appeared in it."""

    def __init__(self, writer: SparkWriter, folder: Path) -> None:
        self.writer = writer
        self.path = folder / "t"
        self.folder = folder
        self.expected: dict[int, tuple[object, ...]] = {}
        self.troubles = 0
        self.scratches: list[Path] = []
        make_random_table(self.path)

    def write(self, operation: str, first: int, count: int, *, fault: Fault | None = None) -> None:
        number = len(self.scratches)
        kept, scratch = self.folder / f"kept{number}", self.folder / f"scratch{number}"
        self.scratches.append(scratch)
        result = self.writer.ask(
            "random",
            path=str(self.path),
            scratch=str(scratch),
            kept=str(kept),
            fault=fault and fault.to_json(),
            operation=operation,
            first=first,
            count=count,
        )
        assert result["retries"] == 0
        assert (fault is None) == (result["happened"] == 0), "the trouble did not come"
        self.troubles += result["happened"]
        rows = kept_rows(kept)
        assert sorted(rows) == list(range(first, first + count))
        self.expected |= rows

    def check(self) -> None:
        """The table holds what was materialised, before its clean and after it."""
        self.holds_what_was_materialised()
        cleaned = clean(open_table(open_store(self.path)), timing=AT_ONCE)
        assert [o for o in leftovers(self.path) if not o.endswith(".tmp") and "/stage/" not in o] == []
        self.holds_what_was_materialised()
        assert unsound(self.path) == []
        print(
            f"{len(self.scratches)} writes, {len(self.expected)} rows, {self.troubles} times in trouble, "
            f"{self.written_twice()} files appeared again with the same bytes, "
            f"{cleaned.orphans_deleted + cleaned.leftovers_deleted} unfinished ones swept"
        )

    def written_twice(self) -> int:
        """How often a file appeared that had been there; every time with the same bytes."""
        digests: dict[str, list[str]] = defaultdict(list)
        for scratch in self.scratches:
            for file in FaultStore(open_store(self.path), scratch).created():
                if not file["path"].startswith(".hoodie"):
                    digests[file["path"]].append(file["sha256"])
        for path, found in digests.items():
            assert len(set(found)) == 1, f"{path} appeared with other bytes"
        return sum(len(found) - 1 for found in digests.values())

    def holds_what_was_materialised(self) -> None:
        found = stored_rows(self.path)
        assert sum(found.values()) == len(self.expected)
        assert found.keys() == {*self.expected.values()}
