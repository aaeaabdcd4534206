"""On a cluster tasks fetch ranges of the stage: as many as the stage has pieces, and no more."""

from __future__ import annotations

import pytest

from parquetry.runtime.spec.table_spec import Column, Operation, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import create_table
from tests.support.s3_server import BUCKET
from tests.support.small_table import make_table, view_rows
from tests.support.spark_writes import SparkWrite
from tests.support.stores import CountingStore, Kind

pytestmark = pytest.mark.spark

PARTITIONS = "abc"


def fetched(store: CountingStore) -> list[str]:
    """The files of the stage that ranges were fetched of."""
    return [path for kind, path in store.calls() if kind is Kind.READ_RANGE]


def test_rows_are_fetched_by_ranges_of_the_stage(spark, tmp_path):
    make_table(tmp_path / "t")
    store = CountingStore(open_store(tmp_path / "t"), tmp_path / "log")
    rows = {f"k{n:03}": (n, PARTITIONS[n % 3]) for n in range(300)}
    insert = SparkWrite(operation=Operation.INSERT, rows=rows, on_cluster=True)
    inserted = insert.perform(spark, store)

    assert view_rows(tmp_path / "t") == rows
    tasks = len(set(fetched(store)))
    assert len(fetched(store)) <= tasks * len(PARTITIONS) + inserted.files_added
    assert all(".parquetry/stage/" in path and path.endswith(".rows") for path in fetched(store))

    store.reset()
    changed = {f"k{n:03}": (-n, PARTITIONS[n % 3]) for n in range(0, 300, 7)}
    upserted = SparkWrite(operation=Operation.UPSERT, rows=changed, on_cluster=True).perform(spark, store)
    assert view_rows(tmp_path / "t") == rows | changed
    tasks = len(set(fetched(store)))
    assert len(fetched(store)) <= tasks * upserted.files_rewritten

    store.reset()
    SparkWrite(operation=Operation.DELETE, rows=changed, on_cluster=True).perform(spark, store)
    assert view_rows(tmp_path / "t") == {key: row for key, row in rows.items() if key not in changed}
    assert fetched(store) == [], "of rows to delete nothing but keys is staged"
    assert store.inner.list(".hoodie/.parquetry/stage", recursive=True) == []


def test_small_batches_need_no_file_system_of_hadoops(spark, tmp_path, s3_options):
    """Neither does a plain insert: tasks read and write S3 themselves."""
    store = CountingStore(open_store(f"s3://{BUCKET}/{tmp_path.name}/ranges", s3_options), tmp_path / "log")
    columns = {"id": "string", "v": "bigint", "p": "string"}
    spec = TableSpec(
        name="t",
        columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()),
        record_key=("id",),
        partition_by=("p",),
    )
    create_table(store, spec, project="tests")
    write_applied(store, spec, number=1)
    rows = {f"k{n:03}": (n, PARTITIONS[n % 3]) for n in range(30)}
    gone = {f"k{n:03}": rows[f"k{n:03}"] for n in range(0, 30, 7)}

    inserted = SparkWrite(operation=Operation.INSERT, rows=rows, on_cluster=True).perform(spark, store)
    assert (inserted.inserted_rows, inserted.files_added) == (30, 3)
    tasks = len(set(fetched(store)))
    assert len(fetched(store)) <= tasks * len(PARTITIONS) + inserted.files_added
    updated = SparkWrite(operation=Operation.UPSERT, rows=gone, on_cluster=True).perform(spark, store)
    assert updated.updated_rows == len(gone)
    deleted = SparkWrite(operation=Operation.DELETE, rows=gone, on_cluster=True).perform(spark, store)
    assert deleted.deleted_rows == len(gone)
    assert store.list(".hoodie/.parquetry/stage", recursive=True) == []
