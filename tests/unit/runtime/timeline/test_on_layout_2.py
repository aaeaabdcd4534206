"""The essential operations on a table of version 9, whose timeline has layout 2, judged by hudi-rs and our view."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.runtime.clustering.plan.schedule import schedule
from parquetry.runtime.errors import InvalidDataError, StorageError, UnknownOutcomeError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spark.cluster import cluster, execute
from parquetry.runtime.storage.model import PutOutcome
from parquetry.runtime.timeline.archive_log import ArchivedInstant
from parquetry.runtime.timeline.instant import Action, Timezone, next_instant
from tests.support import hudi_rs
from tests.support.one_process_spark import OneProcessSpark
from tests.support.orphans import leftovers
from tests.support.planned_clustering import groups_owed, table_in_debt
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import Kind, LostAnswerStore, Stopped, WrappedStore
from tests.support.view_reader import ViewReader

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
BASE = {f"k{n}": (n, "ab"[n % 2]) for n in range(4)}
KEEP = {"keep_commits": 1, "archive_keep_commits": 3}
AVRO = b"Obj\x01"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def table(path: Path) -> SmallTable:
    table = make_table(path, table_version=9, **KEEP)
    table.upsert(BASE)
    return table


def agree(path: Path, rows: dict[str, tuple[int, str]]) -> bool:
    """Whether both readers see these rows, in a table without leftovers."""
    assert rows_of(path) == view_rows(path) == rows
    assert leftovers(path) == []
    return True


def state_files(path: Path, time: str | None) -> list[str]:
    """The state files of an instant, the completion time as ``C``."""
    names = [file.name for file in (path / ".hoodie/timeline").glob(f"{time}*")]
    return sorted(f"C.{name.partition('.')[2]}" if "_" in name else name.partition(".")[2] for name in names)


def completed_file(path: Path, time: str | None) -> Path:
    (file,) = (path / ".hoodie/timeline").glob(f"{time}_*")
    return file


def rows_since(path: Path, position: str) -> dict[str, int]:
    """The rows that were changed since a position, as both readers see them."""
    judged = {row["id"]: row["v"] for row in hudi_rs.read(str(path), since=position).to_pylist()}
    assert judged == {row["id"]: row["v"] for row in ViewReader().read(str(path), since=position).to_pylist()}
    return judged


def test_a_commit_has_its_completion_time_in_its_name_and_is_avro(table: SmallTable, path: Path) -> None:
    result = table.upsert({"k1": (9, "b"), "n": (1, "c")})
    assert state_files(path, result.instant) == ["C.commit", "commit.requested", "inflight"]
    written = table.handle.timeline().write_at(str(result.instant))
    assert written is not None
    assert str(written.completed_at) > written.time
    assert completed_file(path, result.instant).read_bytes().startswith(AVRO)
    assert (path / f".hoodie/timeline/{result.instant}.inflight").read_bytes().startswith(AVRO)
    assert [file.name for file in (path / ".hoodie").glob("2*")] == []
    assert agree(path, {**BASE, "k1": (9, "b"), "n": (1, "c")})


def test_every_operation_in_turn(table: SmallTable, path: Path) -> None:
    table.delete(["k0"])
    replaced = table.overwrite({"z": (1, "b")})
    assert state_files(path, replaced.instant) == [
        "C.replacecommit",
        "replacecommit.inflight",
        "replacecommit.requested",
    ]
    table.insert({"y": (2, "d")})
    assert agree(path, {"k2": (2, "a"), "z": (1, "b"), "y": (2, "d")})
    table.delete_partition("p=a")
    assert agree(path, {"z": (1, "b"), "y": (2, "d")})


def test_a_write_of_a_changed_group_starts_again(table: SmallTable, path: Path) -> None:
    others = iter([lambda: table.overwrite({"k1": (7, "b")})])

    def meanwhile(_: object) -> None:
        for other in others:
            other()

    result = replace(table, before_publish=meanwhile).upsert({"k1": (8, "b"), "k3": (8, "b")})
    assert result.retries == 1
    assert agree(path, {**BASE, "k1": (8, "b"), "k3": (8, "b")})


def test_a_write_that_is_requested_first_and_completes_last(table: SmallTable, path: Path) -> None:
    first = table.handle.timeline().newest_position()
    between: list[str] = []

    def meanwhile(_: object) -> None:
        between.append(str(table.insert({"late": (1, "c")}).instant))

    result = replace(table, before_publish=meanwhile).upsert({"k1": (8, "b")})
    assert result.retries == 0
    assert str(result.instant) < between[0]
    position = table.handle.timeline().position_of(between[0])
    assert agree(path, {**BASE, "k1": (8, "b"), "late": (1, "c")})
    assert rows_since(path, str(first)) == {"k1": 8, "late": 1}
    assert rows_since(path, position) == {"k1": 8}
    assert rows_since(path, str(table.handle.timeline().newest_position())) == {}


def test_a_failed_write_is_rolled_back(table: SmallTable, path: Path) -> None:
    def fail(_: object) -> None:
        raise InvalidDataError("no")

    with pytest.raises(InvalidDataError):
        replace(table, before_publish=fail).upsert({"k1": (9, "b"), "n": (1, "d")})
    (done,) = table.handle.timeline().of(Action.ROLLBACK)
    assert state_files(path, done.time) == ["C.rollback", "rollback.inflight", "rollback.requested"]
    assert agree(path, BASE)


@pytest.mark.parametrize("state", ["commit.requested", "inflight", "commit"])
def test_the_next_writer_recovers_from_one_that_died_after(state: str, table: SmallTable, path: Path) -> None:
    class Dying(WrappedStore):
        def after(self, kind: Kind, path: str) -> None:
            if kind is Kind.PUT_IF_ABSENT and path.partition(".hoodie/")[2].partition(".")[2] == state:
                raise Stopped

    with pytest.raises(Stopped):
        replace(table, store=Dying(table.store)).upsert({"k1": (9, "b"), "n": (1, "d")})
    replace(table, timing=AT_ONCE).upsert({"k3": (8, "b")})
    died = {"k1": (9, "b"), "n": (1, "d")} if state == "commit" else {}
    assert rows_of(path) == view_rows(path) == {**BASE, **died, "k3": (8, "b")}


def test_a_dead_writer_that_publishes_after_its_rollback_leaves_no_commit(
    table: SmallTable, path: Path
) -> None:
    seen: list[str] = []

    def sleep_for_ever(txn) -> None:
        seen.append(txn.instant)
        raise Stopped

    with pytest.raises(Stopped):
        replace(table, before_publish=sleep_for_ever).upsert({"k1": (9, "b")})
    replace(table, timing=AT_ONCE).upsert({"k3": (8, "b")})
    newest = completed_file(path, table.handle.timeline().completed_writes[-1].time)
    completed_at = next_instant(table.handle.timeline().last_instant, 0, Timezone.UTC)
    shutil.copy(newest, newest.with_name(f"{seen[0]}_{completed_at}.commit"))
    table.upsert({"n": (1, "b")})
    assert agree(path, {**BASE, "k3": (8, "b"), "n": (1, "b")})


def test_lost_answers_complete_nothing_twice(path: Path) -> None:
    table = replace(make_table(path, table_version=9, **KEEP), services=True)
    table = replace(table, store=LostAnswerStore(table.store))
    table.upsert(BASE)
    for n in range(8):
        result = table.upsert({"k1": (n, "b")})
        assert (result.retries, result.warnings) == (0, ())
    names = [file.name for file in (path / ".hoodie/timeline").glob("*_*.*")]
    assert len({name.partition("_")[0] + name.partition(".")[2] for name in names}) == len(names)
    assert agree(path, {**BASE, "k1": (7, "b")})


@pytest.mark.parametrize("error", [UnknownOutcomeError, StorageError])
def test_a_put_that_took_effect_without_an_answer_is_a_commit(
    error: type[StorageError], table: SmallTable, path: Path
) -> None:
    class Unanswered(WrappedStore):
        def put_if_absent(self, path: str, data: bytes, *, nonce: str | None = None) -> PutOutcome:
            outcome = self.inner.put_if_absent(path, data, nonce=nonce)
            if path.endswith(".commit"):
                raise error("the connection was lost")
            return outcome

    writer = replace(table, store=Unanswered(table.store))
    if error is UnknownOutcomeError:
        with pytest.raises(UnknownOutcomeError):
            writer.upsert({"k1": (9, "b")})
    else:
        assert "could not be checked again" in str(writer.upsert({"k1": (9, "b")}).warnings[0])
    table.upsert({"k3": (9, "b")})
    assert rows_of(path) == view_rows(path) == {**BASE, "k1": (9, "b"), "k3": (9, "b")}


def completed_twice(table: SmallTable, path: Path, time: str) -> list[Path]:
    """Both completed files of an instant that a writer completed twice."""
    first = completed_file(path, time)
    completed_at = next_instant(table.handle.timeline().last_instant, 0, Timezone.UTC)
    second = first.with_name(f"{time}_{completed_at}.{first.suffix[1:]}")
    shutil.copy(first, second)
    return [first, second]


def test_a_second_completed_file_of_an_instant_doubles_nothing(table: SmallTable, path: Path) -> None:
    before = str(table.handle.timeline().newest_position())
    time = str(table.upsert({"k1": (9, "b")}).instant)
    position = table.handle.timeline().position_of(time)
    completed_twice(table, path, time)
    timeline = table.handle.timeline()
    assert [write.time for write in timeline.completed_writes].count(time) == 1
    assert timeline.position_of(time) == position
    assert rows_of(path) == view_rows(path) == {**BASE, "k1": (9, "b")}
    assert rows_since(path, before) == {"k1": 9}
    table.upsert({"k3": (9, "b")})
    assert rows_of(path) == view_rows(path) == {**BASE, "k1": (9, "b"), "k3": (9, "b")}


@pytest.mark.parametrize("service", ["rollback", "restore", "archive"])
def test_services_remove_both_completed_files_of_an_instant(
    service: str, table: SmallTable, path: Path
) -> None:
    saved = create_savepoint(table.handle, timing=FAST).instant
    time = str(table.upsert({"k1": (9, "b")}).instant)
    both = completed_twice(table, path, time)
    expected = BASE
    if service == "rollback":
        rollback(table.handle, time, timing=FAST)
    elif service == "restore":
        assert restore(table.handle, saved, timing=FAST).rolled_back == (time,)
    else:
        delete_savepoint(table.handle, saved, timing=FAST)
        for n in range(5):
            table.upsert({"k1": (n, "b")})
        clean(table.handle, timing=FAST)
        assert time in archive(table.handle, timing=FAST).instants
        expected = {**BASE, "k1": (4, "b")}
    assert [file for file in both if file.exists()] == []
    assert agree(path, expected)


def test_a_savepoint_holds_its_files_and_a_restore_returns_to_it(table: SmallTable, path: Path) -> None:
    saved = create_savepoint(table.handle, timing=FAST).instant
    assert state_files(path, saved) == [
        "C.commit",
        "C.savepoint",
        "commit.requested",
        "inflight",
        "savepoint.inflight",
    ]
    for n in range(3):
        table.upsert({"k1": (n, "b"), f"n{n}": (n, "c")})
    clean(table.handle, timing=FAST)
    assert rows_of(path, as_of=saved) == view_rows(path, saved) == BASE
    done = restore(table.handle, saved, timing=FAST)
    assert state_files(path, done.instant) == ["C.restore", "restore.inflight", "restore.requested"]
    assert len(done.rolled_back) == 3
    assert agree(path, BASE)
    table.upsert({"k1": (9, "b")})
    assert agree(path, {**BASE, "k1": (9, "b")})


def test_a_clean_has_an_empty_inflight_file(table: SmallTable, path: Path) -> None:
    for n in range(3):
        table.upsert({"k1": (n, "b")})
    done = clean(table.handle, timing=FAST)
    assert state_files(path, done.instant) == ["C.clean", "clean.inflight", "clean.requested"]
    assert (path / f".hoodie/timeline/{done.instant}.clean.inflight").read_bytes() == b""
    assert done.files_deleted == 2
    assert agree(path, {**BASE, "k1": (2, "b")})


def archived(table: SmallTable) -> Iterator[ArchivedInstant]:
    for _, instants in table.handle.config.timeline_layout.archived(table.store):
        yield from instants or ()


def test_the_archive_keeps_every_instant_with_its_completion_time(table: SmallTable, path: Path) -> None:
    positions = {}
    for n in range(8):
        table.upsert({"k1": (n, "b")})
        positions |= {write.time: write.position for write in table.handle.timeline().completed_writes}
        if n == 5:
            clean(table.handle, timing=FAST)
            archive(table.handle, timing=FAST)
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    left = [write.time for write in table.handle.timeline().completed_writes]
    assert len(left) == 3
    assert (path / ".hoodie/timeline/history/_version_").read_text() == "2"
    found = {entry.time: entry.completed_at for entry in archived(table) if entry.action == "commit"}
    assert found == {time: at for time, at in positions.items() if time not in left}
    assert agree(path, {**BASE, "k1": (7, "b")})


def test_a_scheduled_clustering_is_executed(path: Path) -> None:
    table = table_in_debt(path, table_version=9)
    rows = rows_of(path)
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    assert plan is not None
    assert state_files(path, plan.instant) == ["clustering.requested"]
    assert rows_of(path) == rows
    assert execute(OneProcessSpark(), table.handle, plan.instant, timing=FAST).files_after == 2
    assert state_files(path, plan.instant) == [
        "C.replacecommit",
        "clustering.inflight",
        "clustering.requested",
    ]
    assert agree(path, rows)


@pytest.mark.parametrize("way", ["rollback", "restore"])
def test_a_clustering_that_is_taken_back_leaves_no_plan(way: str, path: Path) -> None:
    table = table_in_debt(path, table_version=9)
    rows = rows_of(path)
    saved = create_savepoint(table.handle, timing=FAST).instant
    (instant,) = cluster(OneProcessSpark(), table.handle, timing=FAST).instants
    if way == "rollback":
        rollback(table.handle, instant, timing=FAST)
    else:
        restore(table.handle, saved, timing=FAST)
    assert state_files(path, instant) == []
    assert agree(path, rows)
    table.upsert({"k1": (99, "b")})
    assert agree(path, {**rows, "k1": (99, "b")})


def test_a_pending_clustering_gives_way_to_a_write_of_its_groups(path: Path) -> None:
    table = table_in_debt(path, table_version=9)
    rows = rows_of(path)
    plan = schedule(table.handle, groups_owed(table), timing=FAST)
    assert plan is not None
    table.upsert({"k1": (99, "b")})
    assert not table.handle.timeline().contains(plan.instant)
    assert agree(path, {**rows, "k1": (99, "b")})
