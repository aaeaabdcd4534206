from __future__ import annotations

import json
from html.parser import HTMLParser

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.inspect import InspectView, size_bars
from parquetry.compiler.reports.charts import bar_chart
from parquetry.compiler.reports.inspection import (
    LayoutReport,
    PartitionReport,
    QueryReport,
    Share,
    inspect_table,
    read_layouts,
)
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, Trigger
from parquetry.runtime.spec.table_spec import Extra
from parquetry.runtime.table.applied import write_applied
from tests.support.handmade import HandmadeTable, spec
from tests.support.html_pages import cut_elements


class Page(HTMLParser):
    """Text and tags of a page; a tag that is not closed, or closed twice, fails."""

    VOID = frozenset({"meta", "line"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data.strip())


@given(st.lists(st.integers(0, 2**40), max_size=200))
def test_every_file_is_in_one_bar(sizes):
    bars = size_bars(sizes)
    assert sum(number for bar in bars for number in bar.values) == len(sizes)
    chart = bar_chart("sizes", bars)
    assert (chart is None) == (not sizes)
    heights = [shape.height for shape in chart.rectangles] if chart else [110]
    assert all(0 <= height <= 110 for height in heights)
    assert max(heights) == 110


def test_the_page_says_what_the_text_says_and_escapes_it():
    wild = PartitionReport(path="p=<b>&", small_files=1, rows=7, file_sizes_bytes=(10, 2_000))
    share = Share(read=1, total=2)
    query = QueryReport(name="by_day", files=share, row_groups=share, rows=share)
    report = LayoutReport(
        table="t", instant="20260101", partitions=(wild,), queries=(query,), warnings=("<careful>",)
    )
    page = Page(InspectView().html(report))
    for said in (
        "t at 20260101",
        "2 files, 1 small, 7 rows, 2.0 KB",
        "p=<b>&",
        "by_day",
        "1 of 2",
        "<careful>",
    ):
        assert said in page.text, said
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "img", "b")]
    assert not [attrs for _, attrs in page.tags if any("http" in str(v) for v in attrs.values())]


def test_a_table_without_files_has_a_page():
    report = LayoutReport(table="t", instant=None, partitions=(), queries=())
    assert "t at no write yet" in Page(InspectView().html(report)).text


def test_inspect_saves_both_and_what_it_saves_is_read_back(tmp_path):
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}, "p=b": {"f-1": [("l", 2), ("m", 3)]}})
    out, html = tmp_path / "state.json", tmp_path / "page.html"
    words = ["inspect", str(table.folder), "--out", str(out), "--html", str(html), "--format", "json"]
    done = CliRunner().invoke(command_line, words)
    assert done.exit_code == 0, done.output
    assert json.loads(out.read_text()) == json.loads(done.output)
    assert "2 files, 2 small, 3 rows" in html.read_text()
    layout = read_layouts([out])["t"]
    assert [(p.path, p.files, p.rows) for p in layout.partitions] == [("p=a", 1, 1), ("p=b", 1, 2)]
    assert Page(html.read_text()).text


def test_files_that_share_values_of_clustering_columns_are_counted_by_partition(tmp_path):
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("k", 1), ("l", 5)], "f-1": [("m", 4), ("n", 9)], "f-2": [("o", 9)]}})
    table.commit("2", {"p=b": {"g-0": [("k", 4)]}})
    execution = ExecutionPolicy(strategy="sort", columns=("n", "id"))
    assert inspect_table(table.store).debt is None
    declared = spec(extra=Extra(clustering=ClusteringSpec(trigger=Trigger.ASYNC, execution=execution)))
    write_applied(table.store, declared, number=1)
    report = inspect_table(table.store)
    assert report.debt.rewrite_files > 0
    assert f"debt: {report.debt.rewrite_files} files" in InspectView().text(report, Paint(enabled=False))
    assert set(InspectView().json(report)["debt"]) >= {"rewrite_bytes", "files_after", "expired_files"}
    assert [(overlap.column, overlap.depth) for overlap in report.overlap] == [("n", 2), ("id", 1)]
    text = InspectView().text(report, Paint(enabled=False))
    assert "files that share a value, at most in one partition: n 2, id 1" in text
    assert InspectView().json(report)["overlap"] == [
        {"column": "n", "depth": 2},
        {"column": "id", "depth": 1},
    ]


def test_nothing_on_the_page_is_cut_on_a_narrow_screen(tmp_path):
    table = HandmadeTable(tmp_path / "t")
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}, "p=b": {"f-1": [("l", 2), ("m", 3)]}})
    page = InspectView().html(inspect_table(table.store))
    wide, cut = cut_elements(page)
    assert wide >= 2
    assert cut == []
    assert page.count("<div") == page.count("</div>")
