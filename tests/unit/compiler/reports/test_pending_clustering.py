"""Pending clusterings in the reports of both timeline layouts, also one whose input a restore removed."""

from __future__ import annotations

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.timeline import TimelineView
from parquetry.compiler.reports.doctor import check_project
from parquetry.compiler.reports.timeline import report_timeline
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
)
from parquetry.runtime.timeline.instant import Action, State, next_instant
from tests.support.planning import apply
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable
from tests.support.table_versions import table_version
from tests.support.timelines import pending

pytestmark = pytest.mark.usefixtures("on_each_version")


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.write("tables/events.yml", EVENTS | {"table_version": table_version()})
    apply(folder)
    return folder


@pytest.fixture
def table(folder):
    table = SmallTable(store=open_store(folder.root / "warehouse" / "events"))
    table.upsert({"a": (1, "x"), "b": (2, "y")})
    table.upsert({"a": (3, "x")})
    return table


def plan_of_hudi(table):
    """Put a plan of another program for all current files on the timeline; return its instant and its files."""
    handle = table.handle
    timeline = handle.timeline()
    files = handle.view(timeline).all_slices()
    slices = tuple(
        ClusteringSlice(partition=file.partition, file_id=file.file_id, path=f"{table.store.uri}/{file.path}")
        for file in files
    )
    plan = ClusteringPlan(groups=(ClusteringGroup(slices=slices),))
    time = next_instant(timeline.last_instant, table.store.now_ms(), handle.config.timezone)
    requested = pending(table.store, time, Action.REPLACECOMMIT, State.REQUESTED, is_clustering=True)
    table.store.put(requested.path, RequestedReplace(operation="CLUSTER", plan=plan).encode())
    return time, files


def checked(folder):
    return next(check for check in check_project(folder.workspace()) if check.name == "table events")


def test_the_timeline_names_a_pending_clustering(table):
    time, _ = plan_of_hudi(table)
    report = report_timeline(table.store)
    entry = TimelineView().json(report)["instants"][-1]
    assert (entry["time"], entry["action"], entry["state"]) == (time, "replacecommit", "requested")
    assert entry["operation"] == "cluster"
    assert f"{time}  cluster requested" in TimelineView().text(report, Paint(enabled=False))


def test_a_pending_overwrite_is_no_clustering(table):
    time = next_instant(
        table.handle.timeline().last_instant, table.store.now_ms(), table.handle.config.timezone
    )
    request = pending(table.store, time, Action.REPLACECOMMIT, State.REQUESTED)
    table.store.put(request.path, RequestedReplace(operation="INSERT_OVERWRITE").encode())
    report = report_timeline(table.store)
    assert report.instants[-1].operation is None
    assert f"{time}  replacecommit requested" in TimelineView().text(report, Paint(enabled=False))


def test_a_plan_whose_input_exists_is_fine(folder, table):
    time, _ = plan_of_hudi(table)
    check = checked(folder)
    assert check.ok
    assert f"a clustering plan is pending: {time}" in str(check.found)


def test_the_doctor_names_a_plan_whose_input_is_gone_and_the_cure(folder, table):
    time, files = plan_of_hudi(table)
    newest = next(file for file in files if file.partition == "p=x")
    (folder.root / "warehouse" / "events" / newest.path).unlink()
    # A restore removes the write with its files.
    for state in table.handle.timeline().layout.files_of(table.store, newest.instant, Action.COMMIT):
        table.store.delete(state.path)
    check = checked(folder)
    assert not check.ok
    assert f"the pending clustering {time} reads no longer exist" in str(check.found)
    assert f"`parquetry service rollback events {time}`" in str(check.found)
    rollback(table.handle, time, timing=FAST)
    assert checked(folder).ok
