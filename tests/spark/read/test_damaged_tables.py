"""Tables with files that somebody deleted, emptied or cut: what reads and writes say about them."""

from __future__ import annotations

import shutil

import pytest

import parquetry
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spark.read import table as reading
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support import hudi_rs
from tests.support.stores import CountingStore, Kind

pytestmark = pytest.mark.spark

SPEC = TableSpec(
    name="readings",
    columns=(
        Column(name="sensor", type="string", nullable=False),
        Column(name="at", type="bigint"),
        Column(name="site", type="string"),
    ),
    record_key=("sensor",),
    partition_by=("site",),
    ordering="at",
)
DDL = "sensor string, at bigint, site string"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, spark):
    """The folder of a table with a file in one partition and two in another."""
    path = tmp_path_factory.mktemp("whole") / "readings"
    made = parquetry.create(path, SPEC)
    made.insert(rows(spark, 0, 30, "north"))
    made.insert(rows(spark, 30, 60, "south"))
    made.bulk_insert(rows(spark, 60, 90, "south"))
    return path


@pytest.fixture
def table(tmp_path, whole):
    """A copy of it for one test."""
    shutil.copytree(whole, tmp_path / "readings")
    return parquetry.open(tmp_path / "readings")


def rows(spark, first, last, site, *, at=1):
    return spark.createDataFrame([(f"s{n:03}", at, site) for n in range(first, last)], DDL)


def files(tmp_path, site):
    handle = open_table(open_store(tmp_path / "readings"))
    return [
        tmp_path / "readings" / part.path for part in handle.view(handle.timeline()).slices(f"site={site}")
    ]


def empty(file):
    file.write_bytes(b"")


def cut(file):
    file.write_bytes(file.read_bytes()[:-200])


def lengthen(file):
    file.write_bytes(file.read_bytes() + b"PAR1")


READS = {
    "all": {},
    "where": {"where": "sensor < 's500' AND site = 'south'"},
    "a column in the files": {"where": "at > 0"},
    "since": {"since": "0"},
}


@pytest.mark.parametrize("damage", [empty, cut, lengthen])
def test_a_damaged_file_is_an_error_of_every_read(tmp_path, spark, table, damage):
    newest = table.timeline().instants[-1].time
    (_, victim) = sorted(files(tmp_path, "south"))
    damage(victim)
    for options in (*READS.values(), {"as_of": newest}):
        with pytest.raises(CorruptTableError, match=victim.name) as caught:
            table.read(spark, **options).count()
        assert "Table.accept_loss()" in str(caught.value)
    assert table.read(spark, where="site = 'north'").count() == 30


def test_a_lost_file_is_an_error_where_a_read_looks_at_its_commit(tmp_path, spark, table):
    """Here that of the newest write; what other commits wrote, writes and doctor look at."""
    (_, lost) = sorted(files(tmp_path, "south"), key=lambda file: file.name.rpartition("_")[2])
    lost.unlink()
    with pytest.raises(CorruptTableError, match=f"{lost.name}, a file of .*, is missing"):
        table.read(spark)
    assert table.read(spark, where="site = 'north'").count() == 30


def test_an_older_version_is_not_read_for_a_lost_one(tmp_path, spark, table):
    table.upsert(rows(spark, 0, 1, "north", at=2))
    (lost,) = files(tmp_path, "north")
    lost.unlink()
    with pytest.raises(CorruptTableError, match=r"reads use its older version of"):
        table.read(spark)


def test_a_file_that_is_cut_after_the_listing_is_an_error_too(tmp_path, spark, table, monkeypatch):
    victim = files(tmp_path, "south")[0]
    scan_files = reading.scan_files

    def meanwhile(*given, **options):
        empty(victim)
        return scan_files(*given, **options)

    monkeypatch.setattr(reading, "scan_files", meanwhile)
    with pytest.raises(CorruptTableError, match=f"{victim.name} has 0 bytes instead of"):
        table.read(spark)


def test_a_read_asks_for_no_more_than_before(tmp_path, spark, table):
    """The properties, the record, the identity; the timeline twice; partitions; one commit for each file."""
    log = CountingStore(open_store(tmp_path / "readings"), tmp_path / "log")
    assert reading.read_table(spark, open_table(log)).count() == 90
    calls = [kind for kind, _ in log.calls()]
    commits = [path for kind, path in log.calls() if kind is Kind.READ and path.endswith(".commit")]
    assert len(commits) == len(set(commits)) == 3
    assert calls.count(Kind.LIST) == 5


WRITES = {
    "upsert": lambda table, spark: table.upsert(rows(spark, 30, 35, "south", at=2)),
    "insert": lambda table, spark: table.insert(rows(spark, 90, 95, "south")),
    "bulk_insert": lambda table, spark: table.bulk_insert(rows(spark, 90, 95, "south")),
    "delete": lambda table, spark: table.delete(rows(spark, 30, 31, "south")),
    "delete anywhere": lambda table, spark: table.delete(rows(spark, 0, 1, "north").select("sensor")),
    "delete by a column": lambda table, spark: table.delete(rows(spark, 0, 1, "north"), match=["at"]),
    "cluster": lambda table, spark: table.cluster(spark),
}


@pytest.mark.parametrize("damage", [empty, lambda file: file.unlink()], ids=["emptied", "gone"])
def test_no_write_builds_on_a_damaged_partition(tmp_path, spark, table, damage):
    (victim, _) = sorted(files(tmp_path, "south"), key=lambda file: file.name.rpartition("_")[2])
    whole = victim.read_bytes()
    damage(victim)
    before = table.timeline().instants[-1].time
    for write in WRITES.values():
        with pytest.raises(CorruptTableError, match=victim.name):
            write(table, spark)
    assert table.timeline().instants[-1].time == before
    table.upsert(rows(spark, 0, 5, "north", at=2))
    victim.write_bytes(whole)
    table.upsert(rows(spark, 30, 35, "south", at=2))
    assert table.read(spark).count() == 90


def test_an_older_version_is_not_built_on(tmp_path, spark, table):
    table.upsert(rows(spark, 0, 1, "north", at=2))
    table.insert(rows(spark, 90, 91, "east"))
    (lost,) = files(tmp_path, "north")
    lost.unlink()
    for write in (table.upsert, table.insert, table.delete):
        with pytest.raises(CorruptTableError, match=r"reads use its older version of"):
            write(rows(spark, 5, 6, "north", at=3))


def test_overwrites_go_on_and_what_they_overwrote_does_not_come_back(tmp_path, spark, table):
    (victim, _) = sorted(files(tmp_path, "south"))
    whole = victim.read_bytes()
    victim.unlink()
    table.insert_overwrite(rows(spark, 30, 40, "south", at=5))
    victim.write_bytes(whole)
    assert table.read(spark, where="site = 'south'").count() == 10
    (victim,) = files(tmp_path, "north")
    whole = victim.read_bytes()
    victim.unlink()
    table.insert_overwrite_table(rows(spark, 30, 40, "south", at=6))
    victim.parent.mkdir(exist_ok=True)
    victim.write_bytes(whole)
    assert table.read(spark).count() == 10


def test_an_accepted_loss_lets_reads_and_writes_go_on(tmp_path, spark, table):
    for victim in files(tmp_path, "south"):
        empty(victim)
    with pytest.raises(CorruptTableError):
        table.read(spark)
    assert table.accept_loss().groups_replaced == 2
    assert table.read(spark).count() == 30
    table.upsert(rows(spark, 30, 60, "south", at=2))
    assert table.read(spark).count() == 60
    assert hudi_rs.read(str(tmp_path / "readings")).num_rows == 60
