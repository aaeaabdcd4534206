"""A table gets another version: its rows, history, archive and positions stay, whatever interrupts the change."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest

from parquetry.runtime.apply import version_change
from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.errors import ConflictError, CorruptTableError, UnsupportedTableError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import parse_properties, read_table_properties
from parquetry.runtime.table.version_leftovers import note_version_change
from parquetry.runtime.timeline.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
)
from parquetry.runtime.timeline.instant import Action, State
from tests.support.effort import in_full
from tests.support.small_table import FAST, SmallTable, make_table, rows_of, view_rows
from tests.support.stores import FaultyStore, Stop, Stopped

AT_ONCE = replace(FAST, dead_after_seconds=0.0)
POLICY = RetentionPolicy(keep_commits=2, archive_keep_commits=4)
SAMPLED = 11


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A table with a history of every kind, and archived instants from two archivals."""
    path = tmp_path_factory.mktemp("history") / "t"
    table = make_table(path, keep_commits=2)
    for number in range(6):
        table.upsert({"k0": (number, "a"), f"k{number}": (number, "a"), f"m{number}": (number, "b")})
        clean(table.handle, policy=POLICY, timing=FAST)
        if number == 4:
            archive(table.handle, policy=POLICY, timing=FAST)
    table.overwrite({"z": (1, "c")})
    clean(table.handle, policy=POLICY, timing=FAST)
    assert archive(table.handle, policy=POLICY, timing=FAST).instants
    saved = create_savepoint(table.handle, timing=FAST).instant
    table.upsert({"lost": (1, "a")})
    restore(table.handle, saved, timing=FAST)
    table.delete_partition("p=c")
    table.delete(["k3"])
    return path


@pytest.fixture
def path(history, tmp_path):
    return copied(history, tmp_path / "t")


def copied(source, target):
    shutil.copytree(source, target)
    return target


def state_files(path):
    """The state files of both layouts and both archives, by path."""
    root = path / ".hoodie"
    found = [*root.glob("[0-9]*"), *(root / "archived").rglob("*"), *(root / "timeline").rglob("*")]
    # A clean deletes the temporary file of a killed writer.
    files = (file for file in found if file.is_file() and file.suffix != ".tmp")
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def version(path):
    return open_table(open_store(path)).config.version


def seen(path):
    """Return the rows that readers see, and the records of the table."""
    handle = open_table(open_store(path))
    timeline = handle.timeline()
    archived = [
        (instant.time, instant.action, instant.commit_metadata() if instant.is_completed_write else None)
        for _, file in timeline.layout.archived(handle.store)
        for instant in file
        if instant.state == State.COMPLETED
    ]
    retained = timeline.earliest_retained or ""
    return {
        "instants": [(i.time, i.action, i.state) for i in timeline.instants],
        "commits": {i.time: timeline.commit_metadata(i.time) for i in timeline.completed_writes},
        "cleans": [timeline.clean_metadata(i.time) for i in timeline.of(Action.CLEAN, state=State.COMPLETED)],
        "savepoints": [timeline.savepoint_metadata(time) for time in timeline.savepoints],
        "clusterings": dict(timeline.pending_clusterings),
        "archived": sorted(archived, key=lambda entry: entry[:2]),
        "rows": view_rows(path),
        "as of": {i.time: view_rows(path, i.time) for i in timeline.completed_writes if i.time >= retained},
        "since": {i.time: written_after(timeline, i.position) for i in timeline.completed_writes},
    }


def written_after(timeline, position):
    """The times of the writes that an incremental read from a position returns."""
    return {time for time, found in timeline.positions_after(position).items() if found > position}


def next_time(path):
    """The time of an instant behind all others."""
    return str(int(open_table(open_store(path)).timeline().last_instant) + 1)


def test_there_and_back_everything_is_as_it_was(path):
    before, files, properties = seen(path), state_files(path), read_table_properties(open_store(path))
    assert before["archived"]
    assert change_version(open_store(path), 9, timing=FAST)
    assert version(path) == 9
    assert seen(path) == before
    assert rows_of(path) == before["rows"]
    assert all(name.startswith(".hoodie/timeline/") for name in state_files(path))
    assert change_version(open_store(path), 6, timing=FAST)
    assert seen(path) == before
    assert rows_of(path) == before["rows"]
    assert read_table_properties(open_store(path)) == properties
    again = state_files(path)
    of_timeline = re.compile(r"\.hoodie/[0-9]+\..*")
    assert {n: c for n, c in again.items() if of_timeline.fullmatch(n)}.keys() == {
        n for n in files if of_timeline.fullmatch(n)
    }
    assert all(again[name] == files[name] for name in again if name.endswith((".clean", ".savepoint")))


def test_the_files_of_version_9_have_the_form_that_hudi_expects(path):
    change_version(open_store(path), 9, timing=FAST)
    files = state_files(path)
    names = [name.rpartition("/")[2] for name in files]
    assert {"_version_", "manifest_1"} < set(names)
    completed = [name for name in names if re.fullmatch(r"[0-9]{17}_[0-9]{17}\.[a-z]+", name)]
    assert {name.rpartition(".")[2] for name in completed} >= {
        "commit",
        "replacecommit",
        "savepoint",
        "restore",
    }
    assert all(files[n][:4] == b"Obj\x01" for n in files if re.search(r"_[0-9]+\.(commit|replacecommit)$", n))
    assert all(content == b"" for name, content in files.items() if name.endswith(".clean.inflight"))


def test_writers_go_on_in_each_version(path):
    rows = view_rows(path)
    for number, wanted in enumerate((9, 8, 9, 6, 9, 6)):
        change_version(open_store(path), wanted, timing=FAST)
        SmallTable(open_store(path)).upsert({f"n{number}": (number, "a")})
        rows |= {f"n{number}": (number, "a")}
        clean(open_table(open_store(path)), policy=POLICY, timing=FAST)
        archive(open_table(open_store(path)), policy=POLICY, timing=FAST)
        assert view_rows(path) == rows_of(path) == rows


def test_between_8_and_9_only_properties_change(path):
    change_version(open_store(path), 9, timing=FAST)
    files = state_files(path)
    for wanted in (8, 9):
        assert change_version(open_store(path), wanted, timing=FAST)
        assert version(path) == wanted
        assert state_files(path) == files


def test_a_table_of_the_wanted_version_is_left_alone_but_for_what_a_crash_left(path):
    before = state_files(path)
    left = path / ".hoodie/timeline/20200101000000000_20200101000000001.commit"
    left.parent.mkdir()
    left.write_bytes(b"")
    assert not change_version(open_store(path), 6, timing=FAST)
    assert left.exists()  # Hudi may be upgrading the table
    note_version_change(open_table(open_store(path)).timeline())
    assert not change_version(open_store(path), 6, timing=FAST)
    assert state_files(path) == before


def test_what_a_crashed_change_left_does_not_come_back(path):
    before = seen(path)
    left = path / ".hoodie/timeline/20200101000000000_20200101000000001.commit"
    left.parent.mkdir()
    left.write_bytes(b"")
    change_version(open_store(path), 9, timing=FAST)
    assert seen(path) == before


def test_a_pending_clustering_stays_scheduled(path):
    handle = open_table(open_store(path))
    part = handle.view(handle.timeline()).all_slices()[0]
    plan = ClusteringPlan(
        groups=(
            ClusteringGroup(
                slices=(ClusteringSlice(path=part.path, partition=part.partition, file_id=part.file_id),),
            ),
        )
    )
    time = next_time(path)
    requested = handle.timeline().layout.requested(time, Action.REPLACECOMMIT)
    handle.store.put(requested.path, RequestedReplace(operation="CLUSTER", plan=plan).encode())
    before = seen(path)
    assert before["clusterings"]
    change_version(open_store(path), 9, timing=FAST)
    assert (path / f".hoodie/timeline/{time}.clustering.requested").exists()
    assert seen(path) == before
    change_version(open_store(path), 6, timing=FAST)
    assert (path / f".hoodie/{time}.replacecommit.requested").exists()
    assert seen(path) == before


def test_a_completed_clustering_stays_completed(path):
    change_version(open_store(path), 9, timing=FAST)
    SmallTable(open_store(path)).overwrite({"z": (9, "c")})
    timeline = open_table(open_store(path)).timeline()
    newest = timeline.completed_writes[-1]
    clustering = timeline.layout.requested(newest.time, Action.REPLACECOMMIT, is_clustering=True)
    for pending, renamed in zip(newest.pending_states, clustering.pending_states, strict=True):
        (path / pending.path).rename(path / renamed.path)
    (path / clustering.path).write_bytes(RequestedReplace(operation="CLUSTER").encode())
    before = seen(path)
    change_version(open_store(path), 6, timing=FAST)
    assert seen(path)["instants"] == before["instants"]
    assert seen(path)["rows"] == before["rows"]
    change_version(open_store(path), 9, timing=FAST)
    assert (path / clustering.path).exists()
    assert seen(path)["instants"] == before["instants"]


def files_of_archive(path):
    """The times of the instants in each file of the archive."""
    handle = open_table(open_store(path))
    files = [file for _, file in handle.timeline().layout.archived(handle.store)]
    return [sorted({i.time for i in file if i.state == State.COMPLETED}) for file in files]


def test_each_file_of_the_archive_stays_a_file(path):
    """Whether a write was rolled back depends on the file that lacks it."""
    before = files_of_archive(path)
    assert len(before) > 1
    for wanted in (9, 6):
        change_version(open_store(path), wanted, timing=FAST)
        assert files_of_archive(path) == before


@pytest.mark.parametrize("folder", ["timeline", ".parquetry"])
def test_no_folder_is_deleted_because_the_properties_name_it_as_an_archive(path, folder):
    rows, files = view_rows(path), sorted((path / ".hoodie/.parquetry").rglob("*"))
    properties = path / ".hoodie/hoodie.properties"
    for version in (9, 9, 6, 6):
        content = properties.read_text()
        properties.write_text(re.sub(r"(?m)^hoodie\.archivelog\.folder=.*\n", "", content))
        with properties.open("a") as file:
            file.write(f"hoodie.archivelog.folder={folder}\n")
        change_version(open_store(path), version, timing=FAST)
        assert view_rows(path) == rows
        assert set(files) <= set((path / ".hoodie/.parquetry").rglob("*"))


@pytest.mark.parametrize("state", ["commit.requested", "rollback.inflight"])
def test_a_pending_write_or_rollback_is_waited_for(path, state):
    (path / f".hoodie/{next_time(path)}.{state}").write_bytes(b"")
    before = state_files(path)
    with pytest.raises(ConflictError, match=r"is pending.*wait until it ends"):
        change_version(open_store(path), 9, timing=FAST)
    assert state_files(path) == before
    assert version(path) == 6


def test_a_metadata_table_goes_first(path):
    properties = path / ".hoodie/hoodie.properties"
    properties.write_text(f"{properties.read_text()}hoodie.table.metadata.partitions=files\n")
    with pytest.raises(UnsupportedTableError, match=r"hoodie\.table\.metadata\.partitions=files"):
        change_version(open_store(path), 9, timing=FAST)
    assert version(path) == 6


def test_a_damaged_commit_or_archive_changes_nothing(path):
    newest = max((path / ".hoodie").glob("*.commit"))
    content = newest.read_bytes()
    newest.write_bytes(b"{torn")
    with pytest.raises(CorruptTableError, match=newest.name):
        change_version(open_store(path), 9, timing=FAST)
    newest.write_bytes(content)
    log = next((path / ".hoodie/archived").iterdir())
    log.write_bytes(log.read_bytes()[:100])
    with pytest.raises(CorruptTableError, match=r"file [0-9]+ of the archive cannot be read"):
        change_version(open_store(path), 9, timing=FAST)
    assert version(path) == 6


def overtaken_at_the_switch(path, patch, *, stops=False):
    """Let another program commit just before the change switches, which then stops or goes on.

    Return the rows with that commit.
    """
    other = copied(path, path.with_name("other"))
    SmallTable(open_store(other)).upsert({"late": (7, "a")})
    switch = version_change._switch

    def overtaken(*arguments):
        shutil.copytree(other, path, dirs_exist_ok=True)
        switch(*arguments)
        if stops:
            raise Stopped

    patch.setattr(version_change, "_switch", overtaken)
    return view_rows(other)


def test_a_commit_that_another_program_puts_beside_the_change_is_taken_over(path, monkeypatch):
    expected = overtaken_at_the_switch(path, monkeypatch)
    change_version(open_store(path), 9, timing=FAST)
    assert view_rows(path) == expected


@pytest.mark.parametrize("finish", ["apply", "clean"])
@pytest.mark.parametrize("before", [6, 9])
def test_a_commit_put_beside_a_change_that_is_stopped_behind_the_switch_is_taken_over(
    path, monkeypatch, before, finish
):
    after = 15 - before
    change_version(open_store(path), before, timing=FAST)
    with monkeypatch.context() as patched:
        expected = overtaken_at_the_switch(path, patched, stops=True)
        with pytest.raises(Stopped):
            change_version(open_store(path), after, timing=FAST)
    assert version(path) == after
    assert view_rows(path) != expected
    if finish == "apply":
        assert not change_version(open_store(path), after, timing=AT_ONCE)
    else:
        clean(open_table(open_store(path)), policy=RetentionPolicy(keep_commits=100), timing=AT_ONCE)
    assert view_rows(path) == rows_of(path) == expected


@pytest.mark.parametrize(("before", "after"), [(6, 9), (9, 6), (9, 8)])
def test_stopped_at_each_operation_the_table_has_one_version_or_the_other(history, tmp_path, before, after):
    whole = copied(history, tmp_path / "whole")
    change_version(open_store(whole), before, timing=FAST)
    expected = seen(whole)
    template = copied(whole, tmp_path / "template")
    counting = FaultyStore(open_store(whole), tmp_path / "count")
    change_version(counting, after, timing=FAST)
    points = [(number, stop) for number in range(1, counting.operations() + 1) for stop in Stop]
    assert len(points) > 15
    for number, stop in points if in_full() else points[before % SAMPLED :: SAMPLED]:
        path, place = tmp_path / f"{stop} {number}", f"{stop} {number}"
        copied(template, path)
        store = FaultyStore(open_store(path), tmp_path / f"count {place}", stop_at=number, stop=stop)
        with pytest.raises(Stopped):
            change_version(store, after, timing=FAST)
        assert version(path) in (before, after), place
        assert seen(path) == expected, place
        if number % 2 and version(path) == after:
            clean(open_table(open_store(path)), policy=RetentionPolicy(keep_commits=100), timing=AT_ONCE)
        else:
            change_version(open_store(path), after, timing=AT_ONCE)
        assert version(path) == after, place
        assert seen(path) == expected, place
        assert state_files(path).keys() == state_files(whole).keys(), place
        assert rows_of(path) == expected["rows"], place
        shutil.rmtree(path)


def test_the_comment_of_the_properties_names_the_program(path):
    change_version(open_store(path), 9, timing=FAST)
    content = (path / ".hoodie/hoodie.properties").read_bytes()
    assert content.startswith(b"#changed to table version 9 by parquetry\n")
    assert parse_properties(content)["hoodie.table.initial.version"] == "6"
