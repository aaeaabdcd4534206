"""Going back, by rollback, savepoint, restore or a read of the past: the rows of that time, or a refusal."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean, clean_if_due
from parquetry.runtime.services.clean_plan import cleaner_plan, plan_expiry
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.retention import KEEP_LATEST_COMMITS, Horizon
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.rollback import InstantInfo, RollbackMetadata
from parquetry.runtime.timeline.sidecars import CLAIMS_FOLDER
from parquetry.runtime.timeline.versions import cleanable_slices_as_of, slices_as_of
from tests.support.handmade import HandmadeTable, at
from tests.support.small_table import FAST, Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import CountingStore, Kind, Stopped, WrappedStore
from tests.support.timelines import pending, put_completed

pytestmark = pytest.mark.usefixtures("on_each_version")

BASE = {"k1": (1, "a"), "k2": (1, "a"), "z": (1, "b")}
BY_NUMBER = RetentionPolicy(keep_commits=None, keep_versions=1)
KEEP_ONE = RetentionPolicy(keep_commits=1, archive_keep_commits=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def table(path: Path) -> SmallTable:
    table = make_table(path, keep_commits=1)
    table.upsert(BASE)
    return table


def with_personal(handle: TableHandle, name: str) -> TableHandle:
    """The table whose column holds personal data."""
    assert handle.spec is not None
    columns = tuple(replace(column, pii=column.name == name) for column in handle.spec.columns)
    return replace(handle, spec=replace(handle.spec, columns=columns))


def writes(table: SmallTable) -> list[str]:
    return [write.time for write in table.handle.timeline().completed_writes]


def read_as_of(table: SmallTable, time: str) -> Rows:
    """What the table read as of that time answers, or refuses."""
    handle = table.handle
    handle.view(handle.timeline()).check_time_travel(time)
    return view_rows(table.store.uri, time)


def beside(table: SmallTable, meanwhile: Callable[[], object], rows: Rows) -> CommitResult:
    """An upsert that is pending while something else happens."""
    done: list[object] = []
    return replace(table, before_publish=lambda _: done or done.append(meanwhile())).upsert(rows)


class TestRollback:
    def refused(self, table: SmallTable, path: Path) -> None:
        before = rows_of(path)
        newest = writes(table)[-1]
        with pytest.raises(
            InvalidDataError, match=rf"{newest} cannot be rolled back: the previous version of p=. *"
        ):
            rollback(table.handle, newest, timing=FAST)
        with pytest.raises(InvalidDataError, match=r"the previous version of p=\*\*\*/"):
            rollback(with_personal(table.handle, "p"), newest, timing=FAST)
        assert writes(table)[-1] == newest
        assert rows_of(path) == view_rows(path) == before
        assert table.handle.timeline().of(Action.ROLLBACK)[1:] == ()

    def test_of_one_write_after_the_other_stops_where_versions_were_cleaned(self, table, path) -> None:
        for n in (2, 3):
            table.upsert({"k1": (n, "a")})
        clean(table.handle, timing=FAST)
        rollback(table.handle, writes(table)[-1], timing=FAST)
        assert rows_of(path) == {**BASE, "k1": (2, "a")}
        self.refused(table, path)
        table.upsert({"k1": (1, "a")})  # the remedy
        assert rows_of(path) == BASE

    @pytest.mark.parametrize("write", ["upsert", "overwrite"])
    def test_of_what_uncovers_versions_cleaned_by_number_is_refused(self, table, path, write) -> None:
        getattr(table, write)({"k1": (2, "a")})
        clean(table.handle, policy=BY_NUMBER, timing=FAST)
        self.refused(table, path)

    def test_of_what_uncovers_a_version_whose_commit_was_archived_is_refused(self, table, path) -> None:
        table.upsert({"z": (2, "b")})
        assert archive(table.handle, policy=KEEP_ONE, timing=FAST).instants
        table.upsert({"k1": (2, "a")})
        clean(table.handle, policy=BY_NUMBER, timing=FAST)
        self.refused(table, path)

    def test_an_older_version_that_a_savepoint_kept_is_not_the_one_before(self, table, path) -> None:
        create_savepoint(table.handle, timing=FAST)
        table.upsert({"k1": (2, "a")})
        table.overwrite({"n": (1, "a")})
        clean(table.handle, policy=BY_NUMBER, timing=FAST)
        self.refused(table, path)

    def test_waits_for_another_programs_clean(self, table, path) -> None:
        table.upsert({"k1": (2, "a")})
        handle = table.handle
        timeline = handle.timeline()
        newest = writes(table)[-1]
        limits = Horizon(earliest=newest, keep_versions=1, policy=KEEP_LATEST_COMMITS)
        plan = cleaner_plan(table.store, timeline, plan_expiry(handle.view(timeline), limits, ["p=a"]))
        requested = pending(table.store, f"{int(timeline.last_instant) + 1}", Action.CLEAN)
        table.store.put(requested.path, plan.encode())
        with pytest.raises(ConflictError, match=f"clean {requested.time}"):
            rollback(table.handle, newest, timing=FAST)
        table.store.delete(requested.path)
        rollback(table.handle, newest, timing=FAST)
        assert rows_of(path) == view_rows(path) == BASE

    def test_of_the_only_write_is_refused(self, path) -> None:
        table = make_table(path)
        (created,) = writes(table)
        with pytest.raises(InvalidDataError, match=f"{created} is the only completed write"):
            rollback(table.handle, created, timing=FAST)
        assert writes(table) == [created]
        assert table.upsert(BASE).retries == 0
        assert rows_of(path) == view_rows(path) == BASE


class TestSavepointBesideAnOlderWrite:
    def test_holds_what_no_unfinished_write_lies_before(self, table, path) -> None:
        settled = writes(table)[-1]

        def meanwhile() -> None:
            newer = SmallTable(store=table.store).upsert({"z": (2, "b")}).instant
            with pytest.raises(ConflictError, match=f"choose {settled}"):
                create_savepoint(table.handle, newer, timing=FAST)
            assert create_savepoint(table.handle, timing=FAST).instant == settled

        beside(table, meanwhile, {"k1": (2, "a")})
        for n in (3, 4):
            table.upsert({"k1": (n, "a")})
        clean(table.handle, timing=FAST)
        assert read_as_of(table, settled) == rows_of(path, as_of=settled) == BASE
        restore(table.handle, settled, timing=FAST)
        assert rows_of(path) == view_rows(path) == BASE

    def test_of_another_program_makes_the_older_write_start_again(self, table, path) -> None:
        def as_hudi_does() -> None:
            newer = SmallTable(store=table.store).upsert({"z": (2, "b")}).instant
            names = {}
            handle = table.handle
            for part in handle.view(handle.timeline()).all_slices():
                names.setdefault(part.partition, []).append(part.path.rpartition("/")[2])
            saved.update(time=str(newer), rows=view_rows(path))
            put_savepoint(table, str(newer), {p: tuple(found) for p, found in names.items()})

        saved: dict[str, object] = {}
        result = beside(table, as_hudi_does, {"k1": (2, "a")})
        assert result.retries == 1
        assert f"a savepoint of {saved['time']}" in result.retry_reasons[0]
        for n in (3, 4):
            table.upsert({"k1": (n, "a")})
        clean(table.handle, timing=FAST)
        assert read_as_of(table, str(saved["time"])) == saved["rows"]

    def test_waits_for_a_clustering_that_another_program_has_planned(self, tmp_path: Path) -> None:
        table = HandmadeTable(tmp_path / "h")
        table.commit("1", {"p=a": {"f-0": [("k", 1)]}})
        table.plan_clustering("2", {"p=a": ["f-0"]})
        table.commit("3", {"p=b": {"g-0": [("l", 1)]}})
        with pytest.raises(ConflictError, match=f"{at('3')} .* older write {at('2')} .* choose {at('1')}"):
            create_savepoint(table.open(), timing=FAST)
        assert create_savepoint(table.open(), at("1"), timing=FAST).instant == at("1")

    def test_that_holds_less_than_readers_see_is_not_restored(self, table, path) -> None:
        """Hudi makes such savepoints."""
        table.upsert({"k1": (2, "a")})
        time = writes(table)[-1]
        put_savepoint(table, time, {})
        for n in (3, 4):
            table.upsert({"k1": (n, "a")})
        clean(table.handle, timing=FAST)
        before = rows_of(path)
        with pytest.raises(InvalidDataError, match=f"p=a/.* of the savepoint {time} is missing"):
            restore(table.handle, time, timing=FAST)
        with pytest.raises(InvalidDataError, match=f"cannot be read as of {time}"):
            read_as_of(table, time)
        assert rows_of(path) == before


def put_savepoint(table: SmallTable, time: str, files: dict[str, tuple[str, ...]]) -> None:
    from parquetry.runtime.timeline.restore import SavepointMetadata

    record = SavepointMetadata(created_by="another program", created_at_ms=0, comments="", files=files)
    put_completed(table.store, time, Action.SAVEPOINT, record.encode())


class TestReadsOfThePast:
    def test_versions_kept_by_number_are_refused_where_one_is_gone(self, table, path) -> None:
        first = writes(table)[-1]
        table.upsert({"k1": (2, "a")})
        second = writes(table)[-1]
        table.upsert({"z": (2, "b")})
        two = RetentionPolicy(keep_commits=None, keep_versions=2)
        clean(table.handle, policy=two, timing=FAST)
        assert read_as_of(table, first) == BASE
        table.upsert({"k1": (3, "a")})
        clean(table.handle, policy=two, timing=FAST)
        with pytest.raises(InvalidDataError, match=f"as of {first}; ask for {second} or later"):
            read_as_of(table, first)
        assert read_as_of(table, second) == rows_of(path, as_of=second) == {**BASE, "k1": (2, "a")}

    def test_what_was_archived_is_refused_where_versions_are_kept_by_number(self, table) -> None:
        first = writes(table)[-1]
        table.upsert({"k1": (2, "a")})
        clean(table.handle, policy=BY_NUMBER, timing=FAST)
        table.upsert({"z": (2, "b")})
        archive(table.handle, policy=KEEP_ONE, timing=FAST)
        with pytest.raises(InvalidDataError, match=f"as of {first}; ask for {writes(table)[0]}"):
            read_as_of(table, first)

    def test_a_rule_that_keeps_more_brings_nothing_back(self, table) -> None:
        first = writes(table)[-1]
        for n in (2, 3):
            table.upsert({"k1": (n, "a")})
        clean(table.handle, policy=BY_NUMBER, timing=FAST)
        for n in (4, 5):
            table.upsert({"z": (n, "b")})
        kept = RetentionPolicy(keep_commits=4)
        assert clean(table.handle, policy=kept, timing=FAST).instant is None
        table.upsert({"z": (6, "b")})
        with pytest.raises(InvalidDataError, match="were cleaned"):
            read_as_of(table, first)
        assert read_as_of(table, writes(table)[-3])["z"] == (4, "b")

    def test_a_clean_under_way_counts(self, table) -> None:
        table.upsert({"k1": (2, "a")})
        first, second = writes(table)[-2:]
        table.upsert({"k1": (3, "a")})

        class DiesHavingDeleted(WrappedStore):
            def before(self, kind: Kind, path: str) -> None:
                if kind is Kind.PUT_IF_ABSENT and path.endswith(".clean"):
                    raise Stopped

        with pytest.raises(Stopped):
            clean(replace(table, store=DiesHavingDeleted(table.store)).handle, timing=FAST)
        with pytest.raises(InvalidDataError, match=f"as of {first}; ask for {second}"):
            read_as_of(table, first)
        assert read_as_of(table, second)["k1"] == (2, "a")

    def test_the_newest_write_is_whole_whatever_was_cleaned_before_later_ones_were_undone(
        self, table, path
    ) -> None:
        saved = create_savepoint(table.handle, timing=FAST).instant
        for n in range(3):
            table.upsert({"k1": (n, "a")})
        clean(table.handle, timing=FAST)
        restore(table.handle, saved, timing=FAST)
        delete_savepoint(table.handle, saved, timing=FAST)
        assert read_as_of(table, saved) == rows_of(path, as_of=saved) == BASE
        assert create_savepoint(table.handle, timing=FAST).instant == saved

    def test_what_is_named_instead_is_a_write_that_there_is(self, table) -> None:
        for n in range(3):
            table.upsert({"k1": (n, "a")})
        clean(table.handle, timing=FAST)
        *_, older, left, rolled_back = writes(table)
        rollback(table.handle, rolled_back, timing=FAST)
        for act in (read_as_of, lambda table, time: create_savepoint(table.handle, time, timing=FAST)):
            with pytest.raises(InvalidDataError, match=rf"versions before {left} were cleaned.*{left} or"):
                act(table, older)
        assert create_savepoint(table.handle, left, timing=FAST).instant == left

    def test_changes_up_to_a_pending_write_survive_a_clean_by_number(self, table) -> None:
        table.upsert({"k1": (2, "a")})
        settled = writes(table)[-1]

        def meanwhile() -> None:
            SmallTable(store=table.store).upsert({"k1": (3, "a")})
            clean(table.handle, policy=BY_NUMBER, timing=FAST)
            handle = table.handle
            timeline = handle.timeline()
            changes = handle.view(timeline).changed_between("0")
            # A pending write completes at a later position where completion times are kept.
            ends = {1: settled, 2: timeline.completed_writes[-1].position}
            assert changes.end == ends[timeline.layout.NUMBER]
            assert {part.partition for part in changes.slices} == {"p=a", "p=b"}
            assert read_as_of(table, settled)["k1"] == (2, "a")

        beside(table, meanwhile, {"n": (1, "c")})
        cleaned = clean_if_due(table.handle, policy=BY_NUMBER, timing=FAST)
        assert cleaned is not None
        assert cleaned.files_deleted == 2

    def test_a_clean_by_number_beside_a_write_leaves_the_times_readable_whose_versions_are_there(
        self, table, path
    ) -> None:
        two = RetentionPolicy(keep_commits=None, keep_versions=2)
        for n in (2, 3, 4):
            table.upsert({"k1": (n, "a")})
        _, first, _, kept, newest = writes(table)

        def meanwhile() -> None:
            assert clean(table.handle, policy=two, timing=FAST).files_deleted == 2
            timeline = table.handle.timeline()
            # Hudi's archival goes by the plan: without a limit it takes all replaced files for deleted.
            assert (
                timeline.cleaner_plan(timeline.of(Action.CLEAN)[-1].time).earliest_commit_to_retain == newest
            )
            SmallTable(store=table.store).upsert({"k1": (5, "a")})
            again = clean_if_due(table.handle, policy=two, timing=FAST)
            assert again is not None
            assert clean_if_due(table.handle, policy=two, timing=FAST) is None
            assert table.handle.timeline().earliest_retained is None
            assert read_as_of(table, newest)["k1"] == (4, "a")
            assert read_as_of(table, kept) == {**BASE, "k1": (3, "a")}
            assert create_savepoint(table.handle, kept, timing=FAST).instant == kept

        beside(table, meanwhile, {"n": (1, "c")})
        with pytest.raises(InvalidDataError, match=f"as of {first}; ask for {kept} or later"):
            read_as_of(table, first)
        assert read_as_of(table, kept) == rows_of(path, as_of=kept) == {**BASE, "k1": (3, "a")}

    def test_what_a_clean_by_number_held_back_goes_when_the_write_has_ended(self, table, path) -> None:
        for n in (2, 3):
            table.upsert({"k1": (n, "a")})

        def meanwhile() -> None:
            other = SmallTable(store=table.store)
            other.upsert({"k1": (4, "a")})
            other.upsert({"z": (2, "b")})
            assert clean(table.handle, policy=BY_NUMBER, timing=FAST).files_deleted == 1

        beside(table, meanwhile, {"n": (1, "c")})
        cleaned = clean_if_due(table.handle, policy=BY_NUMBER, timing=FAST)
        assert cleaned is not None
        assert cleaned.files_deleted == 3
        assert clean_if_due(table.handle, policy=BY_NUMBER, timing=FAST) is None
        assert rows_of(path) == {**BASE, "k1": (4, "a"), "z": (2, "b"), "n": (1, "c")}

    def test_a_clustering_plan_that_waits_holds_no_clean_by_number_up_and_blocks_no_time(
        self, tmp_path: Path
    ) -> None:
        table = HandmadeTable(tmp_path / "h")
        table.commit("1", {"p=a": {"f-0": [("k", 1)]}, "p=b": {"g-0": [("l", 1)]}})
        table.plan_clustering("2", {"p=b": ["g-0"]})
        for time in "345":
            table.commit(time, {"p=a": {"f-0": [("k", int(time))]}})
        two = RetentionPolicy(keep_commits=None, keep_versions=2)
        assert clean(table.open(), policy=two, timing=FAST).files_deleted == 2
        assert table.open().timeline().earliest_retained is None
        table.view().check_time_travel(at("4"))


class TestWhatReadsOfThePastAskFor:
    """Few requests, however long the timeline is."""

    @pytest.mark.parametrize(
        ("policy", "most_reads"),
        [(RetentionPolicy(keep_commits=None, keep_versions=2), 2), (RetentionPolicy(keep_commits=2), 3)],
    )
    def test_one_write_back(self, table, tmp_path: Path, policy, most_reads) -> None:
        for n in range(10):
            table.upsert({"k1": (n, "a")})
            clean(table.handle, policy=policy, timing=FAST)
        assert len(table.handle.timeline().of(Action.CLEAN)) > most_reads + 2
        *_, before, _ = writes(table)
        store = CountingStore(table.store, tmp_path / "log")
        handle = open_table(store)
        view = handle.view(handle.timeline())
        store.reset()
        view.check_time_travel(before)
        view.changed_between("0", before)
        # Layout 2 also asks the archive for completion times.
        archive_requests = {1: 0, 2: 2}[view.timeline.layout.NUMBER]
        assert store.counts()[Kind.READ] <= most_reads + archive_requests
        assert store.counts()[Kind.LIST] <= 2 + archive_requests  # the folders that are read then

    def test_cleans_stand_in_the_order_of_what_they_saw(self, table) -> None:
        """A clean that takes its instant, and is overtaken by writes and another clean, takes a new one."""
        for n in (2, 3):
            table.upsert({"k1": (n, "a")})
        done: list[object] = []

        class Overtaken(WrappedStore):
            def after(self, kind: Kind, path: str) -> None:
                if kind is Kind.PUT_IF_ABSENT and path.startswith(CLAIMS_FOLDER) and not done:
                    done.append(clean(table.handle, policy=KEEP_ONE, timing=FAST))
                    table.upsert({"k1": (4, "a")})

        late = clean(replace(table, store=Overtaken(table.store)).handle, policy=KEEP_ONE, timing=FAST)
        timeline = table.handle.timeline()
        assert late.files_deleted == 1
        assert len(done) == 1
        seen = [timeline.clean_metadata(c.time).last_completed_commit for c in timeline.of(Action.CLEAN)]
        assert len(seen) == 2
        assert seen == sorted(seen)

    def test_what_later_writes_tell_is_what_all_writes_tell(self, path) -> None:
        table = make_table(path)
        choices = random.Random(7)
        table.upsert(BASE)
        for n in range(16):
            partition = choices.choice("abc")
            act = choices.choice([table.upsert, table.upsert, table.insert, table.overwrite])
            act({f"k{choices.randrange(3) if act == table.upsert else n + 9}": (n, partition)})
        timeline = table.handle.timeline()
        view = table.handle.view(timeline)
        for time in writes(table)[:-1]:
            every, some = slices_as_of(timeline, time), cleanable_slices_as_of(timeline, time)
            assert some == {group: every[group] for group in some}
            newest = {(part.partition, part.file_id): part.instant for part in view.all_slices()}
            assert all(newest[group] == instant for group, instant in every.items() if group not in some)
            assert all(instant is not None for instant in some.values())

    def test_where_a_write_was_undone_all_are_asked(self, table, path) -> None:
        """Hudi rolls back what uncovers a version that was cleaned."""
        table.upsert({"k1": (2, "a")})
        clean(table.handle, policy=BY_NUMBER, timing=FAST)
        rolled_back = writes(table)[-1]
        timeline = table.handle.timeline()
        state = timeline.write_at(rolled_back)
        assert state is not None
        for step in timeline.states_of(state):
            table.store.delete(step.path)
        next(path.glob(f"p=a/*_{rolled_back}.parquet")).unlink()
        table.upsert({"z": (2, "b")})
        rollback_of(table, rolled_back)
        uncovered = writes(table)[-1]
        table.upsert({"z": (3, "b")})
        with pytest.raises(InvalidDataError, match="were cleaned"):
            read_as_of(table, uncovered)


def rollback_of(table: SmallTable, time: str) -> None:
    """The record that another program's rollback leaves."""
    record = RollbackMetadata(
        start_time=time, time_taken_ms=0, instants=(InstantInfo(time=time, action="commit"),), partitions={}
    )
    put_completed(table.store, str(int(time) + 1), Action.ROLLBACK, record.encode())


def test_what_a_restore_took_back_stays_away_behind_a_savepoint_that_begins_the_timeline(
    table: SmallTable, path: Path
) -> None:
    saved = create_savepoint(table.handle, timing=FAST).instant
    table.upsert({"k1": (2, "a")})
    rolled_back = writes(table)[-1]
    late = next(path.glob(f"p=a/*_{rolled_back}.parquet"))
    kept = shutil.copy(late, path.parent / late.name)
    clean(table.handle, timing=FAST)
    archive(table.handle, policy=KEEP_ONE, timing=FAST)
    restore(table.handle, saved, timing=FAST)
    table.upsert({"z": (3, "b")})
    assert writes(table)[0] == saved
    # A task of the write that was taken back wakes up; its group is one that readers do not know.
    shutil.copy(kept, late.with_name(f"late-0_0-0-0_{rolled_back}.parquet"))
    assert rows_of(path) == view_rows(path) == {**BASE, "z": (3, "b")}
    assert clean(table.handle, timing=FAST).orphans_deleted == 1


def test_what_was_rolled_back_stays_away_behind_a_savepoint_that_begins_the_timeline(path: Path) -> None:
    table = make_table(path)
    create_savepoint(table.handle, timing=FAST)
    table.upsert(BASE)
    rolled_back = writes(table)[-1]
    file = next(path.glob(f"p=a/*_{rolled_back}.parquet"))
    kept = shutil.copy(file, path.parent / file.name)
    rollback(table.handle, rolled_back, timing=FAST)
    table.upsert(BASE)
    shutil.copy(kept, file)
    assert rows_of(path) == view_rows(path) == BASE
    assert clean(table.handle, timing=FAST).orphans_deleted == 1
