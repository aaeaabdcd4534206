"""Whose a table is: commands and jobs leave the tables of other projects alone, up to where they write."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

import parquetry
from parquetry.cli.main import command_line
from parquetry.compiler.jobs.table_jobs import cluster_job
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import jobs_of
from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.clustering.plan.due import schedule_clustering
from parquetry.runtime.errors import ForeignTableError, RetryWrite
from parquetry.runtime.layout.clustering.run_budget import RunBudget
from parquetry.runtime.main import execute, run_document
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean, clean_if_due
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spec.clustering import ClusteringSpec, Trigger
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import JobKind, TableOwner
from parquetry.runtime.spec.table_spec import Extra
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, read_identity
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.timeline.sidecars import IDENTITY_PATH, SIDECAR_FOLDER
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import SmallTable, make_table, view_rows
from tests.support.table_versions import table_version

pytestmark = pytest.mark.usefixtures("on_each_version")

INSTANT = "20260101000000000"
NAMING = (
    ("inspect", "events"),
    ("timeline", "events"),
    ("simulate", "sizing", "events", "--inserts", "1"),
    ("simulate", "clustering", "events", "--suggest"),
    ("service", "clean", "events"),
    ("service", "archive", "events"),
    ("service", "savepoint", "events"),
    ("service", "rollback", "events", INSTANT, "--auto-approve"),
    ("service", "restore", "events", INSTANT, "--auto-approve"),
    ("service", "purge", "events", "--where", "id = 1", "--auto-approve"),
    ("service", "cluster", "events"),
    ("service", "cluster", "events", "--plan-only"),
    ("service", "cluster", "events", "--schedule"),
    ("service", "cluster", "events", "--instant", INSTANT),
    ("doctor", "events", "--accept-loss", "--auto-approve"),
    ("unlock", "events"),
    ("unlock", "events", "--list"),
)
ALL_TABLES = (
    ("plan",),
    ("plan", "--due"),
    ("apply", "--auto-approve"),
    ("run",),
    ("run", "--only", "services"),
    ("run", "--only", "ingest"),
    ("drift",),
    ("drift", "--check"),
    ("doctor",),
)
MINE = TableOwner(project="tests", target="dev")


@pytest.fixture
def lake(tmp_path):
    """Two projects that declare the same tables in one warehouse; the first has applied and filled them."""
    folders = []
    for name in ("first", "second"):
        folder = ProjectFolder.create(tmp_path / name)
        (folder.root / "tables/orders.yml").unlink()
        folder.project(name=name, targets={"dev": {"warehouse": str(tmp_path / "lake")}})
        source = {"name": "feed", "format": "json", "path": "landing/*.json", "operation": "upsert"}
        folder.write("tables/events.yml", EVENTS | {"sources": [source], "table_version": table_version()})
        (folder.root / "landing/a.json").write_text('{"id": "a", "v": 1, "p": "x"}\n')
        folders.append(folder)
    workspace = folders[0].workspace()
    assert apply_plan(plan_workspace(workspace, now_ms=0), workspace).failure is None
    for n in range(3):
        SmallTable(open_store(tmp_path / "lake/events")).upsert({f"k{n}": (n, "x")})
    return tmp_path / "lake/events", *folders


def content(table):
    """All files but the claims and heartbeats of sessions, which end by themselves."""
    files = (path for path in table.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.parent.name not in ("instants", ".heartbeat")}


def answer(folder, *arguments):
    return CliRunner().invoke(command_line, [*arguments, "-p", str(folder.root)])


@pytest.mark.parametrize("command", [*NAMING, *ALL_TABLES], ids=" ".join)
def test_a_command_leaves_the_table_of_another_project_alone(lake, command):
    table, _, second = lake
    before = content(table)
    done = answer(second, *command)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.exit_code == 1, said
    for part in ("SC501", "belongs to project 'first'", "rename this project to 'first'"):
        assert part in said, said
    assert content(table) == before


def test_python_leaves_the_table_of_another_project_alone(lake):
    table, first, second = lake
    before = content(table)
    project = parquetry.load(second.root)
    with pytest.raises(parquetry.ForeignTableError, match="SC501"):
        project.table("events")
    with pytest.raises(parquetry.ForeignTableError, match="SC501"):
        project.run()
    assert content(table) == before
    mine = parquetry.load(first.root).table("events")
    hand_over(open_store(table))
    before = content(table)
    for method in (
        mine.inspect,
        mine.timeline,
        mine.clean,
        mine.savepoint,
        lambda: mine.delete_partition(["p=x"]),
    ):
        with pytest.raises(parquetry.ForeignTableError):
            method()
    assert content(table) == before


def test_the_owner_and_whoever_names_the_place_go_on(lake):
    table, first, second = lake
    for command in NAMING[:3]:
        assert answer(first, *command).exit_code == 0
        placed = [str(table) if word == "events" else word for word in command]
        assert answer(second, *placed).exit_code == 0
    assert answer(second, "service", "savepoint", str(table)).exit_code == 0


def test_a_table_that_its_project_has_forgotten_moves_to_another_with_all_that_it_records(lake):
    table, first, second = lake
    (second.root / "tables/events.yml").unlink()
    refused = answer(second, "adopt", str(table))
    assert refused.exit_code == 1
    assert "delete its spec in that project" in " ".join(refused.stderr.split())

    (first.root / "tables/events.yml").unlink()
    assert answer(first, "apply", "--auto-approve").exit_code == 0
    before, identity = content(table), read_identity(open_store(table))
    adopted = answer(second, "adopt", str(table))
    assert adopted.exit_code == 0, adopted.output
    assert read_identity(open_store(table)) == replace(identity, project="second")
    after = content(table)
    changed = {path for path in before if after[path] != before[path]}
    assert changed == {table / IDENTITY_PATH}
    assert {path.parent for path in after.keys() - before} == {table / ".hoodie/.parquetry/applied"}
    assert not read_applied(open_store(table)).ref.forgotten
    planned = answer(second, "plan", "--format", "json")
    assert json.loads(planned.stdout)["intent"]["actions"] == []
    assert json.loads(answer(first, "plan", "--format", "json").stdout)["intent"]["actions"] == []


def test_the_project_that_forgot_a_table_adopts_it_again(lake):
    table, first, _ = lake
    (first.root / "tables/events.yml").unlink()
    assert answer(first, "apply", "--auto-approve").exit_code == 0
    adopted = answer(first, "adopt", str(table))
    assert adopted.exit_code == 0, adopted.output
    assert not read_applied(open_store(table)).ref.forgotten
    assert json.loads(answer(first, "plan", "--format", "json").stdout)["intent"]["actions"] == []


def test_locks_of_other_projects_are_named_and_not_listed(lake, caplog):
    table, first, second = lake
    SmallTable(open_store(table)).store.put(".hoodie/.aux/lock", b"{}")
    assert "events" in answer(first, "unlock", "--list").stdout
    done = answer(second, "unlock", "--list")
    assert done.stdout == "no lock is held\n"
    assert "skipping events: SC501 " in caplog.text


def test_a_selected_table_of_another_project_counts_as_changed(lake):
    _, first, second = lake
    names = ("ls", "--select", "state:changed", "--format", "name")
    assert (answer(first, *names).stdout, answer(second, *names).stdout) == ("", "events\n")


def test_what_others_did_to_a_table_of_another_project_is_not_drift(lake):
    table, first, second = lake
    properties = table / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hive_style_partitioning=true", "x=true"))
    assert json.loads(answer(first, "plan", "--format", "json").stdout)["evidence"]["drift"]
    evidence = json.loads(answer(second, "plan", "--due", "--format", "json").stdout)["evidence"]
    assert (evidence["drift"], evidence["due"]) == ([], {})
    (found,) = json.loads(answer(second, "drift", "--format", "json").stdout)["tables"]
    assert (found["drifts"], found["is_applied"], found["refusal"][:5]) == ([], False, "SC501")


@pytest.mark.parametrize("owner", ["nobody", "python"])
def test_a_table_of_no_project_is_to_be_adopted(lake, owner):
    table, _, second = lake
    if owner == "nobody":
        shutil.rmtree(table / SIDECAR_FOLDER)
    else:
        spec = second.workspace().table("events").spec
        shutil.rmtree(table)
        parquetry.create(table, spec)
    for command in (("inspect", "events"), ("run",), ("plan",)):
        done = answer(second, *command)
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.exit_code, "SC501" in said, "run `parquetry adopt LOCATION" in said) == (
            1,
            True,
            True,
        ), said
    (second.root / "tables/events.yml").unlink()
    adopted = answer(second, "adopt", str(table), "--name", "events")
    assert adopted.exit_code == 0, adopted.stderr
    assert answer(second, "inspect", "events").exit_code == 0


def test_adopting_what_is_declared_names_the_other_project(lake):
    table, _, second = lake
    done = answer(second, "adopt", str(table))
    assert (done.exit_code, "SC501" in done.stderr) == (1, True)


def test_a_half_made_table_of_another_project_is_not_finished(lake, tmp_path):
    table, first, second = lake
    spec = first.workspace().table("events").spec
    shutil.rmtree(table)
    identity = {"format": 1, "id": "x", "project": "first", "first_instant": INSTANT, "spec": spec.to_json()}
    (table / SIDECAR_FOLDER).mkdir(parents=True)
    (table / IDENTITY_PATH).write_text(json.dumps(identity))
    before = content(table)
    for command in NAMING:
        assert answer(second, *command).exit_code == 1
    assert "SC501" in answer(second, "inspect", "events").stderr
    assert content(table) == before


def test_compiled_jobs_of_another_project_are_refused(lake, capsys):
    table, _, second = lake
    workspace = second.workspace()
    before = content(table)
    jobs = jobs_of(workspace, workspace.table("events"))
    assert {job.kind for job in jobs} >= {JobKind.CREATE, JobKind.INGEST, JobKind.CLEAN}
    for job in jobs:
        with pytest.raises(ForeignTableError, match="SC501"):
            execute(job, session=lambda _: pytest.fail("no Spark is to be started"))
        assert run_document(job.to_json(), folder=".", report=f"{SIDECAR_FOLDER}/reports/x.json") == 1
    assert content(table) == before


def hand_over(store):
    """What `adopt` by another project comes to after the records of the first one were removed."""
    identity = read_identity(store)
    store.put(IDENTITY_PATH, replace(identity, project="other").to_bytes())


def test_a_table_that_is_taken_over_between_planning_and_running_is_left_alone(lake):
    table, first, _ = lake
    workspace = first.workspace()
    jobs = [
        replace(cluster_job(workspace, workspace.table("events")), kind=kind, source="feed")
        for kind in (JobKind.INGEST, JobKind.CLUSTER, JobKind.SERVICES, JobKind.CLEAN)
    ]
    hand_over(open_store(table))
    before = content(table)
    for job in jobs:
        with pytest.raises(ForeignTableError):
            execute(job, session=lambda _: pytest.fail("no Spark is to be started"))
    assert content(table) == before


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_write_is_not_published_in_a_table_that_was_taken_over_meanwhile(tmp_path, is_replaced):
    table = make_table(tmp_path / "t")
    hand_over(table.store)
    store, spec = table.store, table.handle.spec
    mine = SmallTable(store, owner=TableOwner(project="other", target="dev"))
    mine.upsert({"a": (1, "x")})
    commits = [instant.time for instant in mine.handle.timeline().completed_writes]

    def take_over(_):
        if is_replaced:
            shutil.rmtree(tmp_path / "t")
            create_table(store, spec, project="third")
        else:
            store.put(IDENTITY_PATH, replace(read_identity(store), project="third").to_bytes())

    mine.before_publish = take_over
    with pytest.raises(ForeignTableError, match="belongs to project 'third'"):
        mine.upsert({"b": (2, "x")})
    timeline = open_table(store).timeline()
    assert len(timeline.completed_writes) == (1 if is_replaced else len(commits))
    assert not timeline.pending_writes
    assert view_rows(store.uri) == ({} if is_replaced else {"a": (1, "x")})


def test_a_write_that_lost_does_not_go_on_in_another_projects_table(tmp_path):
    table = make_table(tmp_path / "t")
    mine = SmallTable(table.store, owner=MINE)
    mine.upsert({"a": (1, "x")})
    done = []

    def lose(transaction):
        if not done:
            done.append(transaction.instant)
            hand_over(table.store)
            raise RetryWrite("another writer was faster")

    mine.before_publish = lose
    with pytest.raises(ForeignTableError):
        mine.upsert({"a": (2, "x")})
    assert view_rows(table.store.uri) == {"a": (1, "x")}


def unsavepoint(table):
    delete_savepoint(table, table.timeline().savepoints[0])


def take_back(table):
    restore(table, table.timeline().savepoints[0])


def undo_newest(table):
    rollback(table, table.timeline().completed_writes[-1].time)


def schedule(table):
    schedule_clustering(table, budget=RunBudget(limit_bytes=2**30))


SAVED = (unsavepoint, take_back)


@pytest.mark.parametrize(
    "service", [clean, clean_if_due, archive, create_savepoint, *SAVED, undo_newest, schedule]
)
def test_a_service_stops_at_a_table_that_was_taken_over_meanwhile(tmp_path, service):
    table = make_table(tmp_path / "t", keep_commits=1, archive_keep_commits=2)
    for n in range(4):
        table.insert({f"b{n}": (n, "x")})
        table.upsert({f"b{n}": (n + 1, "x")})
    if service in SAVED:
        create_savepoint(table.handle)
    extra = Extra(clustering=ClusteringSpec(trigger=Trigger.ASYNC))
    handle = open_table(table.store, owner=MINE)
    handle = replace(handle, spec=replace(handle.spec, extra=extra))
    hand_over(table.store)
    before = content(tmp_path / "t")
    with pytest.raises(ForeignTableError):
        service(handle)
    assert content(tmp_path / "t") == before


def test_a_spec_is_not_recorded_in_a_table_that_was_taken_over_meanwhile(lake):
    table, first, _ = lake
    columns = [*EVENTS["columns"], {"name": "note", "type": "string"}]
    first.write("tables/events.yml", EVENTS | {"columns": columns, "table_version": table_version()})
    workspace = first.workspace()
    plan = plan_workspace(workspace, now_ms=0)
    assert plan.intent.actions
    store = open_store(table)
    hand_over(store)
    before = content(table)
    assert isinstance(apply_plan(plan, workspace).failure, ForeignTableError)
    assert content(table) == before
    action = plan.intent.actions[0]
    change = TableChange(
        spec=action.spec, requirements=action.requirements, alters_schema=False, project="first", target="dev"
    )
    with pytest.raises(ForeignTableError):
        apply_change(store, change)
    assert read_applied(store).ref.digest != digest_of(action.spec.to_json())
