"""Our table services and real Hudi's on one table: savepoints, restores, cleans and archives of each other."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from parquetry.runtime.errors import ConflictError
from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.services.restore import restore
from parquetry.runtime.services.rollback import rollback
from parquetry.runtime.services.savepoint import create_savepoint, delete_savepoint
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.interop.versions import HUDIS_OF_BOTH_TABLE_VERSIONS, MOSTLY_0_15_0, MOSTLY_1_2_0
from tests.support import hudi_history
from tests.support.hudi_history import dead_write
from tests.support.hudi_spark import HudiError, newest_write
from tests.support.judges import HudiRs, RealHudi, assert_history, assert_latest
from tests.support.model import TableModel, frozen_table
from tests.support.view_reader import ViewReader

pytestmark = [pytest.mark.interop, pytest.mark.spark]

KEEP_TWO = RetentionPolicy(keep_commits=2, archive_keep_commits=4)


@pytest.fixture
def theirs(all_operations, tmp_path):
    """A copy of a table of real Hudi and a handle of ours on it."""
    made = all_operations
    copy = tmp_path / "theirs"
    shutil.copytree(made.table.path, copy)
    model = TableModel(
        key=made.model.key,
        columns=made.model.columns,
        ordering=made.model.ordering,
        partition_by=made.model.partition_by,
        versions=list(made.model.versions),
    )
    return type(made)(hudi=made.hudi, table=_moved(made.table, copy), schema=made.schema, model=model)


def _moved(table, path):
    return type(table)(
        path=str(path),
        name=table.name,
        key=table.key,
        ordering=table.ordering,
        partition_by=table.partition_by,
    )


def handle(made):
    return open_table(open_store(made.table.path))


def data_files(made):
    return {path for path in handle(made).store.list(recursive=True) if path.path.endswith(".parquet")}


@MOSTLY_1_2_0
def test_our_savepoint_clean_and_restore_are_real_hudis(theirs):
    rnd = random.Random(51)
    readers = [HudiRs(), RealHudi(theirs.hudi), ViewReader()]
    saved = theirs.upsert(theirs.rows(rnd, range(30, 50), 20))
    create_savepoint(handle(theirs), saved, comment="before the worst")
    listed = theirs.hudi.call("show_savepoints", theirs.table.path)
    assert saved in {row["savepoint_time"] for row in listed}
    for version in (21, 22, 23):
        theirs.upsert(theirs.rows(rnd, range(version, version + 12), version))
    result = clean(handle(theirs), policy=KEEP_TWO)
    assert result.files_deleted > 0
    assert_history(readers, theirs.table.path, theirs.model, from_instant=theirs.model.instants()[-2])
    before = {info.path for info in data_files(theirs)}
    theirs.hudi.call("run_clean", theirs.table.path, retain_commits=2)
    assert {info.path for info in data_files(theirs)} == before, "real Hudi finds nothing more to clean"
    with pytest.raises(HudiError, match="Cleaner cleaned up the timestamp of interest"):
        theirs.hudi.read(theirs.table.path, as_of=theirs.model.instants()[-4])

    restore(handle(theirs), saved)
    theirs.model.restore(saved)
    assert_latest(readers, theirs.table.path, theirs.model)
    theirs.upsert(theirs.rows(rnd, range(35, 55), 24))
    assert_latest(readers, theirs.table.path, theirs.model)
    delete_savepoint(handle(theirs), saved)
    assert saved not in {
        row["savepoint_time"] for row in theirs.hudi.call("show_savepoints", theirs.table.path)
    }


@MOSTLY_0_15_0
def test_real_hudi_restores_to_our_savepoint(theirs):
    rnd = random.Random(52)
    saved = theirs.upsert(theirs.rows(rnd, range(30, 50), 20))
    create_savepoint(handle(theirs), saved)
    theirs.upsert(theirs.rows(rnd, range(25, 45), 21))
    theirs.insert_overwrite(theirs.rows(rnd, [1, 5], 22))
    theirs.hudi.call("run_clean", theirs.table.path, retain_commits=1)
    theirs.hudi.call("rollback_to_savepoint", theirs.table.path, instant_time=saved)
    theirs.model.restore(saved)
    assert_latest([HudiRs(), RealHudi(theirs.hudi), ViewReader()], theirs.table.path, theirs.model)


@HUDIS_OF_BOTH_TABLE_VERSIONS
def test_our_archive_is_read_and_extended_by_real_hudi(hudi, tmp_path, table_version):
    rnd = random.Random(53)
    made = hudi_history.start(
        hudi,
        tmp_path / "theirs",
        partition_by=("region",),
        columns=["c_int", "c_price"],
        table_version=table_version,
    )
    readers = [HudiRs(), RealHudi(hudi), ViewReader()]
    made.insert(made.rows(rnd, range(20), 1), mode="overwrite")
    made.insert_overwrite(made.rows(rnd, range(0, 8, 4), 2))
    made.cluster()
    for version in range(3, 8):
        made.upsert(made.rows(rnd, range(version, version + 5), version))
    assert clean(handle(made), policy=KEEP_TWO).files_deleted > 0
    archived = archive(handle(made), policy=KEEP_TWO).instants
    assert set(made.model.instants()[:4]) <= set(archived)
    assert len(handle(made).timeline().completed_writes) == 4
    listed = {row["commit_time"] for row in archived_commits(made)}
    assert set(made.model.instants()[:4]) <= listed
    assert_history(readers, made.table.path, made.model, from_instant=made.model.instants()[-2])

    soon = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.cleaner.commits.retained": "1",
        "hoodie.clean.commits.retained": "1",
    }
    for version in range(8, 10):
        made.upsert(made.rows(rnd, range(version, version + 5), version), options=soon)
    by_hudi = {row["commit_time"] for row in archived_commits(made)}
    assert by_hudi > listed
    assert_latest(readers, made.table.path, made.model)
    for version in range(10, 12):
        made.upsert(made.rows(rnd, [version], version))
    fewest = RetentionPolicy(keep_commits=1, archive_keep_commits=2)
    clean(handle(made), policy=fewest)
    assert archive(handle(made), policy=fewest).instants
    assert {row["commit_time"] for row in archived_commits(made)} > by_hudi
    assert_history(readers, made.table.path, made.model, from_instant=made.model.instants()[-1])


def archived_commits(made):
    return made.hudi.call(
        "show_archived_commits", made.table.path, start_ts="2020", end_ts="2999", limit=1000
    )


@MOSTLY_0_15_0
def test_a_dead_write_of_real_hudi_blocks_us_until_it_is_rolled_back_and_then_nothing_is_left(theirs):
    readers = [HudiRs(), RealHudi(theirs.hudi), ViewReader()]
    dead = dead_write(Path(theirs.table.path), "region=eu")
    with pytest.raises(ConflictError, match=dead):
        clean(handle(theirs), policy=KEEP_TWO)
    rollback(handle(theirs), dead)
    assert not [info for info in data_files(theirs) if dead in info.path]
    assert_latest(readers, theirs.table.path, theirs.model)
    rnd = random.Random(54)
    theirs.upsert(theirs.rows(rnd, range(3), 50))
    assert_latest(readers, theirs.table.path, theirs.model)
    assert newest_write(theirs.table.path) == theirs.model.instants()[-1]
    assert frozen_table(HudiRs().read(theirs.table.path), theirs.model.columns)
