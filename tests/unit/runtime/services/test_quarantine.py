"""Orphans that a clean moves aside: nothing is lost wherever it dies, and they leave when their time is over."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.deletions import DeletionsView, reasons_text
from parquetry.message import Value
from parquetry.runtime.commit.claims import open_session
from parquetry.runtime.commit.recovery import recovered_timeline
from parquetry.runtime.commit.table_lock import _roll_back_pending
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.services import clean as clean_module
from parquetry.runtime.services.clean import clean, clean_groups, clean_if_due
from parquetry.runtime.services.deletions import DeletionReason, archive_deletions, clean_deletions
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spark.purge import _unchecked
from parquetry.runtime.spec.codec import to_json_value
from parquetry.runtime.spec.masking import cleared
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.os_errors import storage_error
from parquetry.runtime.storage.paths import temporary_path
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER, Action
from parquetry.runtime.timeline.sidecars import QUARANTINE_FOLDER, quarantine_path, quarantined_file
from tests.support.names_below_hoodie import in_folder
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import FaultyStore, Kind, Stop, Stopped, WrappedStore

BASE = {"k0": (0, "a"), "k1": (1, "b")}
HOUR = 3600
AT_ONCE = replace(FAST, dead_after_seconds=0.0)
NAME = f"{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-0-0_"


class LaterStore(WrappedStore):
    """A store whose clock is ``ahead_seconds`` ahead of that of its files."""

    ahead_seconds = 0

    def now_ms(self):
        return self.inner.now_ms() + self.ahead_seconds * 1000


def made(path, *, hours=1):
    """A table with one orphan, which is a copy of a live file under the name of a rolled back write."""
    table = make_table(path, keep_commits=1, quarantine_seconds=None if hours is None else hours * HOUR)
    table.upsert(BASE)

    def dead(_):
        raise InvalidDataError("no")

    with pytest.raises(InvalidDataError):
        replace(table, before_publish=dead).upsert({"k1": (5, "b")})
    for value in (5, 6, 7):
        table.upsert({"k0": (value, "a")})
    (rollback,) = table.handle.timeline().of(Action.ROLLBACK)
    (victim,) = table.handle.timeline().rollback_metadata(rollback.time).instants
    orphan = f"p=b/{NAME}{victim.time}.parquet"
    (live,) = (Path(path) / "p=b").glob("*.parquet")
    table.store.put(orphan, live.read_bytes())
    return table, orphan


def killed(path, *, hours=1):
    """A table whose newest writer was killed before its commit; the path and the instant of its data file."""
    table = make_table(path, quarantine_seconds=None if hours is None else hours * HOUR)
    table.upsert(BASE)
    before = {*Path(path).glob("p=*/*.parquet")}
    store = FaultyStore(table.store, Path(f"{path}.count"))

    def end(_):
        store.stop_at = store.operations()

    with pytest.raises(Stopped):
        replace(table, store=store, before_publish=end).upsert({"k1": (5, "b")})
    (file,) = {*Path(path).glob("p=*/*.parquet")} - before
    (write,) = table.handle.timeline().pending_writes
    return table, file.relative_to(path).as_posix(), write.time


def lock_taken_over(table, instant):
    timeline = table.timeline()
    zone = table.config.timezone
    with open_session(
        table.store, purpose="test", after=timeline.last_instant, zone=zone, timing=FAST
    ) as session:
        _roll_back_pending(table, session, instant)
        session.acknowledge()


ROLLBACKS = {
    "clean": lambda table, _: clean(table, timing=AT_ONCE),
    "write": lambda table, _: recovered_timeline(table, timing=AT_ONCE),
    "lock": lock_taken_over,
    "person": lambda table, instant: rollback(table, instant, timing=AT_ONCE),
}


def later(table, hours):
    store = LaterStore(table.store)
    store.ahead_seconds = hours * HOUR
    return SmallTable(store=store, timing=FAST).handle


def quarantine(path):
    return sorted(file for file in (Path(path) / QUARANTINE_FOLDER).rglob("*") if file.is_file())


def test_an_orphan_is_moved_aside_and_deleted_when_its_time_is_over(tmp_path):
    path = tmp_path / "t"
    table, orphan = made(path)
    content = table.store.read(orphan)
    done = clean(table.handle, timing=FAST)
    assert (done.orphans_deleted, done.orphans_moved) == (0, 1)
    (aside,) = quarantine(path)
    assert aside.read_bytes() == content
    assert pq.read_table(aside).num_rows == 1
    assert not (path / orphan).exists()
    assert in_folder(path) == []
    assert ".parquet" not in aside.name
    assert rows_of(path) == view_rows(path) == {"k0": (7, "a"), "k1": (1, "b")}
    for handle in (table.handle, later(table, 0)):
        done = clean(handle, timing=FAST)
        assert (done.orphans_deleted, done.orphans_moved, len(quarantine(path))) == (0, 0, 1)
    done = clean(later(table, 2), timing=FAST)
    assert (done.orphans_deleted, done.orphans_moved, quarantine(path)) == (1, 0, [])


def test_the_clean_after_a_write_moves_too(tmp_path):
    table, _ = made(tmp_path / "t")
    table.upsert({"k1": (8, "b")})
    done = clean_if_due(table.handle, timing=FAST)
    assert done is not None
    assert (done.orphans_moved, len(quarantine(tmp_path / "t"))) == (1, 1)


def test_without_the_rule_orphans_and_what_was_moved_are_deleted(tmp_path):
    table, orphan = made(tmp_path / "t")
    clean(table.handle, timing=FAST)
    table.store.put(orphan, b"again")
    policy = replace(table.handle.spec.retention, quarantine_seconds=None)
    done = clean(table.handle, policy=policy, timing=FAST)
    assert (done.orphans_deleted, done.orphans_moved, quarantine(tmp_path / "t")) == (2, 0, [])
    assert "orphans_moved" not in to_json_value(done)


def test_an_unfinished_file_is_deleted_at_once(tmp_path):
    table, orphan = made(tmp_path / "t")
    table.store.put(temporary_path(orphan), b"half")
    done = clean(table.handle, timing=FAST)
    assert (done.orphans_deleted, done.orphans_moved) == (1, 1)


def test_a_purge_leaves_nothing_in_the_quarantine(tmp_path):
    table, orphan = made(tmp_path / "t")
    clean(table.handle, timing=FAST)
    table.store.put(orphan, b"again")
    assert clean_groups(table.handle, [], timing=FAST).orphans_deleted == 2
    assert quarantine(tmp_path / "t") == []


def test_on_a_full_disk_the_quarantine_gives_way(tmp_path):
    table, orphan = made(tmp_path / "t")
    clean(table.handle, timing=FAST)
    table.store.put(orphan, b"again")
    assert clean_module._clean_up_without_room(table.handle, FAST) >= 2
    assert quarantine(tmp_path / "t") == []


@pytest.mark.parametrize("stop", [Stop.AFTER, Stop.HALFWAY])
def test_a_clean_that_dies_anywhere_loses_no_orphan(tmp_path, stop):
    template = tmp_path / "template"
    made(template)
    counted = FaultyStore(open_store(shutil.copytree(template, tmp_path / "counted")), tmp_path / "count")
    clean(SmallTable(store=counted).handle, timing=FAST)
    operations = counted.operations()
    assert operations > 5
    for stop_at in range(1, operations + 1):
        path = tmp_path / f"{stop_at}"
        shutil.copytree(template, path)
        (orphan,) = (file for file in (path / "p=b").glob("*.parquet") if file.name.startswith(NAME))
        content, name = orphan.read_bytes(), orphan.relative_to(path).as_posix()
        faulty = FaultyStore(open_store(path), tmp_path / f"n{stop_at}", stop_at=stop_at, stop=stop)
        with pytest.raises(Stopped):
            clean(SmallTable(store=faulty).handle, timing=FAST)
        aside = path / quarantine_path(name)
        copies = [file.read_bytes() for file in (orphan, aside) if file.exists()]
        assert copies, f"operation {stop_at}"
        assert set(copies) == {content}, f"operation {stop_at}"
        if len(copies) == 2:
            os.utime(aside, (1, 1))
        table = SmallTable(store=open_store(path))
        clean(table.handle, timing=replace(FAST, dead_after_seconds=0.0))
        assert (orphan.exists(), aside.read_bytes()) == (False, content), f"operation {stop_at}"
        assert len(quarantine(path)) == 1
        assert view_rows(path) == {"k0": (7, "a"), "k1": (1, "b")}


def test_a_fresh_orphan_replaces_an_expired_copy_and_stays(tmp_path):
    path = tmp_path / "t"
    table, orphan = made(path)
    content = (path / orphan).read_bytes()
    aside = path / quarantine_path(orphan)
    table.store.put(quarantine_path(orphan), b"older")
    os.utime(aside, (1, 1))
    done = clean(table.handle, timing=FAST)
    assert (done.orphans_moved, done.orphans_deleted, aside.read_bytes()) == (1, 0, content)


@pytest.mark.parametrize("by", ROLLBACKS)
@pytest.mark.parametrize("hours", [1, None])
def test_the_files_of_a_killed_writer_are_moved_aside(tmp_path, by, hours):
    path = tmp_path / "t"
    table, orphan, instant = killed(path, hours=hours)
    content = (path / orphan).read_bytes()
    result = ROLLBACKS[by](table.handle, instant)
    assert not (path / orphan).exists()
    assert [file.read_bytes() for file in quarantine(path)] == [content] * (hours is not None)
    if by == "person":
        assert (result.files_moved, result.files_deleted) == ((0, 1) if hours is None else (1, 0))
        assert ("files_moved" in to_json_value(result)) == (hours is not None)
    assert table.handle.timeline().pending_writes == ()
    assert rows_of(path) == view_rows(path) == BASE


def test_the_list_has_the_files_of_a_killed_writer(tmp_path):
    path = tmp_path / "t"
    table, orphan, _ = killed(path)
    listed = clean_deletions(table.handle, timing=AT_ONCE)
    assert [(file.path, file.is_new) for file in listed.quarantine] == [(orphan, True)]
    assert [file.path for file in archive_deletions(table.handle, timing=AT_ONCE).quarantine] == [orphan]
    before = {file for file in path.rglob("*") if file.is_file()}
    clean(table.handle, timing=AT_ONCE)
    gone = {file.relative_to(path).as_posix() for file in before if not file.exists()}
    assert gone == {orphan, *(file.path for file in listed.files)}
    assert quarantine(path) == [path / quarantine_path(orphan)]


@pytest.mark.parametrize("stop", [Stop.AFTER, Stop.HALFWAY])
def test_a_recovery_that_dies_anywhere_loses_no_file(tmp_path, stop):
    template = tmp_path / "template"
    _, orphan, _ = killed(template)
    content = (template / orphan).read_bytes()
    counted = FaultyStore(open_store(shutil.copytree(template, tmp_path / "counted")), tmp_path / "count")
    recovered_timeline(SmallTable(store=counted).handle, timing=AT_ONCE)
    operations = counted.operations()
    assert operations > 5
    for stop_at in range(1, operations + 1):
        path = shutil.copytree(template, tmp_path / f"{stop_at}")
        faulty = FaultyStore(open_store(path), tmp_path / f"n{stop_at}", stop_at=stop_at, stop=stop)
        with pytest.raises(Stopped):
            recovered_timeline(SmallTable(store=faulty).handle, timing=AT_ONCE)
        aside = path / quarantine_path(orphan)
        copies = {file.read_bytes() for file in (path / orphan, aside) if file.exists()}
        assert copies == {content}, f"operation {stop_at}"
        recovered_timeline(SmallTable(store=open_store(path)).handle, timing=AT_ONCE)
        assert ((path / orphan).exists(), aside.read_bytes()) == (False, content), f"operation {stop_at}"
        assert view_rows(path) == BASE


def test_what_a_person_takes_back_and_what_a_writer_takes_back_is_deleted(tmp_path):
    path = tmp_path / "t"
    table = make_table(path, quarantine_seconds=HOUR)
    table.upsert(BASE)
    create_savepoint(table.handle, timing=FAST)
    table.upsert({"k0": (5, "a")})
    newest = table.upsert({"k0": (6, "a")}).instant
    rollback(table.handle, newest, timing=FAST)
    assert (view_rows(path)["k0"], quarantine(path)) == ((5, "a"), [])
    restore(table.handle, table.handle.timeline().savepoints[0], timing=FAST)
    assert (view_rows(path), quarantine(path)) == (BASE, [])

    def fails(_):
        raise InvalidDataError("no")

    with pytest.raises(InvalidDataError):
        replace(table, before_publish=fails).upsert({"k1": (5, "b")})
    assert quarantine(path) == []


class NoRoom(WrappedStore):
    """A store on a full disk: no file can be moved, or the first claim cannot be put."""

    fails_to_move = False
    claims_that_fail = 0

    def before(self, kind, path):
        is_claim = kind is Kind.PUT_IF_ABSENT and "/instants/" in path
        self.claims_that_fail -= is_claim
        if (kind is Kind.MOVE and self.fails_to_move) or (is_claim and self.claims_that_fail >= 0):
            raise storage_error("write", Value.uri(path), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


@pytest.mark.parametrize("fails_to_move", [True, False])
def test_on_a_full_disk_the_files_of_a_killed_writer_give_way(tmp_path, fails_to_move):
    path = tmp_path / "t"
    table, orphan, _ = killed(path)
    store = NoRoom(table.store)
    store.fails_to_move, store.claims_that_fail = fails_to_move, 1 - fails_to_move
    clean(SmallTable(store=store).handle, timing=AT_ONCE)
    assert ((path / orphan).exists(), quarantine(path), view_rows(path)) == (False, [], BASE)


class CleanedMeanwhile(WrappedStore):
    """Another clean moves the orphan as soon as the files below ``.hoodie`` have been listed."""

    orphan = ""

    def list(self, prefix="", *, recursive=False):
        found = self.inner.list(prefix, recursive=recursive)
        if prefix == TIMELINE_FOLDER and recursive:
            self.inner.move(self.orphan, quarantine_path(self.orphan))
        return found


def test_a_purge_deletes_what_another_clean_moves_meanwhile(tmp_path):
    table, orphan = made(tmp_path / "t")
    store = CleanedMeanwhile(table.store)
    store.orphan = orphan
    assert clean_groups(SmallTable(store=store).handle, [], timing=FAST).orphans_deleted == 1
    assert ((tmp_path / "t" / orphan).exists(), quarantine(tmp_path / "t")) == (False, [])


def test_the_check_of_a_purge_names_what_is_in_the_quarantine():
    live, dead, orphan = "p=a/live.parquet", "p=a/dead.parquet", quarantine_path("p=a/f.parquet")
    paths = [live, dead, orphan, f"{orphan}.copy", f"{TIMELINE_FOLDER}/hoodie.properties"]
    found = [(one.file, one.place) for one in _unchecked(paths, {live})]
    assert found == [
        (dead, "not checked, an unfinished write's"),
        (orphan, "not checked, in the quarantine of orphans"),
        (f"{orphan}.copy", "not checked, in the quarantine of orphans"),
    ]


def test_the_list_has_what_enters_and_leaves_and_when(tmp_path):
    path = tmp_path / "t"
    table, orphan = made(path)
    entering = clean_deletions(table.handle, timing=FAST)
    assert orphan not in {file.path for file in entering.files}
    (one,) = entering.quarantine
    assert (one.path, one.is_new, quarantine(path)) == (orphan, True, [])
    text = DeletionsView(verbose=False).text(entering, Paint(enabled=False))
    until = datetime.fromtimestamp(one.until_ms / 1000, UTC)
    assert abs((until - datetime.now(UTC)).total_seconds() - HOUR) < 60
    assert "\n  moves 1 orphan to the quarantine, " in text
    assert f"{orphan}  " in text
    assert f"in the quarantine until {until:%Y-%m-%d %H:%M} UTC" in text
    assert "moves 1 orphan to the quarantine" in reasons_text(entering)

    clean(table.handle, timing=FAST)
    staying = clean_deletions(table.handle, timing=FAST)
    assert [(file.path, file.is_new) for file in staying.quarantine] == [(orphan, False)]
    assert "keeps 1 orphan in the quarantine" in DeletionsView(verbose=True).text(
        staying, Paint(enabled=False)
    )
    assert archive_deletions(table.handle, timing=FAST).quarantine == ()

    leaving = clean_deletions(later(table, 2), timing=FAST)
    (gone,) = (file for file in leaving.files if file.reason is DeletionReason.QUARANTINE)
    assert (gone.path, quarantined_file(gone.path)) == (quarantine_path(orphan), orphan)
    assert gone.instant is not None and gone.instant in orphan
    assert leaving.quarantine == ()
    before = {file for file in path.rglob("*") if file.is_file()}
    clean(later(table, 2), timing=FAST)
    deleted = {file.relative_to(path).as_posix() for file in before if not file.exists()}
    assert deleted == {file.path for file in leaving.files}


def test_personal_values_of_paths_are_masked(tmp_path):
    table, _ = made(tmp_path / "t")
    spec = table.handle.spec
    columns = tuple(replace(column, pii=column.name == "p") for column in spec.columns)
    clean(table.handle, timing=FAST)
    found = clean_deletions(table.handle, timing=FAST), clean_deletions(later(table, 2), timing=FAST)
    for one in found:
        shown = cleared(one, replace(spec, columns=columns), location=table.store.uri)
        paths = [file.path for file in (*shown.files, *shown.quarantine)]
        assert any("***" in path for path in paths)
        assert not any("p=b" in path for path in paths)


@pytest.mark.parametrize("path", ["f.parquet", "p=a/f.parquet", "a.b/p=%2F/x%2Ey.parquet"])
def test_a_quarantined_file_tells_where_it_was(path):
    assert quarantined_file(quarantine_path(path)) == path
    assert quarantined_file(path) is None
    assert ".parquet" not in quarantine_path(path).rpartition("/")[2]
