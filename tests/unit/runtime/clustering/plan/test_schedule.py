"""Clustering plans on the timeline: who may make them, who takes them up, and how they go away."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from parquetry.runtime.clustering.plan.avro import (
    EXECUTION_KEY,
    STRATEGY_KEY,
    TARGET_KEY,
    avro_plan,
    execution_of,
)
from parquetry.runtime.clustering.plan.due import due_clustering
from parquetry.runtime.clustering.plan.schedule import begin_clustering, begin_scheduled, schedule
from parquetry.runtime.clustering.plan.survey import RUN_KEY, commits_since_clustering
from parquetry.runtime.commit.claims import read_claim
from parquetry.runtime.commit.transaction import Transaction, begin
from parquetry.runtime.commit.workload_profile import PartitionProfile, PlannedFile
from parquetry.runtime.errors import ConflictError, CorruptTableError, InvalidDataError
from parquetry.runtime.layout.clustering.model import ExclusionReason, PlannedGroup
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.spec.clustering import ExecutionPolicy, Existing
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.file_names import relative_path
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.clustering_plan import ClusteringPlan, RequestedReplace
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.instant import Action, State, Timezone, next_instant
from parquetry.runtime.timeline.sidecars import claim_path
from tests.support.clustering_model import file
from tests.support.handmade import at
from tests.support.orphans import leftovers
from tests.support.planned_clustering import SORTED, apply_clustering, groups_owed, owed, table_in_debt
from tests.support.small_table import FAST, rows_of
from tests.support.stores import CountingStore, Kind
from tests.support.timelines import pending as pending_state
from tests.support.timelines import put_completed, timeline_of

pytestmark = pytest.mark.usefixtures("on_each_version")

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
EXPIRED = replace(FAST, plan_expires_seconds=-1.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "table"


@pytest.fixture
def table(path):
    return table_in_debt(path)


def pending(table):
    return timeline_of(table.store).pending_clusterings


def test_a_scheduled_plan_is_hudis_avro_and_says_how_to_carry_it_out(table, path):
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    request = pending(table)[plan.instant]
    assert request.is_clustering
    assert {s.partition for g in request.plan.groups for s in g.slices} == {"p=a", "p=b"}
    view = table.handle.view(timeline_of(table.store))
    on_disk = {f"file:{path}/{part.path}" for part in view.all_slices()}
    assert {s.path for g in request.plan.groups for s in g.slices} == on_disk
    for group in request.plan.groups:
        assert group.output_files == 1
        assert set(group.metrics) == {
            "TOTAL_IO_READ_MB",
            "TOTAL_IO_WRITE_MB",
            "TOTAL_IO_MB",
            "TOTAL_LOG_FILES",
            "TOTAL_LOG_FILES_SIZE",
        }
    planned = execution_of(request.plan)
    assert planned.execution == SORTED.execution
    assert planned.target_file_size_bytes == SORTED.plan.target_file_size_bytes
    assert request.plan.extra[STRATEGY_KEY] == "size"
    assert request.plan.strategy_params["hoodie.clustering.plan.strategy.sort.columns"] == "v"


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("file:///data/lake/t", "file:/data/lake/t/p/f.parquet"),
        ("s3://bucket/lake/t", "s3a://bucket/lake/t/p/f.parquet"),
    ],
)
def test_files_are_named_as_hadoop_does(uri, named):
    store = SimpleNamespace(uri=uri)
    one = file("f", 1, partition="p")
    one = replace(one, path="p/f.parquet")
    group = PlannedGroup(partition="p", files=(one,), output_files=1, benefit=1.0, reasons={"f": "small"})
    (planned,) = avro_plan(store, [group], SORTED).groups
    assert [part.path for part in planned.slices] == [named]
    assert relative_path(store, named) == one.path


def test_readers_do_not_notice_a_plan(table, path):
    before = rows_of(path)
    schedule(table.handle, groups_owed(table), timing=FAST)
    assert rows_of(path) == before


def test_what_a_plan_names_is_not_planned_again(table):
    schedule(table.handle, groups_owed(table), timing=FAST)
    again = owed(table)
    assert not again.groups
    assert {entry.reason for entry in again.excluded} == {ExclusionReason.RESERVED}
    assert all("pending clustering" in entry.text for entry in again.excluded)


def test_two_that_planned_the_same_put_one_plan(table):
    groups = groups_owed(table)
    assert schedule(table.handle, groups, timing=FAST) is not None
    assert schedule(table.handle, groups, timing=FAST) is None
    assert len(pending(table)) == 1


def test_a_group_that_a_writer_has_changed_meanwhile_is_not_planned(table):
    groups = groups_owed(table)
    table.upsert({"k0": (99, "a")})
    plan = schedule(table.handle, groups, timing=FAST)
    assert {group.partition for group in plan.groups} == {"p=b"}


def upserted(table, newest):
    table.upsert({"k0": (99, "a")})


def rolled_back(table, newest):
    rollback(table.handle, newest, timing=FAST)


def overwritten(table, newest):
    table.overwrite({"new": (1, "a")})


@pytest.mark.parametrize("changed", [upserted, rolled_back, overwritten])
def test_a_group_that_has_changed_since_it_was_due_is_not_planned(table, changed):
    newest = table.insert({"gone": (1, "a")}).instant
    due = due_clustering(table.handle, timing=FAST)
    assert {group.partition for group in due.debt.groups} == {"p=a", "p=b"}
    changed(table, newest)
    plan = schedule(table.handle, due.debt.groups, known=due.timeline, timing=FAST)
    assert {group.partition for group in plan.groups} == {"p=b"}


def test_a_change_that_was_pending_when_a_group_was_due_and_is_archived_by_now_is_noticed(table, monkeypatch):
    announce, due = Transaction.announce, []

    def archive(*times):
        timeline = timeline_of(table.store)
        table.store.delete_all(info.path for name, info in timeline.files.items() if name.startswith(times))

    def announced(transaction, *arguments, **options):
        monkeypatch.undo()
        older = [write.time for write in transaction.timeline.completed_writes]
        table.insert({"new": (1, "c")})
        archive(*older)
        due.append(due_clustering(table.handle, timing=FAST))
        return announce(transaction, *arguments, **options)

    monkeypatch.setattr(Transaction, "announce", announced)
    archive(table.upsert({"k0": (99, "a")}).instant)
    plan = schedule(table.handle, due[0].debt.groups, known=due[0].timeline, timing=FAST)
    assert {group.partition for group in plan.groups} == {"p=b", "p=c"}


def test_what_is_due_is_planned_without_another_listing_of_its_partitions(table, tmp_path):
    counting = CountingStore(table.store, tmp_path / "log")
    handle = open_table(counting)
    due = due_clustering(handle, timing=FAST)
    counting.reset()
    assert schedule(handle, due.debt.groups, known=due.timeline, timing=FAST) is not None
    listed = [path for kind, path in counting.calls() if kind is Kind.LIST]
    assert listed == [handle.timeline().layout.NAMES.folder] * 2


def test_a_dead_write_that_was_pending_when_a_clustering_was_due_is_rolled_back_first(table):
    with begin(
        table.handle, action=Action.COMMIT, operation="UPSERT", timing=FAST, run=None, attempt=0
    ) as dead:
        due = due_clustering(table.handle, timing=FAST)
    assert timeline_of(table.store).write_at(dead.instant) is not None
    assert schedule(table.handle, due.debt.groups, known=due.timeline, timing=AT_ONCE) is not None
    assert timeline_of(table.store).write_at(dead.instant) is None


def test_a_file_that_a_living_writer_has_announced_is_left_to_it(table):
    groups = groups_owed(table)
    file = next(f for group in groups if group.partition == "p=a" for f in group.files)
    with begin(
        table.handle, action=Action.COMMIT, operation="UPSERT", timing=FAST, run=None, attempt=0
    ) as writer:
        intent = PartitionProfile(files={file.file_id: PlannedFile(base_instant=file.instant, updates=1)})
        writer.announce({"p=a": intent})
        plan = schedule(table.handle, groups, timing=FAST)
        assert {group.partition for group in plan.groups} == {"p=b"}
        left = {entry.file.file_id: entry.text for entry in owed(table).excluded}
        assert left[file.file_id] == f"the write {writer.instant} is about to change it"
        writer.roll_back()


def test_the_announcement_of_a_dead_writer_reserves_nothing(table):
    with begin(
        table.handle, action=Action.COMMIT, operation="UPSERT", timing=FAST, run=None, attempt=0
    ) as writer:
        file = groups_owed(table)[0].files[0]
        intent = PartitionProfile(files={file.file_id: PlannedFile(base_instant=file.instant, updates=1)})
        writer.announce({file.partition: intent})
    assert len(groups_owed(table)) == 2


def test_a_plan_outlives_its_maker_until_it_is_taken_up(table):
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    table.insert({"new": (1, "a")})
    assert plan.instant in pending(table)
    with begin_scheduled(table.handle, plan.instant, timing=FAST) as transaction:
        assert transaction.instant == plan.instant
        assert transaction.timeline.requested_replace(plan.instant).is_clustering
        assert read_claim(table.store, plan.instant).owner == transaction.session.claim.owner
        transaction.roll_back()
    assert not pending(table)


def test_writers_go_on_beside_a_plan_and_win(table, path):
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    table.insert({"fresh": (1, "a")})
    assert plan.instant in pending(table)
    table.upsert({"k0": (99, "a")})
    assert rows_of(path)["k0"] == (99, "a")
    # Real Hudi would carry the plan out from the old files, and undo the update.
    assert not pending(table)
    assert leftovers(path) == []


def test_a_plan_is_taken_up_by_one_process(table):
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    with begin_scheduled(table.handle, plan.instant, timing=FAST) as transaction:
        with (
            pytest.raises(ConflictError, match=plan.instant),
            begin_scheduled(table.handle, plan.instant, timing=FAST),
        ):
            pass
        transaction.roll_back()


def test_an_unknown_plan_is_refused_with_those_there_are(table):
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    with (
        pytest.raises(InvalidDataError, match=plan.instant),
        begin_scheduled(table.handle, "20200101000000000", timing=FAST),
    ):
        pass


def test_a_plan_that_was_taken_up_by_a_dead_process_is_rolled_back(table, path):
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    with begin_scheduled(table.handle, plan.instant, timing=FAST) as transaction:
        transaction.ensure_inflight()
    table.insert({"new": (1, "a")})
    assert not pending(table)
    clean(table.handle, timing=AT_ONCE)
    assert leftovers(path) == []


def test_a_plan_of_a_process_that_died_before_carrying_it_out_is_rolled_back_at_once(table, path):
    with begin_clustering(table.handle, groups_owed(table), timing=FAST) as transaction:
        assert transaction.instant in pending(table)
        assert not groups_owed(table)
    assert transaction.instant in pending(table)
    assert {group.partition for group in groups_owed(table)} == {"p=a", "p=b"}
    table.insert({"new": (1, "a")})
    assert not pending(table)
    clean(table.handle, timing=AT_ONCE)
    assert leftovers(path) == []


def test_an_abandoned_plan_expires_and_leaves_no_file(table, path):
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    table.timing = EXPIRED
    table.insert({"new": (1, "a")})
    assert not pending(table)
    assert timeline_of(table.store).of(Action.ROLLBACK, state=State.COMPLETED)
    with pytest.raises(InvalidDataError), begin_scheduled(table.handle, plan.instant, timing=FAST):
        pass
    clean(table.handle, timing=AT_ONCE)
    assert leftovers(path) == []
    assert {group.partition for group in groups_owed(table)} == {"p=a", "p=b"}


def test_nothing_left_to_plan_leaves_nothing(table, path):
    groups = groups_owed(table)
    table.upsert({"k0": (99, "a"), "k1": (99, "b")})
    assert schedule(table.handle, groups, timing=FAST) is None
    with begin_clustering(table.handle, groups, timing=FAST) as transaction:
        assert transaction is None
    clean(table.handle, timing=AT_ONCE)
    assert leftovers(path) == []


def test_a_plan_of_hudi_can_be_taken_up(table):
    instant = pending_state(table.store, at("9999"), Action.REPLACECOMMIT, is_clustering=True)
    table.store.put(
        instant.path, RequestedReplace(operation="CLUSTER", plan=ClusteringPlan(groups=())).encode()
    )
    with begin_scheduled(table.handle, instant.time, timing=FAST) as transaction:
        assert execution_of(transaction.timeline.requested_replace(instant.time).plan) is None
        assert table.store.stat(claim_path(instant.time)) is not None
        transaction.roll_back()


def test_what_another_program_carries_out_is_refused(table):
    instant = pending_state(table.store, at("9999"), Action.REPLACECOMMIT, is_clustering=True)
    table.store.put(
        instant.path, RequestedReplace(operation="CLUSTER", plan=ClusteringPlan(groups=())).encode()
    )
    table.store.put(instant.inflight.path, b"")
    with (
        pytest.raises(ConflictError, match="another program"),
        begin_scheduled(table.handle, instant.time, timing=FAST),
    ):
        pass


@pytest.mark.parametrize(
    ("extra", "error"),
    [
        ({EXECUTION_KEY: "{"}, "JSONDecodeError('"),
        ({EXECUTION_KEY: "{}"}, f"KeyError('{TARGET_KEY}')"),
        ({EXECUTION_KEY: "{}", TARGET_KEY: "x"}, "ValueError("),
    ],
)
def test_a_plan_that_does_not_say_how_is_an_error(extra, error):
    with pytest.raises(CorruptTableError, match="roll the plan back") as failure:
        execution_of(ClusteringPlan(groups=(), extra=extra))
    assert f"no valid execution policy ({error}" in str(failure.value)


def test_existing_keep_leaves_what_was_there_before_the_policy(path):
    table = table_in_debt(path)
    keep = replace(
        SORTED, existing=Existing.KEEP, execution=ExecutionPolicy(strategy="sort", columns=("id",))
    )
    apply_clustering(table, keep)
    apply_clustering(table, replace(keep, every_commits=7))
    table.insert({"new": (1, "a")})
    found = owed(table)
    assert [[file.partition for file in group.files] for group in found.groups] == [["p=a"]]
    assert [entry.reason for entry in found.excluded] == [ExclusionReason.KEPT] * 6


def test_a_group_that_lost_three_rounds_waits_twice_as_long_each_time(table):
    section = replace(SORTED, every_commits=2)
    apply_clustering(table, section)
    lost = groups_owed(table)[0]
    for _ in range(3):
        assert lost.partition in {group.partition for group in groups_owed(table)}
        publish_without(table, lost)
    waiting = [entry for entry in owed(table).excluded if entry.reason is ExclusionReason.RESERVED]
    assert {entry.file.key for entry in waiting} == {file.key for file in lost.files}
    assert {entry.text for entry in waiting} == {"left out 3 times; waits for 2 more commits"}
    table.insert({"x": (1, "b")})
    table.insert({"y": (1, "b")})
    assert lost.partition in {group.partition for group in groups_owed(table)}
    publish_without(table, lost)
    assert "waits for 4 more commits" in {e.text.partition("; ")[2] for e in owed(table).excluded}


def publish_without(table, group, **more):
    """A clustering that had the group in its plan, and published nothing of it."""
    time = next_instant(timeline_of(table.store).last_instant, 0, Timezone.UTC)
    plan = avro_plan(table.store, [group], SORTED)
    requested = pending_state(table.store, time, Action.REPLACECOMMIT, is_clustering=True)
    metadata = CommitMetadata(
        operation="CLUSTER",
        stats={},
        extra={
            "schema": table.handle.schema_json(timeline_of(table.store), ()),
            RUN_KEY: json.dumps({"left_out": 1} | more),
        },
    )
    table.store.put(requested.path, RequestedReplace(operation="CLUSTER", plan=plan).encode())
    put_completed(table.store, time, Action.REPLACECOMMIT, metadata)


def test_a_clustering_whose_time_ended_makes_no_group_wait(table):
    lost = groups_owed(table)[0]
    for _ in range(4):
        publish_without(table, lost, deferred=2)
    assert lost.partition in {group.partition for group in groups_owed(table)}


def test_commits_are_counted_from_the_last_clustering(table):
    before = commits_since_clustering(timeline_of(table.store))
    table.insert({"x": (1, "a")})
    assert commits_since_clustering(timeline_of(table.store)) == before + 1
    publish_without(table, groups_owed(table)[0])
    assert commits_since_clustering(timeline_of(table.store)) == 0


def test_planning_asks_once_per_partition_and_per_commit(path, tmp_path):
    table = table_in_debt(path, inserts=6)
    store = CountingStore(open_store(path), tmp_path / "calls")
    handle = open_table(store)
    timeline = handle.timeline()
    store.reset()
    found = owed(table, store)
    counts = store.counts()
    assert found.files_before == 12
    assert counts[Kind.OPEN_INPUT] == 0
    data = [path for kind, path in store.calls() if kind is Kind.LIST and not path.startswith(".hoodie")]
    assert sorted(data) == ["p=a", "p=b"]
    sidecars = [path for kind, path in store.calls() if kind is Kind.READ and "/stats/" in path]
    assert len(sidecars) == len(set(sidecars)) == 6
    assert timeline.completed_writes


def test_a_section_that_is_not_understood_names_its_place(table):
    document = table.handle.spec.to_json()
    document["extra"]["clustering"] = {"trigger": "sometimes"}
    with pytest.raises(InvalidDataError, match=r"^here\.extra\.clustering\.trigger: one of "):
        TableSpec.from_json(document, place="here")
