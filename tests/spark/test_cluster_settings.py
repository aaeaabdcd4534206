"""Work on clusters with settings that let executors come and go, copy tasks, or hold them short."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from parquetry.runtime.storage.open import open_store
from tests.support.cluster_crash import OLD, WORKS, Phase, judged, make_old, owe_clustering
from tests.support.fault_store import Deed, Fault, FaultStore
from tests.support.spark_writer import SparkWriter, WriterError
from tests.support.standalone_spark import CLUSTER, SPECULATION, WORKER_HOSTS, standalone_spark

pytestmark = [pytest.mark.spark, pytest.mark.long]

SLOW_TASKS_TWICE = {
    **SPECULATION,
    "spark.speculation.task.duration.threshold": "2s",
    "spark.python.task.killTimeout": "1h",
}
"""Slow tasks get a second attempt, and the first one runs on to its end."""

COMING_AND_GOING = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "1s",
}
BETWEEN_STEPS = Phase(kind="put_if_absent|put", path=r"\.(inflight|requested)$")
"""The driver announces what it has looked up and is about to write."""

_SLOW_SECONDS = 10.0


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "t"
    make_old(path)
    return path


@pytest.fixture(scope="module")
def writer_with(standalone, tmp_path_factory) -> Iterator[object]:
    """A driver with these settings; the one before, with others, ends: one at a time fits the cluster."""
    running: dict[str, SparkWriter] = {}

    def give(name: str, settings: Mapping[str, str], master: str = standalone) -> SparkWriter:
        if name not in running:
            for other in [*running]:
                running.pop(other).__exit__(None, None, None)
            conf = {"spark.master": master, **CLUSTER, **settings}
            running[name] = SparkWriter(tmp_path_factory.mktemp("writer"), conf=conf)
        return running[name]

    yield give
    for writer in running.values():
        writer.__exit__(None, None, None)


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Iterator[str]:
    """The master of a cluster with one worker of four cores."""
    folder = tmp_path_factory.mktemp("wide")
    with standalone_spark(folder, hosts=WORKER_HOSTS[:1], cores=4, memory="2g") as master:
        yield master


def worked(writer: SparkWriter, name: str, path: Path, fault: Fault | None) -> dict[str, object]:
    work = WORKS[name]
    if work.scope is not None:
        owe_clustering(path, work.scope)
    request = {"path": str(path), "scratch": str(path.parent / "scratch"), "fault": fault and fault.to_json()}
    if work.write is None:
        return writer.ask("cluster", **request)
    return writer.ask("write", write=work.write.to_json(), **request)


def told(*words: object) -> None:
    print("MATRIX | " + " | ".join(map(str, words)))


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        (name, phase)
        for name, work in WORKS.items()
        for phase, moment in work.phases.items()
        if not moment.in_driver and moment.when == "before"
    ],
)
def test_two_copies_of_a_task_run_to_their_end(name, phase, writer_with, template, tmp_path) -> None:
    path = tmp_path / "t"
    shutil.copytree(template, path)
    slow = Fault(
        deed=Deed.SLEEP,
        kind=(moment := WORKS[name].phases[phase]).kind,
        path=moment.path,
        when=moment.when,
        skip=moment.skip,
        seconds=_SLOW_SECONDS,
    )
    began = time.monotonic()
    done = worked(writer_with("speculation", SLOW_TASKS_TWICE), name, path, slow)
    took = time.monotonic() - began
    assert done["happened"] == 1
    time.sleep(max(_SLOW_SECONDS + 2 - took, 0))
    found = judged(path)
    digests: dict[str, set[str]] = {}
    for file in FaultStore(open_store(path), tmp_path / "scratch").created():
        digests.setdefault(file["path"], set()).add(file["sha256"])
    assert [file for file, seen in digests.items() if len(seen) > 1 and not file.startswith(".hoodie")] == []
    told(name, phase, "a slow task beside its copy", found.state, f"{took:.0f} s", found.swept)
    assert found.rows == WORKS[name].new


@pytest.mark.parametrize("name", WORKS)
def test_executors_come_and_go(name, writer_with, template, tmp_path) -> None:
    """There is none at first, and all of them leave, with what they keep, in the middle of the write."""
    path = tmp_path / "t"
    shutil.copytree(template, path)
    writer = writer_with("coming and going", COMING_AND_GOING)
    deadline = time.monotonic() + 60
    while writer.ask("executors"):
        assert time.monotonic() < deadline, "the executors stay"
        time.sleep(0.2)
    pause = Fault(
        deed=Deed.SLEEP, kind=BETWEEN_STEPS.kind, path=BETWEEN_STEPS.path, when="before", skip=1, seconds=6.0
    )
    done = worked(writer, name, path, pause)
    assert done["happened"] == 1
    found = judged(path)
    told(name, "between lookup and writing", "executors come and go", found.state, "", found.swept)
    assert found.rows == WORKS[name].new


@pytest.mark.parametrize("name", WORKS)
def test_four_tasks_share_an_executor_that_is_killed(name, wide, writer_with, template, tmp_path) -> None:
    path = tmp_path / "t"
    shutil.copytree(template, path)
    writer = writer_with("wide", {"spark.executor.cores": "4"}, wide)
    moment = WORKS[name].phases["writing"]
    done = worked(writer, name, path, moment.fault(Deed.KILL_EXECUTOR_AND_WORKERS))
    assert done["happened"] == 1
    found = judged(path)
    told(name, "writing", "an executor of four cores", found.state, "", found.swept)
    assert found.rows == WORKS[name].new


@pytest.mark.parametrize("name", ["insert", "upsert, regrouped", "delete", "cluster partitions"])
def test_workers_without_memory_say_so(name, writer_with, template, tmp_path) -> None:
    """Below what Python takes for its libraries alone nothing works, and the message names the setting."""
    path = tmp_path / "t"
    shutil.copytree(template, path)
    writer = writer_with("no memory", {"spark.executor.pyspark.memory": "192m", "spark.executor.cores": "1"})
    with pytest.raises(WriterError, match=r"spark\.executor\.pyspark\.memory") as failure:
        worked(writer, name, path, None)
    found = judged(path)
    told(name, "", "no memory", found.state, str(failure.value)[:200], found.swept)
    assert (failure.value.kind, found.rows) == ("LostTaskError", OLD)


@pytest.mark.parametrize("name", WORKS)
def test_workers_with_little_memory_do_small_work(name, writer_with, template, tmp_path) -> None:
    path = tmp_path / "t"
    shutil.copytree(template, path)
    settings = {"spark.executor.pyspark.memory": "768m", "spark.executor.cores": "1"}
    worked(writer_with("little memory", settings), name, path, None)
    found = judged(path)
    told(name, "", "768 MiB for Python", found.state, "", found.swept)
    assert found.rows == WORKS[name].new
