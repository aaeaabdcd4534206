"""The demo's report: what queries read, in the terminal and on the page."""

from __future__ import annotations

import io

from rich.console import Console

from examples.flights.report import Check, Layout, Report, Step, print_report, reads, write_html

MEASURED = [
    {
        "query": "one_week",
        "before": {"files": 12, "row_groups": 40, "rows": 336_776, "data_bytes": 1},
        "expected": {"files": 3, "row_groups": 4, "rows": 12_345, "data_bytes": 1},
        "after": {"files": 3, "row_groups": 5, "rows": 13_579, "data_bytes": 1},
    }
]


def report():
    layout = Layout(sizes_bytes=(400_000, 500_000), small_limit_bytes=393_216)
    step = Step(batch=1, rows=10, inserted=8, updated=1, deleted=1, sized=layout, plain=layout)
    return Report(
        steps=[step],
        reads=reads(MEASURED),
        checks=[Check(reader="Spark", rows=10, different=0)],
        limits="files up to 512 KiB",
        seconds=1.0,
    )


def test_predicted_and_measured_stand_side_by_side_in_the_terminal():
    console = Console(file=io.StringIO(), width=80)
    print_report(report(), console)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["one_week", "files", "12", "3", "3"] in lines
    assert ["row", "groups", "40", "4", "5"] in lines
    assert ["rows", "336,776", "12,345", "13,579"] in lines


def test_predicted_and_measured_stand_side_by_side_on_the_page(tmp_path):
    write_html(report(), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<td>one_week</td><td>files</td><td>12</td><td>3</td><td>3</td>" in page
    assert "<td></td><td>rows</td><td>336,776</td><td>12,345</td><td>13,579</td>" in page
