"""Real Hudi writes into our tables and we into its own, in turns; everybody reads the same."""

from __future__ import annotations

import copy
import random
import shutil

import pytest

from parquetry.runtime.spec.table_spec import RetentionPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.interop.versions import HUDIS_OF_BOTH_TABLE_VERSIONS, MOSTLY_0_15_0, MOSTLY_1_2_0, able
from tests.support import hudi_history, our_table
from tests.support.hudi_history import NO_ROW_WRITER
from tests.support.hudi_spark import newest_write
from tests.support.judges import assert_history, assert_latest
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SPEC = TableSpec(
    name="ours",
    columns=(),
    record_key=("id",),
    ordering="version",
    partition_by=("region",),
    retention=RetentionPolicy(keep_commits=30),
)
ARCHIVE_SOON = {
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.clean.commits.retained": "2",
}


class Beside:
    """Real Hudi writing to a table of ours, the model following."""

    def __init__(self, hudi, ours, table=None):
        self.hudi, self.ours, self.table = hudi, ours, table or ours.hudi()

    def upsert(self, rows, **settings):
        instant = self._write("upsert", rows, **settings)
        self.ours.model.upsert(instant, rows, compares_ordering=self.hudi.compares_ordering)

    def insert(self, rows, operation="insert", **settings):
        self.ours.model.insert(self._write(operation, rows, **settings), rows)

    def delete(self, rows, **settings):
        self.ours.model.delete(self._write("delete", rows, **settings), rows)

    def insert_overwrite(self, rows):
        self.ours.model.insert_overwrite(self._write("insert_overwrite", rows), rows)

    def cluster(self):
        ((name, value),) = NO_ROW_WRITER.items()
        self.hudi.call("run_clustering", self.table.path, options=f"{name}={value}")
        self.ours.model.unchanged(newest_write(self.table.path))

    def _write(self, operation, rows, **settings):
        return self.hudi.write(self.table, self.ours.arrow(rows), operation, **settings)


@HUDIS_OF_BOTH_TABLE_VERSIONS
def test_real_hudi_writes_into_our_table_and_we_go_on(spark, tmp_path, hudi, judges, table_version):
    rnd = random.Random(31)
    ours = our_table.create(spark, tmp_path / "ours", spec=SPEC, table_version=table_version)
    beside = Beside(hudi, ours)
    ours.upsert(ours.rows(rnd, range(40), 5))
    beside.upsert(ours.rows(rnd, range(20, 50), 6))
    ours.upsert(ours.rows(rnd, range(45, 55), 7))
    beside.upsert([*ours.rows(rnd, range(50, 60), 8), *ours.rows(rnd, range(5), 1)], index="BLOOM")
    ours.delete(ours.rows(rnd, range(8, 12), 9))
    beside.delete(ours.rows(rnd, range(12, 16), 9))
    beside.upsert(ours.rows(rnd, [*range(16, 19), 61], 9), index="GLOBAL_BLOOM")
    beside.upsert(ours.rows(rnd, [*range(17, 20), 62], 10), index="GLOBAL_SIMPLE")
    ours.insert(ours.rows(rnd, range(70, 80), 9))
    beside.insert(ours.rows(rnd, range(80, 84), 9))
    beside.insert(ours.rows(rnd, range(84, 88), 9), "bulk_insert", options=NO_ROW_WRITER)
    beside.cluster()
    ours.upsert(ours.rows(rnd, range(60, 90, 3), 11))
    beside.insert_overwrite(ours.rows(rnd, [1], 12))
    ours.upsert(ours.rows(rnd, range(10), 13))
    assert unsound(ours.path, since="9") == []
    assert_history(able(judges, table_version), str(ours.path), ours.model)


@HUDIS_OF_BOTH_TABLE_VERSIONS
def test_real_hudi_cleans_and_archives_our_table_and_we_go_on(spark, tmp_path, hudi, judges, table_version):
    rnd = random.Random(32)
    ours = our_table.create(
        spark,
        tmp_path / "ours",
        typed=("c_int", "c_price", "c_structs"),
        spec=SPEC,
        table_version=table_version,
    )
    beside = Beside(hudi, ours)
    for version in range(4):
        ours.upsert(ours.rows(rnd, range(version, 12), version))
    ours.insert_overwrite(ours.rows(rnd, [0, 4], 5))
    hudi.call("run_clean", str(ours.path), retain_commits=2)
    assert_history(
        able(judges, table_version), str(ours.path), ours.model, from_instant=ours.model.instants()[-2]
    )
    ours.upsert(ours.rows(rnd, range(3, 9), 6))
    for version in range(7, 12):
        beside.upsert(ours.rows(rnd, range(version, version + 3), version), options=ARCHIVE_SOON)
    assert [
        *ours.path.glob(".hoodie/archived/.commits_.archive.*"),
        *ours.path.glob(".hoodie/timeline/history/*.parquet"),
    ]
    ours.upsert(ours.rows(rnd, range(3, 9), 12))
    beside.upsert(ours.rows(rnd, range(3), 13), options=ARCHIVE_SOON)
    assert unsound(ours.path, since="9") == []
    assert_history(
        able(judges, table_version), str(ours.path), ours.model, from_instant=ours.model.instants()[-2]
    )


def adopted(spark, made, folder, schema=None):
    """Our view of a copy of a table that real Hudi made."""
    shutil.copytree(made.table.path, folder)
    return our_table.OurTable(
        spark=spark,
        path=folder,
        schema=schema or made.schema,
        model=copy.deepcopy(made.model),
        name=made.table.name,
    )


@MOSTLY_0_15_0
def test_we_write_into_a_table_of_real_hudi_and_it_goes_on(spark, tmp_path, hudi, all_operations, judges):
    rnd = random.Random(33)
    ours = adopted(spark, all_operations, tmp_path / "theirs")
    theirs = newest_write(str(ours.path))
    beside = Beside(hudi, ours)
    ours.upsert(ours.rows(rnd, range(28, 75), 20))
    ours.insert(ours.rows(rnd, range(100, 105), 20))
    ours.delete(ours.rows(rnd, range(40, 45), 21))
    beside.upsert(ours.rows(rnd, range(60, 110, 4), 22))
    ours.insert_overwrite(ours.rows(rnd, range(3, 11, 4), 23))
    beside.upsert(ours.rows(rnd, range(3, 19, 4), 24), index="BLOOM")
    beside.cluster()
    hudi.call("run_clean", str(ours.path), retain_commits=4)
    ours.upsert(ours.rows(rnd, range(20), 25))
    assert unsound(ours.path, since=theirs) == []
    assert_history(judges, str(ours.path), ours.model, from_instant=ours.model.instants()[-4])


@MOSTLY_1_2_0
def test_we_write_into_a_restored_and_archived_table_of_real_hudi(spark, tmp_path, hudi, archived, judges):
    rnd = random.Random(34)
    ours = adopted(spark, archived, tmp_path / "theirs")
    theirs = newest_write(str(ours.path))
    beside = Beside(hudi, ours)
    ours.upsert(ours.rows(rnd, range(5, 20), 30))
    beside.upsert(ours.rows(rnd, range(15, 25), 31), options=ARCHIVE_SOON)
    ours.upsert(ours.rows(rnd, range(20, 30), 32))
    assert unsound(ours.path, since=theirs) == []
    assert_history(judges, str(ours.path), ours.model, from_instant=ours.model.instants()[-2])


@MOSTLY_0_15_0
def test_we_merge_files_of_the_row_writer_rightly(spark, tmp_path, hudi, judges):
    """Its lists are `bag/array` or 3-level, its decimals INT32 and INT64 after a clustering."""
    rnd = random.Random(35)
    made = hudi_history.start(hudi, tmp_path / "theirs", partition_by=("region",))
    made.insert(made.rows(rnd, range(40), 1), mode="overwrite")
    hudi.call("run_clustering", made.table.path)
    made.model.unchanged(newest_write(made.table.path))
    made.insert(made.rows(rnd, range(40, 80), 1), "bulk_insert")
    assert_latest(judges, made.table.path, made.model)
    ours = our_table.OurTable(
        spark=spark, path=tmp_path / "theirs", schema=made.schema, model=made.model, name="made"
    )
    theirs = newest_write(made.table.path)
    ours.upsert(ours.rows(rnd, range(0, 80, 5), 2))
    assert unsound(ours.path, since=theirs) == []
    assert_latest(judges, str(ours.path), ours.model)
    handle = open_table(open_store(str(ours.path)))
    assert {part.instant for part in handle.view(handle.timeline()).all_slices()} == {
        ours.model.instants()[-1]
    }
    rows = ours.rows(rnd, range(1, 80, 7), 3)
    ours.model.upsert(hudi.write(made.table, ours.arrow(rows)), rows)
    assert_latest(judges, str(ours.path), ours.model)
