"""Below ``.hoodie/`` nothing is called like data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.ledger import Consumption, SourceFile, fold
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import probe_put_if_absent
from parquetry.runtime.timeline.effective_writes import EffectiveWrites
from parquetry.runtime.timeline.sidecars import probe_path
from tests.support import names_below_hoodie as names
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_again, table_in_debt
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import CountingStore

CURVE = ClusteringSpec(execution=ExecutionPolicy(strategy="zorder", columns=("v", "id")))
ONE_VERSION = RetentionPolicy(keep_commits=None, keep_versions=1, archive_keep_commits=2)


def consume(table: SmallTable, count: int) -> None:
    for n in range(count):
        file = SourceFile(path=f"in/{n}.csv", size_bytes=1, modified_ms=n)
        table.upsert({f"s{n}": (n, "a")}, consumed=[Consumption(source="s", files=(file,))])


def effective_of(table: SmallTable) -> EffectiveWrites:
    return EffectiveWrites(table.handle.timeline())


def newest(table: SmallTable) -> str:
    return table.handle.timeline().completed_writes[-1].time


@pytest.fixture
def folds_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "FOLD_ABOVE", 3)


@pytest.mark.usefixtures("folds_early")
@pytest.mark.usefixtures("on_each_version")
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
