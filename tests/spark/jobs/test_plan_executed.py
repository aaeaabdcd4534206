"""What a plan says, done: files rewritten by `existing: now` within the ceiling, and recipes followed."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.main import execute
from parquetry.runtime.spark.read.table import read_table
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from tests.support.judges import HudiRs
from tests.support.project_folder import ORDERS, PROJECT, ProjectFolder, columns_with

pytestmark = pytest.mark.spark

NOW = 1_800_000_000_000
SIZES = {"max_file_size": "64KiB", "small_file_limit": 0}
CLUSTERING = {
    "trigger": "async",
    "existing": "now",
    "plan": {"target_file_size": "64KiB", "small_file_limit": "48KiB"},
    "execution": {"strategy": "sort", "columns": ["amount"]},
}


def rows(first, last):
    body = "".join(f"{n},{('Oslo', 'Rome')[n % 2]},{n * 7 % 100}.5,{n},1\n" for n in range(first, last))
    return "order_id,city,amount,items,revision\n" + body


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A project in git with 4 files in each of 2 partitions of ``orders``."""
    folder = ProjectFolder.create(tmp_path_factory.mktemp("template") / "shop")
    folder.orders(sizing=SIZES)
    (folder.root / ".gitignore").write_text("warehouse\ntarget\n")
    git(folder, "init", "--quiet")
    git(folder, "config", "user.name", "t")
    git(folder, "config", "user.email", "t@example.org")
    commit(folder)
    said(folder, "apply", "--auto-approve")
    for n in range(4):
        folder.deliver(f"{n}.csv", rows(n * 50, n * 50 + 50))
        said(folder, "run", "--only", "ingest")
    return folder.root


@pytest.fixture
def folder(template, tmp_path):
    shutil.copytree(template, tmp_path / "shop", symlinks=True)
    return ProjectFolder(tmp_path / "shop")


def git(folder, *arguments):
    subprocess.run(["git", "-C", str(folder.root), *arguments], check=True, capture_output=True)


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "a state")


def said(folder, *arguments, code=0):
    result = CliRunner().invoke(command_line, [*arguments, "--project", str(folder.root)])
    assert result.exit_code == code, result.output
    return result.stdout


def applied(folder, spark):
    workspace = folder.workspace()
    plan = plan_workspace(workspace, now_ms=NOW)
    jobs = []

    def launch(job):
        jobs.append(job)
        return execute(job, session=lambda _: spark)

    return plan, apply_plan(plan, workspace, launch=launch), jobs


def content(folder, name, spark, *columns):
    frame = read_table(spark, open_table(open_store(folder.root / "warehouse" / name)))
    return sorted(map(tuple, frame.select(*columns).collect()))


def live_files(folder):
    handle = open_table(open_store(folder.table))
    return handle.view(handle.timeline()).all_slices()


def test_existing_now_is_paid_by_apply(folder, spark):
    before = content(folder, "orders", spark, "order_id", "amount")
    folder.orders(sizing=SIZES, clustering=CLUSTERING)
    plan, result, _ = applied(folder, spark)
    (action,) = plan.intent.actions
    assert (action.change_class, [*action.steps]) == ("rewrite", ["record", "rewrite"])
    assert (action.max_rewrite_bytes, action.requirements.no_pending_clustering) == (None, True)
    expected = plan.evidence.figures["orders"].debt
    assert result.failure is None
    (done,) = result.results
    assert (done.rewritten.size_bytes, done.rewritten.files_before) == (expected.rewrite_bytes, 8)
    assert len(live_files(folder)) == expected.files_after == 2
    assert content(folder, "orders", spark, "order_id", "amount") == before
    assert HudiRs().read(str(folder.table)).num_rows == len(before)
    assert done.rewritten.instants
    for instant in done.rewritten.instants:
        (shown,) = json.loads(said(folder, "timeline", "orders", instant, "--format", "json"))["instants"]
        assert (shown["action"], shown["extra"]["parquetry.plan_id"]) == ("replacecommit", plan.plan_id)
        assert plan.plan_id in said(folder, "timeline", "orders", instant)
    after = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert after.is_empty
    assert after.evidence.due["orders"].rewrite_bytes == 0


def test_no_more_is_rewritten_than_the_ceiling(folder, spark):
    total = sum(part.size_bytes for part in live_files(folder))
    half = total // 2 + 2_000
    target = PROJECT["targets"]["dev"] | {"budget": {"per_apply": f"{half}B"}}
    folder.project(targets={"dev": target})
    folder.orders(sizing=SIZES, clustering=CLUSTERING)
    plan, result, jobs = applied(folder, spark)
    assert plan.intent.actions[0].max_rewrite_bytes == half
    (done,) = result.results
    assert 0 < done.rewritten.size_bytes <= half
    assert jobs[0].budget_bytes == half
    after = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert after.is_empty
    assert after.evidence.due["orders"].rewrite_bytes == total - done.rewritten.size_bytes


def test_a_ceiling_of_nothing_leaves_all_as_debt(folder, spark):
    target = PROJECT["targets"]["dev"] | {"budget": {"per_apply": 0}}
    folder.project(targets={"dev": target})
    folder.orders(sizing=SIZES, clustering=CLUSTERING)
    _, result, jobs = applied(folder, spark)
    assert (result.failure, jobs) == (None, [])
    assert plan_workspace(folder.workspace(), now_ms=NOW, due=True).evidence.due["orders"].rewrite_files == 8


def test_a_job_that_fails_leaves_the_spec_applied_and_its_bytes_as_debt(folder):
    folder.orders(sizing=SIZES, clustering=CLUSTERING)
    workspace = folder.workspace()

    def launch(job):
        raise StalePlanError("no")

    result = apply_plan(plan_workspace(workspace, now_ms=NOW), workspace, launch=launch)
    assert result.failure.exit_code == 6
    assert read_applied(open_store(folder.table)).ref.number == 2
    after = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert after.is_empty
    assert after.evidence.due["orders"].rewrite_files == 8


RECIPES = [
    (
        "SC401",
        {"record_key": ["order_id", "city"], "columns": columns_with(city={"nullable": False})},
        None,
    ),
    ("SC402", {"partition_by": None}, None),
    ("SC403", {"location": "elsewhere/orders"}, None),
    ("SC404", {"ordering": "items"}, None),
    (
        "SC311",
        {"columns": columns_with(amount={"type": "int"})},
        "SELECT order_id, city, CAST(amount AS INT) AS amount, items, revision FROM source",
    ),
]


@pytest.mark.parametrize(
    ("code", "wanted", "select"),
    [
        pytest.param(*recipe, id=recipe[0], marks=pytest.mark.long if recipe[0] in ("SC402", "SC404") else ())
        for recipe in RECIPES
    ],
)
def test_a_recipe_that_is_followed_works(folder, spark, code, wanted, select, monkeypatch):
    monkeypatch.chdir(folder.root)
    before = content(folder, "orders", spark, "order_id", "items")
    folder.orders(sizing=SIZES, **wanted)
    commit(folder)
    said(folder, "plan", "--out", "plan.json", code=1)
    (blocked,) = json.loads((folder.root / "plan.json").read_text())["intent"]["blocked"]
    assert blocked["code"] == code
    first, second, third, fourth = blocked["recipe"]
    run_all(folder, first["commands"])
    edit_as_told(folder, second["text"], select)
    run_all(folder, third["commands"])
    run_all(folder, fourth["commands"])
    new = "elsewhere/orders" if code == "SC403" else "orders_v2"
    assert content(folder, new, spark, "order_id", "items") == before
    assert read_applied(open_store(folder.table)).ref.forgotten
    assert len(live_files(folder)) == 8
    said(folder, "plan", "--detailed-exitcode")


def run_all(folder, commands):
    """The commands of a step, as somebody types them; `apply` is answered with yes."""
    for line in commands:
        words = shlex.split(line)
        if words[0] != "parquetry":
            subprocess.run(words, cwd=folder.root, check=True, capture_output=True)
        else:
            answer = ["--auto-approve"] if words[1] == "apply" else []
            result = CliRunner().invoke(command_line, [*words[1:], *answer])
            assert result.exit_code == 0, result.output


def edit_as_told(folder, text, select):
    """Write what stands between backquotes into the file that is named."""
    _, name, _, sources, *_ = text.split("`")
    file = folder.root / text.split()[1]
    document = yaml.safe_load(file.read_text()) | yaml.safe_load(name) | yaml.safe_load(sources)
    if select is not None:
        document["sources"][0]["select"] = select
    file.write_text(yaml.safe_dump(document, sort_keys=False))


def test_recipes_are_tried_for_every_change_that_has_one():
    from parquetry.compiler.plan.changes import IDENTITY_CODES

    tried = {code for code, _, _ in RECIPES}
    assert IDENTITY_CODES | {"SC403"} <= tried
    assert ORDERS["record_key"] == ["order_id"]


def test_after_a_run_that_its_budget_stopped_the_plan_is_empty_and_a_paid_table_is_not_written(folder, spark):
    folder.orders(sizing=SIZES, clustering=CLUSTERING | {"existing": "gradual", "every_commits": 1})
    half = sum(part.size_bytes for part in live_files(folder)) // 2 + 2_000
    folder.project(targets={"dev": PROJECT["targets"]["dev"] | {"budget": {"per_run": f"{half}B"}}})
    said(folder, "apply", "--auto-approve")
    owed = plan_workspace(folder.workspace(), now_ms=NOW, due=True).evidence.due["orders"]
    assert (owed.rewrite_files, owed.runs) == (8, 2)
    said(folder, "run", "--only", "services")
    half_way = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert half_way.is_empty
    assert half_way.evidence.due["orders"].rewrite_files == 4
    said(folder, "run", "--only", "services")
    paid = plan_workspace(folder.workspace(), now_ms=NOW, due=True)
    assert (paid.is_empty, paid.evidence.due["orders"].rewrite_bytes) == (True, 0)
    before = {path: path.stat().st_mtime_ns for path in folder.table.rglob("*") if path.is_file()}
    said(folder, "run")
    assert {path: path.stat().st_mtime_ns for path in folder.table.rglob("*") if path.is_file()} == before
