"""Tables of real Hudi whose rows have no meta columns (`hoodie.populate.meta.fields=false`).

The judge of a table is the Hudi that made it. It refuses incremental reads of such tables.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
import yaml

import parquetry
from parquetry.compiler.testing import tables
from parquetry.compiler.testing.execution import RowExecution, execute_tests
from parquetry.compiler.testing.model import Status
from parquetry.runtime.errors import CorruptTableError, UnsupportedTableError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, META_COLUMNS
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import META_COLUMNS_KEY
from parquetry.runtime.table.handle import open_table
from tests.interop.test_hudi_version_9 import answered, everything, project_with, raised
from tests.support import hudi_tables
from tests.support.hudi_history import NO_ROW_WRITER
from tests.support.hudi_spark import HudiError
from tests.support.hudi_tables import (
    RECIPES_WITHOUT_META_COLUMNS,
    SCHEMA,
    WITHOUT_META_COLUMNS,
    Recipe,
    completions,
)
from tests.support.judges import HudiRs, RealHudi
from tests.support.model import differences, frozen_table
from tests.support.our_table import OurReader, to_table
from tests.support.tested_rows import Launched
from tests.support.view_reader import ViewReader

pytestmark = [pytest.mark.interop, pytest.mark.spark]

RECIPES = {recipe.name: recipe for recipe in RECIPES_WITHOUT_META_COLUMNS}
ROW_TESTS = """\
tests:
  - unique: [id, day]
  - not_null: [version]
  - expression: version < 99
"""


CLUSTERED = """\
clustering: {trigger: async, every_commits: 1, execution: {strategy: sort, columns: [id]}}
"""


@pytest.fixture(scope="module")
def make(hudi_12, hudi_15, tmp_path_factory):
    """Make a table once, with the answers of its Hudi; tests that write take a copy."""
    folder = tmp_path_factory.mktemp("without")
    hudis = {hudi.version: hudi for hudi in (hudi_12, hudi_15)}
    known = {}

    def made(name):
        if name not in known:
            table = RECIPES[name].make(hudis[RECIPES[name].hudi], folder)
            known[name] = table, hudi_tables.answers(table, changes=False)
        return known[name]

    return made


@pytest.fixture(params=["no_meta", pytest.param("no_meta_six", marks=pytest.mark.long), "no_meta_old"])
def made(make, request):
    """Each table in turn, with the answers of its Hudi."""
    return make(request.param)


def copy_with_commit_times(made, path):
    """A copy of the table in which rows without a commit time take the one of their file."""
    shutil.copytree(made.path, path)
    with (path / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write(f"{META_COLUMNS_KEY}=commit_time\n")
    return str(path)


def assert_same(expected, found, question, *, meta=()):
    """Hudi's reads of such tables have no meta columns."""
    columns = [*meta, *SCHEMA.names]
    expected, found = (frozen_table(rows.select(columns), SCHEMA.names) for rows in (expected, found))
    wrong = differences(expected, found)
    assert not wrong, f"{question}: {wrong}"


def keyed(rows):
    """The rows as texts, by which they can be compared as sets."""
    return (
        {repr(sorted(row.items())) for row in rows.select(SCHEMA.names).to_pylist()}
        if rows.num_rows
        else set()
    )


def test_snapshots_are_those_that_hudi_reads(spark, made):
    table, answers = made
    ours = parquetry.open(table.table.path)
    assert_same(answers.latest, ViewReader().read(table.table.path), "latest")
    found = to_table(ours.read(spark, meta=True))
    assert found.schema.names == [*META_COLUMNS, *SCHEMA.names]
    assert_same(answers.latest, found, "latest")
    for time, rows in answers.as_of.items():
        if rows is not None:
            assert_same(rows, ViewReader().read(table.table.path, as_of=time), f"as of {time}")
    time, rows = next((t, r) for t, r in sorted(answers.as_of.items(), reverse=True)[1:] if r is not None)
    assert_same(rows, to_table(ours.read(spark, as_of=time)), f"as of {time}")
    condition = "id = 'k003' or version >= 3"
    expected = to_table(ours.read(spark).where(condition))
    assert expected.num_rows
    assert_same(expected, to_table(ours.read(spark, where=condition)), condition)


def test_rows_without_a_commit_time_are_no_source_of_changes(spark, made):
    """Hudi refuses to read changes too."""
    table, _ = made
    with pytest.raises(HudiError, match="Incremental queries are not supported"):
        table.hudi.read(table.table.path, since="0")
    with pytest.raises(UnsupportedTableError, match="have no commit time"):
        parquetry.open(table.table.path).read(spark, since="0")


def test_changes_by_the_times_of_files_miss_no_row(spark, made, tmp_path):
    """A changed row is always returned, and others only if they share a file with one."""
    table, answers = made
    path = copy_with_commit_times(table, tmp_path / "t")
    latest = keyed(answers.latest)
    known = dict(completions(table.path))
    partial = 0
    for time, rows in answers.as_of.items():
        if rows is None:
            continue
        since = known[time]
        found = ViewReader().read(path, since=since)
        assert latest - keyed(rows) <= keyed(found) <= latest, time
        if 0 < found.num_rows < len(latest):
            partial += 1
            ours = to_table(parquetry.open(path).read(spark, meta=True, since=since))
            assert_same(found, ours, time, meta=[COMMIT_TIME])
    assert partial
    assert ViewReader().read(path, since=max(known.values())).num_rows == 0
    assert keyed(to_table(parquetry.open(path).read(spark, since="0"))) == latest


def test_tests_of_rows_read_them(spark, made, tmp_path):
    table, _ = made
    (file := tmp_path / "tests.yml").write_text(ROW_TESTS)
    tests = tables.tests_in_file(table.table.path, file, store=open_store)
    rows = RowExecution(launch=Launched(spark), diagnose=raised)
    found = execute_tests([tests], run_id=None, target=None, rows=rows)
    assert [one.status for one in found.outcomes] == [Status.PASSED] * 3


def test_commands_that_only_read_do_so_without_a_project(made, tmp_path):
    table, answers = made
    path = table.table.path
    before = everything(table.path)
    assert answered("inspect", path, cwd=tmp_path)["totals"]["rows"] == answers.latest.num_rows
    assert answered("timeline", path, cwd=tmp_path)["instants"]
    assert answered("timeline", path, table.newest(), cwd=tmp_path)["instants"]
    answered("simulate", "sizing", path, "--replay", "9d", cwd=tmp_path)
    assert everything(table.path) == before


def adopted(table, tmp_path):
    """A copy of the table that a project has adopted, with small files in debt to its clustering."""
    folder, path = project_with(table, tmp_path)
    file = folder.root / answered("adopt", str(path), cwd=folder.root)["file"]
    assert yaml.safe_load(file.read_text())["files"] == {"meta_columns": "none"}
    assert answered("plan", "--due", cwd=folder.root)["intent"]["actions"] == []
    assert answered("drift", cwd=folder.root)["tables"][0]["drifts"] == []
    with file.open("a") as spec:
        spec.write(CLUSTERED)
    answered("apply", "--auto-approve", cwd=folder.root)
    return replace(table, table=replace(table.table, path=str(path)))


def test_they_are_adopted_and_both_write_on(spark, made, tmp_path):
    """After each write and service of either, the Hudi that made the table, hudi-rs and we read the same rows."""
    table, answers = made
    hudi = adopted(table, tmp_path)
    ours = parquetry.open(hudi.table.path)
    expected = {row["id"]: row for row in answers.latest.select(SCHEMA.names).to_pylist()}

    def judge(step):
        rows = pa.Table.from_pylist([*expected.values()], SCHEMA)
        for judge in (RealHudi(hudi.hudi), HudiRs(), OurReader(spark)):
            assert_same(rows, judge.read(hudi.table.path), f"{judge.name} after {step}")

    def upsert(ids, write):
        rows = hudi.rows(ids)
        write(rows)
        expected.update({row["id"]: row for row in rows.to_pylist()})

    def delete(ids, write):
        rows = hudi.rows(ids)
        write(rows)
        for row in rows.to_pylist():
            expected.pop(row["id"], None)

    def of_hudi(operation):
        return lambda rows: hudi.hudi.write(hudi.table, rows, operation, guarded=False, options=hudi.options)

    upsert(range(20, 45), ours.upsert)
    judge("our upsert")
    upsert(range(38, 50), of_hudi("upsert"))
    judge("an upsert of Hudi")
    delete(range(30, 42), ours.delete)
    judge("our delete")
    delete(range(44, 46), of_hudi("delete"))
    assert ours.cluster(spark).groups
    judge("our clustering")
    upsert(range(0, 60, 7), of_hudi("upsert"))
    judge("an upsert of Hudi of clustered files")
    upsert(range(0, 70, 11), ours.upsert)
    assert clean(open_table(open_store(hudi.path)), policy=RetentionPolicy(keep_commits=1)).files_deleted
    judge("our clean")
    hudi.call("run_clean", retain_commits=1)
    judge("a clean of Hudi")


@pytest.mark.parametrize(
    ("hudi", "by_row_writer"), [("hudi_15", False), pytest.param("hudi_12", True, marks=pytest.mark.long)]
)
def test_a_clustering_whose_files_no_reader_finds_is_named_and_rolled_back(
    spark, hudi, by_row_writer, tmp_path, request
):
    """Hudi's procedure takes the table for one without partitions; in 1.2 only with its row writer."""
    recipe = Recipe(
        name="lost",
        partition_by=("region",),
        options=WITHOUT_META_COLUMNS | dict.fromkeys(NO_ROW_WRITER, str(by_row_writer).lower()),
        steps=lambda made: made.write("insert", range(8)),
    )
    made = recipe.make(request.getfixturevalue(hudi), tmp_path)
    path = made.table.path
    expected = made.hudi.read(path)
    made.cluster()
    with suppress(HudiError):  # Hudi 0.15 fails, and Hudi 1.2 finds no row
        assert made.hudi.read(path).num_rows == 0
    ours = parquetry.open(path)
    with pytest.raises(CorruptTableError, match=r"is in no partition, .* with Table\.rollback"):
        ours.read(spark)
    ours.rollback(made.newest())
    (made.path / ".hoodie_partition_metadata").unlink()
    assert_same(expected, made.hudi.read(path), "Hudi after the rollback")
    assert_same(expected, to_table(ours.read(spark)), "after the rollback")
