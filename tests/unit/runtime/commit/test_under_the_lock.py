"""What is asked of the store while the table is locked, and that nothing is missed that comes late."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.clustering.plan import schedule as clustering_plans
from parquetry.runtime.clustering.plan.due import due_clustering
from parquetry.runtime.clustering.plan.schedule import schedule
from parquetry.runtime.clustering.rewrite.kept_sample import kept_sample
from parquetry.runtime.commit import publish, validation
from parquetry.runtime.commit.claims import read_claim
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH
from parquetry.runtime.commit.outcome import KeyRange
from parquetry.runtime.commit.recovery import foreign_clustering_conflict
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.sources.ledger import Consumption, SourceFile
from parquetry.runtime.spark import cluster as clustering
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.file_names import files_of_instant
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.sidecars import ABANDONED_FOLDER, sample_path
from tests.support.handmade import at
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import apply_queries, groups_owed, table_in_debt
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import CountingStore, Kind
from tests.support.timelines import completed, pending, put_pending, timeline_of

pytestmark = pytest.mark.usefixtures("on_each_version")

CURVE = ClusteringSpec(execution=ExecutionPolicy(strategy="zorder", columns=("v", "id")))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def store(path, tmp_path):
    return CountingStore(open_store(path), tmp_path / "calls")


def locked(store):
    """The calls between taking and releasing the lock, for each time that it was held."""
    windows, held = [], None
    for kind, path in store.calls():
        if path == DEFAULT_LOCK_PATH:
            if kind is Kind.PUT_IF_ABSENT:
                held = []
            elif kind is Kind.DELETE and held is not None:
                windows.append(held)
                held = None
        elif held is not None and not path.startswith(".hoodie/.heartbeat"):
            held.append((kind, path))
    return windows


def under_lock_of(store, file):
    """What was asked under the lock under which that file of the timeline was put."""
    put = (Kind.PUT_IF_ABSENT, file)
    (calls,) = [calls for calls in locked(store) if put in calls]
    return calls


def timeline_folder(store):
    return timeline_of(store.inner).layout.NAMES.folder


def completed_file(store, instant, action=Action.COMMIT):
    return completed(store.inner, instant, action).path


def applied_path(number):
    return f".hoodie/.parquetry/applied/{number:020d}.json"


def cluster(store):
    return clustering.cluster(OneProcessSpark(), open_table(store), timing=FAST)


def after_the_rewriting(monkeypatch, action):
    rewrite = clustering._rewrite

    def rewritten(*arguments):
        results = rewrite(*arguments)
        action()
        return results

    monkeypatch.setattr(clustering, "_rewrite", rewritten)


def before_the_lock(monkeypatch, action):
    """Let it happen once, when a writer has looked ahead and does not hold the lock yet."""
    pending = [action]

    def looked(transaction, outcome):
        ahead = validation.prefetch(transaction, outcome)
        if pending:
            pending.pop()()
        return ahead

    monkeypatch.setattr(publish, "prefetch", looked)


@pytest.mark.parametrize("inserts", [2, 5])
def test_publishing_a_clustering_asks_as_little_for_many_files_as_for_few(path, store, inserts):
    apply_queries(table_in_debt(path, CURVE, inserts=inserts), {"name": "few", "where": "v = 5"})
    result = cluster(store)
    assert (result.files_before, result.groups) == (2 * inserts, 2)
    (instant,) = result.instants
    folder = timeline_folder(store)
    plan = pending(store.inner, instant, Action.REPLACECOMMIT, is_clustering=True).path
    requested = under_lock_of(store, plan)
    assert Counter(requested) == {
        (Kind.LIST, folder): 1,
        (Kind.READ, ".hoodie/hoodie.properties"): 1,
        (Kind.PUT_IF_ABSENT, plan): 1,
    }
    done = completed_file(store, instant, Action.REPLACECOMMIT)
    assert Counter(under_lock_of(store, done)) == {
        # Before, and afterwards for a rollback of it that was begun.
        (Kind.LIST, timeline_folder(store)): 2,
        (Kind.LIST, "p=a"): 1,
        (Kind.LIST, "p=b"): 1,
        (Kind.STAT, applied_path(4)): 1,
        (Kind.READ, ".hoodie/hoodie.properties"): 1,
        (Kind.PUT_IF_ABSENT, done): 1,
    }


def test_what_writers_did_during_a_clustering_is_read_before_it_takes_the_lock(path, store, monkeypatch):
    table = table_in_debt(path)

    def write():
        table.upsert({"k0": (99, "a")})
        for number in range(3):
            table.insert({f"new{number}": (number, "b")})

    after_the_rewriting(monkeypatch, write)
    expected = {**view_rows(path), "k0": (99, "a"), **{f"new{n}": (n, "b") for n in range(3)}}
    result = cluster(store)
    (instant,) = result.instants
    assert [lost.partition for lost in result.left_out] == ["p=a"]
    done = completed_file(store, instant, Action.REPLACECOMMIT)
    calls = under_lock_of(store, done)
    assert {p for kind, p in calls if kind in (Kind.READ, Kind.OPEN_INPUT)} == {".hoodie/hoodie.properties"}
    # Of the partition of the group that is lost, and of the one that is published.
    assert [p for kind, p in calls if kind is Kind.LIST] == [
        timeline_folder(store),
        "p=a",
        "p=b",
        timeline_folder(store),
    ]
    given_up = (Kind.PUT, f"{ABANDONED_FOLDER}/{instant}.json")
    assert [call for call in calls if call[0] is Kind.PUT] == [given_up]
    assert calls.index(given_up) < calls.index((Kind.LIST, "p=a"))
    assert files_of_instant(table.store, "p=a", instant) == []
    assert rows_of(path) == view_rows(path) == expected


def test_a_clustering_that_ends_while_a_writer_looks_is_not_taken_for_one_of_hudi(path, store, monkeypatch):
    table = table_in_debt(path)
    listed = []
    after_the_rewriting(monkeypatch, lambda: listed.append(timeline_of(store)))
    (instant,) = cluster(store).instants
    groups = list(listed[0].groups_in_pending_clustering)
    assert groups
    assert read_claim(store, instant) is None
    assert foreign_clustering_conflict(groups, listed[0]) is None
    assert foreign_clustering_conflict(groups, table.handle.timeline()) is None


def test_a_writer_that_comes_at_the_last_moment_wins_its_group(path, store, monkeypatch):
    table = table_in_debt(path)
    expected = {**view_rows(path), "k1": (99, "b")}

    def write():
        monkeypatch.undo()
        table.upsert({"k1": (99, "b")})

    before_the_lock(monkeypatch, write)
    result = cluster(store)
    (instant,) = result.instants
    assert [lost.partition for lost in result.left_out] == ["p=b"]
    done = completed_file(store, instant, Action.REPLACECOMMIT)
    calls = under_lock_of(store, done)
    assert sum(kind is Kind.READ and p.endswith(".commit") for kind, p in calls) == 1
    said = json.loads(timeline_of(store).commit_metadata(instant).extra["parquetry.clustering"])
    assert (said["groups"], said["left_out"], said["files"]) == (1, 1, {"before": 3, "after": 1})
    assert rows_of(path) == view_rows(path) == expected
    assert leftovers(path) == []


def test_an_upsert_reads_neither_footers_nor_rows_under_the_lock(path, store):
    table_in_debt(path, inserts=1)
    small = SmallTable(store=store)
    instant = small.upsert({"k1": (100, "b"), "new": (1, "a")}).instant
    done = completed_file(store, instant)
    assert Counter(under_lock_of(store, done)) == {
        (Kind.LIST, timeline_folder(store)): 2,
        (Kind.LIST, "p=a"): 1,
        (Kind.LIST, "p=b"): 1,
        (Kind.STAT, applied_path(3)): 1,
        (Kind.READ, ".hoodie/hoodie.properties"): 1,
        (Kind.PUT_IF_ABSENT, done): 1,
    }


def rude(table):
    """A writer that gives way to nobody."""
    return replace(table, timing=replace(FAST, give_way_seconds=0.0))


def keys(first, last):
    return {"p=a": KeyRange(smallest=first, largest=last)}


def test_between_which_keys_others_inserted_is_read_before_the_lock(path, store):
    table = make_table(path)
    mine = SmallTable(
        store=store,
        inserted_keys=keys("a", "b"),
        before_publish=lambda _: replace(table, inserted_keys=keys("x", "z")).insert({"y": (1, "a")}),
    )
    result = mine.upsert({"a": (1, "a")})
    assert result.retries == 0
    done = completed_file(store, result.instant)
    calls = under_lock_of(store, done)
    assert [p for kind, p in calls if kind is Kind.READ] == [".hoodie/hoodie.properties"]


def test_who_inserts_the_same_key_at_the_last_moment_is_not_overlooked(path, store, monkeypatch):
    table = make_table(path)
    before_the_lock(monkeypatch, lambda: rude(table).upsert({"a": (1, "a")}))
    result = SmallTable(store=store, inserted_keys=keys("a", "b")).upsert({"a": (2, "a")})
    assert result.retries == 1
    assert "may have inserted a key" in result.retry_reasons[0]
    assert rows_of(path) == {"a": (2, "a")}


def took(*names):
    files = (SourceFile(path=name, size_bytes=1, modified_ms=1) for name in names)
    return Consumption(source="landing", files=tuple(files))


def test_the_ledger_of_a_source_is_not_read_under_the_lock(path, store):
    table = make_table(path)
    for number in range(5):
        table.upsert({f"k{number}": (number, "a")}, consumed=[took(f"{number}.json")])
    store.reset()
    result = SmallTable(store=store).upsert({"x": (1, "a")}, consumed=[took("x.json")])
    assert any("/sources/" in p for kind, p in store.calls() if kind is Kind.READ)
    done = completed_file(store, result.instant)
    calls = under_lock_of(store, done)
    assert not [p for _, p in calls if "/sources/" in p]


@pytest.mark.parametrize("spelled", ["a.json", "./a.json", "/in/a.json"])
def test_who_takes_the_same_file_at_the_last_moment_is_not_overlooked(spelled, path, store, monkeypatch):
    table = make_table(path)
    before_the_lock(monkeypatch, lambda: rude(table).upsert({"a": (1, "a")}, consumed=[took(spelled)]))
    mine = replace(took("a.json"), directory="/in")
    result = SmallTable(store=store).upsert({"b": (1, "b")}, consumed=[mine])
    assert result.superseded
    assert rows_of(path) == {"a": (1, "a")}


def test_a_write_that_was_pending_and_is_archived_by_now_may_have_been_completed(path):
    """Nobody can tell it from one that was rolled back, but by the archive."""
    table = make_table(path)
    table.upsert({"a": (1, "a")})
    write = put_pending(table.store, at("0001"))
    before = timeline_of(table.store)
    table.store.delete(write.path)
    reason = validation._rolled_back_meanwhile(SimpleNamespace(timeline=before), before.reload())
    assert f"{write.time}, which was pending" in reason


def at_scheduling(monkeypatch, action):
    """Let it happen when the files of groups have been looked at, before the plan's lock is taken."""
    keep = clustering_plans.keep_samples

    def kept(*arguments):
        action()
        return keep(*arguments)

    monkeypatch.setattr(clustering_plans, "keep_samples", kept)


def test_a_group_that_changes_before_the_lock_is_not_planned_and_others_keep_their_samples(
    path, store, monkeypatch
):
    table = table_in_debt(path, CURVE)
    groups = due_clustering(table.handle, timing=FAST).debt.groups
    assert [group.partition for group in groups] == ["p=a", "p=b"]
    at_scheduling(monkeypatch, lambda: table.upsert({"k0": (99, "a")}))
    plan = schedule(table.handle, groups, timing=FAST)
    assert [group.partition for group in plan.groups] == ["p=b"]
    written = timeline_of(store).pending_clusterings[plan.instant].plan
    (group,) = written.groups
    sample = kept_sample(written, group).read(store, arrow_schema(COLUMNS), most_bytes=1 << 20)
    values = {value for value, part in view_rows(path).values() if part == "b"}
    assert set(sample.column("v").to_pylist()) == values


def test_a_file_that_is_rolled_back_before_the_lock_is_not_planned(path, monkeypatch):
    table = table_in_debt(path, inserts=2)
    newest = table.insert({"gone": (1, "a")}).instant
    groups = groups_owed(table)
    at_scheduling(monkeypatch, lambda: rollback(table.handle, newest, timing=FAST))
    plan = schedule(table.handle, groups, timing=FAST)
    assert [group.partition for group in plan.groups] == ["p=b"]


def test_without_a_plan_there_is_no_sample(path, monkeypatch):
    table = table_in_debt(path, CURVE)
    groups = due_clustering(table.handle, timing=FAST).debt.groups
    at_scheduling(monkeypatch, lambda: table.upsert({"k0": (99, "a"), "k1": (99, "b")}))
    put = []
    keep = clustering_plans.keep_samples

    def kept(store, instant, predicted):
        put.append(sample_path(instant))
        return keep(store, instant, predicted)

    monkeypatch.setattr(clustering_plans, "keep_samples", kept)
    assert schedule(table.handle, groups, timing=FAST) is None
    (where,) = put
    assert table.store.stat(where) is None
