"""`apply` and `run` as two processes on one table: specs go into force while Spark writes, and nobody loses anything."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.schema import live_columns
from tests.support.command_script import SCRIPT, environment, parquetry
from tests.support.hudi_rs import read
from tests.support.orphans import leftovers
from tests.support.processes import die_with_parent
from tests.support.project_folder import ORDERS, ProjectFolder, columns_with

pytestmark = pytest.mark.spark

PAUSE = 1.0
"""Seconds between two specs: a run that loses to each of ten in a row gives up."""

NAMES = [column["name"] for column in ORDERS["columns"]]
THROUGH_SPARK = ORDERS["sources"][0] | {
    "select": "SELECT "
    + ", ".join(f"CAST({c['name']} AS {c['type']})" for c in ORDERS["columns"])
    + " FROM source"
}


def delivery(first, last):
    lines = (f"{n},{('Oslo', 'Rome')[n % 2]},{n}.5,{n},1" for n in range(first, last))
    return "\n".join(["order_id,city,amount,items,revision", *lines, ""])


def declare(folder, extra):
    """The table with so many columns more."""
    added = {f"extra_{n}": {"type": "string"} for n in range(extra)}
    folder.orders(columns=columns_with(**added), sources=[THROUGH_SPARK])


def started_run(folder):
    return subprocess.Popen(
        [str(SCRIPT), "run", "--applied", "-p", str(folder.root)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,
    )


@pytest.mark.long
@pytest.mark.parametrize("runs", [1, 10])
def test_columns_go_into_force_while_spark_writes(runs, spark, tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    declare(folder, 0)
    assert parquetry("apply", "--auto-approve", "-p", folder.root).returncode == 0
    extra, overlapped = 0, 0
    for number in range(runs):
        folder.deliver(f"{number}.csv", delivery(number * 10, number * 10 + 10))
        with started_run(folder) as run:
            while run.poll() is None:
                extra += 1
                declare(folder, extra)
                done = parquetry("apply", "--auto-approve", "-p", folder.root)
                assert done.returncode == 0, done.stderr
                overlapped += run.poll() is None
                time.sleep(PAUSE)
            said = run.stdout.read()
        # A spec that went into force meanwhile may send a job of the run back, which says so.
        assert run.returncode in (0, 4, 5, 6), said
        assert run.returncode == 0 or "plan (or compile) again" in said or "run again" in said, said
        assert "Traceback" not in said
    assert overlapped
    print(f"{overlapped} specs went into force beside {runs} runs; the last run ended with {run.returncode}")
    last = CliRunner().invoke(command_line, ["run", "-p", str(folder.root)])
    assert last.exit_code == 0, last.output
    store = open_store(folder.table)
    names = [*NAMES, *(f"extra_{n}" for n in range(extra))]
    assert [column.name for column in read_applied(store).spec.columns] == names
    handle = open_table(store)
    assert [c.name for c in live_columns(store, handle.timeline(), handle.config)] == names
    rows = read(str(folder.table)).select(["order_id", "items"]).to_pylist()
    expected = [{"order_id": n, "items": n} for n in range(runs * 10)]
    assert sorted(rows, key=lambda row: row["order_id"]) == expected
    plan = parquetry("plan", "--format", "json", "-p", folder.root)
    assert json.loads(plan.stdout)["intent"]["actions"] == []
    clean(handle)
    assert leftovers(folder.table) == []
