"""The history of tests is read from what earlier runs left, whoever put files beside that."""

from __future__ import annotations

import json

import pytest

from parquetry.compiler.testing.history import MOST_RUNS, history_of
from parquetry.compiler.testing.tables import selected_tests
from parquetry.confined_folder import LinkInTheWayError
from tests.support.project_folder import ProjectFolder


@pytest.fixture
def folder(tmp_path):
    made = ProjectFolder.create(tmp_path / "shop")
    made.orders(tests=[{"max_orphans": 0}, {"max_skew": 3}])
    return made


def keep(folder, run_id, content):
    place = folder.root / "target" / "runs" / run_id
    place.mkdir(parents=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (place / "results.json").write_text(text)


def results(status="passed", value=1, *, test="max_orphans", target="dev"):
    limits = [{"limit": test, "value": value}]
    return {
        "target": target,
        "tests": [{"table": "orders", "test": test, "status": status, "limits": limits}],
    }


def history(folder):
    workspace = folder.workspace()
    found = history_of(workspace, selected_tests(workspace, select=(), exclude=()))
    return {past.test: [(run.run_id, run.status, run.values) for run in past.runs] for past in found.tests}


def test_runs_come_oldest_first_and_tests_without_any_are_there(folder):
    keep(folder, "20260102T000000-b", results("failed", 2))
    keep(folder, "20260101T000000-a", results("passed", None))
    found = history(folder)
    assert found == {
        "max_orphans": [
            ("20260101T000000-a", "passed", {"max_orphans": None}),
            ("20260102T000000-b", "failed", {"max_orphans": 2}),
        ],
        "max_skew": [],
    }


def test_only_the_newest_runs_count(folder):
    for number in range(MOST_RUNS + 3):
        keep(folder, f"20260101T{number:06}-a", results(value=number))
    assert [values["max_orphans"] for _, _, values in history(folder)["max_orphans"]] == list(
        range(3, MOST_RUNS + 3)
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"tests": 3, "target": "dev"}',
        {"run_id": "x", "unapplied": [], "jobs": []},
        results(target="prod"),
        results("splendid"),
        results(value="\x1b[31m"),
        results(test="other"),
        {
            "target": "dev",
            "tests": [3, None, {}, {"table": [], "test": {}, "status": "passed", "limits": []}],
        },
        '{"target": "dev", "tests": [' + "[" * 5000,
    ],
)
def test_what_is_no_result_of_these_tests_is_passed_over(folder, content):
    keep(folder, "20260101T000000-a", content)
    assert history(folder) == {"max_orphans": [], "max_skew": []}


def test_links_are_not_followed(folder, tmp_path):
    keep(folder, "20260101T000000-a", results())
    (tmp_path / "elsewhere.json").write_text(json.dumps(results("failed")))
    (folder.root / "target/runs/20260101T000000-a/results.json").unlink()
    (folder.root / "target/runs/20260101T000000-a/results.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(LinkInTheWayError):
        history(folder)
