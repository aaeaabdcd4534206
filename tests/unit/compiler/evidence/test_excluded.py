"""`plan --due -v`: every file that clustering leaves has its reason, and no screen is without end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.evidence import run_forecast
from parquetry.compiler.evidence.model import ExcludedFiles, ExcludedPath
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.open import open_store
from tests.support.one_process_spark import OneProcessSpark
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import ReadOnlyStore

NOW = 1_800_000_000_000
CLUSTERING = {"trigger": "async", "execution": {"strategy": "sort", "columns": ["v"]}}
PARTITIONS = {"plan": {"partitions": {"selected": ["p=Oslo"]}}}
LEFT = "not in a partition that clustering.plan.partitions chooses"


@pytest.fixture
def folder(tmp_path):
    """A project with ``events``: two files of Oslo's, which are due, and three of Rome's, which are not."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    declare(folder)
    apply(folder)
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    for n, city in enumerate(("Oslo", "Rome", "Oslo", "Rome", "Rome")):
        table.insert({f"k{n}": (n, city)})
    return folder


def declare(folder, *, pii=False, **changes):
    columns = [dict(column, pii=pii and column["name"] == "p") for column in EVENTS["columns"]]
    folder.write(
        "tables/events.yml", EVENTS | {"columns": columns, "clustering": CLUSTERING | PARTITIONS | changes}
    )


def apply(folder):
    workspace = folder.workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=NOW), workspace).failure is None


def planned(folder, **options):
    workspace = folder.workspace()
    opened = replace(
        workspace, open=lambda location, given, allowed: ReadOnlyStore(open_store(location, given, allowed))
    )
    return plan_workspace(opened, now_ms=NOW, due=True, **options)


def run(folder, *words):
    done = CliRunner().invoke(command_line, ["plan", "--due", *words, "-p", str(folder.root)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_each_file_that_is_left_is_named_with_its_reason(folder):
    text = run(folder, "-v")
    files = sorted(path.name for path in (folder.root / "warehouse/events/p=Rome").glob("*.parquet"))
    left = text.partition("left as they are:")[2].partition("\n\n")[0].split()
    assert " ".join(left) == " ".join(f"p=Rome/{name}: {LEFT}" for name in files)
    assert len(files) == 3
    assert "left as they are" not in run(folder)


def test_scripts_get_them_counted_by_reason(folder):
    assert json.loads(run(folder, "--format", "json"))["evidence"]["excluded"] is None
    document = json.loads(run(folder, "-v", "--format", "json"))["evidence"]["excluded"]["events"]
    assert (document["total"], document["reasons"]) == (3, {"partition": 3})
    assert {(file["reason"], file["detail"]) for file in document["files"]} == {("partition", LEFT)}
    plan = planned(folder, excluded=True)
    assert decode(encode(plan), name="plan.json") == plan


def test_a_table_that_is_not_clustered_has_none(folder):
    declare(folder, trigger="off")
    apply(folder)
    assert planned(folder, excluded=True).evidence.excluded == {}


def test_personal_partitions_are_masked(folder):
    declare(folder, pii=True)
    apply(folder)
    for options in (("-v",), ("-v", "--format", "json")):
        said = run(folder, *options)
        assert said.count("p=***/") == 3
        assert "Rome/" not in said


def test_a_plan_that_makes_a_partition_personal_does_not_show_it(folder):
    queries = [{"name": "low", "where": "v < 2"}]
    small = {"target_file_size": "4300B", "small_file_limit": "4000B", "max_group_size": "8600B"}
    events = {
        "queries": queries,
        "clustering": CLUSTERING | {"plan": small | {"partitions": {"selected": ["p=Rome"]}}},
    }
    folder.write("tables/events.yml", EVENTS | events)
    apply(folder)
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    for n in range(4):
        table.insert({f"y{n}-{v}": (v, "Rome") for v in range(6)})
    told = shown(planned(folder, excluded=True))
    assert [city in told for city in ("Oslo", "Rome")] == [True, True]
    columns = [dict(column, pii=column["name"] == "p") for column in EVENTS["columns"]]
    folder.write("tables/events.yml", EVENTS | events | {"columns": columns})
    plan = planned(folder, excluded=True)
    assert [change.path for action in plan.intent.actions for change in action.changes] == ["columns.p.pii"]
    assert plan.evidence.forecasts["events"].scopes
    for said in (encode(plan), shown(plan)):
        assert "p=***" in said
        assert not [city for city in ("Oslo", "Rome") if city in said]


def test_the_plan_leaves_what_the_run_leaves_where_a_sample_chooses_the_scope(folder):
    small = {"target_file_size": "4300B", "small_file_limit": "4000B", "max_group_size": "8600B"}
    folder.write(
        "tables/events.yml",
        EVENTS
        | {
            "queries": [{"name": "low", "where": "v < 2"}],
            "clustering": CLUSTERING | {"plan": small | PARTITIONS["plan"] | {"max_groups": 1}},
        },
    )
    apply(folder)
    table = SmallTable(open_store(folder.root / "warehouse/events"), timing=FAST)
    for n in range(6):
        table.insert({f"y{n}-{v}": (v, "Oslo") for v in range(6)})
    evidence = planned(folder, excluded=True).evidence
    (choice,) = evidence.forecasts["events"].scopes
    assert choice.chosen_by == "sample"
    run_leaves = cluster(OneProcessSpark(), table.handle, timing=FAST)
    assert evidence.excluded["events"].total == run_leaves.excluded_files
    assert evidence.forecasts["events"].files == run_leaves.files_before


def test_of_many_files_the_first_are_named_and_the_rest_counted(folder, monkeypatch):
    monkeypatch.setattr(run_forecast, "MAX_LISTED_FILES", 2)
    plan = planned(folder, excluded=True)
    found = plan.evidence.excluded["events"]
    assert (found.total, len(found.files)) == (3, 2)
    assert "and 1 file more; `parquetry service cluster events --plan-only -v`" in shown(plan)
    file = ExcludedPath(
        path=f"p=Rome/{'f' * 60}.parquet", reason="healthy", detail="of good size and in order"
    )
    many = ExcludedFiles(total=100_000, reasons={"healthy": 100_000}, files=(file,) * 100)
    text = shown(replace(plan, evidence=replace(plan.evidence, excluded={"events": many})))
    assert "and 99,900 files more" in text
    assert len(text.splitlines()) < 250


def shown(plan):
    return PlanView().text(plan, Paint(enabled=False))
