"""What a table has lost since it was read: found on its timeline and behind it, in the archive log."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.sources.removals import removal_between
from tests.support.effort import each_value_once
from tests.support.small_table import FAST, make_table

pytestmark = pytest.mark.usefixtures("on_each_version")

LOSSES = {
    "deleted or moved 1 rows": lambda table: table.delete(["b"]),
    "replaced 2 file groups": lambda table: table.overwrite({"z": (1, "p")}),
    "replaced 3 file groups": lambda table: (table.insert({"c": (1, "p")}), table.delete_partition("p=p"))[1],
}


def grown(table, commits):
    for number in range(commits):
        last = table.upsert({f"k{number}": (number, "q")})
    return position(table, last)


def position(table, result):
    return table.handle.timeline().position_of(result.instant)


def lost(table, since, until):
    return removal_between(table.handle, since, until)


@pytest.mark.parametrize(("logs", "commits", "loss"), each_value_once([1, 3], [1, 12], list(LOSSES)))
def test_a_loss_is_found_wherever_its_commit_lies(tmp_path, loss, commits, logs):
    table = make_table(tmp_path, keep_commits=1, archive_keep_commits=2)
    table.insert({"a": (1, "p")})
    since = position(table, table.insert({"b": (1, "p")}))
    removing = LOSSES[loss](table)
    after = position(table, removing)
    for _ in range(logs):
        until = grown(table, commits)
        archive(table.handle, timing=FAST)
    assert lost(table, since, until) == f"commit {removing.instant} of small {loss}"
    assert lost(table, after, until) is None
    assert lost(table, since, since) is None


def test_nothing_is_lost_by_inserts_that_are_archived(tmp_path):
    table = make_table(tmp_path, keep_commits=1, archive_keep_commits=2)
    since = position(table, table.insert({"a": (1, "p")}))
    until = grown(table, 10)
    assert archive(table.handle, timing=FAST).instants
    assert lost(table, since, until) is None
    assert lost(table, until, until) is None


@pytest.mark.parametrize("harm", ["unlink", "cut"])
def test_an_archive_log_that_does_not_reach_back_is_said(tmp_path, harm):
    table = make_table(tmp_path, keep_commits=1, archive_keep_commits=2)
    since = position(table, table.insert({"a": (1, "p")}))
    for _ in range(2):
        until = grown(table, 6)
        archive(table.handle, timing=FAST)
    folder = tmp_path / table.handle.config.timeline_layout.archive_folder
    first, last = sorted(file for file in folder.iterdir() if "." in file.name)
    if harm == "unlink":
        first.unlink()
    else:
        first.write_bytes(first.read_bytes()[:-9])
    if table.handle.config.timeline_layout.NUMBER == 2:
        # Which commits are in the range is not known without all their completion times.
        with pytest.raises(CorruptTableError, match="archive"):
            lost(table, since, until)
        return
    said = f"commits of small after {since} are archived, and no archive log says what they removed"
    assert lost(table, since, until) == said
    last.unlink()
    assert lost(table, since, until) == said


def test_a_commit_that_was_taken_back_is_a_loss(tmp_path):
    table = make_table(tmp_path)
    table.insert({"a": (1, "p")})
    read = table.insert({"b": (1, "p")})
    since = position(table, read)
    rollback(table.handle, read.instant)
    assert (
        lost(table, since, since) == f"commit {since} of small, the last one that was read, was rolled back"
    )
