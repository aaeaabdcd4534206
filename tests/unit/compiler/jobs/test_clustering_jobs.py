from __future__ import annotations

import pytest

import parquetry
from parquetry.compiler.errors import UnappliedError, UnexpectedError
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.jobs.scripts import render_job
from parquetry.compiler.jobs.table_jobs import Only, cluster_job
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.project_api import NoProgress
from parquetry.runtime.main import JobResult
from parquetry.runtime.spec.job import JobKind
from tests.support.project_folder import PROJECT, ProjectFolder


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def section(trigger):
    return {"trigger": trigger, "execution": {"columns": ["amount"]}}


def apply(folder):
    parquetry.load(folder.root).plan().apply()


@pytest.mark.parametrize(("trigger", "jobs"), [("off", 3), ("async", 4), ("inline", 4)])
def test_a_table_that_is_clustered_has_a_job_for_it(folder, trigger, jobs):
    folder.orders(clustering=section(trigger))
    workspace = folder.workspace()
    kinds = [job.kind for job in jobs_of(workspace, workspace.table("orders"))]
    assert len(kinds) == jobs
    assert (JobKind.CLUSTER in kinds) == (trigger != "off")


def test_clustering_has_the_budget_of_a_run_and_of_a_commit(folder):
    target = {**PROJECT["targets"]["dev"], "budget": {"per_run": "3GiB", "per_commit": "1GiB"}}
    folder.project(targets={"dev": target})
    folder.orders(clustering=section("inline"))
    workspace = folder.workspace()
    budgets = {job.kind: job.budget_bytes for job in jobs_of(workspace, workspace.table("orders"))}
    assert budgets == {
        JobKind.CREATE: None,
        JobKind.INGEST: 2**30,
        JobKind.CLUSTER: 3 * 2**30,
        JobKind.CLEAN: None,
    }


def test_the_script_of_the_job_says_what_it_does(folder):
    folder.orders(clustering=section("async"))
    workspace = folder.workspace()
    job = next(j for j in jobs_of(workspace, workspace.table("orders")) if j.kind is JobKind.CLUSTER)
    assert "publish replacecommits" in render_job(job, file="cluster.py", package="../parquetry.zip")


def launched(folder, only=None):
    """The kinds of the jobs that a run launches, none of which does anything."""
    kinds = []

    def launch(job):
        kinds.append(job.kind)
        return JobResult(table=job.table, job=job.name)

    run_tables(
        folder.workspace(),
        only=only,
        run_id="r",
        prepare=lambda _: launch,
        observer=NoProgress(),
        diagnose=UnexpectedError,
    )
    return kinds


def test_a_run_clusters_behind_the_ingestion_when_enough_was_written(folder):
    for every, expected in ((1, [JobKind.CLUSTER]), (5, [])):
        folder.orders(clustering=section("async") | {"every_commits": every})
        apply(folder)
        assert launched(folder) == [JobKind.INGEST, *expected, JobKind.SERVICES]
        assert launched(folder, Only.INGEST) == [JobKind.INGEST]


def test_a_run_leaves_inline_clustering_to_the_writes(folder):
    folder.orders(clustering=section("inline"))
    apply(folder)
    assert launched(folder) == [JobKind.INGEST, JobKind.SERVICES]


def test_clustering_by_hand_asks_for_no_trigger_but_for_an_applied_spec(folder):
    workspace = folder.workspace()
    with pytest.raises(UnappliedError, match="run `parquetry apply"):
        cluster_job(workspace, workspace.table("orders"))
    apply(folder)
    job = cluster_job(workspace, workspace.table("orders"))
    assert (job.kind, job.requirements.applied_number) == (JobKind.CLUSTER, 1)
