"""The pages and charts of the benchmarks are what their result files give; runs of some peers add up to a page."""

import json

import pytest

from benchmarks import report, report_goals, results
from benchmarks.charts import bars
from benchmarks.session_report import chart, render
from benchmarks.session_tables import Prepared, Tables
from tests.support.repository import ROOT

BENCHMARKS = ROOT / "benchmarks"


def row(case, peer, seconds):
    return {"workload": "W2", "case": case, "peer": peer, "cpu_seconds": seconds, "wall_seconds": seconds}


def test_pages_and_charts_are_drawn_from_the_results(tmp_path):
    report.write(BENCHMARKS / "results", tmp_path / "RESULTS.md")
    experiment = json.loads((BENCHMARKS / "results" / "session_experiment.json").read_text())
    measured = json.loads((BENCHMARKS / "results" / "session_bytes.json").read_text())
    (tmp_path / "SESSIONS.md").write_text(render(experiment, measured))
    (tmp_path / "session_experiment.svg").write_text(chart(experiment))
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {name: (BENCHMARKS / name).read_text() for name in drawn} == drawn
    assert {path.name for path in BENCHMARKS.glob("*.svg")} == {name for name in drawn if "svg" in name}


def test_a_ratio_is_of_the_newest_run_that_has_both(tmp_path):
    ours = "parquetry upsert"
    first = [row(ours, "parquetry", 2.0), row("hudi upsert, SIMPLE", "hudi", 20.0)]
    second = [row(ours, "parquetry", 1.0), row("delta merge", "delta", 4.0)]
    for rows in (first, second):
        results.save(tmp_path, "W2", {"scale": 1}, rows)
    found = report_goals.ratios(results.load(tmp_path, ["W2"]))
    assert {each.theirs: each.cpu for each in found} == {"hudi upsert, SIMPLE": 10.0, "delta merge": 4.0}
    results.save(tmp_path, "W2", {"scale": 1}, [*first, row("delta merge", "delta", 5.0)])
    (run,) = results.load(tmp_path, ["W2"])["W2"]
    assert run["cases"][ours]["cpu_seconds"] == {"min": 2.0, "median": 2.0, "max": 2.0}


def test_a_cheaper_peer_points_to_the_left():
    drawn = bars("t", "a", ["cheap", "dear"], {"CPU": [0.1, 10.0]}, start=1.0)
    cheap, dear = (line for line in drawn.splitlines() if 'height="13"' in line)
    assert f'x="{150}.0"' in cheap
    assert f'x="{150 + (760 - 150 - 90) / 2}"' in dear


@pytest.mark.parametrize("changed", [False, True])
def test_prepared_tables_are_found_again_when_nothing_changed(tmp_path, monkeypatch, changed):
    made = []

    def make(tables, name):
        made.append((name, tables.settings))
        return Prepared(cost={"cpu_seconds": len(made)}, live={"before": [], "after": []})

    monkeypatch.setattr(Tables, "_make", make)
    for level in ("2", "3" if changed else "2"):
        tables = Tables(tmp_path, {"level": level}, tmp_path, {"rows": 1}, target=1)
        (tmp_path / "plain").mkdir(exist_ok=True)
        known = tables.prepared("plain")
    assert [settings["level"] for _, settings in made] == (["2", "3"] if changed else ["2"])
    assert known.cost == {"cpu_seconds": len(made)}
