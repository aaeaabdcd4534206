"""What our timeline, view and archive log make of tables that real Hudi wrote, and Hudi of our archive log."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from parquetry.compiler.reports.replay import replay_table
from parquetry.compiler.reports.simulate_sizing import Limits
from parquetry.runtime.spec.key_generator import KeyEncoding
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.archive_entry import archive_entries
from parquetry.runtime.timeline.archive_log import write_archive_log
from parquetry.runtime.timeline.instant import Action, State
from tests.interop.versions import MOSTLY_1_2_0
from tests.support.archives import read_archive
from tests.support.hudi_history import start
from tests.support.hudi_spark import HudiTable
from tests.support.rows import to_arrow

pytestmark = pytest.mark.interop

KEY_AND_TIME = ["_hoodie_record_key", "_hoodie_commit_time"]


def opened(made):
    handle = open_table(open_store(made.table.path))
    timeline = handle.timeline()
    return handle, timeline, handle.view(timeline)


def rows_of(handle, slices, begin="", end="9"):
    """(key, commit time) of the rows of the slices that were written in (begin, end]."""
    found = []
    for part in slices:
        with handle.store.open_input(part.path) as source:
            rows = pq.read_table(source, columns=KEY_AND_TIME).to_pylist()
        found += [tuple(row.values()) for row in rows if begin < row["_hoodie_commit_time"] <= end]
    return sorted(found)


def rows_of_hudi(made, **options):
    rows = made.hudi.read(made.table.path, **options).select(KEY_AND_TIME).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def few(made, count):
    return to_arrow(made.rows(random.Random(1), range(count), 1), made.schema)


@pytest.fixture(params=["all_operations", "archived"])
def made(request, all_operations, archived):
    return {"all_operations": all_operations, "archived": archived}[request.param]


def test_the_view_shows_the_rows_that_hudi_reads(made):
    handle, timeline, view = opened(made)
    assert rows_of(handle, view.all_slices()) == rows_of_hudi(made)
    retained = timeline.earliest_retained or ""
    for instant in timeline.completed_writes:
        if instant.time >= retained:
            view.check_time_travel(instant.time)
            assert rows_of(handle, view.all_slices(instant.time)) == rows_of_hudi(made, as_of=instant.time)


def test_a_replay_begins_with_nothing_and_ends_with_the_files_of_hudi(made):
    handle, _, view = opened(made)
    live = view.all_slices()
    report = replay_table(handle.store, seconds=9 * 86_400, limits=Limits(), declared=None)
    found = report.replay
    assert (found.recorded.files, found.recorded.size_bytes) == (len(live), sum(s.size_bytes for s in live))
    assert any("other programs made" in gap for gap in found.gaps), found.gaps
    assert any("default limits" in gap for gap in found.gaps), found.gaps
    assert abs(found.applied.files - len(live)) <= 1
    assert found.applied.size_bytes == pytest.approx(found.recorded.size_bytes, rel=0.1)


def test_changes_are_those_of_hudis_incremental_read(made):
    handle, timeline, view = opened(made)
    retained = timeline.earliest_retained or ""
    times = [instant.time for instant in timeline.completed_writes if instant.time >= retained]
    for begin in times:
        changes = view.changed_between(begin)
        assert rows_of(handle, changes.slices, changes.begin, changes.end) == rows_of_hudi(made, since=begin)


def test_the_spec_of_a_table_of_hudi_is_what_it_was_told(made):
    handle, timeline, _ = opened(made)
    spec = handle.effective_spec(timeline)
    assert spec.record_key == made.table.key
    assert spec.ordering == made.table.ordering
    assert spec.partition_by == made.table.partition_by
    assert [column.name for column in spec.columns] == made.schema.names
    newest = timeline.commit_metadata(timeline.completed_writes[-1].time)
    assert handle.schema_json(timeline, spec.columns) == newest.schema
    check_writable(handle, timeline, handle.store.now_ms())


def test_the_archive_log_of_hudi_is_read(archived):
    handle, timeline, _ = opened(archived)
    log = read_archive(handle.store, handle.config.timeline_layout)
    assert {one.state for one in log if one.action == "commit"} == {"requested", "inflight", "completed"}
    active = {instant.time for instant in timeline.instants}
    assert max(one.time for one in log if one.action == "commit") < min(
        instant.time for instant in timeline.completed_writes
    )
    assert not {one.time for one in log} & active
    done = [one for one in log if one.action == "commit" and one.state == "completed"]
    for one in done:
        assert one.entry["hoodieCommitMetadata"]["partitionToWriteStats"]
        assert re.fullmatch(r"\d{17}", one.time)


@MOSTLY_1_2_0
def test_hudi_lists_what_we_archived(all_operations, tmp_path):
    path = tmp_path / "t"
    shutil.copytree(all_operations.table.path, path)
    handle = open_table(open_store(path))
    timeline = handle.timeline()
    leaving = [
        *timeline.completed_writes[:3],
        *timeline.of(Action.ROLLBACK, state=State.COMPLETED),
        *timeline.of(Action.CLEAN, state=State.COMPLETED),
    ]
    timeline.savepoint_metadata(timeline.savepoints[0])
    write_archive_log(
        handle.store,
        handle.config.timeline_layout.archive_folder,
        archive_entries(timeline.store, timeline.files, leaving, handle.config.timezone),
    )
    for instant in leaving:
        for state in State:
            handle.store.delete(replace(instant, state=state).path)
    shown = all_operations.hudi.call(
        "show_archived_commits", str(path), start_ts="20000101000000", end_ts="29991231235959"
    )
    times = {row.get("commit_time") or row.get("instant_time") for row in shown}
    assert times == {
        instant.time for instant in leaving if instant.action in (Action.COMMIT, Action.REPLACECOMMIT)
    }


def test_the_spelling_of_a_single_key_is_found_out_from_hudis_files(hudi_15, tmp_path):
    made = start(hudi_15, tmp_path / "t", partition_by=("region",), columns=["c_int"])
    table = HudiTable(
        path=made.table.path, name="made", key=("id",), ordering="version", partition_by=("region", "version"),
        keygen="ComplexKeyGenerator",
    )  # fmt: skip
    made.hudi.write(table, few(made, 3), mode="overwrite")
    handle, _, view = opened(made)
    assert handle.key_encoding(view) is KeyEncoding.BARE
