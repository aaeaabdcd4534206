"""Places where real Hudi loses rows or changes values without a word, and what we do about each."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import parse_properties
from parquetry.runtime.timeline.instant import Timezone, format_instant
from tests.interop.versions import MOSTLY_0_15_0, MOSTLY_1_2_0
from tests.support import our_table
from tests.support.hudi_spark import HudiError, newest_write
from tests.support.judges import HudiRs, RealHudi, assert_history, assert_latest
from tests.support.soundness import unsound
from tests.support.view_reader import ViewReader

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FEW = ("c_int", "c_string", "c_price")


def properties(ours):
    return parse_properties((ours.path / ".hoodie" / "hoodie.properties").read_bytes())


def followed(hudi, ours, rows, **settings):
    instant = hudi.write(ours.hudi(), ours.arrow(rows), **settings)
    ours.model.upsert(instant, rows, compares_ordering=hudi.compares_ordering)


@pytest.fixture
def ours(spark, tmp_path):
    """A small table with two commits of ours."""
    rnd = random.Random(60)
    table = our_table.create(spark, tmp_path / "ours", typed=FEW)
    table.upsert(table.rows(rnd, range(20), 1))
    table.upsert(table.rows(rnd, range(10, 30), 2))
    return table


def test_an_instant_in_the_future_is_refused(ours, hudi_15):
    """Hudi makes instants from its clock alone: its commits would vanish behind the newer slices."""
    rnd = random.Random(61)
    future = format_instant(open_store(str(ours.path)).now_ms() + 3_600_000, Timezone.UTC)
    timeline = ours.path / ".hoodie"
    newest = ours.model.instants()[-1]
    for state in ("commit.requested", "inflight", "commit"):
        shutil.copy(timeline / f"{newest}.{state}", timeline / f"{future}.{state}")
    with pytest.raises(UnsupportedTableError, match=rf"{future} is 3[56]\d\d s ahead of the clock"):
        ours.upsert(ours.rows(rnd, range(3), 3))
    for state in ("commit.requested", "inflight", "commit"):
        (timeline / f"{future}.{state}").unlink()
    ours.upsert(ours.rows(rnd, range(3), 3))
    followed(hudi_15, ours, ours.rows(rnd, range(3), 4))
    assert_latest([HudiRs(), RealHudi(hudi_15)], str(ours.path), ours.model)


def test_instants_of_ours_are_never_ahead_of_the_clock(ours):
    now = format_instant(open_store(str(ours.path)).now_ms(), Timezone.UTC)
    assert max(ours.model.instants()) <= now


@MOSTLY_1_2_0
def test_a_metadata_table_is_refused_until_hudi_removed_it(ours, hudi):
    """Readers that trust it would miss our rows."""
    rnd = random.Random(62)
    followed(hudi, ours, ours.rows(rnd, range(5), 3), options={"hoodie.metadata.enable": "true"})
    with pytest.raises(
        UnsupportedTableError, match=r"hoodie\.table\.metadata\.partitions=.*hoodie\.metadata\.enable=false"
    ):
        ours.upsert(ours.rows(rnd, range(5), 4))
    followed(hudi, ours, ours.rows(rnd, range(8), 4))
    ours.upsert(ours.rows(rnd, range(5), 5))
    assert_latest([HudiRs(), RealHudi(hudi, metadata_table=None)], str(ours.path), ours.model)


def test_hudi_15_drops_the_time_zone_when_it_registers_a_table(ours, hudi_15, monkeypatch):
    """CREATE TABLE ... LOCATION rewrites hoodie.properties without it: the instants would become local ones."""
    rnd = random.Random(63)
    hudi_15.sql(f"create table dropped_zone using hudi location '{ours.path}'")
    assert "hoodie.table.timeline.timezone" not in properties(ours)
    ours.upsert(ours.rows(rnd, range(5), 3))
    assert properties(ours)["hoodie.table.timeline.timezone"] == "UTC"
    followed(hudi_15, ours, ours.rows(rnd, range(8), 4))
    assert_latest([HudiRs(), RealHudi(hudi_15)], str(ours.path), ours.model)


@MOSTLY_0_15_0
def test_files_of_a_dead_first_write_are_never_seen(spark, tmp_path, hudi):
    """Java trusts files older than the first completed write; creation commits before any of ours."""
    rnd = random.Random(64)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW)
    handle = open_table(open_store(str(ours.path)))
    ours.upsert(ours.rows(rnd, range(20), 1))
    first = ours.model.instants()[-1]
    for state in ("commit", "inflight"):
        (ours.path / ".hoodie" / f"{first}.{state}").unlink()
    (ours.path / ".hoodie" / f"{first}.inflight").touch()
    (ours.path / ".hoodie" / ".heartbeat").mkdir(exist_ok=True)
    (ours.path / ".hoodie" / ".heartbeat" / first).touch()
    for file in ours.path.rglob("*.parquet"):
        place = file.relative_to(ours.path)
        if place.parts[0] != ".hoodie":
            marker = ours.path / ".hoodie" / ".temp" / first / f"{place}.marker.CREATE"
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
    ours.model.restore(handle.timeline().completed_writes[0].time)
    assert_latest([HudiRs(), RealHudi(hudi), ViewReader()], str(ours.path), ours.model)
    followed(hudi, ours, ours.rows(rnd, range(5), 2))
    assert_latest([HudiRs(), RealHudi(hudi), ViewReader()], str(ours.path), ours.model)
    assert not [file for file in ours.path.rglob(f"*{first}*.parquet") if ".hoodie" not in file.parts]


@MOSTLY_1_2_0
def test_decimals_and_times_survive_merges_by_hudi(spark, tmp_path, hudi):
    """INT64 decimals, INT96 and milliseconds read right and are corrupted by Hudi's first merge."""
    rnd = random.Random(65)
    typed = ("c_price", "c_amount", "c_huge", "c_timestamp", "c_date", "c_structs")
    ours = our_table.create(spark, tmp_path / "ours", typed=typed)
    first = ours.rows(rnd, range(40), 1)
    schema = pa.schema([replace_unit(field) for field in ours.schema])
    millis = [
        {**row, "c_timestamp": row["c_timestamp"] and row["c_timestamp"].replace(microsecond=5000)}
        for row in first
    ]
    spill = tmp_path / "millis.parquet"
    pq.write_table(
        pa.Table.from_pylist(millis, schema=schema), spill, store_decimal_as_integer=True, store_schema=False
    )
    assert {"INT32", "INT64"} & {pq.ParquetFile(spill).schema.column(i).physical_type for i in range(6)}
    ours.model.upsert(our_table.committed(ours.table.upsert(spark.read.parquet(str(spill)))), millis)
    assert unsound(ours.path) == []
    followed(hudi, ours, ours.rows(rnd, range(0, 40, 7), 2))
    assert_latest([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)


def replace_unit(field):
    return field.with_type(pa.timestamp("ms", tz="UTC")) if field.name == "c_timestamp" else field


@MOSTLY_1_2_0
def test_null_in_arrays_needs_a_setting_in_the_hudi_job(spark, tmp_path, hudi):
    rnd = random.Random(66)
    ours = our_table.create(spark, tmp_path / "ours", typed=("c_words",))
    rows = ours.rows(rnd, range(8), 1, c_words=["a", None, "b"])
    ours.upsert(rows)
    assert_latest([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)
    more = ours.rows(rnd, [0, 9], 2, c_words=[None])
    with pytest.raises(HudiError):
        hudi.write(ours.hudi(), ours.arrow(more))
    hudi.hadoop("parquet.avro.write-old-list-structure", "false")
    try:
        followed(hudi, ours, more)
    finally:
        hudi.hadoop("parquet.avro.write-old-list-structure", None)
    ours.upsert(ours.rows(rnd, [1], 3, c_words=[None, "c"]))
    assert_latest([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)


@MOSTLY_0_15_0
def test_every_partition_is_found_by_hudi(ours, hudi):
    """A partition without its metadata file is skipped silently."""
    rnd = random.Random(67)
    ours.upsert(ours.rows(rnd, range(3), 3, region="brand new"))
    ours.insert(ours.rows(rnd, range(50, 53), 3, region="newer"))
    ours.bulk_insert(ours.rows(rnd, range(60, 63), 3, region="newest"))
    ours.insert_overwrite(ours.rows(rnd, range(70, 73), 3, region="overwritten"))
    assert unsound(ours.path) == []
    assert_latest([RealHudi(hudi)], str(ours.path), ours.model)


@MOSTLY_0_15_0
def test_checksum_files_of_hadoop_never_go_stale(ours, hudi):
    """Hadoop refuses a file whose `.crc` sibling tells of other bytes."""
    rnd = random.Random(68)
    followed(hudi, ours, ours.rows(rnd, range(10), 3))
    assert list(ours.path.rglob(".*.crc"))
    for version in range(4, 7):
        ours.upsert(ours.rows(rnd, range(10), version))
    ours.clean(RetentionPolicy(keep_commits=1))
    ours.archive(RetentionPolicy(keep_commits=1, archive_keep_commits=3))
    assert unsound(ours.path, since=ours.model.instants()[3]) == []
    followed(hudi, ours, ours.rows(rnd, range(10), 8))
    assert_latest([HudiRs(), RealHudi(hudi)], str(ours.path), ours.model)


@MOSTLY_1_2_0
def test_archiving_never_brings_replaced_or_dead_files_back(spark, tmp_path, hudi, judges):
    """Readers trust what is older than the timeline: replaced files must be gone before it moves on."""
    rnd = random.Random(69)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW)
    soon = RetentionPolicy(keep_commits=2, archive_keep_commits=4)
    ours.upsert(ours.rows(rnd, range(12), 1))
    ours.insert_overwrite(ours.rows(rnd, range(0, 12, 4), 2))
    for version in range(3, 6):
        ours.upsert(ours.rows(rnd, range(version), version))
    ours.archive(RetentionPolicy(keep_commits=1, archive_keep_commits=2))
    assert_latest(judges, str(ours.path), ours.model)
    assert ours.model.instants()[2] in {
        i.time for i in open_table(open_store(str(ours.path))).timeline().completed_writes
    }
    for version in range(6, 9):
        ours.upsert(ours.rows(rnd, range(version), version))
        ours.clean(soon)
        ours.archive(soon)
    assert ours.model.instants()[2] not in {
        i.time for i in open_table(open_store(str(ours.path))).timeline().completed_writes
    }
    assert_latest(judges, str(ours.path), ours.model)
    followed(hudi, ours, ours.rows(rnd, range(4), 9))
    assert_latest(judges, str(ours.path), ours.model)


def test_the_rows_since_an_archived_instant_are_whole_or_refused(ours, hudi_15):
    """Real Hudi silently returns a part of them."""
    rnd = random.Random(70)
    begin = ours.model.instants()[1]
    for version in range(3, 8):
        ours.upsert(ours.rows(rnd, range(version, version + 3), version))
    soon = RetentionPolicy(keep_commits=1, archive_keep_commits=2)
    ours.clean(soon)
    assert begin in ours.archive(soon)
    found = ours.read(since=begin)
    assert found == ours.model.between(begin)


def test_settings_that_keep_hudi_from_upgrading(ours, hudi_12):
    """Either of the two is enough; so is what the documentation says to set."""
    rnd = random.Random(71)
    for version, settings in enumerate(
        [{"hoodie.write.table.version": "6"}, {"hoodie.write.auto.upgrade": "false"}, hudi_12.guards()],
        start=3,
    ):
        rows = ours.rows(rnd, range(4), version)
        wanted = {"hoodie.metadata.enable": "false", **settings}
        instant = hudi_12.write(ours.hudi(), ours.arrow(rows), guarded=False, options=wanted)
        ours.model.upsert(instant, rows)
        assert properties(ours)["hoodie.table.version"] == "6"
        ours.upsert(ours.rows(rnd, range(2, 6), version))
    assert_history([HudiRs(), RealHudi(hudi_12)], str(ours.path), ours.model)


@MOSTLY_0_15_0
def test_hudi_leaves_our_private_folder_and_properties_alone(ours, hudi):
    rnd = random.Random(72)
    before = (ours.path / ".hoodie" / "hoodie.properties").read_bytes()
    private = {
        file: file.read_bytes()
        for file in (ours.path / ".hoodie" / ".parquetry").rglob("*")
        if file.is_file()
    }
    assert private
    followed(hudi, ours, ours.rows(rnd, range(10), 3))
    hudi.call("run_clustering", str(ours.path))
    ours.model.unchanged(newest_write(str(ours.path)))
    hudi.call("run_clean", str(ours.path), retain_commits=1)
    assert (ours.path / ".hoodie" / "hoodie.properties").read_bytes() == before
    assert all(Path(file).read_bytes() == content for file, content in private.items())
