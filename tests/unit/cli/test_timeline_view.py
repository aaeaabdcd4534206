"""The timeline as text: within 80 columns whatever has happened, with the words of the specs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.cli.terminal.format import short_count
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.timeline import TimelineView
from parquetry.compiler.reports.timeline import FileCounts, InstantReport, RowCounts, TimelineReport

MOST = 999_999_999_999
PLAIN = Paint(enabled=False)


def report(*instants, is_single=False):
    return TimelineReport(table="t", instants=instants, is_single=is_single)


def busy(operation, *, rows, files):
    return InstantReport(
        time="20261121104312040",
        action="replacecommit",
        state="completed",
        operation=operation,
        rows=RowCounts(inserted=rows, updated=rows, deleted=rows),
        files=FileCounts(added=files, replaced=files),
        partitions=("p=1", ""),
    )


PENDING = InstantReport(time="20261121104313000", action="replacecommit", state="requested", operation=None)


def test_nothing_makes_a_line_longer_than_80_columns():
    lines = [
        busy("insert_overwrite_table", rows=MOST, files=99_999),
        busy("upsert", rows=999_999, files=99_999),
        PENDING,
        InstantReport(time="20261121104314000", action="clean", state="completed", operation=None),
    ]
    shown = TimelineView().text(report(*lines), PLAIN).splitlines()
    assert len(shown) == len(lines) + 1
    assert max(map(len, shown)) <= 80
    assert "999B" in shown[1]
    assert "+99K -99K" in shown[1]
    assert "999,999" in shown[2]
    assert shown[3] == "20261121104313000  replacecommit requested"
    assert shown[4] == "20261121104314000  clean"


@pytest.mark.parametrize(
    ("added", "replaced", "shown"),
    [
        (1_500, 2_500, "+1K -2K"),
        (999, 9_999, "+999 -9K"),
        (99_999, 100_000, "+99K -.1M"),
        (999_999, 99_999_999, "+.9M -99M"),
        (1_500, 0, "+1.5K"),
        (0, 2_500, "-2.5K"),
    ],
)
def test_files_take_the_place_that_is_left(added, replaced, shown):
    line = replace(
        busy("insert_overwrite_table", rows=MOST, files=0), files=FileCounts(added=added, replaced=replaced)
    )
    _, text = TimelineView().text(report(line), PLAIN).splitlines()
    assert text.endswith(f"  {shown}")
    assert len(text) <= 80


def test_counts_stand_below_their_words():
    header, line = TimelineView().text(report(busy("upsert", rows=4, files=2)), PLAIN).splitlines()
    for word in ("inserted", "updated", "deleted"):
        assert line[header.index(word) + len(word) - 1] == "4"
    assert line[header.index("files") :] == "+2 -2"


def test_a_single_instant_names_its_action_and_partitions():
    shown = TimelineView().text(report(busy("cluster", rows=0, files=1), is_single=True), PLAIN).splitlines()
    assert shown[-5:] == ["action", "  replacecommit", "partitions", "  p=1", "  (unpartitioned)"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (999, "999"),
        (1_000, "1.0K"),
        (9_999, "9.9K"),
        (10_000, "10K"),
        (999_999, "999K"),
        (1_250_000, "1.2M"),
        (MOST, "999B"),
    ],
)
def test_long_counts_in_four_characters(number, shown):
    assert short_count(number) == shown
