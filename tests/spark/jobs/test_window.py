"""Three tables on Spark in one window whose budget is too small: what runs, what waits and why, the next night."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.spark.read.table import read_table
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable

pytestmark = pytest.mark.spark

TABLES = {"events": 1000, "orders": 10, "returns": 0}
ROWS = 400


def spec(name, runs):
    queries = [{"name": "few", "where": "v < 20", "runs_per_day": runs}] if runs else []
    return EVENTS | {
        "name": name,
        "queries": queries,
        "sizing": {"max_file_size": "16KiB", "small_file_limit": "12KiB"},
        "clustering": {
            "trigger": "async",
            "every_commits": 1,
            "plan": {"target_file_size": "16KiB", "small_file_limit": "12KiB"},
            "execution": {"strategy": "sort", "columns": ["v"]},
        },
    }


def told(folder, *arguments):
    result = CliRunner().invoke(command_line, [*arguments, "--project", str(folder.root)])
    assert result.exit_code == 0, result.output
    return result.stdout


def with_operations(folder, **rules):
    folder.project(targets={"dev": {"warehouse": "./warehouse", "operations": rules}})
    told(folder, "apply", "--auto-approve")


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    for name, runs in TABLES.items():
        folder.write(f"tables/{name}.yml", spec(name, runs))
    told(folder, "apply", "--auto-approve")
    for name in TABLES:
        table = SmallTable(open_store(folder.root / "warehouse" / name), timing=FAST)
        for number in range(4):
            table.insert({f"{number}-{n * 7919}": (n, "a") for n in range(ROWS)})
    return folder


def test_a_window_with_a_small_budget_and_the_next_night(spark, folder):
    now = datetime.now(UTC)
    hours = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=3):%H:%M} UTC"
    with_operations(folder, window=hours)
    sizes = {one["table"]: one["taken_bytes"] for one in due(folder)["tables"]}
    budget = sizes["events"] + sizes["orders"] + 100
    with_operations(folder, window=hours, budget={"rewrite": f"{budget}B", "hours": 2}, parallel=2)
    planned = due(folder)
    assert [(one["table"], one["reason"]) for one in planned["tables"]] == [
        ("events", None),
        ("orders", None),
        ("returns", "budget"),
    ]

    first = json.loads(told(folder, "run", "--services", "--format", "json"))
    assert clustered(first) == {"events": sizes["events"], "orders": sizes["orders"]}
    assert [(one["table"], one["reason"]) for one in first["order"]["tables"]] == [
        ("events", None),
        ("orders", None),
        ("returns", "budget"),
    ]
    second = " ".join(told(folder, "run", "--services").split())
    assert "returns cluster" in second
    assert "1 changed, 2 unchanged; " in second
    assert "deferred" not in second
    assert due(folder)["tables"] == []
    for name in TABLES:
        table = open_table(open_store(folder.root / "warehouse" / name))
        assert read_table(spark, table).count() == 4 * ROWS

    closed = f"{now + timedelta(hours=5):%H:%M}-{now + timedelta(hours=6):%H:%M} UTC"
    with_operations(folder, window=closed)
    table = SmallTable(open_store(folder.root / "warehouse/returns"), timing=FAST)
    for number in range(4):
        table.insert({f"more-{number}-{n}": (n, "a") for n in range(ROWS)})
    waiting = " ".join(told(folder, "run", "--services").split())
    assert "returns deferred: the window of the target is closed" in waiting


def due(folder):
    return json.loads(told(folder, "plan", "--due", "--format", "json"))["evidence"]["order"]


def clustered(run):
    results = ((job["table"], job["result"]["clustering"]) for job in run["jobs"] if job["job"] == "cluster")
    return {table: clustering["bytes_before"] for table, clustering in results}
