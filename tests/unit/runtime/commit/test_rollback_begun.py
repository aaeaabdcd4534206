"""A write that is being rolled back: what others do at that moment neither builds on it nor buries it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.message import Value
from parquetry.runtime.commit.claims import open_session
from parquetry.runtime.commit.lock_file import DEFAULT_LOCK_PATH
from parquetry.runtime.commit.rollback import roll_back
from parquetry.runtime.errors import ConflictError, StorageError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.instant import Action
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import Kind, Stopped, WrappedStore
from tests.support.timelines import completed, put_completed, timeline_of

pytestmark = pytest.mark.usefixtures("on_each_version")

BASE = {"k1": (1, "a"), "k2": (1, "a"), "z": (1, "b")}
BY_NUMBER = RetentionPolicy(keep_commits=None, keep_versions=1)


class MeanwhileStore(WrappedStore):
    """Lets something happen, once, before the first request of that kind for such a path."""

    def __init__(self, inner: ObjectStore, kind: Kind, path: str, meanwhile: Callable[[], object]) -> None:
        super().__init__(inner)
        self.point = (kind, path)
        self.pending = [meanwhile]

    def before(self, kind: Kind, path: str) -> None:
        if self.pending and kind is self.point[0] and path.endswith(self.point[1]):
            self.pending.pop()()


class DyingStore(WrappedStore):
    """Ends its user when a rollback is requested, before anything is deleted, or at ``point``."""

    def __init__(
        self, inner: ObjectStore, point: tuple[Kind, str] = (Kind.PUT_IF_ABSENT, ".rollback.requested")
    ) -> None:
        super().__init__(inner)
        self.point = point

    def after(self, kind: Kind, path: str) -> None:
        if kind is self.point[0] and path.endswith(self.point[1]):
            raise Stopped


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def table(path: Path) -> SmallTable:
    table = make_table(path)
    table.upsert(BASE)
    return table


def roll_newest_back_and_die(table: SmallTable) -> None:
    doomed = replace(table, store=DyingStore(table.store)).handle
    with pytest.raises(Stopped):
        rollback(doomed, doomed.timeline().completed_writes[-1].time, timing=FAST)


def beside_a_dying_rollback(table: SmallTable, kind: Kind, point: str) -> SmallTable:
    """A writer during whose work, at that point, another begins to roll the newest write back, and dies."""
    return replace(
        table,
        store=MeanwhileStore(table.store, kind, point, lambda: roll_newest_back_and_die(table)),
    )


class TestBesideARollbackThatItsExecutorLeft:
    @pytest.fixture(autouse=True)
    def newest(self, table: SmallTable) -> None:
        table.upsert({"k1": (50, "a"), "new": (1, "c")})

    def test_a_write_starts_again_without_what_is_taken_back(self, table, path) -> None:
        result = beside_a_dying_rollback(table, Kind.PUT_IF_ABSENT, ".commit.requested").upsert(
            {"k2": (9, "a")}
        )
        assert result.retries == 1
        assert "is being rolled back" in result.retry_reasons[0]
        assert rows_of(path) == view_rows(path) == {**BASE, "k2": (9, "a")}
        table.upsert({"x": (1, "d")})
        assert rows_of(path) == view_rows(path) == {**BASE, "k2": (9, "a"), "x": (1, "d")}

    def test_a_clean_leaves_what_the_rollback_uncovers(self, table, path) -> None:
        writer = beside_a_dying_rollback(table, Kind.PUT_IF_ABSENT, ".aux/lock")
        assert clean(writer.handle, policy=BY_NUMBER, timing=FAST).files_deleted == 0
        assert rows_of(path) == view_rows(path) == BASE

    def test_a_savepoint_holds_what_stays(self, table, path) -> None:
        writer = beside_a_dying_rollback(table, Kind.PUT_IF_ABSENT, ".aux/lock")
        saved = create_savepoint(writer.handle, timing=FAST).instant
        table.upsert({"x": (1, "d")})
        restore(table.handle, saved, timing=FAST)
        assert rows_of(path) == view_rows(path) == BASE


def test_a_clean_deletes_nothing_for_the_sake_of_an_overwrite_that_was_undone(table, path) -> None:
    """Its writer slept after its files, was taken for dead and rolled back, and wakes up with its last step."""
    slept: list[str] = []

    def sleep_for_ever(txn) -> None:
        slept.append(txn.instant)
        raise Stopped

    with pytest.raises(Stopped):
        replace(table, before_publish=sleep_for_ever).overwrite({"n": (1, "a")})
    overwriting = path.parent / "copy"
    shutil.copytree(path, overwriting)
    other = replace(table, store=open_store(overwriting))
    commit = other.overwrite({"n": (1, "a")}).instant
    said = other.store.read(completed(other.store, str(commit), Action.REPLACECOMMIT).path)
    table.upsert({"z": (2, "b")})  # rolls it back

    def wake_up() -> None:
        put_completed(table.store, slept[0], Action.REPLACECOMMIT, said)

    store = MeanwhileStore(table.store, Kind.PUT_IF_ABSENT, ".aux/lock", wake_up)
    clean(replace(table, store=store).handle, policy=BY_NUMBER, timing=FAST)
    table.upsert({"x": (1, "d")})
    assert rows_of(path) == view_rows(path) == {**BASE, "z": (2, "b"), "x": (1, "d")}


def test_a_write_that_claimed_its_instant_before_a_restore_and_began_after_it_is_newer(table, path) -> None:
    saved = create_savepoint(table.handle, timing=FAST).instant
    table.upsert({"k1": (50, "a")})

    def go_back() -> None:
        restore(table.handle, saved, timing=FAST)

    store = MeanwhileStore(table.store, Kind.PUT_IF_ABSENT, ".commit.requested", go_back)
    result = replace(table, store=store).upsert({"k2": (9, "a")})
    timeline = table.handle.timeline()
    # Once it is archived, what lies between a savepoint and its restore is taken for undone.
    assert not timeline.was_rolled_back(result.instant)
    assert result.retries == 0
    assert timeline.of(Action.RESTORE)[0].time < result.instant
    assert rows_of(path) == view_rows(path) == {**BASE, "k2": (9, "a")}


def test_a_published_write_without_files_that_may_not_stand_is_undone_whole(table, path) -> None:
    """Its lock was taken away as it published, and another program changed what it does away with."""
    (base,) = (part for part in table.handle.view(table.handle.timeline()).slices("p=a"))
    theirs = WriteStat(
        file_id=base.file_id, partition_path="p=a", prev_commit=base.instant, num_update_writes=1
    )
    published: list[str] = []

    class OvertakenStore(WrappedStore):
        def after(self, kind: Kind, path: str) -> None:
            if kind is Kind.PUT_IF_ABSENT and path.endswith(".replacecommit") and not published:
                published.append(path)
                self.inner.delete(DEFAULT_LOCK_PATH)
                foreign = CommitMetadata(operation="UPSERT", stats={"p=a": (theirs,)})
                newest = timeline_of(self.inner).last_instant
                put_completed(self.inner, str(int(newest) + 1), Action.COMMIT, foreign)

    result = replace(table, store=OvertakenStore(table.store)).delete_partition("p=a")
    assert result.retries == 1
    assert table.store.stat(published[0]) is None
    assert [i.time for i in table.handle.timeline().of(Action.REPLACECOMMIT)] == [result.instant]
    assert rows_of(path) == view_rows(path) == {"z": (1, "b")}


TAKES_ALL_FOR_DEAD = replace(FAST, dead_after_seconds=-1.0)


class TestOfAHolderOfTheLockThatSleeps:
    """Another takes it for dead, and it wakes up with its next step."""

    @pytest.mark.parametrize(
        "point",
        [(Kind.PUT_IF_ABSENT, ".rollback.requested"), (Kind.LIST, "/stats")],
        ids=["before", "after its files are deleted"],
    )
    def test_a_write_whose_rollback_was_begun_by_one_that_died_over_it_is_done_again(
        self, point: tuple[Kind, str], table, path
    ) -> None:
        def take_the_lock_and_die() -> None:
            with pytest.raises(Stopped):
                replace(table, store=DyingStore(table.store, point), timing=TAKES_ALL_FOR_DEAD).upsert(
                    {"x": (1, "d")}
                )

        store = MeanwhileStore(table.store, Kind.PUT_IF_ABSENT, ".commit", take_the_lock_and_die)
        result = replace(table, store=store).upsert({"k2": (9, "a")})
        assert result.retries == 1
        table.upsert({"y": (1, "d")})
        assert rows_of(path) == view_rows(path) == {**BASE, "k2": (9, "a"), "y": (1, "d")}
        assert table.handle.timeline().is_completed(result.instant)

    def test_a_rollback_leaves_a_write_that_others_have_built_on(self, table, path) -> None:
        victim = table.overwrite({"n": (1, "a")}).instant

        def build_on_it() -> None:
            replace(table, timing=TAKES_ALL_FOR_DEAD).overwrite({"m": (2, "a")})

        store = MeanwhileStore(table.store, Kind.PUT_IF_ABSENT, ".rollback.requested", build_on_it)
        with pytest.raises(ConflictError, match=f"{victim} was not rolled back"):
            rollback(replace(table, store=store).handle, victim, timing=FAST)
        table.upsert({"x": (1, "d")})
        assert rows_of(path) == view_rows(path) == {"m": (2, "a"), "z": (1, "b"), "x": (1, "d")}

    @pytest.mark.parametrize("action", ["rollback", "restore"])
    def test_a_request_that_another_has_carried_out_is_not_withdrawn(self, action: str, table, path) -> None:
        saved = create_savepoint(table.handle, timing=FAST).instant
        table.upsert({"k1": (2, "a")})

        class OvertakenStore(WrappedStore):
            def after(self, kind: Kind, path: str) -> None:
                if kind is Kind.PUT_IF_ABSENT and path.endswith(f".{action}.requested"):
                    replace(table, timing=TAKES_ALL_FOR_DEAD).upsert({"x": (1, "d")})

        handle = replace(table, store=OvertakenStore(table.store)).handle
        if action == "restore":
            with pytest.raises(ConflictError, match="another process executes the restore"):
                restore(handle, saved, timing=FAST)
        else:
            rollback(handle, handle.timeline().completed_writes[-1].time, timing=FAST)
        table.upsert({"y": (1, "d")})
        assert rows_of(path) == view_rows(path) == {**BASE, "x": (1, "d"), "y": (1, "d")}

    def test_a_clean_that_another_has_carried_out_keeps_its_plan(self, table, path) -> None:
        table.upsert({"k1": (2, "a")})

        class OvertakenStore(WrappedStore):
            def after(self, kind: Kind, path: str) -> None:
                if kind is Kind.PUT_IF_ABSENT and path.endswith(".clean.requested"):
                    table.store.delete(DEFAULT_LOCK_PATH)
                    clean(table.handle, policy=BY_NUMBER, timing=FAST)

        handle = replace(table, store=OvertakenStore(table.store)).handle
        assert clean(handle, policy=BY_NUMBER, timing=FAST).files_deleted == 1
        timeline = table.handle.timeline()
        (done,) = timeline.of(Action.CLEAN)
        # Hudi's archival reads it.
        assert timeline.cleaner_plan(done.time).files
        assert rows_of(path) == view_rows(path) == {**BASE, "k1": (2, "a")}

    def test_a_rollback_of_what_is_published_by_then_is_given_up(self, table, path) -> None:
        seen: list[Timeline] = []
        writer = replace(table, before_publish=lambda txn: seen.append(txn.timeline.reload()))
        published = writer.upsert({"k2": (9, "a")}).instant
        zone = table.handle.config.timezone
        pending = seen[0].write_at(published)
        with open_session(table.store, purpose="x", after=published, zone=zone, timing=FAST) as session:
            assert roll_back(session, seen[0], pending) is None
            session.acknowledge()
        assert table.handle.timeline().of(Action.ROLLBACK) == ()
        assert rows_of(path) == view_rows(path) == {**BASE, "k2": (9, "a")}


def test_the_log_of_a_marker_that_stays_names_no_partition(table, caplog):
    """The partition of a marker may be personal; a rollback knows no spec."""
    newest = table.upsert({"z": (2, "b")}).instant

    def refuse() -> None:
        raise StorageError(
            "cannot delete {uri}", uri=Value.uri(f"{table.store.uri}/.hoodie/.temp/{newest}/p=b/x")
        )

    stuck = replace(table, store=MeanwhileStore(table.store, Kind.DELETE_FOLDER, newest, refuse))
    rollback(stuck.handle, newest, timing=FAST)
    assert f"markers and heartbeat of {newest} are left behind: cannot delete ***" in caplog.text
    assert "p=b" not in caplog.text
