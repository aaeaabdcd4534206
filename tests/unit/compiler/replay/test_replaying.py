"""Recorded writes laid out by limits: by hand, and against tables that were really written by these limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.compiler.replay.arrivals import Arrivals, GroupChange
from parquetry.compiler.replay.history import (
    Reach,
    RecordedClean,
    RecordedFile,
    RecordedFilesOfPartition,
    RecordedWrite,
    StartingFile,
    WriteHistory,
    read_history,
)
from parquetry.compiler.replay.layout import LaidOutTable, LayoutLimits, TooManyFilesError, following
from parquetry.compiler.replay.replaying import replay
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Extra, FilesPolicy
from tests.support.clustering_model import maximum_for
from tests.support.sized_table import KIB, SPEC, SizedTable

MIB = 1024 * KIB


def limits(full=100 * MIB, small=80 * MIB, **changes):
    sizing = SizingPolicy(max_file_size_bytes=maximum_for(full), small_file_limit_bytes=small, **changes)
    return LayoutLimits(sizing=sizing, clustering=ClusteringSpec.defaults_for(sizing))


def inserted(rows, group="g", size=1000):
    return Arrivals(partition="", inserts=((group, rows),), insert_bytes=rows * size)


def begun(*sizes):
    return [
        StartingFile(
            partition="", file_id=f"f{n}", instant="20260101000000000", size_bytes=size, rows=size // 1000
        )
        for n, size in enumerate(sizes)
    ]


def test_new_rows_fill_small_files_first_and_then_new_ones():
    table = LaidOutTable(limits())
    table.start(begun(40 * MIB, 90 * MIB))
    written = table.write("20260102000000000", "INSERT", [inserted(100_000)])
    assert (table.files, table.small_files) == (3, 1)
    assert written == pytest.approx(40 * MIB + 100_000_000, abs=2000)
    assert table.size_bytes == pytest.approx(130 * MIB + 100_000_000, abs=2000)
    assert table.superseded_bytes == 40 * MIB


def test_without_a_small_file_limit_every_write_makes_a_file():
    table = LaidOutTable(limits(small=0))
    for day in range(1, 6):
        table.write(f"2026010{day}000000000", "INSERT", [inserted(1000, f"g{day}")])
    assert (table.files, table.superseded_bytes) == (5, 0)


def test_a_bulk_insert_fills_nothing():
    table = LaidOutTable(limits())
    table.start(begun(40 * MIB))
    table.write("20260102000000000", "BULK_INSERT", [inserted(1000)])
    assert table.files == 2


def test_rows_that_are_larger_than_learned_roll_over():
    table = LaidOutTable(limits())
    table.start(begun(99 * MIB))
    table.write("20260102000000000", "INSERT", [inserted(100_000, size=1500)])
    assert table.files == 3


def test_updates_of_a_recorded_file_rewrite_all_files_that_have_its_rows():
    """What was one file is four of a quarter by smaller limits; a few updates hit as many as there are."""
    table = LaidOutTable(limits(25 * MIB, 0))
    table.write("20260102000000000", "INSERT", [inserted(100_000)])
    assert table.files == 4
    for updates, files in ((1, 1), (2, 2), (1000, 4)):
        change = GroupChange(group="g", updates=updates, deletes=0, grown_bytes=0)
        written = table.write("20260103000000000", "UPSERT", [Arrivals(partition="", changes=(change,))])
        assert written == pytest.approx(files * 25_000_000, rel=0.1)


def test_deletes_take_rows_and_their_bytes():
    table = LaidOutTable(limits())
    table.start(begun(50_000_000))
    change = GroupChange(group="f0", updates=0, deletes=10_000, grown_bytes=0)
    table.write("20260103000000000", "DELETE", [Arrivals(partition="", changes=(change,))])
    assert table.size_bytes == 40_000_000


def test_what_is_replaced_as_a_whole_is_gone_as_a_whole():
    table = LaidOutTable(limits())
    table.start(begun(1000, 2000))
    gone = Arrivals(partition="", replaced=("f0", "f1"), replaces_all=True)
    table.write("20260103000000000", "DELETE_PARTITION", [gone])
    assert (table.files, table.size_bytes, table.superseded_bytes) == (0, 0, 3000)


def test_a_clean_keeps_what_its_earliest_commit_superseded():
    table = LaidOutTable(limits())
    table.start(begun(10_000_000))
    for day in (2, 3, 4):
        table.write(f"2026010{day}000000000", "INSERT", [inserted(1000, "f0")])
    table.clean(earliest="20260103000000000", last="")
    assert table.superseded_bytes == pytest.approx(11_000_000 + 12_000_000, abs=10)


def test_sizes_of_clustering_that_follow_the_limits_go_on_following():
    mine = limits(100 * MIB, 80 * MIB)
    other = SizingPolicy(max_file_size_bytes=50 * MIB, small_file_limit_bytes=40 * MIB)
    assert following(other, mine).clustering.plan == ClusteringSpec.defaults_for(other).plan
    own = replace(mine, clustering=replace(mine.clustering, plan=replace(mine.clustering.plan, max_groups=7)))
    assert following(mine.sizing, own) == own


def written(time, *files, operation="INSERT"):
    return RecordedWrite(
        time=time, operation=operation, is_ours=True, partitions=(RecordedFilesOfPartition("", files),)
    )


def history(*writes):
    return WriteHistory(files=(), events=writes, gaps=())


ONE = RecordedFile("g", None, 10**7, 10**7, 0, 0, 10**8)


def test_declared_limits_of_a_few_bytes_are_left_out_and_named():
    found = replay(history(written("20260101000000000", ONE)), limits(), limits(64, 0))
    assert found.applied.files == 1
    assert found.declared is None
    (gap,) = found.gaps
    assert gap == (
        "the declared limits are left out: these limits make more than 1,000,000 files from the recorded writes"
    )


@pytest.mark.parametrize("most", [0, 1])
def test_no_limit_makes_more_files_than_there_are_rows(most):
    few = RecordedFile("g", None, 50, 50, 0, 0, 10**8)
    found = replay(history(written("20260101000000000", few)), limits(), limits(most, 0))
    assert found.declared.files == 50


def test_applied_limits_of_a_few_bytes_are_refused():
    with pytest.raises(TooManyFilesError, match="1,000,000"):
        replay(history(written("20260101000000000", ONE)), limits(64, 0))


def test_days_have_their_own_bytes_and_add_up_to_the_period():
    first = RecordedFile("a", None, 50_000, 50_000, 0, 0, 50_000_000)
    grown = RecordedFile("a", "20260101000000000", 60_000, 10_000, 0, 0, 60_000_000)
    found = replay(
        history(
            written("20260101000000000", first),
            written("20260103000000000", grown),
            RecordedClean(time="20260104000000000", earliest=None, deleted=(("", "a", "20260101000000000"),)),
        ),
        limits(),
        limits(small=0),
    )
    assert [day.day for day in found.days] == ["2026-01-01", "2026-01-03", "2026-01-04"]
    assert [day.recorded.written_bytes for day in found.days] == [50_000_000, 60_000_000, 0]
    assert [day.recorded.superseded_bytes for day in found.days] == [0, 50_000_000, 0]
    assert found.recorded.written_bytes == found.applied.written_bytes == 110_000_000
    assert (found.applied.files, found.declared.files) == (1, 2)
    assert found.declared.written_bytes == 60_000_000
    assert found.arrived_bytes == 60_000_000
    assert found.applied.amplification(found.arrived_bytes) == pytest.approx(110 / 60)
    assert found.error == (0, 0)


def test_an_instant_that_is_no_time_is_refused():
    with pytest.raises(CorruptTableError, match="not a time"):
        replay(history(written("20269901000000000", ONE)), limits())


def test_a_history_without_files_is_no_replay():
    assert replay(history(), limits()) is None
    assert (
        replay(history(RecordedWrite(time="1", operation="INSERT", is_ours=True, partitions=())), limits())
        is None
    )


def spec_with(most, small):
    sizing = SizingPolicy(max_file_size_bytes=most, small_file_limit_bytes=small)
    return replace(
        SPEC,
        sizing=sizing,
        files=FilesPolicy(row_group_size_bytes=12 * KIB),
        extra=Extra(clustering=ClusteringSpec.defaults_for(sizing)),
    )


def written_by(folder, spec):
    """The same writes, whatever the limits."""
    table = SizedTable.create(folder, spec)
    for number in range(18):
        table.upsert({"a": 200, "b": 120 * (number % 3)}, updates={"a": 2} if number else {}, files=1)
    return table


@pytest.mark.parametrize(
    ("applied", "declared"),
    [
        pytest.param(
            spec_with(128 * KIB, 0),
            spec_with(256 * KIB, 200 * KIB),
            marks=pytest.mark.long,
            id="more filling",
        ),
        pytest.param(spec_with(256 * KIB, 200 * KIB), spec_with(96 * KIB, 80 * KIB), id="smaller files"),
    ],
)
def test_the_declared_limits_end_near_a_table_that_was_written_by_them(tmp_path, applied, declared):
    table, other = written_by(tmp_path / "one", applied), written_by(tmp_path / "two", declared)
    handle = table.handle
    recorded = read_history(handle, handle.view(handle.timeline()), Reach(since="0"))
    found = replay(
        recorded,
        LayoutLimits(sizing=applied.sizing, clustering=applied.clustering),
        LayoutLimits(sizing=declared.sizing, clustering=declared.clustering),
    )
    slices = other.slices()
    assert abs(found.declared.files - len(slices)) <= max(1, 0.1 * len(slices))
    assert abs(found.applied.files - len(table.slices())) <= max(1, 0.05 * len(table.slices()))
    assert found.declared.files != found.applied.files
