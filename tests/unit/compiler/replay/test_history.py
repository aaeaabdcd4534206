"""What a replay reads: the period, the files before it, and by name what is not recorded."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from parquetry.compiler.replay.history import Reach, RecordedClean, RecordedWrite, read_history
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.sized_table import SPEC, SizedTable
from tests.support.small_table import SmallTable, make_table
from tests.support.stores import CountingStore, Kind


def history_of(table, **reach):
    handle = open_table(table.store)
    return read_history(handle, handle.view(handle.timeline()), Reach(**reach))


def writes_of(history):
    return [event for event in history.events if isinstance(event, RecordedWrite)]


def by_group(files):
    return {(file.partition, file.file_id): (file.instant, file.size_bytes, file.rows) for file in files}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two dozen writes, most of them archived and cleaned."""
    table = SizedTable.create(tmp_path_factory.mktemp("sized") / "table")
    states = []
    for number in range(24):
        if number % 6 == 5:
            table.cluster()
        table.upsert({"a": 300, "b": 200}, updates={"a": 20} if number else {}, files=1)
        states.append((table.handle.timeline().completed_writes[-1].time, table.slices()))
    return table, states


def copied(table, tmp_path):
    path = shutil.copytree(table[0].store.uri.removeprefix("file://"), tmp_path / "copy")
    return SizedTable(store=open_store(path))


def test_the_archive_is_read_as_far_as_the_period_reaches(table):
    sized, states = table
    active = sized.handle.timeline().completed_writes
    history = history_of(sized, since="0")
    times = [write.time for write in writes_of(history)]
    assert times == sorted(times)
    assert {time for time, _ in states} < set(times)
    assert len(times) > len(active)
    assert history.files == ()
    assert history.gaps == ()
    assert any(isinstance(event, RecordedClean) and event.deleted for event in history.events)


def test_the_files_at_the_beginning_are_those_that_there_were(table):
    sized, states = table
    for place in (5, 11, 20):
        time, slices = states[place]
        history = history_of(sized, since=time + "0")
        assert history.gaps == ()
        found = by_group(history.files)
        assert {key: one[1] for key, one in found.items()} == {
            (part.partition, part.file_id): part.size_bytes for part in slices
        }


def test_rows_of_files_at_the_beginning_are_counted_by_their_commits(table):
    sized, states = table
    whole = {
        (files.partition, file.file_id, write.time): file.rows
        for write in writes_of(history_of(sized, since="0"))
        for files in write.partitions
        for file in files
    }
    found = history_of(sized, since=states[20][0] + "0").files
    counted = [file for file in found if file.rows is not None]
    assert counted
    assert all(file.rows == whole[file.partition, file.file_id, file.instant] for file in counted)


def test_what_is_recorded_no_more_is_derived_and_said(table):
    sized, states = table
    history = history_of(sized, newest=4, archive=False, cleans=False)
    assert len(writes_of(history)) == 4
    assert not any(isinstance(event, RecordedClean) for event in history.events)
    time = writes_of(history)[0].time
    before = [slices for instant, slices in states if instant < time][-1]
    found = by_group(history.files)
    assert set(found) == {(part.partition, part.file_id) for part in before}
    for part in before:
        assert found[part.partition, part.file_id][1] == pytest.approx(part.size_bytes, rel=0.2)


def test_an_archive_that_is_lost_is_named(table, tmp_path):
    table = copied(table, tmp_path)
    for path in [info.path for info in table.store.list(".hoodie/archived")]:
        table.store.delete(path)
    history = history_of(table, since="0")
    (gap,) = [gap for gap in history.gaps if "no write before" in gap]
    assert writes_of(history)[0].time in gap


def test_a_log_file_that_cannot_be_read_is_named(table, tmp_path):
    table = copied(table, tmp_path)
    path = max(info.path for info in table.store.list(".hoodie/archived"))
    table.store.put(path, b"no log")
    assert any("cannot be read" in gap for gap in history_of(table, since="0").gaps)


def test_commits_of_other_programs_are_named_and_files_without_numbers_too(tmp_path):
    make_table(tmp_path / "table")
    table = SmallTable(store=open_store(tmp_path / "table"))
    for number in range(3):
        table.insert({f"k{number}": (number, "a")})
    newest = table.handle.timeline().completed_writes[-1]
    document = json.loads(table.store.read(newest.path)) | {"extraMetadata": {}}
    for stats in document["partitionToWriteStats"].values():
        for stat in stats:
            stat["numWrites"] = stat["numInserts"] = 0
    table.store.put(newest.path, json.dumps(document).encode())
    gaps = history_of(table, since="0").gaps
    assert any("other programs made 1 of 4 commits" in gap for gap in gaps), gaps
    assert any("no rows or no bytes for 1 files" in gap for gap in gaps), gaps


def test_a_plan_reads_no_more_than_its_newest_commits(tmp_path):
    table = SizedTable.create(
        tmp_path / "table", replace(SPEC, retention=replace(SPEC.retention, archive_keep_commits=40))
    )
    for _ in range(20):
        table.insert({"a": 20})
    store = CountingStore(table.store, tmp_path / "log")
    handle = open_table(store)
    view = handle.view(handle.timeline())
    view.all_slices()
    store.reset()
    read_history(handle, view, Reach(newest=6, archive=False, cleans=False))
    assert store.counts() == {Kind.READ: 6}
