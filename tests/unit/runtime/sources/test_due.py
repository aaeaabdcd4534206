"""What a source of format hudi has that its table has not taken in yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.commit.rollback import remove_completed
from parquetry.runtime.errors import InvalidDataError, UnsupportedTableError
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.due import FULL, find_due
from parquetry.runtime.spec.table_spec import Operation, Source
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.handmade import HandmadeTable, at
from tests.support.small_table import FAST, SmallTable, make_table
from tests.support.timelines import completed

pytestmark = pytest.mark.usefixtures("on_each_version")

ROWS = {"p=a": {"f-0": [("k", 1)]}}


@pytest.fixture
def other(tmp_path):
    made = HandmadeTable(tmp_path / "other")
    made.commit("1", ROWS)
    return made


@pytest.fixture
def mine(tmp_path):
    return HandmadeTable(tmp_path / "mine")


def position(table, time):
    """Return the position from which a read goes on behind this write: in layout 2, its completion time."""
    return completed(table.store, at(time)).position


def due(mine, other, **settings):
    source = Source(name="s", format="hudi", path=str(other.folder), operation=Operation.UPSERT, **settings)
    return find_due(mine.open(), source, directory="/", storage={})


def test_all_of_it_at_first(mine, other):
    batch = due(mine, other)
    assert (batch.since, batch.until) == (None, position(other, "1"))


def test_what_came_after_what_was_taken(mine, other):
    mine.commit("1", ROWS)
    ledger.record(open_store(mine.folder), at("1"), due(mine, other).consumption)
    assert due(mine, other) is None
    other.commit("2", ROWS)
    batch = due(mine, other)
    assert (batch.since, batch.until) == (position(other, "1"), position(other, "2"))


def test_a_table_without_commit_times_has_no_changes_to_read(mine, other):
    with (other.folder / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("hoodie.populate.meta.fields=false\n")
    with pytest.raises(UnsupportedTableError, match=r"source s: .* has no commit times .*read: full"):
        due(mine, other)
    source = Source(
        name="s",
        format="hudi",
        path=str(other.folder),
        operation=Operation.INSERT_OVERWRITE_TABLE,
        read=FULL,
    )
    assert find_due(mine.open(), source, directory="/", storage={}).as_of == at("1")


def test_a_pending_write_holds_up_what_came_after_it_unless_it_completes_behind(mine, other, on_each_version):
    other.request("2")
    other.commit("3", ROWS)
    assert due(mine, other).until == position(other, "1" if on_each_version == 6 else "3")


def test_a_pending_clustering_holds_nothing_up(mine, other):
    other.plan_clustering("2", {"p=a": ["f-0"]})
    other.commit("3", {"p=a": {"f-1": [("m", 1)]}})
    assert due(mine, other).until == position(other, "3")


@dataclass
class LateWrite:
    """A table of version 9 in which the write before the newest one is pending; ``complete`` completes it."""

    folder: Path

    def __post_init__(self):
        make_table(self.folder, table_version=9)
        small = SmallTable(open_store(self.folder))
        for number in range(3):
            small.upsert({f"k{number}": (number, "a")})
        self.late, self.newest = self.timeline().completed_writes[-2:]
        self.content = (self.folder / self.late.path).read_bytes()
        (self.folder / self.late.path).unlink()

    def timeline(self):
        return open_table(open_store(self.folder)).timeline()

    def complete(self):
        completed_at = int(self.newest.position) + 1
        name = f".hoodie/timeline/{self.late.time}_{completed_at}.commit"
        (self.folder / name).write_bytes(self.content)


@pytest.fixture
def late(tmp_path, mine):
    """The table of which the source has read the newest write, and not the late one."""
    made = LateWrite(tmp_path / "late")
    mine.commit("1", ROWS)
    consumption = due(mine, made).consumption
    assert (consumption.until, consumption.until_time) == (made.newest.position, made.newest.time)
    ledger.record(open_store(mine.folder), at("1"), consumption)
    made.complete()
    return made


def test_a_write_that_completes_late_is_due(mine, late):
    batch = due(mine, late)
    assert batch.since == late.newest.position
    assert batch.until == str(int(late.newest.position) + 1)


@pytest.mark.parametrize("removed_rows", ["stop", "keep"])
@pytest.mark.parametrize("versions", [(6,), (6, 9)])
@pytest.mark.parametrize("is_archived", [False, True])
def test_a_late_write_is_not_skipped_after_a_downgrade(mine, late, versions, removed_rows, is_archived):
    """Its position, now its own time, is before the one that the source has noted."""
    for version in versions:
        change_version(open_store(late.folder), version, timing=FAST)
    if is_archived:
        small = SmallTable(open_store(late.folder))
        small.upsert({"next": (1, "a")})
        timeline = late.timeline()
        older = timeline.completed_writes[:-1]
        timeline.layout.archive(open_store(late.folder), timeline.files, older)
        remove_completed(timeline, older)
    assert late.late.time < late.newest.position
    with pytest.raises(InvalidDataError, match=r"the version of .* was changed .* read the whole table"):
        due(mine, late, removed_rows=removed_rows)


def test_positions_of_an_archived_write_and_after_an_upgrade_stay(mine, tmp_path):
    other = SimpleNamespace(folder=tmp_path / "other")
    make_table(other.folder, table_version=6)
    mine.commit("1", ROWS)
    for number, version in enumerate((6, 9, 8, 9)):
        change_version(open_store(other.folder), version, timing=FAST)
        small = SmallTable(open_store(other.folder))
        small.upsert({f"k{number}": (number, "a")})
        batch = due(mine, other)
        ledger.record(open_store(mine.folder), at(str(number + 1)), batch.consumption)
        mine.commit(str(number + 2), ROWS)
        small.upsert({f"m{number}": (number, "a")})
        timeline = small.handle.timeline()
        timeline.layout.archive(open_store(other.folder), timeline.files, timeline.completed_writes[:-1])
        remove_completed(timeline, timeline.completed_writes[:-1])
        assert due(mine, other).since == batch.until
