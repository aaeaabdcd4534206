"""One writer and its protocol: what it refuses, what it tells, and what it leaves on the store."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.errors import ParquetryError
from parquetry.runtime.commit import transaction
from parquetry.runtime.commit.claims import heartbeat_path, open_session
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH
from parquetry.runtime.commit.outcome import WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.rollback import roll_back
from parquetry.runtime.commit.table_lock import unlock
from parquetry.runtime.commit.transaction import TaskGuard, Transaction
from parquetry.runtime.commit.workload_profile import PartitionProfile, PlannedFile
from parquetry.runtime.errors import (
    ConflictError,
    InvalidDataError,
    StorageError,
    UnknownOutcomeError,
    UnsupportedTableError,
)
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.sources.ledger import Consumption, entry_path
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
)
from parquetry.runtime.timeline.instant import Action, State, format_instant
from parquetry.runtime.timeline.markers import MarkerKind, marked_files, marker_path
from parquetry.runtime.timeline.sidecars import claim_path
from tests.support.orphans import leftovers
from tests.support.s3_server import BUCKET
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import CountingStore, Kind, LostAnswerStore, WrappedStore
from tests.support.timelines import pending, put_completed, put_pending, state_files, timeline_of

pytestmark = pytest.mark.usefixtures("on_each_version")

BASE = {f"k{n}": (n, "ab"[n % 2]) for n in range(6)}


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = make_table(tmp_path / "t")
    table.upsert(BASE)
    return table


def root(table: SmallTable) -> Path:
    return Path(table.store.uri.removeprefix("file://"))


def test_what_a_commit_says(table: SmallTable) -> None:
    result = table.upsert({"k1": (9, "b"), "k3": (8, "b"), "n": (1, "c")})
    assert (result.inserted_rows, result.updated_rows, result.deleted_rows) == (1, 2, 0)
    assert (result.files_added, result.files_rewritten, result.files, result.rows) == (1, 1, 2, 3)
    assert (result.retries, result.warnings, result.superseded) == (0, (), False)
    timeline = table.handle.timeline()
    metadata = timeline.commit_metadata(str(result.instant))
    assert metadata.operation == "UPSERT"
    assert metadata.extra["parquetry.table_id"] == table.handle.table_id
    assert metadata.extra["parquetry.applied"] == "1"
    assert {"schema", "parquetry.version", "parquetry.nonce"} < set(metadata.extra)
    assert sum(stat.file_size_bytes for stat in metadata.all_stats()) == result.bytes_written
    assert state_files(table.store, str(result.instant)) == ["commit", "commit.requested", "inflight"]
    profile = timeline.profile(str(result.instant))
    assert profile is not None
    planned = {
        (stat.partition_path, stat.num_inserts, stat.num_update_writes) for stat in profile.all_stats()
    }
    assert planned == {("p=c", 1, 0), ("p=b", 0, 0), ("p=b", 0, 2)}


def test_nothing_but_the_commit_is_left_behind(table: SmallTable) -> None:
    result = table.upsert({"n": (1, "d")})
    assert leftovers(root(table)) == []
    for path in (claim_path(str(result.instant)), heartbeat_path(str(result.instant))):
        assert table.store.stat(path) is None
    metadata = (root(table) / "p=d/.hoodie_partition_metadata").read_text().splitlines()
    assert metadata[1:] == [f"commitTime={result.instant}", "partitionDepth=1"]


def test_what_belongs_to_a_commit_is_there_when_it_appears(table: SmallTable) -> None:
    """Its ledger entry, and the partition metadata of a new folder, even if that was deleted meanwhile."""
    metadata = root(table) / "p=d/.hoodie_partition_metadata"
    existed: list[tuple[bool, bool]] = []

    class Watched(WrappedStore):
        def before(self, kind: Kind, path: str) -> None:
            if kind is Kind.PUT_IF_ABSENT and path.endswith(".commit"):
                entry = entry_path("feed", timeline_of(table.store).layout.NAMES.parse(Path(path).name).time)
                existed.append((metadata.exists(), self.inner.stat(entry) is not None))

    writer = replace(table, store=Watched(table.store), before_publish=lambda _: metadata.unlink())
    result = writer.upsert({"n": (1, "d")}, consumed=[Consumption(source="feed")])
    assert existed == [(True, True)]
    assert metadata.read_text().splitlines()[1] == f"commitTime={result.instant}"


def test_a_commit_that_changes_nothing_is_a_commit(table: SmallTable) -> None:
    def body(txn: Transaction) -> WriteOutcome:
        return WriteOutcome(operation="UPSERT", schema_json=txn.table.schema_json(txn.timeline, COLUMNS))

    result = run_write(table.handle, action=Action.COMMIT, operation="UPSERT", body=body, timing=FAST)
    assert result.instant is not None
    assert result.rows == 0
    assert rows_of(root(table)) == view_rows(root(table)) == BASE


def test_a_commit_that_nobody_could_read_is_not_put_and_the_write_is_undone(table, monkeypatch) -> None:
    monkeypatch.setattr(transaction, "MOST_RECORD_BYTES", 100)
    said = r"the commit of 1 files would have [\d,]+ bytes, but readers accept at most 100; write the rows"
    with pytest.raises(InvalidDataError, match=said):
        table.upsert({"n": (1, "d")})
    assert rows_of(root(table)) == view_rows(root(table)) == BASE
    assert leftovers(root(table)) == []


def test_a_write_with_nothing_to_do_withdraws_without_a_trace(table: SmallTable) -> None:
    before = sorted((root(table) / ".hoodie").iterdir())
    timeline = table.handle.timeline()
    result = table.delete(["unknown"])
    assert (result.instant, result.rows) == (None, 0)
    assert sorted((root(table) / ".hoodie").iterdir()) == before
    assert timeline.reload() == timeline
    assert leftovers(root(table)) == []


def test_an_overwrite_announces_what_it_is(table: SmallTable) -> None:
    result = table.overwrite({"z": (1, "b")})
    assert (result.action, result.groups_replaced) == ("replacecommit", 1)
    timeline = table.handle.timeline()
    assert timeline.requested_replace(str(result.instant)).operation == "INSERT_OVERWRITE"
    assert timeline.pending_clusterings == {}


def test_an_error_in_the_body_rolls_the_write_back(table: SmallTable) -> None:
    def fail(txn: Transaction) -> None:
        raise InvalidDataError("no")

    with pytest.raises(InvalidDataError, match="no"):
        replace(table, before_publish=fail).upsert({"k1": (9, "b"), "n": (1, "d")})
    assert rows_of(root(table)) == BASE
    assert leftovers(root(table)) == []
    assert len(table.handle.timeline().of(Action.ROLLBACK)) == 1


def test_an_interrupt_rolls_the_write_back(table: SmallTable) -> None:
    def interrupt(txn: Transaction) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(table, before_publish=interrupt).upsert({"k1": (9, "b")})
    assert leftovers(root(table)) == []


def test_a_file_that_is_not_in_the_outcome_is_swept_by_the_next_clean(table: SmallTable) -> None:
    late: list[str] = []

    def fail(txn: Transaction) -> None:
        late.append(f"p=b/{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-0-0_{txn.instant}.parquet")
        raise InvalidDataError("no")

    with pytest.raises(InvalidDataError):
        replace(table, before_publish=fail).upsert({"k1": (9, "b")})
    # A task that did not notice its end: the file appears after the rollback.
    table.store.put(late[0], b"late")
    assert rows_of(root(table)) == BASE
    assert clean(table.handle).orphans_deleted == 1
    assert leftovers(root(table)) == []


def test_the_guard_tells_a_task_that_its_write_is_gone(table: SmallTable) -> None:
    seen: list[bool] = []

    def look(txn: Transaction) -> None:
        seen.append(txn.guard.is_pending(table.store))
        table.store.delete(txn.guard.inflight_path)
        seen.append(txn.guard.is_pending(table.store))

    assert replace(table, before_publish=look, timing=replace(FAST, retries=1)) is not None
    with pytest.raises(ConflictError):
        replace(table, before_publish=look, timing=replace(FAST, retries=1)).upsert({"k1": (9, "b")})
    assert seen == [True, False, True, False]


def test_the_guard_tells_a_task_whether_an_archived_write_was_published(table: SmallTable) -> None:
    guards: list[TaskGuard] = []

    def note(txn: Transaction) -> None:
        guards.append(txn.guard)

    def fail(txn: Transaction) -> None:
        guards.append(txn.guard)
        raise InvalidDataError("no")

    replace(table, before_publish=note).upsert({"k1": (9, "b")})
    for value in range(3):
        table.upsert({"k1": (value, "b")})
    assert archive(table.handle, policy=RetentionPolicy(archive_keep_commits=2), timing=FAST).instants
    with pytest.raises(InvalidDataError):
        replace(table, before_publish=fail).upsert({"k1": (10, "b")})
    published, rolled_back = guards
    assert [guard.is_pending(table.store) for guard in guards] == [False, False]
    assert published.is_published(table.store)
    assert not rolled_back.is_published(table.store)
    # A clustering may have been published without the bucket.
    assert not replace(published, abandons_buckets=True).is_published(table.store)


def test_markers_are_there_before_files_and_name_them(table: SmallTable) -> None:
    seen: list[tuple[str, ...]] = []

    def look(txn: Transaction) -> None:
        seen.append(marked_files(table.store, txn.instant))
        assert table.store.stat(marker_path(txn.instant, seen[0][0], MarkerKind.MERGE)) is not None

    result = replace(table, before_publish=look).upsert({"k1": (9, "b"), "n": (1, "d")})
    stats = table.handle.timeline().commit_metadata(str(result.instant)).all_stats()
    assert seen == [tuple(sorted(stat.path for stat in stats))]


def test_markers_of_both_kinds_are_read(table: SmallTable) -> None:
    folder = ".hoodie/.temp/20260101000000000"
    table.store.put(f"{folder}/p=a/f_1_2.parquet.marker.CREATE", b"")
    table.store.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    table.store.put(
        f"{folder}/MARKERS0", b"p=b/g_1_2.parquet.marker.MERGE\np=b/h_1_2.parquet.marker.APPEND\n"
    )
    assert marked_files(table.store, "20260101000000000") == (
        "p=a/f_1_2.parquet",
        "p=b/g_1_2.parquet",
        "p=b/h_1_2.parquet",
    )


def test_declaring_answers_which_small_files_to_leave_out(table: SmallTable) -> None:
    answers: list[frozenset[str]] = []

    def body(txn: Transaction) -> None:
        (small,) = txn.table.view(txn.timeline).slices("p=a")
        profile = {
            "p=a": PartitionProfile(
                inserts=3, files={small.file_id: PlannedFile(base_instant=small.instant, inserts=3)}
            )
        }
        if not answers:
            answers.append(txn.announce(profile))
            run_write(table.handle, action=Action.COMMIT, operation="INSERT", body=body, timing=FAST)
        else:
            answers.append(txn.announce(profile))
            assert answers[1] == {small.file_id}

    run_write(table.handle, action=Action.COMMIT, operation="INSERT", body=body, timing=FAST)
    assert answers[0] == frozenset()
    assert leftovers(root(table)) == []


def test_an_instant_a_little_ahead_is_waited_for_and_one_far_ahead_refused(table: SmallTable) -> None:
    zone = table.handle.config.timezone
    near = format_instant(table.store.now_ms() + 400, zone)
    put_pending(table.store, near, Action.CLEAN)
    result = table.upsert({"k1": (9, "b")})
    assert str(result.instant) > near
    far = format_instant(table.store.now_ms() + 60_000, zone)
    put_pending(table.store, far, Action.CLEAN)
    with pytest.raises(UnsupportedTableError, match="ahead of the clock"):
        table.upsert({"k1": (10, "b")})


@pytest.mark.parametrize("beat", ["none", "fresh", "old"])
def test_another_programs_pending_write(beat: str, table: SmallTable) -> None:
    time_ = format_instant(table.store.now_ms() - 1, table.handle.config.timezone)
    hoodie = root(table) / ".hoodie"
    put_pending(table.store, time_)
    table.upsert({"k1": (7, "b")})  # only requested: nothing has happened yet
    put_pending(table.store, time_, state=State.INFLIGHT)
    (root(table) / f"p=b/aaaa-0_1-2-3_{time_}.parquet").write_bytes(b"unfinished")
    if beat != "none":
        (hoodie / f".heartbeat/{time_}").write_bytes(b"")
        age = 10_000 if beat == "old" else 0
        os.utime(hoodie / f".heartbeat/{time_}", (time.time() - age, time.time() - age))
    if beat == "fresh":
        assert table.upsert({"k1": (8, "b")}).retries == 0
        assert (root(table) / f"p=b/aaaa-0_1-2-3_{time_}.parquet").exists()
        return
    with pytest.raises(ConflictError, match=f"rollback TABLE {time_}") as error:
        table.upsert({"k1": (8, "b")})
    assert error.value.exit_code == 5
    result = rollback(table.handle, time_)  # the remedy works, also without markers
    assert result.files_deleted == 1
    table.upsert({"k1": (8, "b")})
    assert rows_of(root(table)) == {**BASE, "k1": (8, "b")}
    assert leftovers(root(table)) == []


def test_another_programs_rollback_in_progress_blocks(table: SmallTable) -> None:
    time_ = format_instant(table.store.now_ms() - 1, table.handle.config.timezone)
    victim = table.handle.timeline().completed_writes[-1].time
    from parquetry.runtime.timeline.rollback import InstantInfo, RollbackPlan, RollbackRequest

    requests = tuple(
        RollbackRequest(partition="p=" + p, files=(str(file),))
        for p in "ab"
        for file in (root(table) / f"p={p}").glob("*.parquet")
    )
    plan = RollbackPlan(instant=InstantInfo(time=victim, action="commit"), requests=requests)
    put_pending(table.store, time_, Action.ROLLBACK, content=plan.encode())
    with pytest.raises(
        ConflictError, match=rf"rollback {time_} is in progress.*service rollback TABLE {victim}"
    ):
        table.upsert({"k1": (8, "b")})
    assert rollback(table.handle, victim).rollback == time_  # the remedy works
    assert rows_of(root(table)) == {}
    table.upsert({"k1": (8, "b")})
    assert rows_of(root(table)) == {"k1": (8, "b")}


def test_another_programs_pending_clustering(table: SmallTable) -> None:
    handle = table.handle
    (part,) = handle.view(handle.timeline()).slices("p=b")
    time_ = format_instant(table.store.now_ms(), handle.config.timezone)
    piece = ClusteringSlice(partition="p=b", file_id=part.file_id, path=f"{table.store.uri}/{part.path}")
    plan = ClusteringPlan(groups=(ClusteringGroup(slices=(piece,)),))
    requested = pending(table.store, time_, Action.REPLACECOMMIT, is_clustering=True)
    table.store.put(requested.path, RequestedReplace(operation="CLUSTER", plan=plan).encode())
    with pytest.raises(ConflictError, match=f"the pending clustering {time_}"):
        table.upsert({"k1": (9, "b")})
    assert leftovers(root(table)) == [requested.file_name]
    # Its files are not filled, everything else goes on.
    result = replace(table, small_file_rows=100).insert({"n": (1, "b")})
    assert (result.files_added, result.files_rewritten) == (1, 0)
    table.upsert({"k2": (9, "a")})
    with pytest.raises(ConflictError, match=f"the pending clustering {time_}"):
        table.overwrite({"z": (1, "b")})
    rollback(table.handle, time_)  # the remedy works
    table.upsert({"k1": (9, "b")})
    assert rows_of(root(table)) == {**BASE, "k1": (9, "b"), "k2": (9, "a"), "n": (1, "b")}


def test_a_lock_by_hand_is_removed_by_hand(table: SmallTable) -> None:
    table.store.put(".hoodie/.aux/lock", b"somebody")
    with pytest.raises(ConflictError, match="held by another program \\(somebody\\)"):
        table.upsert({"k1": (8, "b")})
    assert rows_of(root(table)) == BASE
    assert unlock(table.handle).holder == "another program (somebody)"
    table.upsert({"k1": (8, "b")})
    assert rows_of(root(table)) == {**BASE, "k1": (8, "b")}
    with pytest.raises(StorageError, match="not locked"):
        unlock(table.handle)
    assert leftovers(root(table)) == []


def test_unlocking_a_living_writer_makes_it_start_again(table: SmallTable) -> None:
    tampered: list[str] = []

    class Unlocking(WrappedStore):
        def before(self, kind: Kind, path: str) -> None:
            if kind is Kind.PUT_IF_ABSENT and path.endswith(".commit") and not tampered:
                tampered.append(path)
                unlock(table.handle, timing=FAST)

    result = replace(table, store=Unlocking(table.store)).upsert({"k1": (9, "b")})
    assert result.retries == 1
    assert rows_of(root(table)) == view_rows(root(table)) == {**BASE, "k1": (9, "b")}
    assert leftovers(root(table)) == []


def test_lost_answers_change_nothing(tmp_path: Path) -> None:
    make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=3)
    table = SmallTable(store=LostAnswerStore(open_store(tmp_path / "t")), services=True)
    table.upsert(BASE)
    for n in range(16):
        result = table.upsert({"k1": (n, "b")})
        assert (result.retries, result.warnings) == (0, ())
    assert rows_of(tmp_path / "t") == view_rows(tmp_path / "t") == {**BASE, "k1": (15, "b")}
    assert leftovers(tmp_path / "t") == []
    assert len(table.handle.timeline().completed_writes) < 16


def test_an_unknown_outcome_is_not_undone(table: SmallTable) -> None:
    class Unknown(WrappedStore):
        def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
            outcome = self.inner.put_if_absent(path, data, nonce=nonce)
            if path.endswith(".commit"):
                raise UnknownOutcomeError("the connection was lost")
            return outcome

    with pytest.raises(UnknownOutcomeError):
        replace(table, store=Unknown(table.store)).upsert({"k1": (9, "b")})
    assert rows_of(root(table)) == {**BASE, "k1": (9, "b")}
    table.upsert({"k3": (9, "b")})
    assert rows_of(root(table)) == {**BASE, "k1": (9, "b"), "k3": (9, "b")}


def test_a_commit_whose_lock_went_to_another_program_that_keeps_it_is_told_as_one(table: SmallTable) -> None:
    class Overtaken(WrappedStore):
        def after(self, kind: Kind, path: str) -> None:
            if kind is Kind.PUT_IF_ABSENT and path.endswith(".commit"):
                self.inner.put(DEFAULT_LOCK_PATH, b"a Hudi writer")

    result = replace(table, store=Overtaken(table.store)).upsert({"k1": (9, "b")})
    assert result.instant == table.handle.timeline().completed_writes[-1].time
    assert "is complete, but could not be checked again" in result.warnings[0]
    assert rows_of(root(table)) == {**BASE, "k1": (9, "b")}


def test_a_write_that_was_rolled_back_at_its_commit_is_no_success_if_a_listing_fails(
    table: SmallTable,
) -> None:
    class Overtaken(WrappedStore):
        """Another writer takes this one for dead, and has not removed its lock yet; one listing has no answer."""

        is_overtaken = False

        def before(self, kind: Kind, path: str) -> None:
            if kind is Kind.LIST and self.is_overtaken:
                self.is_overtaken = False
                raise StorageError("no answer")
            if kind is Kind.PUT_IF_ABSENT and path.endswith(".commit"):
                self.is_overtaken = True
                timeline = table.handle.timeline()
                (victim,) = timeline.pending_writes
                with open_session(
                    self.inner,
                    purpose="recovery",
                    after=timeline.last_instant,
                    zone=timeline.layout.timezone,
                    timing=FAST,
                ) as session:
                    assert roll_back(session, timeline, victim) is not None

    with pytest.raises(StorageError, match="no answer"):
        replace(table, store=Overtaken(table.store)).upsert({"k1": (9, "b")})
    table.upsert({"k3": (9, "b")})
    assert rows_of(root(table)) == {**BASE, "k3": (9, "b")}


def test_a_commit_that_lost_its_lock_is_checked_again_if_a_listing_fails(table: SmallTable) -> None:
    class Overtaken(WrappedStore):
        """Another program removes the lock and commits a change of the same file; one listing has no answer."""

        is_overtaken = False
        commits = 0

        def before(self, kind: Kind, path: str) -> None:
            if kind is Kind.LIST and self.is_overtaken:
                self.is_overtaken = False
                raise StorageError("no answer")
            if kind is Kind.PUT_IF_ABSENT and path.endswith(".commit"):
                self.commits += 1
                if self.commits == 1:
                    self.is_overtaken = True
                    self.inner.delete(DEFAULT_LOCK_PATH)
                    timeline = table.handle.timeline()
                    last = timeline.commit_metadata(timeline.completed_writes[-1].time)
                    time_ = str(int(timeline.last_instant or "") + 1)
                    put_pending(self.inner, time_)
                    put_completed(self.inner, time_, Action.COMMIT, replace(last, extra={}))

    table.upsert({"k1": (8, "b")})
    result = replace(table, store=Overtaken(table.store)).upsert({"k1": (9, "b")})
    assert (result.retries, result.warnings) == (1, ())


class FlakyStore(WrappedStore):
    """Fails once, at the given operation of any kind."""

    def __init__(self, inner: ObjectStore, fail_at: int) -> None:
        super().__init__(inner)
        self.fail_at = fail_at
        self.seen = 0

    def before(self, kind: Kind, path: str) -> None:
        self.seen += 1
        if self.seen == self.fail_at:
            raise StorageError(f"cannot {kind} {path}: the network is down; try again")


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
def test_one_failing_request_never_makes_the_answer_wrong(
    step: int, table: SmallTable, tmp_path: Path
) -> None:
    told = Counter()
    for number in range(1, 1000, step):
        path = tmp_path / f"t{number}"
        shutil.copytree(root(table), path)
        store = FlakyStore(open_store(path), number)
        flaky = SmallTable(store=store, services=True)
        new = {**BASE, "k1": (9, "b"), "n": (1, "d")}
        try:
            result = flaky.upsert({"k1": (9, "b"), "n": (1, "d")})
        except ParquetryError:
            answer, expected = "failed", BASE
        else:
            answer, expected = "warned" if result.warnings else "fine", new
        told[answer] += 1
        assert rows_of(path) == view_rows(path) == expected, f"{number}: {answer}"
        if store.seen < number:
            break
        SmallTable(store=open_store(path)).upsert({"k3": (9, "b")})
        clean(SmallTable(store=open_store(path)).handle, timing=replace(FAST, dead_after_seconds=0.0))
        assert leftovers(path) == [], number
        shutil.rmtree(path)
    print(dict(told))
    assert min(told["failed"], told["fine"]) > 0


def test_due_services_never_fail_the_write(tmp_path: Path) -> None:
    class CleanFails(WrappedStore):
        def before(self, kind: Kind, path: str) -> None:
            if ".clean" in path:
                raise StorageError(f"cannot {kind} {path}: no space; free some")

    make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=3)
    table = SmallTable(store=CleanFails(open_store(tmp_path / "t")), services=True)
    table.upsert(BASE)
    for n in range(20):
        result = table.upsert({"k1": (n, "b")})
    assert result.instant is not None
    assert any("no space" in warning for warning in result.warnings)
    assert result.instants_archived == 0  # never before a clean
    assert rows_of(tmp_path / "t") == {**BASE, "k1": (19, "b")}


def test_the_requests_of_an_upsert_are_counted(table: SmallTable, tmp_path: Path) -> None:
    counting = CountingStore(table.store, tmp_path / "calls")
    small = replace(table, store=counting)
    handle = small.handle
    assert handle is not None
    counting.reset()
    small.upsert({"k1": (9, "b")})
    counts = counting.counts()
    print(dict(counts))
    folder = timeline_of(table.store).layout.NAMES.folder
    hoodie_lists = [path for kind, path in counting.calls() if kind is Kind.LIST and path == folder]
    assert len(hoodie_lists) <= 6
    assert counts[Kind.CREATE_FILE] == 1
    assert sum(counts.values()) <= 60


@pytest.mark.parametrize(("scheme", "options"), [("s3", "s3_options"), ("gs", "gcs_options")])
def test_the_protocol_in_a_bucket(scheme: str, options: str, request: pytest.FixtureRequest) -> None:
    store = open_store(f"{scheme}://{BUCKET}/protocol/small", request.getfixturevalue(options))
    make_table_at = make_table_in(store)
    make_table_at.upsert(BASE)
    result = make_table_at.upsert({"k1": (9, "b"), "n": (1, "c")})
    assert result.retries == 0
    make_table_at.overwrite({"z": (1, "a")})
    for n in range(4):
        make_table_at.upsert({"z": (n, "a")})
    assert clean(make_table_at.handle, timing=FAST).files_deleted > 0
    handle = make_table_at.handle
    view = handle.view(handle.timeline())
    names = {json.dumps(part.path) for part in view.all_slices()}
    assert len(names) == 3
    assert [instant for instant in handle.timeline().instants if not instant.is_completed] == []
    assert store.list(".hoodie/.heartbeat") == []


def make_table_in(store: ObjectStore) -> SmallTable:
    from parquetry.runtime.spec.table_spec import RetentionPolicy, TableSpec
    from parquetry.runtime.table.applied import write_applied
    from parquetry.runtime.table.handle import create_table

    spec = TableSpec(
        name="small",
        columns=COLUMNS,
        record_key=("id",),
        partition_by=("p",),
        retention=RetentionPolicy(keep_commits=1),
    )
    create_table(store, spec, project="tests")
    write_applied(store, spec, number=1)
    return SmallTable(store=store, timing=replace(FAST, dead_after_seconds=10.0))
