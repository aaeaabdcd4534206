from __future__ import annotations

import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.instant import Action, State
from tests.support.handmade import HandmadeTable, at
from tests.support.stores import CountingStore, Kind
from tests.support.timelines import instant_of, timeline_of


@pytest.fixture
def table(tmp_path):
    return HandmadeTable(tmp_path / "t")


def load(table):
    return timeline_of(table.store)


def test_each_action_counts_once_in_its_highest_state(table):
    table.commit("1", {})
    table.request("2")
    table.commit("3", {}, operation="DELETE_PARTITION", replaced={})
    table.savepoint("1")
    table.clean("4", "1")
    (table.folder / ".hoodie/.tmp-5.commit").write_text("")
    timeline = load(table)
    assert [(instant.time, instant.action, instant.state) for instant in timeline.instants[1:]] == [
        (at("1"), Action.COMMIT, State.COMPLETED),
        (at("1"), Action.SAVEPOINT, State.COMPLETED),
        (at("2"), Action.COMMIT, State.INFLIGHT),
        (at("3"), Action.REPLACECOMMIT, State.COMPLETED),
        (at("4"), Action.CLEAN, State.COMPLETED),
    ]
    assert [instant.time for instant in timeline.completed_writes[1:]] == [at("1"), at("3")]
    assert [instant.time for instant in timeline.pending_writes] == [at("2")]
    assert timeline.last_instant == at("4")
    assert timeline.savepoints == (at("1"),)
    assert timeline.earliest_retained == at("1")
    assert timeline.contains(at("2"), Action.COMMIT, state=State.INFLIGHT)
    assert not timeline.contains(at("2"), state=State.COMPLETED)
    assert timeline.is_completed(at("3"))
    assert not timeline.is_completed(at("2"))


def test_a_completed_compaction_is_the_commit_of_its_time(table):
    time = at("7")
    for action, state in [
        (Action.COMPACTION, State.REQUESTED),
        (Action.COMPACTION, State.INFLIGHT),
        (Action.COMMIT, State.COMPLETED),
    ]:
        table.store.put(instant_of(time, action, state).path, b"{}")
    timeline = load(table)
    assert timeline.pending_writes == ()
    assert timeline.write_at(time).action is Action.COMMIT


def test_a_snapshot_does_not_see_what_happens_later_and_a_reload_reads_nothing_twice(table, tmp_path):
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    store = CountingStore(table.store, tmp_path / "log")
    before = timeline_of(store)
    before.commit_metadata(at("1"))
    table.commit("2", {})
    assert not before.is_completed(at("2"))
    after = before.reload()
    assert after.is_completed(at("2"))
    store.reset()
    after.commit_metadata(at("1"))
    assert store.counts() == {}
    after.commit_metadata(at("2"))
    assert store.counts() == {Kind.READ: 1}


def test_what_a_pending_write_announced(table):
    table.request("1")
    announced = CommitMetadata(
        operation="UPSERT", stats={"p=a": (WriteStat(file_id="f-0", num_update_writes=3),)}
    )
    table.store.put(f".hoodie/{at('1')}.inflight", announced.to_json())
    table.request("2")
    table.request("3")
    table.store.put(f".hoodie/{at('3')}.inflight", b'{"partitionToWri')
    timeline = load(table)
    assert timeline.profile(at("1")).stats["p=a"][0].num_update_writes == 3
    assert timeline.profile(at("2")) is None
    assert timeline.profile(at("3")) is None
    assert timeline.profile(at("9")) is None


def test_groups_in_pending_clustering_are_known_until_it_is_carried_out(table):
    table.plan_clustering("1", {"p=a": ["f-0", "g-0"], "p=b": ["f-0"]})
    table.request("2", Action.REPLACECOMMIT)
    timeline = load(table)
    assert set(timeline.pending_clusterings) == {at("1")}
    assert timeline.groups_in_pending_clustering == {
        ("p=a", "f-0"): at("1"),
        ("p=a", "g-0"): at("1"),
        ("p=b", "f-0"): at("1"),
    }
    table.store.put(f".hoodie/{at('1')}.replacecommit", CommitMetadata(operation="CLUSTER").to_json())
    assert load(table).groups_in_pending_clustering == {}


def test_a_replacecommit_without_request_is_no_clustering(table):
    table.commit("1", {}, operation="INSERT_OVERWRITE", replaced={})
    (table.folder / f".hoodie/{at('1')}.replacecommit.requested").unlink()
    assert not load(table).requested_replace(at("1")).is_clustering


def test_a_half_written_commit_is_named_and_deleting_it_makes_the_table_whole_again(table):
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    table.commit("2", {"p=a": {"f-0": [("k", 2)]}})
    commit = table.folder / f".hoodie/{at('2')}.commit"
    commit.write_bytes(commit.read_bytes()[:100])
    with pytest.raises(
        CorruptTableError,
        match=rf"\.hoodie/{at('2')}\.commit: not JSON .* or delete it if that write never succeeded",
    ):
        load(table).commit_metadata(at("2"))
    commit.unlink()
    timeline = load(table)
    assert timeline.commit_metadata(at("1")).operation == "UPSERT"
    assert [instant.time for instant in timeline.pending_writes] == [at("2")]


def test_a_half_written_clean_is_named_and_deleting_it_plans_it_again(table):
    table.commit("1", {})
    table.clean("2", "1")
    (table.folder / f".hoodie/{at('2')}.clean").write_bytes(b"Obj\x01")
    with pytest.raises(
        CorruptTableError,
        match=rf"{at('2')}\.clean: not an Avro file .* delete it: the clean is then planned again",
    ):
        _ = load(table).earliest_retained
    (table.folder / f".hoodie/{at('2')}.clean").unlink()
    assert load(table).earliest_retained is None
    assert load(table).cleaner_plan(at("2")).earliest_commit_to_retain == at("1")


def test_asking_for_a_commit_that_is_not_there_says_so(table):
    with pytest.raises(CorruptTableError, match="no completed write"):
        load(table).commit_metadata(at("5"))
