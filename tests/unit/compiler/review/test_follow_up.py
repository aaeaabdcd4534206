"""What a plan predicted stands beside what was measured, on the pull request, as soon as the debt is paid."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from jsonschema import validate

from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.review import follow_up_comment
from parquetry.compiler.review.follow_up import DebtStatus, FollowedFiles, FollowedTable, FollowUp
from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.storage.open import open_store
from tests.support.one_process_spark import OneProcessSpark
from tests.support.project_folder import EVENTS
from tests.support.reviewed_project import DEV, id_in, reviewed_project
from tests.support.small_table import FAST, SmallTable

QUERIES = [{"name": "few", "where": "v = 5"}, {"name": "none", "where": "v < 0"}]
SORTED = {"trigger": "async", "execution": {"strategy": "sort", "columns": ["v"]}}


@pytest.fixture
def merged(tmp_path):
    """A pull request that sorts `events`, merged and approved, and the plan of its merge, not applied yet."""
    with reviewed_project(tmp_path) as shop:
        shop.folder.write("tables/events.yml", EVENTS | {"queries": QUERIES})
        shop.commit()
        assert shop.run("apply", "--auto-approve").exit_code == 0
        table = SmallTable(store=open_store(shop.folder.root / "warehouse-dev" / "events"))
        for number in range(3):
            table.insert({f"k{n}": (n, "ab"[n % 2]) for n in range(number * 10, number * 10 + 10)})
        shop.git("checkout", "-q", "-b", "change")
        shop.folder.write("tables/events.yml", EVENTS | {"queries": QUERIES, "clustering": SORTED})
        (shop.folder.root / "requirements.txt").write_text(
            "of the plan that is recorded, not of the saved one"
        )
        pull = shop.forge.open(shop.commit())
        shop.post(pull)
        shop.forge.review(pull)
        shop.merge(pull)
        file = shop.plans / "merged.json"
        assert shop.run("plan", "--due", "--out", str(file)).exit_code == 0
        yield shop, pull, table, file


def followed(shop, file):
    done = shop.run("review", "follow-up", str(file), "--format", "json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    validate(answer, answer_schema("review-follow-up"))
    (table,) = answer["tables"]
    return table, answer["pull_request"]


def test_predicted_against_measured(merged):
    shop, pull, table, file = merged
    assert followed(shop, file) == (
        {"table": "events", "status": "not applied", "due_bytes": 0, "files": None, "queries": []},
        None,
    )
    assert shop.apply(DEV, str(file)).exit_code == 0
    found, posted = followed(shop, file)
    assert (found["status"], posted) == ("due", None)
    assert found["due_bytes"] > 0
    assert len(pull.comments) == 1
    cluster(OneProcessSpark(), table.handle, timing=FAST)
    found, posted = followed(shop, file)
    assert (found["status"], posted) == ("paid", pull.number)
    assert found["files"] == {"before": 6, "expected": 2, "after": 2}
    few, none = found["queries"]
    assert (few["query"], few["before"]["files"], few["error"]["files"]) == ("few", 2, 0)
    assert few["expected"]["files"] == few["after"]["files"] == 2
    assert none["after"]["files"] == 0
    plan, comment = shop.forge.of_workflow(pull)
    assert plan.startswith("<!-- parquetry:plan project=shop target=dev -->")
    assert comment.startswith("<!-- parquetry:follow-up project=shop target=dev -->\n")
    assert "paid: 6 files before, 2 expected, 2 now" in comment
    assert id_in(file) in comment
    text = shop.run("review", "follow-up", str(file)).stdout
    assert "posted before on pull request 7" in text
    assert shop.forge.of_workflow(pull) == [plan, comment]  # rows written later are not this plan's doing


def test_what_a_pending_clustering_rewrites_is_still_due(merged):
    shop, pull, table, file = merged
    assert shop.apply(DEV, str(file)).exit_code == 0
    due, _ = followed(shop, file)
    assert schedule_clustering(table.handle, timing=FAST).instant is not None
    assert followed(shop, file) == (due, None)
    assert (due["status"], len(pull.comments)) == ("due", 1)


def test_a_table_that_another_plan_changed_is_not_this_plans(merged):
    shop, pull, table, file = merged
    assert shop.apply(DEV, str(file)).exit_code == 0
    cluster(OneProcessSpark(), table.handle, timing=FAST)
    shop.folder.write("tables/events.yml", EVENTS | {"queries": QUERIES, "description": "Other words."})
    assert shop.run("apply", "--auto-approve").exit_code == 0
    found, posted = followed(shop, file)
    assert (found["status"], posted) == ("not applied", None)
    assert len(pull.comments) == 1


def test_a_plan_of_another_target_is_refused(merged):
    shop, _, _, file = merged
    done = shop.run("review", "follow-up", str(file), "--target", "prod")
    assert done.exit_code == 4
    assert "name the right --project and --target" in done.output


def test_a_comment_has_room_for_what_github_takes():
    files = FollowedFiles(before=6, expected=2, after=2)
    tables = tuple(
        FollowedTable(table=f"a_table_{n:04}", status=DebtStatus.PAID, files=files) for n in range(2_000)
    )
    outcome = FollowUp(plan_id="sha256:" + "a" * 64, project="shop", target="dev", tables=tables)
    comment = follow_up_comment(outcome, max_bytes=60_000)
    assert 59_000 < len(comment.encode()) <= 60_000
    left = 2_000 - comment.count("**`a_table_")
    assert f"*Omitted for lack of space: {left:,} tables.*" in comment
    assert comment.endswith(f"plan `{outcome.plan_id}`\n")
    assert "Omitted" not in follow_up_comment(replace(outcome, tables=tables[:9]), max_bytes=60_000)
