"""Whatever we write, hudi-rs and both real Hudis read: latest, as of each instant, since each of them."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.table_spec import KeyScope, RetentionPolicy, TableSpec
from tests.interop.versions import BOTH_TABLE_VERSIONS, MOSTLY_0_15_0, able
from tests.support import our_table
from tests.support.judges import assert_history, assert_latest
from tests.support.our_table import OurReader
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SPEC = TableSpec(name="ours", columns=(), record_key=("id",), ordering="version", partition_by=("region",))
FEW = ("c_int", "c_string", "c_price")


@BOTH_TABLE_VERSIONS
def test_every_operation_with_every_type(spark, tmp_path, judges, table_version):
    rnd = random.Random(11)
    ours = our_table.create(spark, tmp_path / "ours", table_version=table_version)
    ours.upsert(ours.rows(rnd, range(40), 1))
    ours.upsert(ours.rows(rnd, range(20, 60), 2))
    late_and_tied = [
        *ours.rows(rnd, range(10), 0),
        *ours.rows(rnd, range(30, 35), 2),
        *ours.rows(rnd, [70], None),
    ]
    ours.upsert(late_and_tied)
    ours.insert(ours.rows(rnd, range(55, 65), 3))
    ours.delete(ours.rows(rnd, range(12, 16), 1))
    ours.delete([*ours.rows(rnd, range(20, 24), 1), *ours.rows(rnd, range(24, 28), 2)], with_ordering=True)
    ours.bulk_insert(ours.rows(rnd, range(80, 90), 4))
    ours.insert_overwrite(ours.rows(rnd, range(0, 12, 4), 5))
    ours.delete_partition(["region=us"])
    ours.upsert(ours.rows(rnd, range(1, 9), 6))
    ours.delete(ours.rows(rnd, range(2, 400, 4), 9))
    ours.insert_overwrite_table(ours.rows(rnd, range(100, 108), 7))
    ours.upsert(ours.rows(rnd, range(104, 112), 8))
    assert unsound(ours.path) == []
    assert_history(
        [*able(judges, table_version), OurReader(spark)], str(ours.path), ours.model, thorough=True
    )


@BOTH_TABLE_VERSIONS
def test_an_unpartitioned_table_with_a_composite_key(spark, tmp_path, judges, table_version):
    rnd = random.Random(12)
    spec = replace(SPEC, record_key=("id", "region"), partition_by=())
    ours = our_table.create(spark, tmp_path / "ours", table_version=table_version, typed=FEW, spec=spec)
    ours.upsert(
        ours.rows(rnd, range(10), 1)
        + ours.rows(rnd, range(5), 1, region=None)
        + ours.rows(rnd, [7], 1, region="")
    )
    ours.upsert(ours.rows(rnd, range(3, 6), 2) + ours.rows(rnd, range(3, 6), 2, region=None))
    ours.delete(ours.rows(rnd, [4], 3) + ours.rows(rnd, [7], 3, region=""))
    assert unsound(ours.path) == []
    assert_history([*able(judges, table_version), OurReader(spark)], str(ours.path), ours.model)


@pytest.mark.parametrize("hive_style", [pytest.param(True, marks=pytest.mark.long), False])
def test_partition_values_of_any_kind(spark, tmp_path, judges, hive_style):
    rnd = random.Random(13)
    keys = {"id": pa.string(), "day": pa.date32(), "region": pa.string(), "version": pa.int64()}
    spec = replace(SPEC, partition_by=("region", "day"), hive_style=hive_style)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW, keys=keys, spec=spec)
    strange = ["a/b", "a b", "ünï", "x=y", "100%", "..", None, "", "a:b", "中", "'quoted'", "{x}", "a\\b"]
    if not hive_style:
        with pytest.raises(InvalidDataError, match=r"'\.' or '\.\.'.*hive_style"):
            ours.upsert(ours.rows(rnd, [1], 1, region="..", day=our_table.DAYS[0]))
        strange.remove("..")
    rows = [
        row
        for number, region in enumerate(strange)
        for row in ours.rows(rnd, [number, number + 100], 1, region=region, day=our_table.DAYS[number % 3])
    ]
    ours.upsert(rows)
    ours.upsert([{**row, "version": 2} for row in rows[::3]])
    ours.delete(rows[::5])
    assert unsound(ours.path) == []
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)


@BOTH_TABLE_VERSIONS
def test_a_key_unique_in_the_table_moves_between_partitions(spark, tmp_path, judges, table_version):
    rnd = random.Random(14)
    ours = our_table.create(
        spark,
        tmp_path / "ours",
        table_version=table_version,
        typed=FEW,
        spec=replace(SPEC, key_scope=KeyScope.TABLE),
    )
    ours.upsert(ours.rows(rnd, range(20), 2))
    ours.upsert(ours.rows(rnd, range(6), 3, region="moved") + ours.rows(rnd, range(6, 9), 1, region="late"))
    ours.upsert(ours.rows(rnd, range(3), 4, region="again"))
    assert unsound(ours.path) == []
    assert_history([*able(judges, table_version), OurReader(spark)], str(ours.path), ours.model)


@BOTH_TABLE_VERSIONS
def test_deletes_by_condition_by_match_and_by_flag(spark, tmp_path, judges, table_version):
    rnd = random.Random(15)
    keys = {**our_table.KEYS, "_hoodie_is_deleted": pa.bool_()}
    ours = our_table.create(spark, tmp_path / "ours", table_version=table_version, typed=FEW, keys=keys)
    ours.upsert(ours.rows(rnd, range(40), 2, c_int=1))
    ours.upsert(
        [
            *ours.rows(rnd, range(6), 3, _hoodie_is_deleted=True),
            *ours.rows(rnd, range(6, 9), 1, _hoodie_is_deleted=True),
        ]
    )
    rows = ours.rows(rnd, range(10, 20), 3, c_int=2)
    instant = our_table.committed(
        ours.table.upsert(ours.frame(rows), delete_when="c_string IS NULL OR id > 'k16'")
    )
    gone = [
        row | ({"_hoodie_is_deleted": True} if row["c_string"] is None or row["id"] > "k16" else {})
        for row in rows
    ]
    ours.model.upsert(instant, gone)
    matched = ours.frame(
        [{"region": "eu", "c_int": 1}, {"region": "us", "c_int": 2}], columns=["region", "c_int"]
    )
    instant = our_table.committed(ours.table.delete(matched, match=["region", "c_int"]))
    ours.model.delete_where(instant, lambda row: (row["region"], row["c_int"]) in {("eu", 1), ("us", 2)})
    ours.upsert(ours.rows(rnd, range(4), 4))
    assert unsound(ours.path) == []
    assert_history([*able(judges, table_version), OurReader(spark)], str(ours.path), ours.model)


@MOSTLY_0_15_0
def test_added_and_widened_columns(spark, tmp_path, hudi, judges):
    """Commits of a schema alone, files of three schemas, and real Hudi writing in between."""
    rnd = random.Random(16)
    ours = our_table.create(spark, tmp_path / "ours", typed=("c_int", "c_float", "c_struct"))
    ours.upsert(ours.rows(rnd, range(20), 1))
    wider = {"c_int": pa.int64(), "c_float": pa.float64()}
    schema = pa.schema([field.with_type(wider.get(field.name, field.type)) for field in ours.schema])
    ours.evolve(schema.append(pa.field("c_new", pa.string())))
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)
    ours.insert(ours.rows(rnd, range(20, 30), 2, c_int=2**40, c_float=0.1, c_new="x"))
    rows = ours.rows(rnd, range(10, 35, 3), 3, c_int=-(2**41), c_float=1e300, c_new="y")
    ours.model.upsert(hudi.write(ours.hudi(), ours.arrow(rows)), rows)
    ours.upsert(ours.rows(rnd, range(0, 30, 8), 4, c_int=-(2**40), c_float=0.3, c_new="z"))
    assert unsound(ours.path, since="9") == []
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)


@BOTH_TABLE_VERSIONS
def test_savepoint_rollback_and_restore(spark, tmp_path, judges, table_version):
    rnd = random.Random(17)
    ours = our_table.create(spark, tmp_path / "ours", table_version=table_version, typed=FEW)
    ours.upsert(ours.rows(rnd, range(20), 1))
    saved = ours.upsert(ours.rows(rnd, range(10, 30), 2))
    ours.table.savepoint(comment="before")
    kept = ours.upsert(ours.rows(rnd, range(25, 35), 3))
    rolled_back = ours.insert_overwrite(ours.rows(rnd, [0, 4], 4))
    ours.table.rollback(rolled_back)
    ours.model.restore(kept)
    assert_history([*able(judges, table_version), OurReader(spark)], str(ours.path), ours.model)
    ours.upsert(ours.rows(rnd, range(3), 5))
    ours.clean(RetentionPolicy(keep_commits=1))
    assert_history(
        [*able(judges, table_version), OurReader(spark)],
        str(ours.path),
        ours.model,
        from_instant=ours.model.instants()[-1],
    )
    ours.table.restore(saved)
    ours.model.restore(saved)
    # The clean stays on the timeline, so real Hudi lets nobody travel to what it left, restored or not.
    assert_latest([*able(judges, table_version), OurReader(spark)], str(ours.path), ours.model)
    after = ours.upsert(ours.rows(rnd, range(5), 6))
    assert unsound(ours.path) == []
    assert_history(
        [*able(judges, table_version), OurReader(spark)], str(ours.path), ours.model, from_instant=after
    )
