"""What clustering was predicted to be good for and was good for, wherever it is shown."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from jsonschema import validate

from parquetry.cli.main import command_line
from parquetry.cli.terminal.schema import answer_schema
from parquetry.runtime.clustering.forecast.queries import Deviation, MeasuredQuery
from parquetry.runtime.clustering.plan.history import CompletedClustering, bytes_per_second, forecast_error
from parquetry.runtime.layout.skipping.files import NOTHING, Reads
from parquetry.runtime.spark.cluster import cluster
from tests.support.html_pages import table_rows
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import apply_queries, table_in_debt
from tests.support.small_table import FAST


@pytest.fixture
def table(tmp_path):
    small = table_in_debt(tmp_path / "table")
    queries = [{"name": "few", "where": "v = 5"}, {"name": "a_name_that_is_much_too_long", "where": "v < 0"}]
    apply_queries(small, *queries)
    return small


def shown(table, *arguments):
    location = table.store.uri.removeprefix("file://")
    command = [location if argument == "TABLE" else argument for argument in arguments]
    result = CliRunner().invoke(command_line, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_plan_shows_what_it_is_good_for_and_how_good_such_predictions_were(table):
    text = shown(table, "service", "cluster", "TABLE", "--plan-only")
    assert "expected" in text
    assert "forecast error" not in text
    cluster(OneProcessSpark(), table.handle, timing=FAST)
    table.insert({f"n{n}": (n, "a") for n in range(10)})
    text = shown(table, "service", "cluster", "TABLE", "--plan-only")
    assert "median forecast error of 2 predictions (1 clustering):\n  files 0 %, row groups 0 %" in text
    answer = json.loads(shown(table, "service", "cluster", "TABLE", "--plan-only", "--format", "json"))
    assert [query["query"] for query in answer["queries"]] == ["few", "a_name_that_is_much_too_long"]
    assert answer["forecast_error"]["error"]["files"] == 0


def test_what_is_foreseen_has_the_keys_that_it_has_in_plans_and_trials(table):
    answer = json.loads(shown(table, "service", "cluster", "TABLE", "--plan-only", "--format", "json"))
    assert [query.keys() for query in answer["queries"]] == [{"query", "now", "expected"}] * 2


def test_the_timeline_shows_what_was_measured(table):
    (instant,) = cluster(OneProcessSpark(), table.handle, timing=FAST).instants
    assert "expected" not in shown(table, "timeline", "TABLE")
    for arguments in (("-v",), (instant,)):
        text = shown(table, "timeline", "TABLE", *arguments)
        assert re.search(r"\berror$", text, re.MULTILINE)
        assert max(len(line) for line in text.splitlines() if "{" not in line and '"' not in line) <= 80
    answer = json.loads(shown(table, "timeline", "TABLE", "--format", "json"))
    validate(answer, answer_schema("timeline"))
    *_, clustering = answer["instants"]
    assert clustering["queries"][0]["expected"]["rows"] == clustering["queries"][0]["after"]["rows"] == 30


def test_inspect_shows_the_newest_measure(table):
    assert "expected" not in shown(table, "inspect", "TABLE")
    cluster(OneProcessSpark(), table.handle, timing=FAST)
    text = shown(table, "inspect", "TABLE")
    assert "of the files that it rewrote" in text
    assert "row groups" in text
    assert max(map(len, text.splitlines())) <= 80
    answer = json.loads(shown(table, "inspect", "TABLE", "--format", "json"))
    validate(answer, answer_schema("inspect"))
    assert answer["clustering"]["queries"][0]["query"] == "few"
    assert answer["forecast_error"]["predictions"] == 2


def test_the_page_shows_it_too(table, tmp_path):
    cluster(OneProcessSpark(), table.handle, timing=FAST)
    shown(table, "inspect", "TABLE", "--html", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    assert "What queries read before and after clustering" in page
    assert ("few", "files") in [row[:2] for row in table_rows(page)]


def measured(expected, after):
    def touched(rows):
        return Reads(files=1, row_groups=1, rows=rows, data_bytes=8 * rows)

    return MeasuredQuery.of("q", before=touched(100), expected=touched(expected), after=touched(after))


def test_hindsight_is_the_median_distance():
    past = [
        CompletedClustering(instant="1", written_bytes=100, seconds=2.0, queries=(measured(11, 10),)),
        CompletedClustering(instant="2", written_bytes=900, seconds=None, queries=()),
        CompletedClustering(
            instant="3", written_bytes=300, seconds=2.0, queries=(measured(5, 10), measured(10, 10))
        ),
    ]
    found = forecast_error(past)
    assert (found.clusterings, found.predictions) == (2, 3)
    assert found.error == Deviation(files=0.0, row_groups=0.0, rows=0.1, data_bytes=0.1)
    assert bytes_per_second(past) == 100
    assert forecast_error(past[1:2]) is None
    assert bytes_per_second(past[1:2]) is None


def test_what_is_expected_of_nothing_has_no_share():
    found = MeasuredQuery.of("q", before=NOTHING, expected=measured(1, 1).after, after=NOTHING)
    assert found.error == Deviation(files=None, row_groups=None, rows=None, data_bytes=None)
