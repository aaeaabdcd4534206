"""The pages: what each shows, and that it needs and obeys nobody."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.cli.views.plan.html import render_html
from parquetry.compiler.reports.charts import Bars, bar_chart, sparkline
from tests.support.html_pages import cut_elements, rules, table_rows
from tests.support.project_folder import ProjectFolder
from tests.support.sample_pages import HOSTILE, a_plan, an_order, comment, pages

NAMES = ("plan", "layout", "tests", "run", "replay")
VOID = {"meta", "rect", "polyline"}


class Elements(HTMLParser):
    """Every element with its attributes; one that is closed twice, or never, fails."""

    def __init__(self, page):
        super().__init__()
        self.open, self.found = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(params=[False, True], ids=["plain", "hostile"], scope="module")
def shown(request):
    return pages(hostile=request.param)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_nothing_and_has_no_script(shown, name):
    page = shown[name]
    found = Elements(page).found
    assert {tag for tag, _ in found}.isdisjoint(
        {"script", "img", "link", "iframe", "object", "base", "a", "form"}
    )
    for _, attributes in found:
        assert attributes.keys().isdisjoint({"src", "href", "style", "srcset", "action"})
        assert not [key for key in attributes if key.startswith("on")]
    style = re.search("<style>(.*?)</style>", page, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    assert page.count("<style>") == 1
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", page)


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_charts_can_be_heard(shown, name):
    found = Elements(shown[name]).found
    tables = [attributes for tag, attributes in found if tag == "table"]
    assert tables
    assert len(tables) == shown[name].count("<caption")
    assert all(attributes["scope"] == "col" for tag, attributes in found if tag == "th")
    assert all(attributes["aria-label"] for tag, attributes in found if tag == "svg")


@pytest.mark.parametrize("name", NAMES)
def test_narrow_screens_and_paper(shown, name):
    page = shown[name]
    wide, cut = cut_elements(page)
    assert wide
    assert cut == []
    media = {place for place, _, _ in rules(page)}
    assert media >= {"screen and (max-width: 40rem)", "screen and (prefers-color-scheme: dark)", "print"}


def test_the_pages_have_one_style(shown):
    assert len({re.search("<style>(.*?)</style>", page, re.DOTALL)[1] for page in shown.values()}) == 1


def test_the_page_of_tests_shows_limits_places_and_history():
    page = pages()["tests"]
    assert '<p class="verdict bad">2 of 7 tests failed</p>' in page
    failed = ("failed", "query_far", "31", "max_files error above 10", "", "tables/trips.yml:21:5")
    assert failed in table_rows(page)
    assert 'aria-label="12 runs: 9 passed, 3 failed, measured 2 to 31"' in page
    assert "max_drift: the table is not there" in page


def test_the_page_of_a_run_shows_what_failed_and_what_was_written():
    page = pages()["run"]
    assert '<p class="verdict bad">1 of 5 jobs failed; 2 of 7 tests failed</p>' in page
    written = ("warned", "landing", "1,204,551", "38,120", "12", "40", "4.2 GB", "20261122020005123")
    assert written in table_rows(page)
    assert "open: another spec is applied than is declared" in page
    assert "services: 31 files cleaned, 4 instants archived" in page


def test_the_pages_of_a_run_and_of_its_plan_show_the_order_and_what_waits():
    planned = a_plan()
    planned = replace(planned, evidence=replace(planned.evidence, order=an_order()))
    small, recent = (
        "the rest of the run's budget is too small",
        "its last clustering is less than the cooldown ago",
    )
    second = "weather_by_station_and_hour"
    for page in (pages()["run"], render_html(planned)):
        assert {row for row in table_rows(page) if row[0] in {"1", "2", "3"}} == {
            ("1", "trips", "42.9 GB", "3 groups (9.7 GB)", "", ""),
            ("2", second, "2.1 GB", "1 group (3.2 GB)", "4 groups (8.6 GB)", small),
            ("3", "zones", "", "", "2 groups (4.3 GB)", recent),
        }
        assert "GB of 12.9 GB clustered, 2 tables deferred" in page


def test_a_comment_of_hostile_texts_has_no_mark_of_theirs():
    text = comment(hostile=True)
    outside = re.sub(r"^(`{3,})diff$.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    for markup in ("<script", "<img", "<style", "</td"):
        assert markup not in outside
    assert HOSTILE[1] not in text
    assert len(text.encode()) <= 60_000


def test_charts_of_nothing_are_none_and_gaps_are_gaps():
    assert bar_chart("sizes", [Bars(label="1", values=(0,))]) is None
    chart = sparkline([1.0, None, 3.0], ["passed", "unmeasured", "failed"], bound=2.0, text="three runs")
    assert [shape.css for shape in chart.rectangles] == ["unmeasured", "failed"]
    assert [curve.css for curve in chart.curves] == ["new", "limit"]
    assert len(chart.curves[0].points.split()) == 2
    alone = sparkline([None], ["not_executed"], bound=None, text="one run")
    assert (len(alone.rectangles), alone.curves) == (1, ())


def test_the_commands_print_pages(tmp_path):
    folder = ProjectFolder.create(tmp_path)
    folder.orders(tests=[{"max_small_files": 0}, {"max_commit_age": "1d"}])

    def printed(*words):
        return CliRunner().invoke(command_line, [words[0], "-p", str(folder.root), *words[1:]])

    assert printed("apply", "--auto-approve").exit_code == 0
    for number in (1, 2):
        page = printed("test", "--format", "html").stdout
        assert Elements(page)
        assert f'aria-label="{number} run' in page
    refused = printed("test", "--history", "--format", "html")
    assert (refused.exit_code, "use text or json" in refused.output) == (2, True)
    run = printed("run", "--only", "services", "--format", "html")
    assert run.exit_code == 0, run.output
    assert Elements(run.stdout)
    assert "<h1>parquetry run at dev</h1>" in run.stdout


def test_a_page_of_tests_needs_no_history(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.orders(tests=[{"max_small_files": 0}])
    run = CliRunner().invoke
    assert run(command_line, ["apply", "-p", str(folder.root), "--auto-approve"]).exit_code == 0
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(folder.root / "target", ignore_errors=True)
    (folder.root / "target").symlink_to(tmp_path / "elsewhere")
    done = run(command_line, ["test", "-p", str(folder.root), "--format", "html"])
    assert done.exit_code != 0, "the results are saved nowhere"
    assert ("passed", "max_small_files") in [row[:2] for row in table_rows(done.stdout)]
