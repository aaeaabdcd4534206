"""Spark writes that end at any moment leave the old table or the new one.

Stopped: nothing works any more from one storage operation on, in the driver and in the workers.
Stopping before an operation leaves the same store as stopping after the one before it, so each
that changes something is tried done-but-unanswered, and half done. Killed: the driver gets SIGKILL while the JVM
and its tasks live on, or everything that belongs to the write dies at once.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest

from parquetry.runtime.errors import StorageError
from parquetry.runtime.spark.prepare.local_stages import remove_dead_stages
from parquetry.runtime.spec.table_spec import Operation
from parquetry.runtime.stage.location import STAGE_PREFIX
from parquetry.runtime.storage.open import open_store
from tests.support.fault_store import Deed, Fault, FaultStore
from tests.support.local_spark import local_spark
from tests.support.small_table import Rows, rows_of
from tests.support.spark_crash import (
    OLD,
    POINTS,
    WRITES,
    fault_at,
    is_committed,
    prepare,
    spark_rows,
    survives,
    wait_until_idle,
)
from tests.support.spark_writer import SparkWriter, WriterKilled
from tests.support.spark_writes import SparkWrite
from tests.support.stores import WRITES as WRITING
from tests.support.stores import CountingStore, FaultyStore, Kind, Stop, Stopped

pytestmark = pytest.mark.spark

SOAK = pytest.mark.long
BESIDE_THE_CLOCK = r"^(?!\.hoodie/\.heartbeat)"
KILLED_WRITES = ("upsert", "insert", "insert_overwrite", "delete", "upsert on a cluster")
ONE_WRITE_PER_POINT = [
    pytest.param(point, write, marks=[] if (i - j) % len(KILLED_WRITES) == 0 else SOAK)
    for i, point in enumerate(POINTS)
    for j, write in enumerate(KILLED_WRITES)
]


@pytest.fixture(scope="module")
def spark():
    return local_spark("parquetry tests")


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory) -> Path:
    """A table whose clean has nothing to do."""
    path = tmp_path_factory.mktemp("kept") / "t"
    prepare(spark, path, keep_commits=50)
    return path


@pytest.fixture(scope="module")
def templates(spark, template, tmp_path_factory) -> dict[int, Path]:
    """Return the table of each version."""
    path = tmp_path_factory.mktemp("kept") / "t9"
    prepare(spark, path, table_version=9, keep_commits=50)
    return {6: template, 9: path}


@pytest.fixture(scope="module")
def busy_template(spark, tmp_path_factory) -> Path:
    """A table that each write cleans."""
    path = tmp_path_factory.mktemp("cleaned") / "t"
    prepare(spark, path, keep_commits=1, archive_keep_commits=2)
    return path


@pytest.fixture(scope="module")
def writers(spark, tmp_path_factory) -> Iterator[Iterator[SparkWriter]]:
    """Writers in the JVM of the test; the next one starts while one is tried, which ends when that is asked for."""
    folder = tmp_path_factory.mktemp("writers")
    numbers = count()

    def start() -> SparkWriter:
        return SparkWriter(folder / str(next(numbers)), share=spark)

    def ready() -> Generator[SparkWriter]:
        upcoming = start()
        try:
            while True:
                upcoming.ask("hello")
                current, upcoming = upcoming, start()
                with current:
                    yield current
        finally:
            upcoming.__exit__(None, None, None)

    writers = ready()
    yield writers
    writers.close()


@pytest.mark.parametrize("stop", [Stop.AFTER, pytest.param(Stop.HALFWAY, marks=SOAK)])
@pytest.mark.parametrize("all_points", [False, pytest.param(True, marks=SOAK)], ids=["sample", "all"])
@pytest.mark.parametrize("name", WRITES)
def test_stopped_at_a_storage_operation(
    *, name, all_points, stop, spark, template, busy_template, tmp_path
) -> None:
    write = WRITES[name]
    new = write.after(OLD)
    number_of_write = list(WRITES).index(name)
    operations = _operations(write, spark, _copy(template, tmp_path / "whole"), tmp_path / "log", new)
    numbers = range(1, 1000) if all_points else _sample(operations, shift=number_of_write)

    seen: list[Rows] = []
    met: Counter[Kind] = Counter()
    templates = [template, busy_template] if all_points else [template]
    done: set[Path] = set()
    for number in numbers:
        source = templates[number % len(templates)]
        if source in done:
            continue
        path = _copy(source, tmp_path / "t")
        store = FaultyStore(open_store(path), tmp_path / f"count{number}", stop_at=number, stop=stop)
        log = CountingStore(store, tmp_path / "stopped.log")
        log.reset()
        try:
            write.perform(spark, log)
        except Stopped:
            pass
        except BaseException as error:
            raise AssertionError(
                f"operation {number}: {type(error)} got out of a writer that is dead"
            ) from error
        if not store.stopped():
            assert rows_of(path) == new
            shutil.rmtree(path)
            done.add(source)
            if len(done) == len(templates):
                break
            continue
        met[_counted(log)[number - 1][0]] += 1
        through_spark = spark if number % 5 == 0 else None
        seen.append(survives(path, [OLD, new], spark=through_spark))
        shutil.rmtree(path)
    in_workers = sum(kind is Kind.CREATE_FILE for kind, _ in operations)
    print(
        f"{name}: stopped {stop} {len(seen)} of at least {len(operations)} operations ({dict(met)}, files {in_workers}), "
        f"new state after {sum(state == new for state in seen)}"
    )
    assert in_workers > 0 or write.operation is Operation.DELETE_PARTITION
    if all_points:
        assert len(seen) >= len(operations)
        assert met[Kind.CREATE_FILE] >= in_workers
        assert seen[0] == OLD
        assert {*met} >= {kind for kind, _ in operations}
        if stop is Stop.AFTER:
            assert seen[-1] == new


@SOAK
@pytest.mark.parametrize("name", WRITES)
def test_one_failing_storage_operation_ends_in_the_old_table_or_the_new_one(
    name, spark, template, tmp_path
) -> None:
    write = WRITES[name]
    outcomes: Counter[str] = Counter()
    for number in range(1000):
        path = _copy(template, tmp_path / "t")
        fault = Fault(
            deed=Deed.FAIL, kind="|".join(sorted(WRITING)), path=BESIDE_THE_CLOCK, when="before", skip=number
        )
        store = FaultStore(open_store(path), tmp_path / f"scratch{number}", fault)
        try:
            result = write.perform(spark, store)
            allowed = [write.after(OLD)]
            outcomes["done, with a warning" if result.warnings else "done"] += 1
        except StorageError:
            allowed = [OLD, write.after(OLD)]
            outcomes["failed"] += 1
        if not store.happened():
            break
        state = survives(path, allowed)
        outcomes["new" if state == write.after(OLD) else "old"] += 1
        shutil.rmtree(path)
    print(f"{name}: one of {number} operations fails: {dict(outcomes)}")
    assert number > 5


@pytest.mark.parametrize(
    ("point", "name", "table_version"),
    [
        *(pytest.param(*one.values, 6, marks=one.marks) for one in ONE_WRITE_PER_POINT),
        *(pytest.param(*one.values, 9, marks=SOAK) for one in ONE_WRITE_PER_POINT),
    ],
)
def test_driver_killed_at_a_named_point(
    *, point, name, table_version, spark, templates, writers, tmp_path
) -> None:
    path = _copy(templates[table_version], tmp_path / "t")
    writer = next(writers)
    with pytest.raises(WriterKilled):
        writer.ask(
            "write",
            path=str(path),
            write=WRITES[name].to_json(),
            scratch=str(tmp_path),
            fault=fault_at(point, Deed.KILL_WRITER),
        )
    state = survives(
        path, [OLD, WRITES[name].after(OLD)], spark=spark, patience=lambda: wait_until_idle(spark)
    )
    _is_as_the_point_says(point, name, state)


@pytest.mark.parametrize(
    ("point", "name"),
    [
        pytest.param(
            point, write, marks=[] if (point, write) == ("while files are written", "upsert") else SOAK
        )
        for point in POINTS
        for write in KILLED_WRITES
    ],
)
def test_everything_killed_at_a_named_point(point, name, spark, template, tmp_path) -> None:
    path = _copy(template, tmp_path / "t")
    fault = fault_at(point, Deed.KILL_WRITER_AND_ALL_IT_STARTED)
    spark_folders = tmp_path / "local"
    conf = {"spark.master": "local[2]", "spark.local.dir": str(spark_folders)}
    with SparkWriter(tmp_path / "writer", conf=conf) as writer:
        with pytest.raises(WriterKilled):
            writer.ask(
                "write", path=str(path), write=WRITES[name].to_json(), scratch=str(tmp_path), fault=fault
            )
        writer.wait_for_all()
    _is_as_the_point_says(point, name, survives(path, [OLD, WRITES[name].after(OLD)], spark=spark))
    stages = [*spark_folders.glob(f"*/*/{STAGE_PREFIX}*")]
    assert len(stages) == (0 if WRITES[name].on_cluster else 1)
    remove_dead_stages(spark_folders / "spark-next" / "userFiles-next")
    assert not any(stage.exists() for stage in stages)


def test_the_jvm_of_a_killed_driver_ends_and_takes_its_folders_along(spark, template, tmp_path) -> None:
    path = _copy(template, tmp_path / "t")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    conf = {"spark.master": "local[2]", "spark.local.dir": str(scratch)}
    fault = fault_at("while files are written", Deed.KILL_WRITER)
    with SparkWriter(tmp_path / "writer", conf=conf) as writer:
        with pytest.raises(WriterKilled):
            writer.ask(
                "write", path=str(path), write=WRITES["upsert"].to_json(), scratch=str(tmp_path), fault=fault
            )
        state = survives(path, [OLD], spark=spark, patience=writer.wait_for_all)
    assert state == OLD
    assert [*scratch.rglob("*.rows")] == []


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=SOAK) for n in range(2, 26))])
def test_driver_killed_at_random(*, seed, spark, template, busy_template, writers, tmp_path) -> None:
    rng = random.Random(seed)
    path = _copy(rng.choice([template, busy_template]), tmp_path / "t")
    writer = next(writers)
    doing = _random_write(rng, 0)
    began = time.monotonic()
    request = {"path": str(path), "scratch": str(tmp_path / "scratch")}
    writer.ask("write", write=doing.to_json(), **request)
    a_write = time.monotonic() - began
    state = doing.after(OLD)
    until = time.monotonic() + rng.uniform(0.0, 3.0) * a_write
    number = 1
    doing = _random_write(rng, number)
    writer.send("write", write=doing.to_json(), **request)
    while time.monotonic() < until:
        if writer.has_answered():
            writer.answer()
            state = doing.after(state)
            number += 1
            doing = _random_write(rng, number)
            writer.send("write", write=doing.to_json(), **request)
        time.sleep(0.01)
    writer.kill()
    left = survives(path, [state, doing.after(state)], spark=spark, patience=lambda: wait_until_idle(spark))
    print(
        f"seed {seed}: killed in write {number}, {doing.operation}: {'old' if left == state else 'new'} table"
    )


def _random_write(rng: random.Random, number: int) -> SparkWrite:
    write = WRITES[rng.choice(KILLED_WRITES)]
    if write.operation is Operation.DELETE:
        keys = rng.sample([*OLD], 3)
        rows = {key: (0, OLD[key][1]) for key in keys}
    elif write.operation is Operation.UPSERT:
        rows = {key: (1000 + number, OLD[key][1]) for key in rng.sample([*OLD], 4)} | {f"u{number}": (1, "a")}
    else:
        rows = {f"i{number}-{n}": (1000 + number, rng.choice("abd")) for n in range(3)}
    return SparkWrite(operation=write.operation, rows=rows, on_cluster=write.on_cluster)


def _is_as_the_point_says(point: str, name: str, state: Rows) -> None:
    print(f"{name} killed {point}: {'old' if state == OLD else 'new'} table")
    assert state == (WRITES[name].after(OLD) if is_committed(point) else OLD)


def _copy(template: Path, path: Path) -> Path:
    shutil.copytree(template, path)
    return path


def _operations(write: SparkWrite, spark, path: Path, log: Path, new: Rows) -> list[tuple[Kind, str]]:
    """What a write that is left alone does to the store, in order."""
    store = CountingStore(open_store(path), log)
    write.perform(spark, store)
    assert rows_of(path) == new == spark_rows(spark, path)
    return _counted(store)


def _counted(store: CountingStore) -> list[tuple[Kind, str]]:
    return [
        (kind, path)
        for kind, path in store.calls()
        if kind in WRITING and not path.startswith(".hoodie/.heartbeat")
    ]


def _sample(operations: list[tuple[Kind, str]], *, shift: int) -> list[int]:
    """Two of the operations, others for each write, the last file in a worker among them."""
    files = [number for number, (kind, _) in enumerate(operations, 1) if kind is Kind.CREATE_FILE]
    return sorted({1 + (shift + 1) * len(operations) // (len(WRITES) + 1), *files[-1:]})
