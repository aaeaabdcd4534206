"""Clean, archive, savepoint, restore and rollback on real tables, with what they must not touch."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from parquetry.runtime.commit.claims import heartbeat_path, open_session
from parquetry.runtime.commit.table_lock import unlock
from parquetry.runtime.errors import ConflictError, CorruptTableError, InvalidDataError, NotFoundError
from parquetry.runtime.main import report_path
from parquetry.runtime.services.archive import ARCHIVE_BATCH, archive
from parquetry.runtime.services.clean import clean, clean_if_due
from parquetry.runtime.services.clean_plan import cleaner_plan, plan_expiry
from parquetry.runtime.services.orphans import DAY_MS
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.retention import KEEP_LATEST_COMMITS, Horizon
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.paths import temporary_path
from parquetry.runtime.timeline import layout, lsm_history
from parquetry.runtime.timeline.instant import Action, State, format_instant
from parquetry.runtime.timeline.sidecars import CLAIMS_FOLDER, PROBE_PREFIX, REPORTS_FOLDER, claim_path
from tests.support.archives import read_archive
from tests.support.orphans import leftovers
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import Kind, Stopped, WrappedStore
from tests.support.timelines import pending, put_completed

pytestmark = pytest.mark.usefixtures("on_each_version")

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
BASE = {f"k{n}": (n, "ab"[n % 2]) for n in range(6)}
KEEP_ONE = RetentionPolicy(keep_commits=1, archive_keep_commits=3)


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=3)
    table.upsert(BASE)
    return table


def root(table: SmallTable) -> Path:
    return Path(table.store.uri.removeprefix("file://"))


def files(table: SmallTable, partition: str) -> list[str]:
    return sorted(file.name for file in (root(table) / partition).glob("*.parquet"))


def rewrite(table: SmallTable, times: int, key: str = "k1") -> None:
    for n in range(times):
        table.upsert({key: (n, "ab"[int(key[1:]) % 2])})


def in_a_day(table: SmallTable) -> SmallTable:
    """The table as a writer sees it whose store's clock is a day ahead."""

    class Tomorrow(WrappedStore):
        def now_ms(self) -> int:
            return self.inner.now_ms() + DAY_MS + 60_000

    return replace(table, store=Tomorrow(table.store))


def test_clean_keeps_what_the_policy_asks_for(table: SmallTable) -> None:
    rewrite(table, 4)
    assert len(files(table, "p=b")) == 5
    result = clean(table.handle, timing=FAST)
    assert (result.files_deleted, len(files(table, "p=b"))) == (3, 2)
    timeline = table.handle.timeline()
    assert timeline.earliest_retained == timeline.completed_writes[-1].time
    assert result.instant is not None
    assert timeline.cleaner_plan(result.instant).policy == KEEP_LATEST_COMMITS
    names = timeline.clean_metadata(result.instant).partitions["p=b"].deleted
    assert len(names) == 3
    assert not set(names) & set(files(table, "p=b"))
    assert clean(table.handle, timing=FAST).instant is None


def test_a_version_stays_while_any_rule_asks_for_it(table: SmallTable) -> None:
    rewrite(table, 4)
    policy = RetentionPolicy(keep_commits=1, keep_versions=4)
    assert clean(table.handle, policy=policy, timing=FAST).files_deleted == 1
    young = RetentionPolicy(keep_commits=1, max_age_seconds=3600)
    assert clean(table.handle, policy=young, timing=FAST).files_deleted == 0
    assert clean(in_a_day(table).handle, policy=young, timing=FAST).files_deleted == 0  # nothing is younger
    assert clean(table.handle, policy=RetentionPolicy(keep_commits=None), timing=FAST).files_deleted == 0
    by_number = RetentionPolicy(keep_commits=None, keep_versions=2)
    result = clean(table.handle, policy=by_number, timing=FAST)
    assert (result.files_deleted, len(files(table, "p=b"))) == (2, 2)


@pytest.mark.parametrize("operation", ["upsert", "overwrite"])
def test_versions_that_a_long_write_has_just_superseded_stay_for_the_maximum_age(
    table: SmallTable, operation: str
) -> None:
    class Ahead(WrappedStore):
        """A store whose clock shows an hour after ``since_ms``, and a millisecond more each time."""

        def now_ms(self) -> int:
            return since_ms + 3_600_000 + next(readings)

    def cleaned() -> int:
        policy = RetentionPolicy(keep_commits=None, max_age_seconds=3600)
        return clean(replace(table.handle, store=Ahead(store)), policy=policy, timing=FAST).files_deleted

    def publish_late(_: object) -> None:
        begun_ms.append(store.now_ms())
        time.sleep(0.5)

    store, begun_ms, readings = table.store, [], count()
    getattr(replace(table, before_publish=publish_late), operation)({"k0": (7, "a")})
    ended_ms = store.now_ms() + 1
    time.sleep(0.5)
    table.upsert({"k1": (7, "b")})
    (since_ms,) = begun_ms
    assert cleaned() == 0
    since_ms = ended_ms
    assert cleaned() == 1
    assert next(readings) < 500, "the clock has not passed the next commit"


def test_replaced_files_go_when_their_replacement_is_old_enough(table: SmallTable) -> None:
    table.overwrite({"z": (1, "b")})
    assert clean(table.handle, timing=FAST).files_deleted == 0
    rewrite(table, 2, key="k0")
    assert clean(table.handle, timing=FAST).files_deleted > 0
    assert len(files(table, "p=b")) == 1
    assert rows_of(root(table)) == view_rows(root(table))


def watching(table: SmallTable) -> tuple[SmallTable, list[str]]:
    """The table, and its partitions whenever they are listed by it."""
    listed: list[str] = []

    class Watched(WrappedStore):
        def before(self, kind: Kind, path: str) -> None:
            if kind is Kind.LIST and path.startswith("p="):
                listed.append(path)

    return replace(table, store=Watched(table.store)), listed


def test_a_clean_after_a_write_looks_only_where_something_may_have_expired(table: SmallTable) -> None:
    rewrite(table, 3)
    assert clean_if_due(table.handle, timing=FAST) is not None
    rewrite(table, 2, key="k0")
    watched, listed = watching(table)
    result = clean_if_due(watched.handle, timing=FAST)
    assert result is not None
    assert result.files_deleted == 2
    assert set(listed) == {"p=a", "p=b"}
    rewrite(table, 1, key="k0")
    listed.clear()
    result = clean_if_due(watched.handle, timing=FAST)
    assert result is not None
    assert result.files_deleted == 1
    assert set(listed) == {"p=a"}
    listed.clear()
    assert clean_if_due(watched.handle, timing=FAST) is None
    assert listed == []


def test_a_table_that_only_grows_is_not_looked_through_at_every_write(table: SmallTable) -> None:
    watched, listed = watching(table)
    for partition in "cdef":
        table.insert({f"x{partition}": (1, partition)})
        clean_if_due(watched.handle, timing=FAST)
    assert table.handle.timeline().of(Action.CLEAN) == ()
    listed.clear()
    table.insert({"y": (1, "a")})
    result = clean_if_due(watched.handle, timing=FAST)
    assert result is not None
    assert result.files_deleted == 0
    assert set(listed) == {"p=f"}
    rewrite(table, 3)
    assert clean_if_due(table.handle, timing=FAST) is not None
    assert len(files(table, "p=b")) == 2


def test_a_pending_clean_is_finished_and_keeps_what_has_become_current(table: SmallTable) -> None:
    rewrite(table, 3)
    handle = table.handle
    timeline = handle.timeline()
    view = handle.view(timeline)
    limits = Horizon(earliest=timeline.completed_writes[-1].time, keep_versions=1, policy=KEEP_LATEST_COMMITS)
    expiry = plan_expiry(view, limits, view.partitions())
    current = view.slices("p=b")[0].path
    stale = replace(expiry, files={"p=b": (*expiry.files["p=b"], current)})
    plan = cleaner_plan(table.store, timeline, stale)
    after, zone = timeline.last_instant, handle.config.timezone
    with open_session(table.store, purpose="clean", after=after, zone=zone, timing=FAST) as dead:
        instant = dead.instant
    requested = pending(table.store, instant, Action.CLEAN)
    table.store.put_if_absent(requested.path, plan.encode())
    result = clean(table.handle, timing=FAST)
    assert result.files_deleted == expiry.count
    assert table.store.stat(current) is not None
    assert [c.time for c in table.handle.timeline().of(Action.CLEAN, state=State.COMPLETED)] == [instant]
    assert rows_of(root(table)) == view_rows(root(table)) == {**BASE, "k1": (2, "b")}


def test_another_programs_clean_is_left_to_it(table: SmallTable) -> None:
    rewrite(table, 3)
    handle = table.handle
    timeline = handle.timeline()
    limits = Horizon(earliest=timeline.completed_writes[-1].time, keep_versions=1, policy=KEEP_LATEST_COMMITS)
    expiry = plan_expiry(handle.view(timeline), limits, ["p=b"])
    instant = format_instant(table.store.now_ms(), handle.config.timezone)
    requested = pending(table.store, instant, Action.CLEAN)
    table.store.put(requested.path, cleaner_plan(table.store, timeline, expiry).encode())
    with pytest.raises(ConflictError, match=f"clean {instant}"):
        create_savepoint(table.handle, timeline.completed_writes[-2].time, timing=FAST)
    create_savepoint(table.handle, timing=FAST)
    clean(table.handle, timing=FAST)
    assert not table.handle.timeline().contains(instant, Action.CLEAN, state=State.COMPLETED)


def test_a_savepoint_protects_its_files_until_it_is_deleted(table: SmallTable, monkeypatch) -> None:
    monkeypatch.setenv("LOGNAME", "me")
    saved = create_savepoint(table.handle, comment="before", timing=FAST)
    assert create_savepoint(table.handle, saved.instant, timing=FAST) == saved
    assert saved.files == 2
    rewrite(table, 4)
    clean(table.handle, timing=FAST)
    assert rows_of(root(table), as_of=saved.instant) == BASE
    metadata = table.handle.timeline().savepoint_metadata(saved.instant)
    assert (metadata.created_by, metadata.comments) == ("me", "before")
    delete_savepoint(table.handle, saved.instant, timing=FAST)
    assert clean(table.handle, timing=FAST).files_deleted == 1
    with pytest.raises(InvalidDataError, match="no savepoint"):
        delete_savepoint(table.handle, saved.instant, timing=FAST)


def test_what_was_cleaned_cannot_be_savepointed(table: SmallTable) -> None:
    first = table.handle.timeline().completed_writes[-1].time
    rewrite(table, 3)
    clean(table.handle, policy=RetentionPolicy(keep_commits=None, keep_versions=1), timing=FAST)
    with pytest.raises(InvalidDataError, match="was cleaned or deleted; choose a later write"):
        create_savepoint(table.handle, first, timing=FAST)
    rewrite(table, 2)
    clean(table.handle, timing=FAST)
    with pytest.raises(InvalidDataError, match="were cleaned"):
        create_savepoint(table.handle, first, timing=FAST)
    with pytest.raises(InvalidDataError, match="no completed write 2020"):
        create_savepoint(table.handle, "20200101000000000", timing=FAST)


def test_a_restore_takes_every_later_write_back(table: SmallTable) -> None:
    saved = create_savepoint(table.handle, timing=FAST).instant
    rewrite(table, 3)
    table.overwrite({"z": (1, "a"), "y": (1, "e")})
    result = restore(table.handle, saved, timing=FAST)
    assert len(result.rolled_back) == 4
    assert rows_of(root(table)) == view_rows(root(table)) == BASE
    timeline = table.handle.timeline()
    assert timeline.of(Action.ROLLBACK) == ()
    assert timeline.savepoints == (saved,)
    assert [i.state for i in timeline.of(Action.RESTORE)] == [State.COMPLETED]
    assert files(table, "p=e") == []
    assert leftovers(root(table)) == []
    assert restore(table.handle, saved, timing=FAST).instant is None
    table.upsert({"k1": (9, "b")})
    assert rows_of(root(table)) == {**BASE, "k1": (9, "b")}


def test_a_restore_refuses_what_would_lose_rows(table: SmallTable) -> None:
    with pytest.raises(InvalidDataError, match="the savepoints are none"):
        restore(table.handle, "20200101000000000", timing=FAST)
    first = create_savepoint(table.handle, timing=FAST).instant
    rewrite(table, 1)
    second = create_savepoint(table.handle, timing=FAST).instant
    with pytest.raises(InvalidDataError, match=f"later savepoint {second}"):
        restore(table.handle, first, timing=FAST)
    delete_savepoint(table.handle, second, timing=FAST)
    next((root(table) / "p=b").glob(f"*_{first}.parquet")).unlink()
    with pytest.raises(InvalidDataError, match="is missing; nothing was restored"):
        restore(table.handle, first, timing=FAST)


def test_the_newest_write_can_be_rolled_back_by_hand(table: SmallTable) -> None:
    rewrite(table, 2)
    newest, older = (i.time for i in reversed(table.handle.timeline().completed_writes[-2:]))
    with pytest.raises(InvalidDataError, match="was written after"):
        rollback(table.handle, older, timing=FAST)
    assert rollback(table.handle, newest, timing=FAST).files_deleted == 1
    assert rows_of(root(table)) == view_rows(root(table)) == {**BASE, "k1": (0, "b")}
    create_savepoint(table.handle, timing=FAST)
    with pytest.raises(InvalidDataError, match="is savepointed"):
        rollback(table.handle, older, timing=FAST)
    with pytest.raises(InvalidDataError, match="no write 2020"):
        rollback(table.handle, "20200101000000000", timing=FAST)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": cut,
    "longer": lengthen,
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize(
    "operation", ["savepoint", "older savepoint", "savepoint again", "restore", "rollback"]
)
def test_damaged_files_are_neither_protected_nor_brought_back(
    table: SmallTable, kind: str, operation: str
) -> None:
    first = table.handle.timeline().completed_writes[-1].time
    if operation in {"savepoint again", "restore"}:
        create_savepoint(table.handle, first, timing=FAST)
    if operation not in {"savepoint", "savepoint again"}:
        rewrite(table, 1)
    newest = table.handle.timeline().completed_writes[-1].time
    path = next((root(table) / "p=b").glob(f"*_{first}.parquet"))
    whole = path.read_bytes()
    DAMAGE[kind](path)

    def operate() -> object:
        if operation == "restore":
            return restore(table.handle, first, timing=FAST)
        if operation == "rollback":
            return rollback(table.handle, newest, timing=FAST)
        return create_savepoint(table.handle, first, timing=FAST)

    def contents() -> list[str]:
        return sorted([*table.handle.timeline().files, *map(str, root(table).glob("p=*/*.parquet"))])

    before = contents()
    with pytest.raises((InvalidDataError, CorruptTableError)) as refused:
        operate()
    said = str(refused.value)
    assert path.name.partition("_")[0] in said
    assert "from a copy" in said or "choose a later write" in said
    if kind != "missing":
        assert f"has {path.stat().st_size:,} bytes, but {first} wrote {len(whole):,}" in said
    assert contents() == before
    if kind != "missing" and operation in {"restore", "rollback"}:
        assert rows_of(root(table)) == {**BASE, "k1": (0, "b")}
    path.write_bytes(whole)
    operate()
    expected = {**BASE, "k1": (0, "b")} if operation == "older savepoint" else BASE
    assert rows_of(root(table)) == view_rows(root(table)) == expected


def test_only_what_a_rollback_uncovers_has_to_be_whole(table: SmallTable) -> None:
    rewrite(table, 2)
    cut(next((root(table) / "p=a").glob("*.parquet")))
    newest = table.handle.timeline().completed_writes[-1].time
    cut(next((root(table) / "p=b").glob(f"*_{newest}.parquet")))
    assert rollback(table.handle, newest, timing=FAST).files_deleted == 1


def test_a_rollback_of_a_replacement_brings_no_damaged_file_back(table: SmallTable) -> None:
    path = next((root(table) / "p=b").glob("*.parquet"))
    whole = path.read_bytes()
    table.overwrite({"z": (1, "b")})
    cut(path)
    newest = table.handle.timeline().completed_writes[-1].time
    with pytest.raises(CorruptTableError, match=rf"{newest} cannot be rolled back.*restore the file"):
        rollback(table.handle, newest, timing=FAST)
    path.write_bytes(whole)
    rollback(table.handle, newest, timing=FAST)
    assert rows_of(root(table)) == BASE


def test_a_restore_takes_damaged_later_files_away(table: SmallTable) -> None:
    saved = create_savepoint(table.handle, timing=FAST).instant
    rewrite(table, 1)
    newest = table.handle.timeline().completed_writes[-1].time
    cut(next((root(table) / "p=b").glob(f"*_{newest}.parquet")))
    restore(table.handle, saved, timing=FAST)
    assert rows_of(root(table)) == BASE


def test_archive_keeps_the_configured_number_and_loses_nothing(table: SmallTable) -> None:
    rewrite(table, 8)
    clean(table.handle, timing=FAST)
    before = [instant.time for instant in table.handle.timeline().completed_writes]
    result = archive(table.handle, timing=FAST)
    left = [instant.time for instant in table.handle.timeline().completed_writes]
    assert len(left) == 3
    assert [*result.instants, *left] == before
    logged = read_archive(table.store, table.handle.config.timeline_layout)
    assert {entry.time for entry in logged} == set(result.instants)
    assert "completed" in {entry.state for entry in logged if entry.time == before[1]}
    assert rows_of(root(table)) == view_rows(root(table)) == {**BASE, "k1": (7, "b")}
    assert archive(table.handle, timing=FAST).instants == ()


@pytest.mark.parametrize("takes_lock", [True, False])
def test_instants_that_another_archives_while_this_one_sleeps(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch, takes_lock: bool
) -> None:
    rewrite(table, 8)
    clean(table.handle, timing=FAST)
    others: list[tuple[str, ...]] = []
    module, name = {
        1: (layout, "archive_entries"),
        2: (lsm_history, "entries"),
    }[table.handle.config.timeline_layout.NUMBER]
    entries = getattr(module, name)

    def overtaken(*given: Any) -> Any:
        if not others:
            others.append(())
            if takes_lock:
                unlock(table.handle, timing=FAST)
                others[0] = archive(table.handle, timing=FAST).instants
            else:
                table.store.delete(table.handle.timeline().completed_writes[0].path)
        return entries(*given)

    monkeypatch.setattr(module, name, overtaken)
    if not takes_lock:
        with pytest.raises(NotFoundError):
            archive(table.handle, timing=FAST)
        return
    assert archive(table.handle, timing=FAST).instants == ()
    assert len(others[0]) > 3
    assert rows_of(root(table)) == view_rows(root(table))


def test_the_archive_never_passes_what_may_still_come_to_light(table: SmallTable) -> None:
    def dead(_: object) -> None:
        raise InvalidDataError("no")

    with pytest.raises(InvalidDataError):
        replace(table, before_publish=dead).upsert({"k1": (5, "b")})
    rewrite(table, 8)
    clean(table.handle, timing=FAST)
    rolled_back = table.handle.timeline().of(Action.ROLLBACK)[0]
    victim = table.handle.timeline().rollback_metadata(rolled_back.time).instants[0].time
    archive(table.handle, timing=FAST)
    assert table.handle.timeline().completed_writes[0].time < victim

    tomorrow = in_a_day(table)
    late = f"p=b/{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-0-0_{victim}.parquet"
    table.store.put(late, b"a task woke up")
    archive(tomorrow.handle, timing=FAST)
    assert table.handle.timeline().completed_writes[0].time < victim
    assert rows_of(root(table)) == view_rows(root(table)) == {**BASE, "k1": (7, "b")}

    assert clean(tomorrow.handle, timing=FAST).orphans_deleted == 1
    archive(tomorrow.handle, timing=FAST)
    assert table.handle.timeline().completed_writes[0].time > victim


def test_the_archive_never_passes_a_replacement_whose_files_are_there(table: SmallTable) -> None:
    table.overwrite({"z": (1, "b")})
    replacement = table.handle.timeline().completed_writes[-1].time
    rewrite(table, 8, key="k0")
    archive(table.handle, timing=FAST)
    assert table.handle.timeline().is_completed(replacement)
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    assert not table.handle.timeline().is_completed(replacement)
    assert rows_of(root(table)) == view_rows(root(table))
    assert "k1" not in rows_of(root(table))


def test_a_deleted_savepoint_leaves_its_replaced_files_to_a_clean_before_the_archive(
    table: SmallTable,
) -> None:
    saved = create_savepoint(table.handle, timing=FAST).instant
    table.overwrite({"z": (1, "b")})
    replacement = table.handle.timeline().completed_writes[-1].time
    rewrite(table, 8, key="k0")
    clean(table.handle, timing=FAST)
    delete_savepoint(table.handle, saved, timing=FAST)
    archive(table.handle, timing=FAST)
    assert table.handle.timeline().is_completed(replacement)
    assert clean_if_due(table.handle, timing=FAST) is not None
    archive(table.handle, timing=FAST)
    assert not table.handle.timeline().is_completed(replacement)
    assert "k1" not in rows_of(root(table))


def test_archiving_stops_at_a_savepoint_and_a_pending_write(table: SmallTable) -> None:
    rewrite(table, 2)
    saved = create_savepoint(table.handle, timing=FAST).instant
    rewrite(table, 6)
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    assert table.handle.timeline().completed_writes[0].time == saved

    delete_savepoint(table.handle, saved, timing=FAST)
    clean(table.handle, timing=FAST)
    before = table.handle.timeline().completed_writes

    def try_it(_: object) -> None:
        rewrite(SmallTable(store=table.store), 3, key="k0")
        archive(table.handle, timing=FAST)
        # The newest write before the pending one stays, with all that came after it.
        assert table.handle.timeline().completed_writes[0].time <= before[-1].time

    replace(table, before_publish=try_it).insert({"n": (1, "d")})
    assert rows_of(root(table)) == view_rows(root(table))


def test_services_that_are_due_run_by_themselves(table: SmallTable) -> None:
    automatic = replace(table, services=True)
    cleaned = archived = 0
    for n in range(2 * ARCHIVE_BATCH):
        result = automatic.upsert({"k1": (n, "b")})
        assert result.warnings == ()
        cleaned += result.files_cleaned
        archived += result.instants_archived
    assert cleaned >= 2 * ARCHIVE_BATCH - 2
    assert archived >= ARCHIVE_BATCH
    assert len(files(table, "p=b")) <= 3
    assert len(table.handle.timeline().completed_writes) <= 3 + ARCHIVE_BATCH
    assert rows_of(root(table)) == view_rows(root(table)) == {**BASE, "k1": (2 * ARCHIVE_BATCH - 1, "b")}
    assert leftovers(root(table)) == []


def test_a_writer_that_slept_through_its_own_rollback_leaves_no_commit(table: SmallTable) -> None:
    kept = root(table).parent / "slept"

    def sleep_for_ever(txn) -> None:
        shutil.copytree(root(table), kept)
        raise InvalidDataError("no")

    with pytest.raises(InvalidDataError):
        replace(table, before_publish=sleep_for_ever).upsert({"k1": (9, "b")})
    timeline = table.handle.timeline()
    victim = timeline.rollback_metadata(timeline.of(Action.ROLLBACK)[0].time).instants[0].time
    # It wakes up with the put of its completed file, and dies before it can look again.
    newest = timeline.completed_writes[-1].time
    put_completed(table.store, victim, Action.COMMIT, timeline.commit_metadata(newest))
    assert table.handle.timeline().is_completed(victim)
    table.upsert({"k3": (9, "b")})
    assert not table.handle.timeline().is_completed(victim)
    assert rows_of(root(table)) == view_rows(root(table)) == {**BASE, "k3": (9, "b")}


def test_files_archived_beyond_a_savepoint_are_no_orphans(table: SmallTable) -> None:
    """Hudi with hoodie.archive.beyond.savepoint=true leaves the savepointed commit and archives later ones."""
    create_savepoint(table.handle, table.handle.timeline().completed_writes[-1].time, timing=FAST)
    table.insert({"x": (1, "b")})
    archived = table.handle.timeline().completed_writes[-1].time
    table.insert({"y": (2, "b")})
    ledger = f".hoodie/.parquetry/sources/s/{archived}.json"
    table.store.put(ledger, b"{}")
    for gone in (archived, table.handle.first_instant):
        for name in table.handle.timeline().files:
            if name.startswith(str(gone)):
                table.store.delete(f"{table.handle.timeline().layout.NAMES.folder}/{name}")
    before = view_rows(root(table))
    assert before == {**BASE, "x": (1, "b"), "y": (2, "b")}
    keeping = RetentionPolicy(keep_commits=10, archive_keep_commits=30)
    assert clean(table.handle, policy=keeping, timing=FAST).orphans_deleted == 0
    assert view_rows(root(table)) == before
    assert table.store.stat(ledger) is not None


def test_the_sweep_removes_leftovers_and_nothing_that_lives(table: SmallTable) -> None:
    store = table.store
    zone = table.handle.config.timezone
    done = table.handle.timeline().completed_writes[-1].time
    dead = format_instant(store.now_ms() - 1000, zone)
    with open_session(store, purpose="test", after=done, zone=zone, timing=FAST) as gone:
        pass
    with open_session(store, purpose="test", after=done, zone=zone, timing=FAST) as alive:
        doomed = [
            f".hoodie/.temp/{done}/p=a/x.parquet.marker.CREATE",
            f".hoodie/.temp/{dead}/p=a/x.parquet.marker.CREATE",
            heartbeat_path(gone.instant),
            f".hoodie/.parquetry/stats/{gone.instant}.statistics",
            f".hoodie/.parquetry/sources/s/{gone.instant}.json",
            temporary_path(".hoodie/20260101.commit"),
            temporary_path("p=a/.hoodie_partition_metadata"),
            temporary_path(f"p=a/f-0_0-0-0_{dead}.parquet"),
            ".hoodie/.parquetry/breaking/0123",
            f"{PROBE_PREFIX}0123",
        ]
        spared = [
            f".hoodie/.temp/{alive.instant}/p=a/x.parquet.marker.CREATE",
            claim_path(alive.instant),
            heartbeat_path(alive.instant),
            claim_path(gone.instant),
            f".hoodie/.parquetry/stage/{alive.instant}/part",
            f".hoodie/.parquetry/stats/{done}.statistics",
            f".hoodie/.parquetry/stats/{alive.instant}.statistics",
            ".hoodie/.parquetry/sources/s/20200101000000000.json",
            ".hoodie/.parquetry/sources/s/20300101000000000.folded",
            ".hoodie/.parquetry/table.json",
            ".hoodie/hoodie.properties",
        ]
        for path in (*doomed, *spared):
            if store.stat(path) is None:
                store.put(path, b"x")
        for path in doomed:
            os.utime(root(table) / path, (time.time() - 600, time.time() - 600))
        result = clean(table.handle, timing=FAST)
        assert [path for path in doomed if store.stat(path) is not None] == []
        assert [path for path in spared if store.stat(path) is None] == []
        assert result.leftovers_deleted >= 7
    assert clean(in_a_day(table).handle, timing=FAST).leftovers_deleted >= 1
    assert store.list(CLAIMS_FOLDER) == []


def test_a_slow_deletion_of_orphans_makes_no_unfinished_file_older(table: SmallTable) -> None:
    """A file is as old as it was when it was listed, whatever time passes until leftovers are deleted."""

    class Slow(WrappedStore):
        passed_ms = 0

        def now_ms(self) -> int:
            return self.inner.now_ms() + self.passed_ms

        def after(self, kind: Kind, path: str) -> None:
            if kind is Kind.DELETE_ALL and orphan in path:
                self.passed_ms += 10 * 86_400_000

    store = table.store
    dead = format_instant(store.now_ms() - 86_400_000, table.handle.config.timezone)
    orphan = temporary_path(f"p=a/f-0_0-0-0_{dead}.parquet")
    unfinished = temporary_path(".hoodie/20260101.commit")
    for path in (orphan, unfinished):
        store.put(path, b"x")
    slow = replace(table, store=Slow(store))
    assert clean(slow.handle, timing=FAST).orphans_deleted == 1
    assert slow.store.passed_ms > 0
    assert store.stat(unfinished) is not None


def test_a_report_that_no_launcher_came_for_goes_after_a_day(table: SmallTable) -> None:
    waiting, left = report_path("r1.ingest.landing"), report_path("r0.ingest.landing")
    for path in (waiting, left):
        table.store.put(path, b"{}")
    two_days_ago = time.time() - 2 * 86_400
    os.utime(root(table) / left, (two_days_ago, two_days_ago))
    assert clean(table.handle, timing=FAST).leftovers_deleted == 1
    assert [info.path for info in table.store.list(REPORTS_FOLDER)] == [waiting]


def test_a_stage_goes_with_the_process_that_made_it(table: SmallTable) -> None:
    store = table.store
    zone = table.handle.config.timezone
    after = table.handle.timeline().last_instant
    with open_session(store, purpose="test", after=after, zone=zone, timing=FAST) as first:
        store.put(f".hoodie/.parquetry/stage/{first.instant}/part", b"rows")
    # Between two attempts no session of the run is open; its process may be about to try again.
    clean(table.handle, timing=FAST)
    assert store.stat(f".hoodie/.parquetry/stage/{first.instant}/part") is not None
    store.delete(claim_path(first.instant))
    clean(table.handle, timing=FAST)
    assert store.stat(f".hoodie/.parquetry/stage/{first.instant}/part") is None


def test_statistics_go_with_the_last_file_they_describe(table: SmallTable) -> None:
    rewrite(table, 3)
    clean(table.handle, timing=FAST)
    clean(table.handle, timing=FAST)
    kept = {file.stem for file in (root(table) / ".hoodie/.parquetry/stats").iterdir()}
    assert kept == {file.stem.rpartition("_")[2] for file in root(table).rglob("p=*/*.parquet")}


def test_two_archivals_of_the_same_instants_log_them_once(table: SmallTable) -> None:
    rewrite(table, 8)
    clean(table.handle, timing=FAST)

    class DiesAfterLogging(WrappedStore):
        def before(self, kind: Kind, path: str) -> None:
            if kind is Kind.DELETE_ALL and ".commit.requested" in path:
                raise Stopped

    with pytest.raises(Stopped):
        archive(replace(table, store=DiesAfterLogging(table.store)).handle, timing=FAST)
    result = archive(table.handle, timing=FAST)
    logged = read_archive(table.store, table.handle.config.timeline_layout)
    assert len({(e.time, e.action, e.state) for e in logged}) == len(logged)
    assert {entry.time for entry in logged} == set(result.instants)
