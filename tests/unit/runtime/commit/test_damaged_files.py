"""Files that somebody deleted or cut: inspect and doctor name them, with the commit that wrote them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from parquetry.cli.views.inspect import InspectView
from parquetry.compiler.reports.doctor import check_project
from parquetry.compiler.reports.inspection import inspect_table
from parquetry.message import texts
from parquetry.runtime.commit.damaged_files import check_read, damaged_files
from parquetry.runtime.errors import CorruptTableError, StalePlanError
from parquetry.runtime.services.accepted_loss import ACCEPTED_KEY, accept_loss, lost_rows
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.rollback import InstantInfo, RollbackPlan
from parquetry.runtime.write.partition_deletion import delete_partitions
from parquetry.text.secret_names import MASK
from tests.support.command_script import parquetry
from tests.support.handmade import HandmadeTable
from tests.support.project_folder import ProjectFolder
from tests.support.small_table import COLUMNS, FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped
from tests.support.timelines import change_commit, put_pending

pytestmark = pytest.mark.usefixtures("on_each_version")


@pytest.fixture
def table(tmp_path):
    made = make_table(tmp_path / "t", keep_commits=1)
    made.upsert({"k1": (1, "a"), "k2": (2, "b")})
    made.upsert({"k1": (3, "a")})
    return made


def newest(table, partition):
    (part,) = table.handle.view(table.handle.timeline()).slices(partition)
    return part


def test_a_whole_table_has_none_whatever_was_cleaned_or_replaced(table):
    assert damaged_files(table.handle) == ()
    table.overwrite({"k1": (4, "a")})
    table.delete_partition("p=b")
    table.upsert({"k1": (5, "a")})
    assert clean(table.handle, timing=FAST).files_deleted
    assert damaged_files(table.handle) == ()


def test_a_file_in_the_root_of_a_partitioned_table_is_named_until_its_write_is_rolled_back(tmp_path):
    """Hudi's row writer clusters a table without meta columns like that."""
    made = HandmadeTable(tmp_path / "t")
    made.commit("1", {"p=a": {"f-0": [("k", 1)]}})
    made.commit("2", {"": {"f-1": [("k", 1)]}}, operation="CLUSTER", replaced={"p=a": ["f-0"]})
    (found,) = damaged_files(made.open())
    assert (found.path.partition("_")[0], found.is_outside, found.rows) == ("f-1", True, 1)
    (warning,) = inspect_table(made.store).warnings
    assert re.search(r"f-1_\S+, a file of \d+, is in no partition, .* service rollback", str(warning))
    view = made.view()
    with pytest.raises(CorruptTableError, match="is in no partition"):
        check_read(made.open(), view, view.all_slices(), until=view.newest, choose=list)
    rollback(made.open(), view.newest)
    assert damaged_files(made.open()) == ()
    assert len(made.view().all_slices()) == 1


def test_a_file_that_was_deleted_is_named_with_its_commit(table):
    lost = newest(table, "p=a")
    table.store.delete(lost.path)
    (found,) = damaged_files(table.handle)
    assert (found.path, found.instant, found.size_bytes) == (lost.path, lost.instant, None)
    report = inspect_table(table.store)
    (warning,) = report.warnings
    assert lost.path in warning
    assert f"a file of {lost.instant}, is missing" in warning
    assert json.loads(json.dumps(texts(InspectView().json(report))))["warnings"] == [warning]


def test_a_partition_that_was_deleted_is_named(table):
    table.store.delete_folder("p=b")
    assert [file.partition for file in damaged_files(table.handle)] == ["p=b"]


def test_a_file_that_was_cut_is_named_with_both_sizes(table):
    whole = newest(table, "p=a")
    table.store.put(whole.path, table.store.read(whole.path)[:100])
    (found,) = damaged_files(table.handle)
    assert (found.size_bytes, found.written_bytes) == (100, whole.size_bytes)


def test_many_are_counted_and_personal_partitions_are_masked(tmp_path):
    table = make_table(tmp_path / "t")
    table.upsert({f"k{n}": (n, f"secret{n}") for n in range(12)})
    for n in range(12):
        table.store.delete_folder(f"p=secret{n}")
    spec = table.handle.spec
    columns = tuple(replace(column, pii=column.name == "p") for column in spec.columns)
    warnings = inspect_table(table.store, declared=spec.with_columns(columns)).warnings
    assert len(warnings) == 11
    assert str(warnings[-1]).startswith("2 more files")
    assert not any("secret" in warning for warning in warnings)
    assert all(MASK in warning for warning in warnings[:-1])


def test_an_older_version_that_is_read_in_its_place_is_named(table):
    older, lost = newest(table, "p=b"), None
    table.upsert({"k2": (9, "b")})
    lost = newest(table, "p=b")
    table.store.delete(lost.path)
    (found,) = damaged_files(table.handle)
    assert (found.path, found.older, found.rows) == (lost.path, older.instant, 1)
    assert f"reads use its older version of {older.instant}" in inspect_table(table.store).warnings[0]


def test_inspect_opens_no_file_of_another_size_than_was_written(table):
    whole = newest(table, "p=a")
    for content in (b"", table.store.read(whole.path)[:100], table.store.read(whole.path) + b"more"):
        table.store.put(whole.path, content)
        expected = f"{whole.path} has {len(content):,} bytes, but {whole.instant} wrote {whole.size_bytes:,};"
        with pytest.raises(CorruptTableError, match=re.escape(expected)):
            inspect_table(table.store)


def test_sizes_that_a_commit_does_not_say_are_not_held_against_files(table):
    part = newest(table, "p=a")
    for size in (0, -1):
        change_commit(table.store, part.instant, lambda stat, size=size: replace(stat, file_size_bytes=size))
        assert damaged_files(table.handle) == ()
    table.store.put(part.path, b"")
    assert [file.written_bytes for file in damaged_files(table.handle)] == [None]


def test_files_of_archived_commits_are_too_small_at_most(tmp_path):
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=2)
    table.upsert({"k1": (1, "a")})
    for n in range(12):
        table.upsert({"k2": (n, "b")})
    clean(table.handle, timing=FAST)
    assert archive(table.handle, timing=FAST).instants
    part = newest(table, "p=a")
    table.store.put(part.path, b"")
    (found,) = damaged_files(table.handle)
    assert (found.path, found.size_bytes, found.written_bytes) == (part.path, 0, None)
    assert damaged_files(table.handle, every_partition=False) == ()


def test_a_write_that_is_being_undone_has_lost_nothing(table):
    part = newest(table, "p=a")
    plan = RollbackPlan(instant=InstantInfo(time=part.instant, action="commit"), requests=())
    put_pending(table.store, "29990101000000000", Action.ROLLBACK, content=plan.encode())
    table.store.delete(part.path)
    assert damaged_files(table.handle) == ()


@pytest.fixture
def shop(tmp_path):
    """A project whose table ``orders`` has a file of one row in each of two partitions."""
    folder = ProjectFolder.create(tmp_path / "shop")
    columns = [{"name": column.name, "type": column.type, "nullable": column.nullable} for column in COLUMNS]
    spec = {"columns": columns, "record_key": ["id"], "partition_by": ["p"], "ordering": "v"}
    folder.orders(**spec)
    assert parquetry("apply", "--auto-approve", "-p", folder.root).returncode == 0
    SmallTable(store=open_store(folder.table)).upsert({"k1": (1, "a"), "k2": (2, "b")})
    return folder


def test_every_command_that_looks_at_the_table_names_a_lost_file(shop):
    table = SmallTable(store=open_store(shop.table))

    def said(*arguments):
        done = parquetry(*arguments, "-p", shop.root)
        return done.returncode, done.stdout + done.stderr

    commands = (
        (("doctor",), 1),
        (("inspect", "orders"), 1),
        (("plan", "--due"), 0),
        (("drift",), 0),
        (("drift", "--check"), 3),
        (("run", "-q"), 1),
    )
    lost = newest(table, "p=a")
    table.store.delete(lost.path)
    for arguments, expected in commands:
        code, text = said(*arguments)
        assert (code, lost.path in text) == (expected, True), text
        assert "doctor --accept-loss" in text


def test_doctor_wants_a_lost_file_mended(shop):
    table = SmallTable(store=open_store(shop.table))
    assert all(check.ok for check in check_project(shop.workspace()))
    table.store.delete(newest(table, "p=a").path)
    (found,) = [check for check in check_project(shop.workspace()) if check.name == "table orders"]
    assert not found.ok
    assert "is missing" in found.found


WRITES = {
    "upsert": lambda table: table.upsert({"k1": (7, "a")}),
    "insert": lambda table: table.insert({"k3": (7, "a")}),
    "delete": lambda table: table.delete({"k1b"}),
}


@pytest.fixture
def crowded(tmp_path):
    """Two files in ``p=a``, one in ``p=b``, and an older version of one of them."""
    made = make_table(tmp_path / "t")
    made.insert({"k1": (1, "a")})
    made.insert({"k1b": (1, "a")})
    made.upsert({"k1": (2, "a"), "k2": (2, "b")})
    return made


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("content", [None, b"", b"PAR1" * 20])
def test_no_write_builds_on_what_is_left_of_a_partition(crowded, write, content):
    lost = max(crowded.handle.view(crowded.handle.timeline()).slices("p=a"), key=lambda part: part.instant)
    whole = crowded.store.read(lost.path)
    if content is None:
        crowded.store.delete(lost.path)
        crowded.before_publish = lambda _: None
    else:
        # After the keys were looked up: what is published is compared with the listing once more.
        crowded.before_publish = lambda _: crowded.store.put(lost.path, content)
    before = [instant.time for instant in crowded.handle.timeline().completed_writes]
    with pytest.raises(CorruptTableError, match=lost.path):
        write(crowded)
    timeline = crowded.handle.timeline()
    assert [instant.time for instant in timeline.completed_writes] == before
    assert not timeline.pending_writes
    crowded.before_publish = lambda _: None
    crowded.upsert({"k2": (8, "b")})
    crowded.store.put(lost.path, whole)
    write(crowded)
    assert view_rows(crowded.store.uri)["k2"] == (8, "b")


def test_overwrites_and_deleted_partitions_do_away_with_lost_files(tmp_path):
    for number, write in enumerate((delete_partitions, accept)):
        table = make_table(tmp_path / f"t{number}")
        table.insert({"k1": (1, "a")})
        table.insert({"k2": (2, "a"), "k3": (3, "b")})
        lost = newest(table, "p=b")
        content = table.store.read(lost.path)
        table.store.delete(lost.path)
        assert write(table.handle, ["p=b"]).groups_replaced == 1
        assert damaged_files(table.handle) == ()
        table.store.put(lost.path, content)
        assert set(view_rows(table.store.uri)) == {"k1", "k2"} == set(rows_of(tmp_path / f"t{number}"))


def accept(handle, _):
    return accept_loss(handle, timing=FAST)


def test_an_accepted_loss_takes_the_older_version_too_and_the_table_goes_on(crowded, tmp_path):
    lost = max(crowded.handle.view(crowded.handle.timeline()).slices("p=a"), key=lambda part: part.instant)
    content = crowded.store.read(lost.path)
    crowded.store.delete(lost.path)
    (one,) = lost_rows(crowded.handle)
    assert (one.file.path, one.file.rows, one.min_key, one.max_key) == (lost.path, 1, "k1", "k1")
    assert one.file.older is not None
    with pytest.raises(StalePlanError, match="is lost too"):
        accept_loss(crowded.handle, [], timing=FAST)
    result = accept_loss(crowded.handle, [lost.path], timing=FAST)
    assert result.groups_replaced == 1
    assert json.loads(crowded.handle.timeline().commit_metadata(result.instant).extra[ACCEPTED_KEY]) == [
        {"path": lost.path, "instant": lost.instant, "rows": 1}
    ]
    left = {"k1b": (1, "a"), "k2": (2, "b")}
    assert view_rows(tmp_path / "t") == left == rows_of(tmp_path / "t")
    crowded.store.put(lost.path, content)
    assert view_rows(tmp_path / "t") == left == rows_of(tmp_path / "t")
    crowded.upsert({"k1": (9, "a")})
    assert rows_of(tmp_path / "t") == {**left, "k1": (9, "a")}
    assert accept_loss(crowded.handle, timing=FAST).instant is None


def lossy(folder):
    """A table of two rows in files of their own, of which one is gone."""
    table = make_table(folder)
    table.insert({"k1": (1, "a")})
    table.insert({"k2": (2, "a")})
    table.store.delete(newest_of(table, "k2"))
    return table


@pytest.mark.parametrize("stop", Stop)
def test_a_killed_acceptance_is_undone_or_done(tmp_path, stop):
    """Stopped at every write to the store: the loss stands, or is accepted; nothing else is lost."""
    counting = FaultyStore(lossy(tmp_path / "whole").store, tmp_path / "count")
    accept_loss(open_table(counting), timing=FAST)
    assert counting.operations() > 5
    for at in range(1, counting.operations() + 1):
        table = lossy(tmp_path / f"t{at}")
        store = FaultyStore(table.store, tmp_path / f"log{at}", stop_at=at, stop=stop)
        with suppress(Stopped):
            accept_loss(open_table(store), timing=FAST)
        # Its claim is that of this process, which lives: the table waits until the writer counts as dead.
        accept_loss(table.handle, timing=FAST)
        assert damaged_files(table.handle) == ()
        assert rows_of(tmp_path / f"t{at}") == {"k1": (1, "a")}
        replaced = [i for i in table.handle.timeline().completed_writes if i.action is Action.REPLACECOMMIT]
        assert len(replaced) == 1


def newest_of(table, key):
    parts = table.handle.view(table.handle.timeline()).all_slices()
    with_key = (part.path for part in parts if key in str(table.store.read(part.path)))
    return next(with_key)


def test_archiving_does_not_forget_what_is_lost(tmp_path):
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=2)
    table.upsert({"k1": (1, "a")})
    lost = newest(table, "p=a")
    table.store.delete(lost.path)
    for n in range(12):
        table.upsert({"k2": (n, "b")})
    clean(table.handle, timing=FAST)
    archive(table.handle, timing=FAST)
    assert [file.path for file in damaged_files(table.handle)] == [lost.path]
    accept_loss(table.handle, timing=FAST)
    assert archive(table.handle, timing=FAST).instants


def test_doctor_says_what_is_lost_asks_and_gives_it_up(shop):
    table = SmallTable(store=open_store(shop.table))

    def doctor(*arguments):
        return parquetry("doctor", *arguments, "-p", shop.root)

    nothing = doctor("--accept-loss", "orders")
    assert (nothing.returncode, nothing.stdout) == (
        0,
        "nothing is lost: every file of orders is as its commit wrote it\n",
    )
    lost = newest(table, "p=a")
    table.store.delete(lost.path)
    asked = doctor("orders", "--accept-loss")
    assert (asked.returncode, "give --auto-approve" in asked.stderr) == (2, True)
    assert damaged_files(table.handle)
    assert doctor("orders").returncode == doctor("--accept-loss").returncode == 2
    done = doctor("orders", "--accept-loss", "--auto-approve", "--format", "json")
    answer = json.loads(done.stdout)
    (file,) = answer["loss"]["files"]
    assert (done.returncode, answer["loss"]["rows"]) == (0, 1)
    assert (file["path"], file["rows"], file["min_key"]) == (lost.path, 1, "k1")
    assert answer["loss"]["instant"] == table.handle.timeline().completed_writes[-1].time
    assert doctor().returncode == parquetry("inspect", "orders", "-p", shop.root).returncode == 0


def test_a_read_does_not_need_commits_that_are_archived_beside_it(tmp_path: Path) -> None:
    policy = RetentionPolicy(keep_commits=None, keep_versions=1, archive_keep_commits=2)
    table = make_table(tmp_path / "t")
    first = table.upsert({"old": (0, "a")}).instant
    for number in range(5):
        table.upsert({"k": (number, "b")})
    clean(table.handle, policy=policy, timing=FAST)
    view = table.handle.view(table.handle.timeline())
    files = view.all_slices()
    assert first in {file.instant for file in files}
    assert first in archive(table.handle, policy=policy, timing=FAST).instants
    check_read(table.handle, view, files, until=view.newest, choose=list)
