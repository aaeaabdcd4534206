"""What a table has lost since it was read: found on its timeline and behind it, in the archive log."""

from __future__ import annotations

import pytest

from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.sources.removals import removal_between
from tests.support.effort import each_value_once
from tests.support.small_table import FAST, make_table

LOSSES = {
    "deleted or moved 1 rows": lambda table: table.delete(["b"]),
    "replaced 2 file groups": lambda table: table.overwrite({"z": (1, "p")}),
    "replaced 3 file groups": lambda table: (table.insert({"c": (1, "p")}), table.delete_partition("p=p"))[1],
}


def grown(table, commits):
    for number in range(commits):
        last = table.upsert({f"k{number}": (number, "q")})
    return last.instant


def lost(table, since, until):
    return removal_between(table.handle, since, until)


@pytest.mark.parametrize(("logs", "commits", "loss"), each_value_once([1, 3], [1, 12], list(LOSSES)))
def test_a_loss_is_found_wherever_its_commit_lies(tmp_path, loss, commits, logs):
    table = make_table(tmp_path, keep_commits=1, archive_keep_commits=2)
    table.insert({"a": (1, "p")})
    since = table.insert({"b": (1, "p")}).instant
    instant = LOSSES[loss](table).instant
    for _ in range(logs):
        until = grown(table, commits)
        archive(table.handle, timing=FAST)
    assert lost(table, since, until) == f"commit {instant} of small {loss}"
    assert lost(table, instant, until) is None
    assert lost(table, since, since) is None


def test_nothing_is_lost_by_inserts_that_are_archived(tmp_path):
    table = make_table(tmp_path, keep_commits=1, archive_keep_commits=2)
    since = table.insert({"a": (1, "p")}).instant
    until = grown(table, 10)
    assert archive(table.handle, timing=FAST).instants
    assert lost(table, since, until) is None
    assert lost(table, until, until) is None


@pytest.mark.parametrize("harm", ["unlink", "cut"])
def test_an_archive_log_that_does_not_reach_back_is_said(tmp_path, harm):
    table = make_table(tmp_path, keep_commits=1, archive_keep_commits=2)
    since = table.insert({"a": (1, "p")}).instant
    for _ in range(2):
        until = grown(table, 6)
        archive(table.handle, timing=FAST)
    first, last = sorted((tmp_path / ".hoodie/archived").glob(".commits_*"))
    if harm == "unlink":
        first.unlink()
    else:
        first.write_bytes(first.read_bytes()[:-9])
    said = f"commits of small after {since} are archived, and no archive log says what they removed"
    assert lost(table, since, until) == said
    last.unlink()
    assert lost(table, since, until) == said


def test_a_commit_that_was_taken_back_is_a_loss(tmp_path):
    table = make_table(tmp_path)
    table.insert({"a": (1, "p")})
    since = table.insert({"b": (1, "p")}).instant
    rollback(table.handle, since)
    assert (
        lost(table, since, since) == f"commit {since} of small, the last one that was read, was rolled back"
    )
