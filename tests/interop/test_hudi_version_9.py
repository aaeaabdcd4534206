"""Tables that real Hudi makes today, with its default settings: read, inspected, tested, simulated and adopted.

The judge is the Hudi that made a table. What it cannot read any more, as a clean deleted its files, is not asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquetry
from parquetry.compiler.testing import tables
from parquetry.compiler.testing.execution import RowExecution, execute_tests
from parquetry.compiler.testing.model import Status
from parquetry.runtime.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.metadata_table import drop_metadata_table
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, Action
from tests.support import hudi_tables
from tests.support.command_script import parquetry as command
from tests.support.hudi_spark import NO_METADATA_TABLE, HudiError, HudiTable
from tests.support.hudi_tables import RECIPES, SCHEMA, completions
from tests.support.model import differences, frozen_table
from tests.support.our_table import to_table
from tests.support.project_folder import ProjectFolder
from tests.support.stores import CountingStore
from tests.support.tested_rows import Launched
from tests.support.view_reader import ViewReader

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = SCHEMA.names
SHORT = ("all_writes", "archived", "restored")
"""These have every operation and service. The others add versions, partitionings, and what is in another state."""

ROW_TESTS = """\
tests:
  - unique: [id]
  - not_null: [version]
"""
TESTS = """\
tests:
  - max_small_files: 1000
  - max_orphans: 1000
  - max_commit_age: 3650d
  - clustering_debt: {max_age: 3650d}
"""


@pytest.fixture(scope="module")
def make(hudi_12, hudi_15, tmp_path_factory):
    """Make a table once, with the answers of its Hudi; tests that write take a copy."""
    folder = tmp_path_factory.mktemp("default")
    recipes = {recipe.name: recipe for recipe in RECIPES}
    hudis = {hudi.version: hudi for hudi in (hudi_12, hudi_15)}
    known = {}

    def made(name):
        if name not in known:
            table = recipes[name].make(hudis[recipes[name].hudi], folder)
            known[name] = table, hudi_tables.answers(table)
        return known[name]

    return made


def parameter(name):
    """The name of a table, marked if the long suites alone make it."""
    return pytest.param(name, marks=() if name in SHORT else pytest.mark.long)


@pytest.fixture(params=[parameter(recipe.name) for recipe in RECIPES])
def made(make, request):
    """Each table in turn, with the answers of its Hudi."""
    return make(request.param)


def assert_same(expected, found, question):
    found = differences(frozen_table(expected, COLUMNS), frozen_table(found, COLUMNS))
    assert not found, f"{question}: {found}"


def everything(path):
    return {
        str(file): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def answered(*arguments, code=0, **settings):
    """The JSON that a command prints."""
    done = command(*arguments, "--format", "json", **settings)
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return json.loads(done.stdout)


# -- rows


def test_snapshots_and_changes_are_those_that_hudi_reads(made):
    table, answers = made
    ours, path = ViewReader(), table.table.path
    assert_same(answers.latest, ours.read(path), "latest")
    for time, rows in answers.as_of.items():
        if rows is None:
            with pytest.raises(InvalidDataError, match="clean"):
                opened(path)[1].check_time_travel(time)
        else:
            opened(path)[1].check_time_travel(time)
            assert_same(rows, ours.read(path, as_of=time), f"as of {time}")
    for position, rows in answers.since.items():
        assert rows is not None
        assert_same(rows, ours.read(path, since=position), f"since {position}")


def test_spark_reads_by_the_table_what_hudi_reads(spark, made):
    table, answers = made
    ours = parquetry.open(table.path)
    assert_same(answers.latest, to_table(ours.read(spark, meta=True)), "latest")
    time, rows = next((t, r) for t, r in sorted(answers.as_of.items(), reverse=True)[1:] if r is not None)
    assert_same(rows, to_table(ours.read(spark, meta=True, as_of=time)), f"as of {time}")
    position, rows = sorted(answers.since.items())[len(answers.since) // 2]
    assert_same(rows, to_table(ours.read(spark, meta=True, since=position)), f"since {position}")
    condition = "id = 'k003' or version >= 3"
    expected = to_table(ours.read(spark, meta=True).where(condition))
    assert_same(expected, to_table(ours.read(spark, meta=True, where=condition)), condition)


def test_tests_of_rows_read_them(spark, made, tmp_path):
    table, _ = made
    (file := tmp_path / "tests.yml").write_text(ROW_TESTS)
    tests = tables.tests_in_file(table.table.path, file, store=open_store)
    rows = RowExecution(launch=Launched(spark), diagnose=raised)
    found = execute_tests([tests], run_id=None, target=None, rows=rows)
    assert [one.status for one in found.outcomes] == [Status.PASSED] * 2


def raised(bug):
    raise bug


def test_a_consumer_that_goes_on_from_instant_to_instant_gets_no_commit_twice(made):
    """The rows of each step are those written by its commits; the time of a write is as good as its position."""
    table, answers = made
    path = table.table.path
    readable = [(position, time) for time, position in completions(table.path) if answers.as_of[time]]
    ours, met = ViewReader(), set()
    for (position, time), (until, _) in pairwise(sorted(readable)):
        rows = ours.read(path, since=position, until=until)
        commits = set(rows.column("_hoodie_commit_time").to_pylist()) if rows.num_rows else set()
        assert not commits & met, (position, until)
        met |= commits
        assert_same(rows, ours.read(path, since=time, until=until), f"since {time}")
    assert met


def test_writes_that_complete_in_another_order_than_they_began_are_each_given_once(make, tmp_path):
    """An upsert completes after the three writes that began behind it, so that its position is larger than theirs."""
    made, _ = make("all_writes")
    path = str(shutil.copytree(made.path, tmp_path / "t"))
    known = completions(tmp_path / "t")
    (late, before), (_, passed) = known[1], known[4]
    after = f"{int(passed) + 1}"
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    (timeline / f"{late}_{before}.commit").rename(timeline / f"{late}_{after}.commit")
    ours = ViewReader()
    for since in [position for time, position in known if time != late] + [after]:
        expected = made.hudi.read(path, since=since, metadata_table=None)
        assert_same(expected, ours.read(path, since=since), f"since {since}")
    rows = ours.read(path, since=passed, until=after)
    assert set(rows.column("_hoodie_commit_time").to_pylist()) == {late}


def test_archived_writes_are_among_those_that_are_read(make):
    """Hudi's archiver ran more than once, and the first rows were written by instants that it took."""
    made, answers = make("archived")
    assert len(list((made.path / ".hoodie" / "timeline" / "history").glob("*.parquet"))) > 1
    handle = open_table(open_store(made.path))
    archived = {
        one.time
        for _, instants in handle.config.timeline_layout.archived(handle.store)
        for one in instants
        if one.action in WRITE_ACTIONS
    }
    assert archived
    assert not archived & {time for time, _ in completions(made.path)}
    written = set(answers.latest.column("_hoodie_commit_time").to_pylist())
    assert archived & written


def test_the_instants_of_timeline_are_those_on_disk(made):
    table, _ = made
    report = parquetry.open(table.path).timeline()
    shown = {one.time for one in report.instants if one.operation is not None and one.state == "completed"}
    assert {time for time, _ in completions(table.path)} <= shown


# -- commands on a table that belongs to no project


def test_commands_that_only_read_do_so_without_a_project(made, tmp_path):
    table, answers = made
    path = table.table.path
    (tmp_path / "tests.yml").write_text(TESTS)
    before = everything(table.path)
    layout = answered("inspect", path, cwd=tmp_path)
    assert layout["totals"]["rows"] == answers.latest.num_rows
    files = command("inspect", path, "--files", cwd=tmp_path)
    assert sorted(file.rpartition("/")[2] for file in files.stdout.splitlines()) == sorted(
        {name.rpartition("/")[2] for name in answers.latest.column("_hoodie_file_name").to_pylist()}
    )
    assert answered("timeline", path, cwd=tmp_path)["instants"]
    assert answered("timeline", path, table.newest(), cwd=tmp_path)["instants"]
    tested = answered("test", "--table", path, "--tests", "tests.yml", "--no-spark", cwd=tmp_path)
    assert {one["status"] for one in tested["tests"]} == {"passed"}
    answered("simulate", "sizing", path, "--inserts", "1000", "--partition", partition(answers), cwd=tmp_path)
    answered("simulate", "sizing", path, "--replay", "9d", cwd=tmp_path)
    assert everything(table.path) == before


def partition(answers):
    return answers.latest.column("_hoodie_partition_path")[0].as_py()


# -- adopted


def test_a_table_is_adopted_in_its_version_and_its_metadata_table_is_dropped(made, tmp_path):
    table, answers = made
    name = table.table.name
    folder, path = project_with(table, tmp_path)
    before = everything(path)
    assert answered("adopt", str(path), cwd=folder.root)["table"] == name
    after = everything(path)
    assert {file: after[file] for file in before} == before
    spec = folder.workspace().table(name).spec
    assert (spec.record_key, spec.ordering, spec.partition_by, spec.table_version) == (
        table.table.key,
        table.table.ordering,
        table.table.partition_by,
        version_of(path),
    )
    assert [column.name for column in spec.columns] == COLUMNS
    (drift,) = answered("drift", cwd=folder.root)["tables"]
    assert [one["code"] for one in drift["drifts"]] == ["DR104"]

    plan = answered("plan", cwd=folder.root)
    assert [(action["table"], action["code"]) for action in plan["intent"]["actions"]] == [(name, "SC104")]
    answered("apply", "--auto-approve", cwd=folder.root)
    assert not (path / ".hoodie/metadata").exists()
    assert answered("plan", "--due", cwd=folder.root)["intent"]["actions"] == []
    assert answered("drift", cwd=folder.root)["tables"][0]["drifts"] == []
    assert_same(answers.latest, ViewReader().read(str(path)), "after the adoption")
    assert_same(answers.latest, table.hudi.read(str(path), metadata_table=None), "Hudi after the adoption")


def test_commands_of_a_project_read_an_adopted_table(made, tmp_path):
    table, answers = made
    name = table.table.name
    folder, path = project_with(table, tmp_path)
    adopted = answered("adopt", str(path), cwd=folder.root)
    git(folder.root, "init", "--quiet")
    git(folder.root, "add", ".")
    git(folder.root, "commit", "--quiet", "-m", "one")
    before = everything(path)
    assert answered("inspect", name, cwd=folder.root)["totals"]["rows"] == answers.latest.num_rows
    assert command("inspect", name, "--out", "layout.json", cwd=folder.root).returncode == 0
    assert answered("timeline", name, cwd=folder.root)["instants"]
    answered("simulate", "clustering", name, "--strategy", "sort", "--columns", "id", cwd=folder.root)
    done = command("doctor", cwd=folder.root)
    assert f"table {name}" in done.stdout, done.stdout

    file = folder.root / adopted["file"]
    file.write_text(file.read_text() + TESTS + "sizing: {max_file_size: 1MiB, small_file_limit: 512KiB}\n")
    (changed,) = answered("diff", "--base", "HEAD", "--state", "layout.json", cwd=folder.root)["tables"]
    assert changed["estimate"]["files"] == len(set(answers.latest.column("_hoodie_file_name").to_pylist()))
    tested = answered("test", "--no-spark", cwd=folder.root)
    assert {one["status"] for one in tested["tests"]} == {"passed"}
    assert everything(path) == before


def project_with(table, tmp_path):
    """A project without a table, and the folder of a copy of the table in its warehouse."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables" / "orders.yml").unlink()
    path = folder.root / "warehouse" / table.table.name
    shutil.copytree(table.path, path)
    return folder, path


def version_of(path):
    properties = (path / ".hoodie" / "hoodie.properties").read_text()
    return int(re.search(r"^hoodie\.table\.version=(\d+)$", properties, re.MULTILINE)[1])


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True)


# -- timelines that other programs leave


def twice(timeline, write, completed):
    shutil.copy(timeline / f"{write}_{completed}.commit", timeline / f"{write}_{int(completed) + 7}.commit")


def without_pending_files(timeline, write, completed):
    for name in ("*.requested", "*.inflight"):
        for file in timeline.glob(name):
            file.unlink()


def names_of_layout_1(timeline, write, completed):
    for file in timeline.glob("*.clustering.*"):
        file.rename(timeline / file.name.replace("clustering", "replacecommit"))


def files_of_layout_1(timeline, write, completed):
    (timeline.parent / f"{write}.commit").write_text("{}")
    (timeline.parent / "20200101000000000.commit").write_text("{}")


def completed_before_it_began(timeline, write, completed):
    file = timeline / f"{write}_{completed}.commit"
    file.rename(timeline / f"{write}_{int(write) - 5}.commit")


def completed_in_future(timeline, write, completed):
    file = timeline / f"{write}_{completed}.commit"
    file.rename(timeline / f"{write}_20990101000000000.commit")


def without_history(timeline, write, completed):
    shutil.rmtree(timeline / "history")


HARMLESS = (
    twice,
    without_pending_files,
    names_of_layout_1,
    files_of_layout_1,
    completed_before_it_began,
    completed_in_future,
    without_history,
)


@pytest.mark.parametrize("change", HARMLESS)
def test_a_timeline_that_hudi_reads_is_read_alike(make, tmp_path, change):
    made, _ = make("all_writes")
    path = str(shutil.copytree(made.path, tmp_path / "t"))
    write, completed = completions(tmp_path / "t")[1]
    change(tmp_path / "t" / ".hoodie" / "timeline", write, completed)
    assert_same(made.hudi.read(path), ViewReader().read(path), "latest")
    assert_same(made.hudi.read(path, as_of=write), ViewReader().read(path, as_of=write), f"as of {write}")
    begin = completions(tmp_path / "t")[3][1]
    assert_same(made.hudi.read(path, since=begin), ViewReader().read(path, since=begin), f"since {begin}")


def test_a_truncated_commit_is_damage_to_both(make, tmp_path):
    made, _ = make("all_writes")
    path = str(shutil.copytree(made.path, tmp_path / "t"))
    (first, _), *_, (write, completed) = completions(tmp_path / "t")
    file = tmp_path / "t" / ".hoodie" / "timeline" / f"{write}_{completed}.commit"
    file.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(HudiError):
        made.hudi.read(path)
    with pytest.raises(CorruptTableError, match="Restore the file from a copy"):
        ViewReader().read(path, since=first)


# -- what Hudi leaves behind


def test_a_clustering_that_a_restore_of_hudi_leaves_pending_is_rolled_back(make, tmp_path):
    """Its input is gone with the restored writes, and it blocks upserts of Hudi until it is rolled back."""
    made, _ = make("restored")
    blocked, cured = (copied(made, tmp_path / name) for name in ("blocked", "cured"))
    with pytest.raises(HudiError, match="HoodieClusteringUpdateException"):
        blocked.write("upsert", range(20), **NO_METADATA_TABLE)
    timeline, _ = opened(cured.path)
    (left,) = (one for one in timeline.of(Action.REPLACECOMMIT, state=None) if not one.is_completed)
    parquetry.open(cured.path).rollback(left.time)
    cured.write("upsert", range(20), **NO_METADATA_TABLE)
    expected = cured.hudi.read(str(cured.path), metadata_table=None)
    assert set(range(20)) <= {int(key[1:]) for key in expected.column("id").to_pylist()}
    assert_same(expected, ViewReader().read(str(cured.path)), "after the rollback")


def copied(made, path):
    """A copy of the table without its metadata table."""
    shutil.copytree(made.path, path)
    drop_metadata_table(open_store(path))
    return replace(made, table=replace(made.table, path=str(path)))


# -- refused by name, before anything else is read


def opened(path):
    handle = open_table(open_store(path))
    timeline = handle.timeline()
    return timeline, handle.view(timeline)


KINDS = {
    "merge-on-read": ({"hoodie.datasource.write.table.type": "MERGE_ON_READ"}, "MERGE_ON_READ"),
    "change logs": ({"hoodie.table.cdc.enabled": "true"}, r"hoodie\.table\.cdc\.enabled"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_tables_that_are_not_supported_are_refused_by_name(hudi_12, tmp_path, kind):
    options, named = KINDS[kind]
    refused(hudi_tables.small(hudi_12, tmp_path / "made", options).table.path, named, tmp_path / "calls")


RULES = {
    "partial updates": (
        {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"},
        r"PartialUpdateAvroPayload: .*parquetry replaces whole rows",
    ),
    "deletes by a marker": (
        {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload"},
        r"AWSDmsAvroPayload: .*parquetry replaces whole rows",
    ),
    "times in paths": (
        {
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
            "hoodie.datasource.write.partitionpath.field": "version:TIMESTAMP",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        },
        "partition paths from times",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_tables_whose_rows_only_hudi_can_merge_or_place_are_read_and_not_written(hudi_12, tmp_path, rule):
    options, named = RULES[rule]
    path = hudi_tables.small(hudi_12, tmp_path / "made", options | NO_METADATA_TABLE).table.path
    assert ViewReader().read(path).num_rows == 6
    handle = open_table(open_store(path))
    with pytest.raises(UnsupportedTableError, match=named):
        check_writable(handle, handle.timeline(), handle.store.now_ms())


@pytest.mark.long
def test_times_in_the_paths_of_version_6_are_found_by_the_rows(hudi_15, tmp_path):
    options, _ = RULES["times in paths"]
    path = hudi_tables.small(hudi_15, tmp_path / "made", options | NO_METADATA_TABLE).table.path
    handle = open_table(open_store(path))
    assert not any("timebased" in key or ":" in value for key, value in handle.config.raw.items())
    with pytest.raises(UnsupportedTableError, match="would be written to"):
        check_writable(handle, handle.timeline(), handle.store.now_ms())


def test_a_bootstrapped_table_is_refused_by_name(hudi_12, tmp_path):
    rows = pa.table({"id": ["a", "b"], "v": [1, 2]})
    (lake := tmp_path / "lake").mkdir()
    pq.write_table(rows, lake / "one.parquet")
    path = str(tmp_path / "made")
    table = HudiTable(path=path, name="made", key=("id",))
    given = NO_METADATA_TABLE | {"hoodie.bootstrap.base.path": str(lake)}  # Hudi bootstraps without it alone
    hudi_12.write(table, rows.slice(0, 0), "bootstrap", mode="overwrite", guarded=False, options=given)
    refused(path, r"bootstrapped from .*/lake \(hoodie\.bootstrap\.base\.path\)", tmp_path / "calls")


def test_a_table_version_that_no_hudi_writes_yet_is_refused_by_name(hudi_12, tmp_path):
    path = hudi_tables.small(hudi_12, tmp_path / "made", {}).table.path
    properties = tmp_path / "made" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=9", "hoodie.table.version=10"))
    refused(path, "table version 10", tmp_path / "calls")


def refused(path, named, log):
    """Refused when nothing was read but the properties, and parquetry's own records, which are not there."""
    store = CountingStore(open_store(path), log)
    with pytest.raises(UnsupportedTableError, match=named):
        open_table(store)
    asked = {name for _, name in store.calls() if not name.startswith(".hoodie/.parquetry")}
    assert asked == {".hoodie/hoodie.properties"}
    for arguments in (("inspect", path), ("timeline", path), ("simulate", "sizing", path, "--inserts", "1")):
        done = command(*arguments)
        assert done.returncode == 1
        assert re.search(named, done.stderr), done.stderr
