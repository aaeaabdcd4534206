"""The demo's report: what queries read, in the terminal and on the page."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from examples.flights.report import Check, Layout, Report, Step, _ticks, print_report, reads, write_html
from tests.support.html_pages import cut_elements, rules, selectors

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


def page_of(tmp_path):
    write_html(report(), tmp_path / "report.html")
    return (tmp_path / "report.html").read_text()


def test_tables_and_charts_scroll_on_a_narrow_screen(tmp_path):
    wide, cut = cut_elements(page_of(tmp_path))
    assert (wide, cut) == (7, [])


def test_the_page_has_a_dark_mode_in_which_every_colour_is_another_one(tmp_path):
    page = page_of(tmp_path)
    colours = {}
    for media, selector, declarations in rules(page):
        if selector == ":root":
            colours[media] = dict(re.findall(r"(--\w+): (#\w+)", declarations))
    light, dark = colours[""], colours["screen and (prefers-color-scheme: dark)"]
    assert light.keys() == dark.keys()
    assert not {name for name in light if light[name] == dark[name]}
    assert "color-scheme: light dark" in page
    outside = re.sub(r":root \{[^}]*\}", "", page)
    assert not re.findall(r"#[0-9a-f]{3,6}\b", outside), "a colour that the dark mode does not know"


def test_pages_break_between_charts_and_print_in_colour(tmp_path):
    page = page_of(tmp_path)
    assert {"figure", "tr"} <= selectors(page, "break-inside: avoid", media="print")
    assert "h2" in selectors(page, "break-after: avoid", media="print")
    assert "*" in selectors(page, "print-color-adjust: exact", media="print")
    assert ".charts" in selectors(page, "display: block", media="print")


def test_the_plot_of_sizes_has_an_axis_with_numbers(tmp_path):
    page = page_of(tmp_path)
    for side in ("parquetry", "plain Spark"):
        plot = re.search(rf'<svg [^>]*aria-label="{side}">.*?</svg>', page, re.DOTALL)[0]
        at = [(float(x), text) for x, text in re.findall(r'<text x="([\d.]+)" y="80"[^>]*>([^<]+)<', plot)]
        assert [text for _, text in at] == ["0", "100", "200", "300", "400", "500 KiB"]
        (first, *_, last) = [x for x, _ in at]
        dots = sorted(float(x) for x in re.findall(r'<circle [^>]*cx="([\d.]+)"', plot))
        sizes = [(x - first) / (last - first) * 500 * 1024 for x in dots]
        assert [round(size) for size in sizes] == [400_000, 500_000]


@pytest.mark.parametrize(
    ("maximum", "expected"),
    [
        (1, [0, 1]),
        (7, [0, 2, 4, 6, 8]),
        (108, [0, 20, 40, 60, 80, 100, 120]),
        (488.3, [0, 100, 200, 300, 400, 500]),
        (99_999, [0, 20_000, 40_000, 60_000, 80_000, 100_000]),
    ],
)
def test_ticks_are_round_and_reach_the_largest_value(maximum, expected):
    assert _ticks(maximum) == expected
