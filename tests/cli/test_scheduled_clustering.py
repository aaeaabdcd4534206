"""`service cluster` in two steps, without a JVM for the first."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from parquetry.project.model import resolved
from parquetry.runtime import main
from parquetry.runtime.clustering.plan.execution import ClusteringResult
from parquetry.runtime.spec.clustering import PlanPolicy
from tests.support.command_script import parquetry
from tests.support.planned_clustering import SORTED, table_in_debt
from tests.support.timelines import timeline_of


@pytest.fixture
def table(tmp_path):
    section = replace(SORTED, plan=PlanPolicy(max_groups=1))
    return table_in_debt(tmp_path / "table", section, inserts=2)


def cluster(table, *options, code=0):
    path = table.store.uri.removeprefix("file://")
    done = parquetry("service", "cluster", path, *options, cwd=path)
    assert done.returncode == code, done.stderr
    return done


def test_looking_writes_nothing_and_every_file_has_a_reason(table):
    before = timeline_of(table.store).files
    shown = json.loads(cluster(table, "--plan-only", "--format", "json").stdout)
    assert timeline_of(table.store).files == before
    (group,) = shown["groups"]
    assert {file["reason"] for file in group["files"]} == {"small"}
    assert {left["reason"] for left in shown["excluded"]} == {"groups"}
    assert len(group["files"]) + len(shown["excluded"]) == 4
    text = cluster(table, "--plan-only", "-v").stdout
    _, _, left = text.partition("left as they are:\n")
    lines = [line.strip() for line in left.splitlines()[:4]]
    assert set(lines[::2]) == {left["path"] for left in shown["excluded"]}
    assert all(line.startswith("over clustering.plan.max_groups") for line in lines[1::2])


def test_a_plan_is_left_on_the_timeline_for_another_process(table):
    done = json.loads(cluster(table, "--schedule", "--format", "json").stdout)
    assert list(timeline_of(table.store).pending_clusterings) == [done["instant"]]
    assert (done["groups"], done["files_before"], done["files_after"]) == (1, 2, 1)
    again = json.loads(cluster(table, "--schedule", "--format", "json").stdout)
    assert again["instant"] > done["instant"]
    last = json.loads(cluster(table, "--schedule", "--format", "json").stdout)
    assert last["instant"] is None
    assert len(timeline_of(table.store).pending_clusterings) == 2


def test_a_plan_that_does_not_wait_is_told_without_a_jvm(table, tmp_path):
    path = table.store.uri.removeprefix("file://")
    done = parquetry("service", "cluster", path, "--instant", "1", JAVA_HOME=str(tmp_path / "none"))
    assert done.returncode == 1
    assert "the clustering plan 1 is not pending; pending plans: none" in done.stderr


def test_the_steps_exclude_each_other(table):
    for options in (("--plan-only", "--schedule"), ("--schedule", "--instant", "1")):
        assert "exclude each other" in cluster(table, *options, code=2).stderr


def test_a_table_at_a_place_has_the_budget_of_a_target_that_declares_none(table, monkeypatch):
    path, budgets = table.store.uri.removeprefix("file://"), []

    def by_hand(*_, budget_bytes, **__):
        budgets.append(budget_bytes)
        return ClusteringResult()

    monkeypatch.setattr(resolved, "SERVICES_BYTES", 1)
    monkeypatch.setattr(main, "cluster_in_own_session", by_hand)
    planned = CliRunner().invoke(command_line, ["service", "cluster", path, "--plan-only"])
    assert "1 group, 1 file" in planned.stdout, "one that is larger than the budget is rewritten by itself"
    monkeypatch.setattr(resolved, "SERVICES_BYTES", 0)
    planned = CliRunner().invoke(command_line, ["service", "cluster", path, "--plan-only"])
    assert "Nothing is rewritten: the rest of the run's budget is too small for" in planned.stdout
    assert CliRunner().invoke(command_line, ["service", "cluster", path]).exit_code == 0
    assert budgets == [0]
