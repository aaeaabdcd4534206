"""Every operation against a dictionary, read back by hudi-rs and by ourselves, at every instant."""

from __future__ import annotations

import base64
import os
import random
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

import parquetry
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, KeyScope, Operation, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.write.partition_deletion import delete_partitions
from parquetry.runtime.write.request import WriteRequest
from tests.support.clustering_model import maximum_for
from tests.support.effort import in_full
from tests.support.judges import HudiRs, assert_history, assert_latest
from tests.support.our_table import OurReader, committed, create
from tests.support.rows import TYPES

pytestmark = pytest.mark.spark

SOAK = pytest.mark.long
"""Of tests of which those in tests/interop/test_our_operations.py show the same to more judges."""

SPEC = TableSpec(name="ours", columns=(), record_key=("id",), ordering="version", partition_by=("region",))
PLAIN = ["c_int", "c_string"]


@pytest.fixture
def judges(spark):
    return [HudiRs(), OurReader(spark)]


@pytest.fixture
def table(spark, tmp_path):
    return create(spark, tmp_path / "table", typed=PLAIN, project="tests")


@SOAK
def test_upsert_of_every_type(spark, tmp_path, judges):
    ours = create(spark, tmp_path / "table", typed=list(TYPES), project="tests")
    rnd = random.Random(1)
    ours.insert(ours.rows(rnd, range(60), 1))
    ours.upsert(ours.rows(rnd, range(40, 80), 2))
    ours.upsert(ours.rows(rnd, range(0, 80, 7), 3, _hoodie_is_deleted=False))

    assert_history(judges, str(ours.path), ours.model)


def test_the_largest_ordering_value_wins(table, judges):
    rnd = random.Random(2)
    table.upsert(table.rows(rnd, range(20), 5))
    late = table.rows(rnd, range(5), 4)
    tie = table.rows(rnd, range(5, 10), 5)
    none = table.rows(rnd, range(10, 15), None)
    doubled = [*table.rows(rnd, range(15, 25), 6), *table.rows(rnd, range(15, 25), 7)]
    table.upsert([*late, *tie, *none, *doubled])
    first = table.rows(rnd, [30], None)
    table.upsert(first)
    table.upsert(table.rows(rnd, [30], None))

    assert_history(judges, str(table.path), table.model)


def test_ties_within_a_batch_are_decided_alike_in_any_order(spark, tmp_path):
    rnd = random.Random(3)
    winners = set()
    for round_number in range(3 if in_full() else 2):
        ours = create(spark, tmp_path / f"table{round_number}", typed=PLAIN, project="tests")
        rows = [
            {**r, "c_int": i} for i, r in enumerate(ours.rows(random.Random(9), [1] * 20, 1, c_string="x"))
        ]
        rnd.shuffle(rows)
        frame = ours.frame(rows).repartition(3 + round_number)
        with pytest.raises(InvalidDataError, match="no rule decides which"):
            ours.table.upsert(frame)
        committed(ours.table.upsert(frame, ties="any"))
        (row,) = HudiRs().read(str(ours.path)).to_pylist()
        winners.add(row["c_int"])

    assert len(winners) == 1


def test_a_delete_beats_a_row_on_a_tie(spark, table, judges):
    rows = table.rows(random.Random(4), range(8), 1)
    table.upsert(rows)
    both = (
        table.frame(rows)
        .selectExpr("*", "false AS gone")
        .union(table.frame(rows[:5]).selectExpr("*", "true AS gone"))
    )
    instant = committed(table.table.upsert(both, delete_when="gone", drop=["gone"], ties="any"))
    table.model.upsert(instant, [*({**r, "_hoodie_is_deleted": True} for r in rows[:5]), *rows[5:]])

    assert_latest(judges, str(table.path), table.model)


@SOAK
def test_rows_that_say_themselves_that_they_are_deleted(spark, tmp_path, judges):
    keys = {"id": pa.string(), "region": pa.string(), "version": pa.int64(), "_hoodie_is_deleted": pa.bool_()}
    ours = create(spark, tmp_path / "table", typed=PLAIN, keys=keys, project="tests")
    rnd = random.Random(5)
    ours.upsert(ours.rows(rnd, range(20), 1, _hoodie_is_deleted=False))
    ours.upsert(ours.rows(rnd, range(5, 25), 2, _hoodie_is_deleted=True))
    ours.upsert(ours.rows(rnd, range(8), 1, _hoodie_is_deleted=True))
    back = ours.rows(rnd, range(5, 8), 0, _hoodie_is_deleted=None)
    ours.upsert(back)

    assert_history(judges, str(ours.path), ours.model)


def test_inserts_look_nothing_up(table, judges):
    rnd = random.Random(6)
    rows = table.rows(rnd, range(12), 1)
    table.insert(rows)
    table.insert([*rows[:4], *rows[:2]])
    table.bulk_insert(rows[:3])
    instant = committed(table.table.insert(table.frame([*rows[8:], *rows[8:]]), drop_duplicates=True))
    table.model.insert(instant, rows[8:])

    assert_history(judges, str(table.path), table.model)


@SOAK
def test_overwrites(table, judges):
    rnd = random.Random(7)
    table.insert(table.rows(rnd, range(40), 1))
    table.insert_overwrite(table.rows(rnd, [100, 104, 105], 1))
    table.upsert(table.rows(rnd, range(0, 40, 3), 2))
    table.insert_overwrite_table(table.rows(rnd, range(200, 207), 1))
    table.insert_overwrite_table([])
    table.insert(table.rows(rnd, range(3), 1))

    assert_history(judges, str(table.path), table.model)


def test_partitions_are_deleted_by_value_or_path(table, judges):
    rnd = random.Random(8)
    table.insert(table.rows(rnd, range(40), 1))
    handle = open_table(open_store(str(table.path)))
    result = delete_partitions(handle, [{"region": "a b"}, "region=eu", "region=nowhere"])
    table.model.delete_partition(result.instant, ["region=a b", "region=eu"])
    table.upsert(table.rows(rnd, range(0, 40, 5), 2))

    assert_history(judges, str(table.path), table.model)
    assert delete_partitions(handle, ["region=nowhere"]).instant is None


@SOAK
def test_deletes_by_key(table, judges):
    rnd = random.Random(10)
    table.insert(table.rows(rnd, range(40), 5))
    table.delete(table.rows(rnd, range(0, 60, 4), 1))
    table.delete(table.rows(rnd, range(1, 40, 4), 4), with_ordering=True)
    table.delete(table.rows(rnd, range(2, 40, 4), 5), with_ordering=True)
    everywhere = table.rows(rnd, [3, 7], 1)
    instant = committed(table.table.delete(table.frame(everywhere, columns=["id"])))
    table.model.delete(instant, [{"id": r["id"], "region": r["region"]} for r in everywhere])

    assert_history(judges, str(table.path), table.model)


def test_deletes_by_other_columns(spark, table, judges):
    rnd = random.Random(11)
    rows = [
        {**r, "c_string": "ab"[i % 2], "c_int": None if i % 3 else i}
        for i, r in enumerate(table.rows(rnd, range(30), 1))
    ]
    table.insert(rows)
    wanted = spark.createDataFrame(
        [("a", None), ("a", None), ("b", 3), ("c", 1)], "c_string string, c_int int"
    )
    # A row without a value matches nothing: not the rows that have none either.
    result = table.table.delete(wanted, match=["c_string", "c_int"])
    assert "2 rows without a value in c_string, c_int matched nothing" in result.warnings
    instant, gone = committed(result), {("b", 3)}
    table.model.delete_where(instant, lambda row: (row["c_string"], row["c_int"]) in gone)
    instant = committed(
        table.table.delete(table.frame(rows).where("c_string = 'b'"), match=["id"], delete_when="c_int > 9")
    )
    ids = {r["id"] for r in rows if r["c_string"] == "b" and (r["c_int"] or 0) > 9}
    table.model.delete_where(instant, lambda row: row["id"] in ids)
    nothing = table.table.delete(wanted.where("c_int is null"), match=["c_string", "c_int"])
    assert (nothing.instant, nothing.deleted_rows) == (None, 0)
    assert any("matched nothing" in warning for warning in nothing.warnings)

    assert_history(judges, str(table.path), table.model)


def test_rows_that_change_partition_move_in_one_commit(spark, tmp_path, judges):
    spec = replace(SPEC, key_scope=KeyScope.TABLE)
    ours = create(spark, tmp_path / "table", typed=PLAIN, spec=spec, project="tests")
    rnd = random.Random(12)
    ours.upsert(ours.rows(rnd, range(24), 5))
    moved = [{**r, "region": "us"} for r in ours.rows(rnd, range(12), 6)]
    too_late = [{**r, "region": "a b"} for r in ours.rows(rnd, range(12, 18), 4)]
    tie = [{**r, "region": "new"} for r in ours.rows(rnd, range(18, 22), 5)]
    ours.upsert([*moved, *too_late, *tie])
    ours.delete([{**r, "region": "wrong"} for r in ours.rows(rnd, range(0, 24, 5), 9)])

    assert_history(judges, str(ours.path), ours.model)


LAYOUTS = {
    "no partitions": replace(SPEC, partition_by=()),
    "several partition columns": replace(SPEC, partition_by=("region", "day")),
    "plain folders": replace(SPEC, partition_by=("region", "day"), hive_style=False),
    "not encoded": replace(SPEC, partition_by=("c_int",), url_encode=False),
    "composite key": replace(SPEC, record_key=("id", "day")),
    "composite key, several partitions": replace(
        SPEC, record_key=("id", "c_int"), partition_by=("region", "day")
    ),
    "nested key": replace(SPEC, record_key=("c_struct.a",), partition_by=()),
    "no ordering": replace(SPEC, ordering=None),
}


SHOWN_BY_OTHERS = ("no partitions", "several partition columns", "composite key", "plain folders")
"""Each is part of another layout, or read by more judges in tests/interop/test_our_operations.py."""


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(spec, id=name, marks=SOAK if name in SHOWN_BY_OTHERS else ())
        for name, spec in LAYOUTS.items()
    ],
)
def test_keys_and_partitions_of_all_kinds(spark, tmp_path, judges, spec):
    keys = {"id": pa.string(), "region": pa.string(), "version": pa.int64(), "day": pa.date32()}
    ours = create(
        spark, tmp_path / "table", typed=[*PLAIN, "c_struct"], keys=keys, spec=spec, project="tests"
    )
    words = ["", None, "a/b", "50%=Ω", "x"]

    def rows(ids, version):
        found = ours.rows(random.Random(version), ids, version)
        return [
            {
                **r,
                "region": words[i % 5],
                "day": date(2013, 1, 1 + i % 3) if i % 5 != 3 else None,
                "c_int": i % 3,
                "c_struct": {"a": i, "d": None, "inner": None},
            }
            for i, r in zip(ids, found, strict=True)
        ]

    ours.insert(rows(range(30), 1))
    ours.upsert(rows(range(20, 40), 2))
    ours.delete(rows(range(0, 40, 9), 3))

    assert_history(judges, str(ours.path), ours.model)


def test_a_table_without_key_takes_rows_and_gives_them_keys(spark, tmp_path):
    spec = replace(SPEC, record_key=(), ordering=None)
    ours = create(spark, tmp_path / "table", typed=PLAIN, spec=spec, project="tests")
    rows = ours.rows(random.Random(13), [*range(20), *range(5)], 1)
    first = committed(ours.table.insert(ours.frame(rows).repartition(3)))
    committed(ours.table.bulk_insert(ours.frame(rows[:3])))
    committed(ours.table.insert(ours.frame([*rows[:3], *rows[:3]]), drop_duplicates=True))

    found = HudiRs().read(str(ours.path)).to_pylist()
    keys = [row["_hoodie_record_key"] for row in found]
    assert len(found) == 31
    assert len(set(keys)) == 31
    assert sum(key.startswith(f"{first}_") for key in keys) == 25
    with pytest.raises(InvalidDataError, match=r"no record_key.*use insert"):
        committed(ours.table.upsert(ours.frame(rows)))
    instant = committed(ours.table.delete(spark.createDataFrame([(keys[0],)], "_hoodie_record_key string")))
    assert instant
    assert HudiRs().read(str(ours.path)).num_rows == 30


def test_equal_rows_with_maps_are_one(spark, tmp_path):
    columns = (
        Column(name="n", type="int"),
        Column(name="m", type="map<string,array<int>>"),
        Column(name="s", type="struct<a:int,m:map<string,int>>"),
    )
    table = parquetry.create(tmp_path / "t", TableSpec(name="t", columns=columns, record_key=()))
    rows = (
        "(1, map('a', array(1), 'b', null), named_struct('a', 1, 'm', map('x', 1)))",
        "(1, map('b', null, 'a', array(1)), named_struct('a', 1, 'm', map('x', 1)))",
        "(1, map('a', array(1, 2)), named_struct('a', 1, 'm', map('x', 1)))",
        "(1, map('a', array(1, 2)), named_struct('a', 1, 'm', map('x', 2)))",
        "(2, null, null)",
        "(2, null, named_struct('a', null, 'm', null))",
        "(2, null, null)",
        "(2, map(), null)",
    )
    frame = spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS (n, m, s)")
    assert table.insert(frame, drop_duplicates=True).inserted_rows == 6
    assert table.read(spark).where("n = 2").count() == 3


def test_nothing_to_write_is_no_commit(table):
    handle = open_table(open_store(str(table.path)))
    before = handle.timeline().instants
    empty = table.frame([])
    from parquetry.runtime.spark.write import write

    for operation in (Operation.UPSERT, Operation.INSERT, Operation.DELETE, Operation.INSERT_OVERWRITE):
        assert write(table.spark, handle, empty, WriteRequest(operation=operation)).instant is None
    unknown = table.frame(table.rows(random.Random(1), [1], 1))
    assert write(table.spark, handle, unknown, WriteRequest(operation=Operation.DELETE)).instant is None
    assert handle.timeline().instants == before


def test_small_files_are_filled_by_exact_quota(spark, tmp_path, judges):
    sizing = SizingPolicy(
        max_file_size_bytes=maximum_for(12_000),
        small_file_limit_bytes=10_000,
        record_size_bytes=100,
        insert_split_size=None,
    )
    spec = replace(SPEC, partition_by=(), sizing=sizing)
    ours = create(spark, tmp_path / "table", typed=PLAIN, spec=spec, project="tests")
    rnd = random.Random(14)
    ours.insert(ours.rows(rnd, range(10), 1))
    handle = open_table(open_store(str(ours.path)))
    (small,) = handle.view(handle.timeline()).slices("")
    room = (12_000 - small.size_bytes) // 100

    instant = ours.insert(ours.rows(rnd, range(10, 10 + room + 250), 1))

    stats = {s.file_id: s for s in handle.timeline().commit_metadata(instant).all_stats()}
    assert stats.pop(small.file_id).num_inserts == room
    assert sorted(s.num_inserts for s in stats.values()) == [10, 120, 120]
    assert_history(judges, str(ours.path), ours.model)


def test_personal_keys_stay_out_of_the_timeline(spark, tmp_path):
    columns = (Column(name="id", type="string", nullable=False, pii=True), Column(name="n", type="bigint"))
    table = parquetry.create(str(tmp_path / "t"), TableSpec(name="t", columns=columns, record_key=("id",)))
    table.upsert(pa.table({"id": ["ada@example.org", "bob@example.org"], "n": [1, 2]}))
    table.upsert(pa.table({"id": ["bob@example.org", "eve@example.org"], "n": [3, 4]}))
    table.delete(pa.table({"id": ["bob@example.org"]}))
    # Statistics of files go with the files.
    timeline = [path for path in (tmp_path / "t/.hoodie").rglob("*") if path.suffix != ".statistics"]
    told = [path for path in timeline if path.is_file() and b"example.org" in path.read_bytes()]
    assert told == []


def test_keys_of_several_fields_that_read_in_two_ways_are_refused(spark, tmp_path):
    columns = [Column(name=name, type="string") for name in ("a", "b", "c")]
    table = parquetry.create(
        str(tmp_path / "t"), TableSpec(name="t", columns=tuple(columns), record_key=("a", "b"))
    )
    table.upsert(pa.table({"a": ["x,b", "x", None], "b": ["y", "y:b,z", "z"], "c": ["1", "2", "3"]}))
    two_ways = pa.table({"a": ["x", "x,b:y"], "b": ["y,b:z", "z"], "c": ["1", "2"]})
    for write in (table.upsert, table.insert, table.delete):
        with pytest.raises(InvalidDataError, match=r"ambiguous \(one of .* ',b:'\) in 2 of 2 rows"):
            write(two_ways)
    with pytest.raises(InvalidDataError, match=r"column 'a' is __null__ or __empty__ \(reserved"):
        table.upsert(pa.table({"a": ["__null__"], "b": ["z"], "c": ["4"]}))
    assert sorted(row["c"] for row in HudiRs().read(str(tmp_path / "t")).to_pylist()) == ["1", "2", "3"]


def test_rows_that_share_the_partition_of_null_are_not_overwritten_or_deleted_with_it(spark, tmp_path):
    path = str(tmp_path / "t")
    columns = (Column(name="id", type="bigint", nullable=False), Column(name="city", type="string"))
    spec = TableSpec(name="t", columns=columns, record_key=("id",), partition_by=("city",))
    table = parquetry.create(path, spec)
    table.upsert(pa.table({"id": [1, 2, 3, 4], "city": ["", None, "__HIVE_DEFAULT_PARTITION__", "Oslo"]}))
    null = pa.table({"id": [5], "city": pa.array([None], pa.string())})
    with pytest.raises(InvalidDataError, match="has 2 rows whose city is an empty text or __HIVE_DEFAULT"):
        table.insert_overwrite(null)
    with pytest.raises(InvalidDataError, match="has 2 rows whose city is an empty text or __HIVE_DEFAULT"):
        table.delete_partition([{"city": None}])
    for shared in ("", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(InvalidDataError, match="has no partition of its own"):
            table.delete_partition([{"city": shared}])
        with pytest.raises(InvalidDataError, match=r"column 'city' is an empty text or .* in 1 of 1 rows"):
            table.insert_overwrite(pa.table({"id": [6], "city": [shared]}))
        table.delete(pa.table({"city": [shared]}), match=["city"])
    table.insert_overwrite(null)
    assert {row["id"] for row in HudiRs().read(path).to_pylist()} == {4, 5}
    table.delete_partition([{"city": None}])
    assert {row["id"] for row in HudiRs().read(path).to_pylist()} == {4}
    table.upsert(pa.table({"id": [1, 2], "city": ["", None]}))
    table.delete_partition(["city=__HIVE_DEFAULT_PARTITION__"])
    assert {row["id"] for row in HudiRs().read(path).to_pylist()} == {4}
    for other in ("x__HIVE_DEFAULT_PARTITION__", "city=__HIVE_DEFAULT_PARTITION__"):
        table.upsert(pa.table({"id": [7], "city": [other]}))
        table.insert_overwrite(pa.table({"id": [8], "city": [other]}))
        assert {row["id"] for row in HudiRs().read(path).to_pylist()} == {4, 8}
        table.delete_partition([{"city": other}])
        assert {row["id"] for row in HudiRs().read(path).to_pylist()} == {4}


@pytest.mark.parametrize("files", ["encrypted", "wide"])
def test_rows_that_share_the_partition_of_null_are_counted_in_all_files(spark, tmp_path, files):
    (tmp_path / "key").write_bytes(base64.b64encode(os.urandom(32)))
    columns = [Column(name=f"c{number}", type="int") for number in range(70 if files == "wide" else 0)]
    columns += [Column(name="id", type="bigint", nullable=False), Column(name="city", type="string")]
    policy = FilesPolicy(encryption_key=f"file:{tmp_path}/key" if files == "encrypted" else None)
    spec = TableSpec(
        name="t", columns=tuple(columns), record_key=("id",), partition_by=("city",), files=policy
    )
    table = parquetry.create(str(tmp_path / "t"), spec)
    rows = {column.name: pa.nulls(3, pa.int32()) for column in columns}
    table.upsert(pa.table(rows | {"id": [1, 2, 3], "city": ["", None, "__HIVE_DEFAULT_PARTITION__"]}))
    with pytest.raises(InvalidDataError, match="has 2 rows whose city is an empty text or __HIVE_DEFAULT"):
        table.delete_partition([{"city": None}])
    table.delete(pa.table({"city": ["", "__HIVE_DEFAULT_PARTITION__"]}), match=["city"])
    assert table.delete_partition([{"city": None}]).instant is not None
