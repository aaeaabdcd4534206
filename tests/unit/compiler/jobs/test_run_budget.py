"""One budget for all tables of a run: who uses it first, what waits, and that plans predict it."""

from __future__ import annotations

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.operating.run import RunView
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.errors import UnexpectedError
from parquetry.compiler.jobs.run import Only, run_tables
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.main import execute
from parquetry.runtime.storage.open import open_store
from tests.support.one_process_spark import OneProcessSpark
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable, rows_of

NOW = 1_800_000_000_000
TABLES = ("first", "second", "third")
DECLARED = EVENTS | {
    "sizing": {"max_file_size": "64KiB", "small_file_limit": "32KiB"},
    "clustering": {
        "trigger": "async",
        "every_commits": 1,
        "plan": {"target_file_size": "64KiB", "small_file_limit": "32KiB"},
        "execution": {"strategy": "sort", "columns": ["v"]},
    },
}


class Launched:
    """An observer that knows what was launched, in order."""

    def __init__(self):
        self.jobs = []

    def planned(self, jobs):
        pass

    def started(self, job):
        self.jobs.append((job.table, job.name))

    def ended(self, outcome):
        pass


@pytest.fixture
def folder(tmp_path):
    """Three tables of four small files each, all of about one size."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    for name in TABLES:
        folder.write(f"tables/{name}.yml", DECLARED | {"name": name})
    apply(folder)
    for name in TABLES:
        for number in range(4):
            table(folder, name).insert({f"k{number}-{n}": (n, "a") for n in range(4)})
    return folder


def apply(folder):
    workspace = folder.workspace()
    result = apply_plan(plan_workspace(workspace, now_ms=NOW), workspace, launch=launch)
    assert result.failure is None
    return result


def table(folder, name):
    return SmallTable(open_store(folder.root / "warehouse" / name), timing=FAST)


def with_budget(folder, **budget):
    folder.project(
        targets={"dev": {"warehouse": "./warehouse", "budget": {key: f"{n}B" for key, n in budget.items()}}}
    )
    apply(folder)


def size(folder, name):
    handle = table(folder, name).handle
    return sum(part.size_bytes for part in handle.view(handle.timeline()).all_slices())


def launch(job):
    return execute(job, session=lambda _: OneProcessSpark())


def run(folder, only=Only.SERVICES):
    """The bytes that clustering rewrote by table, the result, and the jobs in the order of their launch."""
    observer = Launched()
    result = run_tables(
        folder.workspace(),
        only=only,
        run_id="r",
        prepare=lambda _: launch,
        observer=observer,
        diagnose=UnexpectedError,
    )
    assert result.failure is None
    rewrote = {
        outcome.table: outcome.result.clustering.bytes_before
        for outcome in result.outcomes
        if outcome.result.clustering is not None and outcome.result.clustering.instants
    }
    return rewrote, result, observer.jobs


def predicted(folder):
    evidence = plan_workspace(folder.workspace(), now_ms=NOW, due=True).evidence
    runs = {name: figures.runs for name, figures in evidence.due.items() if figures.rewrite_bytes}
    return runs, {name: forecast.rewrite_bytes for name, forecast in evidence.forecasts.items()}


def test_tables_share_the_budget_and_the_one_that_waited_longest_comes_first(folder):
    limit = max(size(folder, name) for name in TABLES) + 100
    with_budget(folder, per_run=limit)
    assert predicted(folder)[0] == {"first": 1, "second": 2, "third": 3}
    paid = []
    for _ in range(3):
        _, forecast = predicted(folder)
        rewrote, result, _ = run(folder)
        assert sum(rewrote.values()) <= limit
        assert {name: n for name, n in forecast.items() if n} == rewrote
        paid += rewrote
        assert [outcome.table for outcome in result.outcomes] == sorted(o.table for o in result.outcomes)
    assert paid == list(TABLES)
    assert predicted(folder)[0] == {}
    for name in TABLES:
        assert len(rows_of(folder.root / "warehouse" / name)) == 16
    # All have debt again: the first is the one that was clustered before the others.
    for name in TABLES:
        for number in range(4):
            table(folder, name).insert({f"l{number}-{n}": (n, "a") for n in range(4)})
    assert list(run(folder)[0])[:1] == ["first"]


def test_what_the_budget_does_not_suffice_for_is_told(folder):
    with_budget(folder, per_run=max(size(folder, name) for name in TABLES) + 100)
    _, result, _ = run(folder)
    text = RunView().text(result, Paint(enabled=False))
    (line,) = [line for line in text.splitlines() if line.startswith("second cluster")]
    assert "nothing clustered; the rest of the run's budget is too small for 4 due files" in line
    assert "a later run clusters them" in line


def test_the_ingestion_of_all_tables_comes_before_any_clustering(folder):
    for name in TABLES:
        folder.write(
            f"tables/{name}.yml",
            DECLARED | {"name": name, "sources": [{"name": "new", "path": f"{name}/*.csv", "format": "csv"}]},
        )
    apply(folder)
    _, _, jobs = run(folder, only=None)
    kinds = [name for _, name in jobs]
    assert kinds == ["ingest_new"] * 3 + ["cluster", "services"] * 3


def test_a_file_larger_than_the_budget_is_clustered_by_itself(folder):
    for name in TABLES[1:]:
        (folder.root / f"tables/{name}.yml").unlink()
    with_budget(folder, per_run=size(folder, "first") // 5)
    assert predicted(folder)[0] == {"first": 4}
    done = 0
    while predicted(folder)[0]:
        rewrote, result, _ = run(folder)
        (clustered,) = (
            o.result.clustering for o in result.outcomes if o.table in rewrote and o.name == "cluster"
        )
        assert (clustered.groups, clustered.files_before) == (1, 1)
        done += 1
    assert done == 4
    assert len(rows_of(folder.root / "warehouse" / "first")) == 16


def test_a_budget_of_nothing_is_told_and_pays_nothing(folder):
    with_budget(folder, per_run=0)
    rewrote, result, _ = run(folder)
    assert rewrote == {}
    assert "is too small for 4 due files" in RunView().text(result, Paint(enabled=False))
    assert set(predicted(folder)[0].values()) == {0}
    plan = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert "to rewrite, by no run, as budget.per_run is 0" in PlanView().text(plan, Paint(enabled=False))


def test_apply_rewrites_no_more_than_was_reviewed_over_all_tables(folder):
    limit = 2 * max(size(folder, name) for name in TABLES) + 100
    for name in TABLES:
        section = DECLARED["clustering"] | {
            "existing": "now",
            "execution": {"strategy": "sort", "columns": ["id"]},
        }
        folder.write(f"tables/{name}.yml", DECLARED | {"name": name, "clustering": section})
    folder.project(targets={"dev": {"warehouse": "./warehouse", "budget": {"per_apply": f"{limit}B"}}})
    results = apply(folder).results
    rewrote = [result.rewritten.size_bytes for result in results]
    assert [bool(size_bytes) for size_bytes in rewrote] == [True, True, False]
    assert sum(rewrote) <= limit
