"""Below ``.hoodie/`` nothing is called like data; sidecars with former names are read, and renamed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.clustering.rewrite import task
from parquetry.runtime.errors import StorageError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.ledger import Consumption, SourceFile, fold
from parquetry.runtime.spark.cluster import cluster, execute
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store, probe_put_if_absent
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.timeline.effective_writes import EffectiveWrites
from parquetry.runtime.timeline.sidecars import probe_path
from tests.support import names_below_hoodie as names
from tests.support.ledger import consumed
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_again, table_in_debt
from tests.support.small_table import FAST, SmallTable, view_rows
from tests.support.stores import CountingStore, FaultyStore, Kind, Stop, Stopped, WrappedStore

CURVE = ClusteringSpec(execution=ExecutionPolicy(strategy="zorder", columns=("v", "id")))
ONE_VERSION = RetentionPolicy(keep_commits=None, keep_versions=1, archive_keep_commits=2)


def consume(table: SmallTable, count: int) -> None:
    for n in range(count):
        file = SourceFile(path=f"in/{n}.csv", size_bytes=1, modified_ms=n)
        table.upsert({f"s{n}": (n, "a")}, consumed=[Consumption(source="s", files=(file,))])


def effective_of(table: SmallTable) -> EffectiveWrites:
    return EffectiveWrites(table.handle.timeline(), table.handle.config.archive_folder)


def newest(table: SmallTable) -> str:
    return table.handle.timeline().completed_writes[-1].time


@pytest.fixture
def folds_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "FOLD_ABOVE", 3)


@pytest.mark.usefixtures("folds_early")
def test_no_verb_writes_a_name_below_hoodie_that_a_reader_takes_for_data(tmp_path: Path) -> None:
    made = table_in_debt(tmp_path / "t", CURVE)
    store = CountingStore(made.store, tmp_path / "log")
    table = SmallTable(store=store, services=True)
    handle, spark = table.handle, OneProcessSpark()
    verbs: dict[str, Callable[[], Any]] = {
        "plan a clustering": lambda: schedule_clustering(handle, timing=FAST),
        "upsert": lambda: table.upsert({"k1": (100, "a"), "n": (1, "c")}),
        "cluster": lambda: cluster(spark, handle, timing=FAST),
        "ingest": lambda: consume(table, 5),
        "fold": lambda: fold(store, "s", effective_of(table)),
        "insert": lambda: table.insert({"i": (1, "a")}),
        "delete": lambda: table.delete(["i"]),
        "overwrite": lambda: table.overwrite({"o": (1, "b")}),
        "delete a partition": lambda: table.delete_partition("p=c"),
        "apply": lambda: apply_again(table, retention=ONE_VERSION),
        "rollback": lambda: rollback(handle, newest(table), timing=FAST),
        "savepoint": lambda: create_savepoint(handle, newest(table), timing=FAST),
        "beyond it": lambda: table.upsert({"k1": (101, "a")}),
        "restore": lambda: restore(handle, handle.timeline().savepoints[-1], timing=FAST),
        "delete the savepoint": lambda: delete_savepoint(handle, newest(table), timing=FAST),
        "clean": lambda: clean(handle, policy=ONE_VERSION, timing=FAST),
        "archive": lambda: archive(handle, policy=ONE_VERSION, timing=FAST),
        "doctor": lambda: probe_put_if_absent(store, probe_path()),
    }
    kept: set[str] = set()
    for verb, do in verbs.items():
        store.reset()
        do()
        assert store.calls(), verb
        assert (verb, names.written(store)) == (verb, [])
        assert (verb, names.in_folder(tmp_path / "t")) == (verb, [])
        kept |= {info.path.rpartition(".")[2] for info in store.list(".hoodie/.parquetry", recursive=True)}
    assert {"statistics", "sample", "folded"} <= kept


@pytest.fixture
def former(tmp_path: Path, folds_early: None) -> SmallTable:
    """A table with a plan that waits, its sample, statistics and a folded ledger, all called as before."""
    made = table_in_debt(tmp_path / "t", CURVE)
    consume(made, 5)
    assert fold(made.store, "s", effective_of(made)) == 5
    assert schedule_clustering(made.handle, timing=FAST).instant is not None
    called = names.call_as_before(made.store)
    assert sum(path.endswith(".sample.parquet") for path in called) == 1
    assert sum(path.endswith(".folded.parquet") for path in called) == 1
    assert len(called) == 2 + 3 + 5
    assert names.in_folder(tmp_path / "t") == called
    return SmallTable(store=CountingStore(made.store, tmp_path / "log"))


def test_statistics_with_former_names_spare_the_footers(former: SmallTable) -> None:
    slices = former.handle.view(former.handle.timeline()).all_slices()
    former.store.reset()
    found = look_up(former.store, slices)
    assert {part.path for part in slices} == set(found)
    assert Kind.OPEN_INPUT not in former.store.counts()


def test_the_ledger_and_the_sample_of_a_plan_are_read_under_former_names(
    former: SmallTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(consumed(former.store, "s", effective_of(former))) == {f"in/{n}.csv" for n in range(5)}
    monkeypatch.setattr(task, "_sample_in", lambda *_: pytest.fail("another sample was drawn"))
    (instant,) = former.handle.timeline().pending_clusterings
    before = view_rows(tmp_path / "t")
    assert execute(OneProcessSpark(), former.handle, instant, timing=FAST).instants == (instant,)
    assert view_rows(tmp_path / "t") == before
    assert names.in_folder(tmp_path / "t") == []


VERBS = {
    "write": lambda table: table.insert({"new": (1, "c")}),
    "clean": lambda table: clean(table.handle, timing=FAST),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_next_write_and_clean_rename_and_nothing_is_lost(
    former: SmallTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    VERBS[verb](former)
    assert names.in_folder(tmp_path / "t") == []
    assert set(consumed(former.store, "s", effective_of(former))) == {f"in/{n}.csv" for n in range(5)}
    slices = former.handle.view(former.handle.timeline()).all_slices()
    former.store.reset()
    look_up(former.store, slices)
    assert Kind.OPEN_INPUT not in former.store.counts()
    # The plan still names its sample as it was called.
    monkeypatch.setattr(task, "_sample_in", lambda *_: pytest.fail("another sample was drawn"))
    (instant,) = former.handle.timeline().pending_clusterings
    assert execute(OneProcessSpark(), former.handle, instant, timing=FAST).instants == (instant,)


def test_a_table_without_former_names_is_listed_once_more_and_no_request_else(tmp_path: Path) -> None:
    table = table_in_debt(tmp_path / "t")
    store = CountingStore(table.store, tmp_path / "log")
    SmallTable(store=store).insert({"new": (1, "c")})
    assert store.calls().count((Kind.LIST, ".hoodie/.parquetry")) == 1
    read = [path for kind, path in store.calls() if kind is Kind.READ and "/stats/" in path]
    assert len(read) == len(set(read))


@pytest.mark.parametrize("stop", list(Stop))
def test_a_write_that_dies_while_it_renames_loses_nothing(
    former: SmallTable, tmp_path: Path, stop: Stop
) -> None:
    """At each of its operations; what the next one finds is renamed then."""
    called = names.in_folder(tmp_path / "t")
    for number in range(1, 100):
        names.call_as_before(former.store)
        assert names.in_folder(tmp_path / "t") == called
        renaming = _OnlySidecars(open_store(tmp_path / "t"), tmp_path / f"count{number}{stop}", stop, number)
        table = SmallTable(store=renaming)
        with suppress(Stopped):
            VERBS["clean"](table)
        assert set(consumed(former.store, "s", effective_of(former))) == {f"in/{n}.csv" for n in range(5)}
        if not renaming.stopped():
            break
        VERBS["clean"](former)
        assert names.in_folder(tmp_path / "t") == []
    assert number > len(called)


class _OnlySidecars(FaultyStore):
    """Stops the writer at what it does with sidecars that have former names."""

    def __init__(self, inner: Any, counter: Path, stop: Stop, stop_at: int) -> None:
        super().__init__(inner, counter, stop=stop, stop_at=stop_at)

    def _is_counted(self, path: str) -> bool:
        return any(part in path for part in (".statistics", ".sample", ".folded", ".parquetry/stats/"))

    def before(self, kind: Kind, path: str) -> None:
        if self._is_counted(path):
            super().before(kind, path)

    def after(self, kind: Kind, path: str) -> None:
        if self._is_counted(path):
            super().after(kind, path)


def test_a_write_whose_renaming_fails_stands(former: SmallTable, tmp_path: Path) -> None:
    class Full(WrappedStore):
        def put(self, path: str, data: bytes) -> None:
            if path.endswith(".folded"):
                raise StorageError("cannot put: the disk is full; free some space")
            super().put(path, data)

    result = SmallTable(store=Full(open_store(tmp_path / "t"))).insert({"new": (1, "c")})
    assert result.instant is not None
    assert [("tidied up" in warning, "the disk is full" in warning) for warning in result.warnings] == [
        (True, True)
    ]
    assert set(consumed(former.store, "s", effective_of(former))) == {f"in/{n}.csv" for n in range(5)}
    VERBS["write"](former)
    assert names.in_folder(tmp_path / "t") == []
