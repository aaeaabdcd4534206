"""Something dies in each phase of each kind of work on a real cluster: the table is the old one or the new one.

No row is there twice, none is lost, and the next write and the next clean find all that was left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster_crash import OLD, WORKS, Phase, Work, judged, make_old, owe_clustering
from tests.support.fault_store import Deed
from tests.support.small_table import Rows
from tests.support.spark_writer import SparkWriter, WriterError, WriterKilled
from tests.support.spark_writes import SparkWrite
from tests.support.standalone_spark import CLUSTER

pytestmark = pytest.mark.spark

SOAK = pytest.mark.long


@pytest.fixture(scope="module")
def executors(standalone, tmp_path_factory) -> Iterator[SparkWriter]:
    """A driver with two executors of one core each."""
    with SparkWriter(
        tmp_path_factory.mktemp("writer"), conf={"spark.master": standalone, **CLUSTER}
    ) as writer:
        yield writer


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "t"
    make_old(path)
    return path


SHARP = {("insert", "fetching"), ("upsert", "staged by all"), ("cluster partitions", "written")}
CASES = [
    pytest.param(name, phase, marks=[] if (name, phase) in SHARP else SOAK)
    for name, work in WORKS.items()
    for phase in work.phases
]


def do(writer: SparkWriter, work: Work, path: Path, phase: Phase, deed: Deed, **more: Any) -> dict[str, Any]:
    """The work, while the deed happens in this phase."""
    request = {"path": str(path), "scratch": str(path.parent / "scratch")}
    request["fault"] = phase.fault(deed, **more).to_json()
    if work.write is None:
        return writer.ask("cluster", **request)
    return writer.ask("write", write=work.write.to_json(), **request)


def prepared(template: Path, folder: Path, work: Work) -> Path:
    path = folder / "t"
    shutil.copytree(template, path)
    if work.scope is not None:
        owe_clustering(path, work.scope)
    return path


def told(*words: object) -> None:
    print("MATRIX | " + " | ".join(map(str, words)))


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_an_executor_and_its_workers_are_killed(name, phase, executors, template, tmp_path) -> None:
    """In a task its own executor, in a phase of the driver all of them: the work goes on and succeeds."""
    work = WORKS[name]
    path = prepared(template, tmp_path, work)
    moment = work.phases[phase]
    deed = Deed.KILL_ALL_EXECUTORS if moment.in_driver else Deed.KILL_EXECUTOR_AND_WORKERS
    done = do(executors, work, path, moment, deed)
    assert done["happened"] == 1, "nothing was killed"
    assert done.get("left_out", 0) == 0
    assert not [*(path / ".hoodie/.parquetry/stage").glob("*")], "the stage is still there"
    found = judged(path)
    told(name, phase, deed, found.state, f"{done.get('retries', 0)} retries", f"swept {found.swept}")
    assert found.rows == work.new


@SOAK
@pytest.mark.parametrize("all_of", [False, True])
@pytest.mark.parametrize("name", [name for name in WORKS if "joined" in name or "regrouped" in name])
def test_executors_are_killed_in_the_middle_of_a_join(name, all_of, executors, template, tmp_path) -> None:
    work = WORKS[name]
    assert work.write is not None
    path = prepared(template, tmp_path, work)
    done = executors.ask("write_struck", path=str(path), write=work.write.to_json(), all_of=all_of)
    assert done["happened"] == (2 if all_of else 1)
    found = judged(path)
    told(
        name, "join", f"{done['happened']} executors", found.state, f"{done['retries']} retries", found.swept
    )
    assert found.rows == work.new


@SOAK
@pytest.mark.parametrize(("name", "phase"), [case.values for case in CASES])
def test_the_driver_is_killed(name, phase, standalone, executors, template, tmp_path) -> None:
    """The write counts as soon as its commit is there."""
    work = WORKS[name]
    path = prepared(template, tmp_path, work)
    executors.ask("stop")
    with SparkWriter(tmp_path / "writer", conf={"spark.master": standalone, **CLUSTER}) as writer:
        with pytest.raises(WriterKilled):
            do(writer, work, path, work.phases[phase], Deed.KILL_WRITER)
        writer.wait_for_all()
    is_clustered = bool([*(path / ".hoodie").glob("*.replacecommit")])
    found = judged(path)
    if work.write is None:
        assert is_clustered == (phase == "committed")
    told(name, phase, "the driver", found.state, "", f"swept {found.swept}")
    assert found.rows == (work.new if phase == "committed" else OLD)


IN_TASKS = [
    pytest.param(name, phase, marks=[] if (name, phase) == ("insert", "fetching") else SOAK)
    for name, work in WORKS.items()
    for phase, moment in work.phases.items()
    if not moment.in_driver
]


@pytest.mark.parametrize(("name", "phase"), IN_TASKS)
def test_the_store_fails_twice(name, phase, executors, template, tmp_path) -> None:
    """Spark tries the tasks again."""
    work = WORKS[name]
    path = prepared(template, tmp_path, work)
    done = do(executors, work, path, work.phases[phase], Deed.FAIL, times=2)
    assert done["happened"] == 2
    found = judged(path)
    told(name, phase, "the store, twice", found.state, f"{done.get('retries', 0)} retries", found.swept)
    assert found.rows == work.new


ALWAYS = 10**6
LASTING = {
    "the store": (Deed.FAIL, "StorageError", "the disk did not answer"),
    "the workers": (Deed.KILL_THIS, "LostTaskError", "Python worker exited unexpectedly"),
    "the executors": (
        Deed.KILL_EXECUTOR_AND_WORKERS,
        "LostTaskError",
        "exited with code 137|Missing an output location",
    ),
}


OF_EACH_KIND = ("insert", "upsert", "upsert, regrouped", "cluster groups", "cluster partitions")
OF_EACH_TASK = ("staging", "lookup", "regrouping", "scattering", "writing")


@pytest.mark.parametrize(
    ("name", "phase", "what"),
    [
        pytest.param(*case.values, what, marks=[] if not case.marks and what == "the store" else SOAK)
        for case in IN_TASKS
        for what in LASTING
        if what == "the store" or (case.values[0] in OF_EACH_KIND and case.values[1] in OF_EACH_TASK)
    ],
)
def test_a_task_fails_as_often_as_spark_tries_it(name, phase, what, executors, template, tmp_path) -> None:
    """The error says why, the table is the old one, and the stage is gone."""
    work = WORKS[name]
    path = prepared(template, tmp_path, work)
    deed, kind, words = LASTING[what]
    with pytest.raises(WriterError, match=words) as failure:
        do(executors, work, path, work.phases[phase], deed, times=ALWAYS)
    assert not [*(path / ".hoodie/.parquetry/stage").glob("*")], "the stage is still there"
    found = judged(path)
    told(name, phase, f"{what}, always", found.state, str(failure.value)[:300], f"swept {found.swept}")
    assert (failure.value.kind, found.rows) == (kind, OLD)


@pytest.mark.parametrize("tables", [1, pytest.param(2, marks=SOAK)])
def test_two_threads_of_a_session_write_at_the_same_time(tables, executors, template, tmp_path) -> None:
    """Into one table: neither write is lost, the younger one may have to begin again. The session stays as it was."""
    zone = executors.ask("setting", key="spark.sql.session.timeZone")
    paths = [tmp_path / f"{number}" / "t" for number in range(tables)]
    for path in paths:
        shutil.copytree(template, path)
    works = [WORKS["upsert"].write, WORKS["delete"].write]
    assert works[0] is not None and works[1] is not None
    both = list(zip((paths * 2)[:2], works, strict=True))
    done = executors.ask("write_together", works=[(str(path), write.to_json()) for path, write in both])
    assert executors.ask("setting", key="spark.sql.session.timeZone") == zone
    retries = sum(one["retries"] for one in done)
    if tables == 2:
        assert retries == 0
    for path in paths:
        here = [write for at, write in both if at == path]
        found = judged(path)
        told("two threads", f"{tables} tables", "", found.state, f"{retries} retries", found.swept)
        first_to_last = [here, here[::-1]]
        assert found.rows in [_after(order) for order in first_to_last]


def _after(writes: list[SparkWrite]) -> Rows:
    rows = OLD
    for write in writes:
        rows = write.after(rows)
    return rows
