"""Spark with Delta and Iceberg reads what tables publish, and can neither write to it nor delete its files."""

from __future__ import annotations

import pytest

import parquetry
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.publish.publishing import formats_of, publish
from tests.interop.readers.kinds import KINDS, PUBLISHED
from tests.scenarios.test_published_histories import PublishedHistory
from tests.support import hudi_rs
from tests.support.delta_readers import sorted_rows
from tests.support.hudi_spark import HudiError, spark_of_formats

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.long]

COLUMNS = ("id", "v", "p")
FORMATS = ("delta", "iceberg")


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with spark_of_formats(tmp_path_factory.mktemp("formats")) as session:
        yield session


@pytest.mark.parametrize("seed", range(12))
def test_spark_reads_at_the_end_of_a_history_what_hudi_rs_reads(spark, seed, tmp_path):
    history = PublishedHistory(path=tmp_path / "t", seed=1000 + seed, table_version=9 if seed % 2 else 6)
    history.run(steps=14)
    expected = sorted_rows(hudi_rs.read(str(history.path)), COLUMNS)
    for form in FORMATS:
        assert sorted_rows(spark.read(str(history.path), form=form), COLUMNS) == expected, form


@pytest.fixture(scope="module")
def table(spark):
    """A table with live files, replaced ones and those of a deleted partition, where the session's catalog finds it."""
    made = KINDS["clustered"](spark.folder / "files" / "shop" / "orders", publish=PUBLISHED)
    made.delete_partition("bergen")
    made.insert([{"id": "new", "v": 1, "place": "oslo"}])
    assert [result.files_added for result in publish(made.handle, formats_of(made.handle))] == [0, 0]
    return made


def stored(table):
    """The files of the table, without the checksums that Hadoop writes beside them."""
    return {path for path in table.path.rglob("*") if path.suffix != ".crc"}


FEATURE = "writer table feature.*: parquetry"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("VACUUM delta.`{path}`", FEATURE),
        ("VACUUM delta.`{path}` RETAIN 0 HOURS", FEATURE),
        ("OPTIMIZE delta.`{path}`", FEATURE),
        ("DELETE FROM delta.`{path}` WHERE v = 1", FEATURE),
        ("CALL files.system.expire_snapshots(table => 'shop.orders', retain_last => 1)", "GC is disabled"),
        ("CALL files.system.remove_orphan_files(table => 'shop.orders')", "GC is disabled"),
        ("DROP TABLE files.shop.orders PURGE", "GC is disabled"),
    ],
    ids=["vacuum", "vacuum now", "optimize", "delete", "expire", "orphans", "purge"],
)
def test_spark_changes_and_deletes_no_file_of_a_published_table(spark, table, statement, reason):
    """It refuses some statements only after it has written files, which parquetry names then."""
    before, names = stored(table), table.expected().schema.names
    with pytest.raises(HudiError, match=reason):
        spark.sql(statement.format(path=table.path))
    after = stored(table)
    assert before <= after
    for left in after - before:
        with pytest.raises(CorruptTableError, match="move it out of the table"):
            parquetry.open(str(table.path)).to_arrow()
        left.unlink()
    rows = sorted_rows(table.expected(), names)
    assert sorted_rows(hudi_rs.read(str(table.path)), names) == rows
    for form in FORMATS:
        assert sorted_rows(spark.read(str(table.path), form=form), names) == rows, form
    assert spark.sql("SELECT count(*) AS rows FROM files.shop.orders") == [{"rows": len(rows)}]
