"""A record that nobody applied, with a digest that fits: what runs stops where the project declares another spec."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

import parquetry
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.jobs.table_jobs import Only, cluster_job
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.errors import ParquetryError
from parquetry.project_api import NoProgress
from parquetry.runtime.apply.requirements import check_requirements
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.main import execute
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.retention import retention_of
from parquetry.runtime.spec.job import Requirements, rules_digest
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.sidecars import APPLIED_FOLDER
from tests.support.applied_records import RECORD, edit
from tests.support.command_script import parquetry as command
from tests.support.project_folder import ProjectFolder

KEY = "env:SHOP_KEY"
THEIR_CATALOG = {"name": "lake", "type": "rest", "options": {"uri": "https://evil", "token": "env:SECRET"}}


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.orders(files={"encryption_key": KEY})
    apply_all(folder)
    return folder


def apply_all(folder):
    apply_plan(plan_workspace(folder.workspace(), now_ms=0), folder.workspace())


def put(folder, change):
    """A second record as one who can write to the table makes it: the first one's, changed, by its digest."""
    second = folder.table / APPLIED_FOLDER / f"{2:020d}.json"
    shutil.copy(folder.table / RECORD, second)

    def both(document):
        document["number"] = 2
        change(document["spec"])

    edit(second, both)


def other_source(spec):
    spec["sources"][0]["path"] = "/etc/*.csv"


ATTACKS = {
    "sources.landing.path": other_source,
    "sources.landing.select": lambda spec: spec["sources"][0].update(select="SELECT * FROM source"),
    "files.encryption_key": lambda spec: spec["files"].pop("encryption_key"),
    "retention.clean.keep_commits": lambda spec: spec["retention"].update(keep_commits=1),
    "columns.city.pii": lambda spec: spec["columns"][1].update(pii=True),
    "sizing.max_file_size": lambda spec: spec["sizing"].update(max_file_size_bytes=1 << 20 << 5),
}


class Planned(NoProgress):
    def planned(self, jobs):
        self.jobs = jobs


def raised(bug):
    raise bug


def run(folder, *, applied=False, launch=None, only=None):
    return run_tables(
        folder.workspace(),
        only=only,
        run_id="1",
        prepare=lambda _: launch or execute,
        observer=Planned(),
        diagnose=raised,
        applied=applied,
    )


@pytest.mark.parametrize("path", ATTACKS)
def test_a_run_stops_and_names_what_differs(folder, path):
    put(folder, ATTACKS[path])
    result = run(folder)
    (outcome,) = result.outcomes
    assert isinstance(outcome.error, StalePlanError)
    assert outcome.error.exit_code == 4
    said = str(outcome.error)
    assert said.startswith("SC506 ")
    assert f"differs from the declared spec in {path}" in said
    assert "parquetry apply" in said
    workspace = folder.workspace()
    with pytest.raises(StalePlanError, match="SC506"):
        cluster_job(workspace, workspace.table("orders"))


def test_commands_by_name_stop_and_go_on_where_they_are_told_to(folder):
    put(folder, ATTACKS["retention.clean.keep_commits"])
    for arguments in (["run"], ["service", "clean", "orders"], ["service", "archive", "orders"]):
        done = command(*arguments, "-p", folder.root)
        assert (done.returncode, "SC506" in done.stderr) == (4, True), (arguments, done.stderr)
    for arguments in (["run", "--applied"], ["service", "clean", "--applied", "orders"]):
        assert command(*arguments, "-p", folder.root).returncode == 0, arguments
    for harmless in (["inspect", "orders"], ["timeline", "orders"], ["service", "savepoint", "orders"]):
        assert command(*harmless, "-p", folder.root).returncode == 0, harmless


def test_tables_of_projects_in_python_are_read_and_not_written(folder):
    put(folder, ATTACKS["retention.clean.keep_commits"])
    project = parquetry.load(folder.root)
    table = project.table("orders")
    assert table.inspect().table == "orders"
    for change in (table.clean, table.archive, lambda: table.delete_partition([])):
        with pytest.raises(StalePlanError, match="SC506"):
            change()
    assert project.table("orders", applied=True).clean().files_deleted == 0
    with pytest.raises(ParquetryError, match="SC506"):
        project.run(only="services")
    assert project.run(only="services", applied=True).failure is None


def test_what_is_only_said_of_a_table_stops_nothing(folder):
    folder.orders(
        files={"encryption_key": KEY}, description="Others.", owner="we", tags=["x"], columns=described()
    )
    assert run(folder, only=Only.SERVICES).failure is None


def described():
    from tests.support.project_folder import ORDERS

    return [{**column, "description": "Said."} for column in ORDERS["columns"]]


def test_a_change_that_was_merged_and_not_applied_waits_for_apply(folder):
    folder.orders(files={"encryption_key": KEY}, retention={"clean": {"keep_commits": 20}})
    assert "retention.clean.keep_commits" in str(run(folder).failure)
    assert run(folder, applied=True, only=Only.SERVICES).failure is None
    apply_all(folder)
    assert run(folder, only=Only.SERVICES).failure is None


def test_a_record_that_comes_while_a_job_runs_is_not_acted_by(folder):
    workspace = folder.workspace()
    jobs = [job for job in jobs_of(workspace, workspace.table("orders")) if job.requirements.exists]
    store = open_store(folder.table)
    handle = open_table(store, owner=jobs[0].owner)
    assert jobs[0].owner.rules == rules_digest(handle.spec)
    put(folder, other_source)
    with pytest.raises(StalePlanError, match="SC506"):
        clean(handle)
    with pytest.raises(StalePlanError, match="SC506"):
        retention_of(handle)
    with pytest.raises(StalePlanError, match="SC506"):
        check_requirements(store, Requirements(exists=True), owner=jobs[0].owner)
    for job in jobs:
        with pytest.raises(StalePlanError, match="SC506"):
            execute(replace(job, requirements=Requirements(exists=True)))
    # By its place the table is written by whatever is applied.
    assert clean(open_table(store)).files_deleted == 0


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("files.encryption_key", lambda spec: spec["files"].update(encryption_key="file:/etc/shadow")),
        ("files.former_encryption_keys", lambda spec: spec["files"].update(former_encryption_keys=["env:X"])),
        (
            "sources.landing.encryption_keys",
            lambda spec: spec["sources"][0].update(encryption_keys=["env:X"]),
        ),
        (
            "clustering.plan.strategy",
            lambda spec: spec["extra"]["clustering"]["plan"].update(strategy="theirs"),
        ),
        (
            "publish.iceberg.catalog",
            lambda spec: spec.update(publish={"iceberg": {"catalog": THEIR_CATALOG, "name": "shop.orders"}}),
        ),
    ],
)
def test_a_record_that_is_believed_names_no_key_and_no_plug_in(folder, path, change):
    put(folder, change)
    refused = run(folder, applied=True, only=Only.SERVICES).failure
    assert f"{path} of the applied spec is" in str(refused)
    assert run(folder, only=Only.SERVICES).failure is not None
