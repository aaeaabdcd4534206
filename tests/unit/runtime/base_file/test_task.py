"""What a task does that writes a bucket, without Spark."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from parquetry.runtime.base_file.result import RESULT_DDL, RESULT_SCHEMA, read_results
from parquetry.runtime.base_file.task import run_bucket_task
from parquetry.runtime.errors import (
    ConflictError,
    CorruptTableError,
    InvalidDataError,
    RetryWrite,
    StorageError,
)
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.task_failures import failure_json
from tests.support.base_files import (
    FIRST,
    SECOND,
    Alive,
    Incoming,
    batches,
    bucket,
    context,
    merging,
    read,
    write,
)
from tests.support.stores import ReadOnlyStore

COLUMNS = (Column(name="n", type="bigint"), Column(name="l", type="array<bigint>"))


def cut(incoming: list[Incoming], schema: pa.Schema, batch_rows: int) -> list[pa.RecordBatch]:
    """The rows in batches of so many."""
    return pa.Table.from_batches(batches(incoming, schema)).combine_chunks().to_batches(batch_rows)


def some(count: int, first: int = 0) -> list[Incoming]:
    return [
        Incoming(key=f"k{n}", values={"n": n, "l": [n, n + 1]}, hash=-n) for n in range(first, first + count)
    ]


def rows_of(answer) -> list[dict]:
    return [row for batch in answer for row in batch.to_pylist()]


@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_a_task_writes_a_bucket_however_its_rows_come_in_batches(tmp_path, batch_rows):
    ctx = context(tmp_path, COLUMNS)
    rows = {2: some(7), 5: some(1, first=100), 9: some(12, first=200)}
    answer = [
        batch
        for index, incoming in rows.items()
        for batch in run_bucket_task(
            pickle.loads(pickle.dumps(ctx)),
            bucket(ctx, index, partition=f"p={index}"),
            cut(incoming, ctx.schema, batch_rows),
        )
    ]
    assert all(batch.schema.equals(RESULT_SCHEMA) for batch in answer)
    results = read_results(rows_of(answer))
    assert [(file.bucket, file.stat.partition_path, file.stat.num_writes) for file in results.files] == [
        (2, "p=2", 7),
        (5, "p=5", 1),
        (9, "p=9", 12),
    ]
    for file in results.files:
        incoming = rows[file.bucket]
        found = results.buckets[file.bucket]
        assert (found.consumed_rows, found.late_rows) == (len(incoming), 0)
        assert found.consumed_hash == sum(row.hash for row in incoming) % 2**64
        assert (file.statistics.path, file.statistics.rows) == (file.stat.path, len(incoming))
        assert file.min_key == min(row.key for row in incoming)
        stored = pa.parquet.read_table(tmp_path / file.stat.path, partitioning=None)
        assert stored["l"].to_pylist() == [row.values["l"] for row in incoming]


def test_types_that_spark_sends_become_the_tables(tmp_path):
    ctx = context(
        tmp_path, (Column(name="t", type="timestamp"), Column(name="l", type="array<struct<a:string>>"))
    )
    sent = pa.record_batch(
        {
            "l": pa.array([[{"a": "x"}], None], pa.large_list(pa.struct([("a", pa.large_string())]))),
            "t": pa.array([-1, 5], pa.timestamp("us", tz="America/Los_Angeles")),
            "_hoodie_record_key": pa.array(["a", "b"], pa.large_string()),
            "__position": pa.nulls(2, pa.int64()),
            "__delete": [False, False],
            "__hash": [1, 2],
        }
    )
    results = read_results(rows_of(run_bucket_task(ctx, bucket(ctx), [sent])))
    stored = pa.parquet.read_table(tmp_path / results.files[0].stat.path, partitioning=None)
    assert stored["t"].cast(pa.int64()).to_pylist() == [-1, 5]
    assert stored["l"].to_pylist() == [[{"a": "x"}], None]


def test_a_bucket_that_makes_no_file_is_reported_too(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    rows = [Incoming(key="k", delete=True, hash=7)]
    results = read_results(rows_of(run_bucket_task(ctx, bucket(ctx), cut(rows, ctx.schema, 5))))
    assert (results.files, results.buckets[0].consumed_hash) == ((), 7)


def test_the_result_is_a_schema_of_spark():
    assert RESULT_DDL.startswith("bucket int, file_id string")
    assert RESULT_DDL.count(",") + 1 == len(RESULT_SCHEMA)


def failing(tmp_path, kind: str):
    ctx = context(tmp_path, COLUMNS)
    if kind == "conflict":
        return context(tmp_path, COLUMNS, guard=Alive(0)), bucket(ctx)
    if kind == "cleaned":
        gone = FileSlice(partition="p=1", file_id="x-0", instant=FIRST, path="p=1/gone.parquet", size_bytes=1)
        return ctx, merging(gone)
    if kind == "corrupt":
        (tmp_path / "p=1").mkdir(parents=True)
        (tmp_path / "p=1/bad.parquet").write_bytes(b"not parquet")
        bad = FileSlice(partition="p=1", file_id="x-0", instant=FIRST, path="p=1/bad.parquet", size_bytes=1)
        return ctx, merging(bad)
    required = (
        Column(name="n", type="bigint", nullable=False),
        Column(name="missing", type="int", nullable=False),
    )
    return context(tmp_path, required), bucket(ctx)


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("conflict", ConflictError, "rolled back by another writer"),
        ("cleaned", RetryWrite, "was removed by a clean"),
        ("corrupt", CorruptTableError, "bad.parquet is not a whole parquet file"),
        ("missing column", InvalidDataError, "'missing' is missing"),
    ],
)
def test_failures_travel_as_rows(tmp_path, kind, error, words):
    ctx, to = failing(tmp_path, kind)
    answer = rows_of(run_bucket_task(ctx, to, cut(some(3), context(tmp_path, COLUMNS).schema, 2)))
    with pytest.raises(error, match=words):
        read_results(answer)


def test_the_worst_failure_is_raised():
    rows = [
        {"bucket": 1, "failure": failure_json(RetryWrite("gone"))},
        {"bucket": 2, "failure": failure_json(CorruptTableError("broken"))},
        {"bucket": 0, "failure": failure_json(RetryWrite("gone"))},
    ]
    with pytest.raises(CorruptTableError, match="broken"):
        read_results(rows)


def test_storage_failures_are_left_to_spark(tmp_path):
    ctx = context(ReadOnlyStore(LocalStore(str(tmp_path))), COLUMNS)
    with pytest.raises(StorageError):
        list(run_bucket_task(ctx, bucket(ctx), cut(some(1), ctx.schema, 5)))


def test_a_merge_in_a_task_reads_the_base(tmp_path):
    ctx = context(tmp_path, COLUMNS)
    base = write(ctx, bucket(ctx), some(5)).files[0]
    ctx = context(tmp_path, COLUMNS, instant=SECOND)
    rows = [Incoming(key="k3", position=3, values={"n": -3}), *some(1, first=9)]
    results = read_results(rows_of(run_bucket_task(ctx, merging(base, 4), cut(rows, ctx.schema, 1))))
    (file,) = results.files
    assert (file.stat.prev_commit, file.stat.num_update_writes, file.stat.num_inserts) == (FIRST, 1, 1)
    stored = pa.parquet.read_table(tmp_path / file.stat.path, partitioning=None)
    assert stored["n"].to_pylist() == [0, 1, 2, -3, 4, 9]
    assert read(ctx, [base]).num_rows == 5
