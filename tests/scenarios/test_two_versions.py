"""Two parquetry versions on one table: an older record is read, a newer one refused."""

from __future__ import annotations

import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.runtime.apply.requirements import check_requirements
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.table.applied import RECORD_FORMAT, read_applied
from parquetry.runtime.timeline.sidecars import IDENTITY_PATH
from tests.support.applied_records import RECORD, edit
from tests.support.command_script import parquetry
from tests.support.project_folder import ProjectFolder


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    apply_plan(plan(folder), folder.workspace())
    return folder


def plan(folder):
    return plan_workspace(folder.workspace(), now_ms=0)


def rewrite(folder, path, change):
    edit(folder.table / path, change)


def older(document):
    """As a parquetry wrote it that knew neither formats nor some fields of a spec."""
    document.pop("format")
    document.pop("parquetry")
    for field in ("min_fill", "record_size_bytes"):
        document["spec"]["sizing"].pop(field)
    document["spec"].pop("key_scope")


def test_an_older_record_is_read_and_nothing_has_to_be_applied_again(folder):
    rewrite(folder, RECORD, older)
    assert plan(folder).is_empty
    workspace = folder.workspace()
    store = workspace.store(workspace.table("orders"))
    for job in jobs_of(workspace, workspace.table("orders")):
        if job.requirements.exists:
            check_requirements(store, job.requirements)
    folder.orders(description="Other words.")
    apply_plan(plan(folder), folder.workspace())
    assert read_applied(store).ref.number == 2
    assert plan(folder).is_empty


def newer(document):
    document["format"] = RECORD_FORMAT + 1
    document["parquetry"] = "9.1.0"


@pytest.mark.parametrize("path", [RECORD, IDENTITY_PATH])
def test_a_newer_record_is_refused_by_everything_that_relies_on_it(folder, path):
    rewrite(folder, path, newer)
    workspace = folder.workspace()
    with pytest.raises(
        UnsupportedTableError, match=r"by parquetry 9\.1\.0 in format 3; .* upgrade parquetry"
    ):
        read_applied(workspace.store(workspace.table("orders"))) if path == RECORD else plan_store(folder)
    (blocked,) = plan(folder).intent.blocked
    assert "9.1.0" in blocked.reason
    (drift,) = drift_of_workspace(folder.workspace())[0].drifts
    assert (drift.code, "9.1.0" in drift.remedy) == ("DR100", True)
    before = {file: file.read_bytes() for file in folder.table.rglob("*") if file.is_file()}
    for arguments in (
        ["run"],
        ["apply", "--auto-approve"],
        ["service", "clean", "orders"],
        ["inspect", "orders"],
    ):
        done = parquetry(*arguments, "-p", folder.root)
        assert done.returncode == 1, arguments
        assert "upgrade parquetry" in done.stderr + done.stdout, arguments
    assert {file: file.read_bytes() for file in folder.table.rglob("*") if file.is_file()} == before


def plan_store(folder):
    from parquetry.runtime.table.applied import read_identity

    workspace = folder.workspace()
    return read_identity(workspace.store(workspace.table("orders")))
