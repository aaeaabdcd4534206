"""How many requests a base file on S3 takes that is searched, read, merged and rewritten."""

from __future__ import annotations

import io
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file import reader as reader_module
from parquetry.runtime.base_file.reader import open_base_file
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.errors import CorruptTableError, NotFoundError, RetryWrite, StorageError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.footer import read_metadata
from parquetry.runtime.spark.lookup.key_match import row_groups_with
from parquetry.runtime.spec.meta_columns import META_COLUMNS, RECORD_KEY
from parquetry.runtime.spec.table_spec import Column, FilesPolicy
from parquetry.runtime.storage.bucket import ObjectPart
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.storage.ranged_input import REQUEST_BYTES, TAIL_BYTES
from parquetry.runtime.table.stored_keys import StoredKeys
from tests.support.base_files import SECOND, bucket, context, merging, slice_of
from tests.support.s3_server import BUCKET

MIB = 1024 * 1024
ROWS = 200_000
COLUMNS = tuple(Column(name=name, type="double") for name in "abcdef")


@pytest.fixture(scope="module")
def store(s3_options):
    return open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}", s3_options)


@pytest.fixture(scope="module")
def written(store):
    """A file of about 9 MiB in row groups of about 1 MiB, in which no value is repeated."""
    ctx = context(store, COLUMNS, files=FilesPolicy(row_group_size_bytes=MIB))
    (file,) = write_bucket(ctx, bucket(ctx), incoming(ctx, np.arange(ROWS), stored=False)).files
    assert 8 * MIB < file.stat.file_size_bytes < 12 * MIB
    assert 7 < file.metadata.num_row_groups < 16
    return file


def incoming(ctx, numbers, *, stored: bool, delete: bool = False):
    random = np.random.default_rng(len(numbers))
    count = len(numbers)
    table = pa.table(
        {
            **{name: random.random(count) for name in ctx.schema.names},
            "_hoodie_record_key": pa.array([f"{n:012}" for n in numbers]),
            "__position": pa.array(numbers if stored else [None] * count, pa.int64()),
            "__delete": pa.array([delete] * count),
            "__hash": pa.array(np.ones(count, np.int64)),
        }
    )
    return table.to_batches(max_chunksize=20_000)


def test_a_footer_is_one_request(store, written, s3_requests):
    assert read_metadata(store, written.stat.path).num_rows == ROWS
    assert s3_requests == {"GET": 1}


def test_keys_of_a_file_are_one_request_after_its_footer(store, written, s3_requests):
    wanted = pa.array([f"{n:012}" for n in range(0, ROWS, 1000)])
    stored_keys = StoredKeys(schema=context(store, COLUMNS).schema)
    found = list(row_groups_with(store, slice_of(written), wanted, stored_keys))
    assert len(found) == written.metadata.num_row_groups
    before = np.cumsum([0, *(len(keys) for _, keys, _ in found)])[:-1]
    assert [first for first, *_ in found] == before.tolist()
    assert s3_requests["HEAD"] == 0
    # The keys of adjacent row groups are less than a megabyte apart.
    assert s3_requests["GET"] <= 1 + -(-written.stat.file_size_bytes // REQUEST_BYTES)


@pytest.mark.parametrize("kind", ["a few updates", "updates everywhere", "deletes"])
def test_a_merge_reads_a_file_once_by_large_requests(store, written, s3_requests, kind):
    ctx = context(
        store, COLUMNS, instant=SECOND, files=FilesPolicy(row_group_size_bytes=MIB), has_markers=True
    )
    numbers = np.array([5, 70_000]) if kind == "a few updates" else np.arange(0, ROWS, 100)
    changes = incoming(ctx, numbers, stored=True, delete=kind == "deletes")
    (file,) = write_bucket(ctx, merging(written), changes).files
    assert file.stat.num_writes == ROWS - (len(numbers) if kind == "deletes" else 0)
    assert s3_requests == {"GET": 1 + -(-written.stat.file_size_bytes // REQUEST_BYTES), "PUT": 1}


def test_a_merge_on_s3_writes_the_bytes_of_a_local_merge(store, written, tmp_path):
    local = context(tmp_path, COLUMNS, instant=SECOND, files=FilesPolicy(row_group_size_bytes=MIB))
    local.store.put(written.stat.path, store.read(written.stat.path))
    found = []
    for ctx in (context(store, COLUMNS, instant=SECOND, files=local.files), local):
        changes = incoming(ctx, np.arange(0, ROWS, 700), stored=True)
        (file,) = write_bucket(ctx, merging(written), changes).files
        found.append(ctx.store.read(file.stat.path))
    assert found[0] == found[1]


def test_clustering_reads_a_small_file_with_its_footer(store, s3_requests):
    """A file of up to 256 KiB is read completely with each of both requests for its footer."""
    ctx = context(store, COLUMNS)
    slices = tuple(
        slice_of(
            write_bucket(
                ctx, bucket(ctx, n, partition="p=2"), incoming(ctx, np.arange(2000) + 2000 * n, stored=False)
            ).files[0]
        )
        for n in range(4)
    )
    assert max(part.size_bytes for part in slices) < TAIL_BYTES
    s3_requests.clear()
    group = GroupWork(index=9, partition="p=2", slices=slices, target_bytes=MIB)
    rewritten = rewrite_group(context(store, COLUMNS, instant=SECOND, has_markers=True), group)
    assert sum(file.stat.num_writes for file in rewritten.files) == 8000
    assert s3_requests == {"GET": 2 * len(slices), "PUT": len(rewritten.files)}


def test_clustering_reads_a_file_by_large_requests(store, written, s3_requests):
    group = GroupWork(index=3, partition="p=1", slices=(slice_of(written),), target_bytes=20 * MIB)
    ctx = context(store, COLUMNS, instant=SECOND, has_markers=True)
    rewritten = rewrite_group(ctx, group)
    assert sum(file.stat.num_writes for file in rewritten.files) == ROWS
    # One request for the footer before the file is opened, and one that opens it.
    assert s3_requests["GET"] == 2 + -(-written.stat.file_size_bytes // REQUEST_BYTES)
    assert s3_requests["HEAD"] == 0


def test_a_large_row_group_is_read_in_bounded_memory_by_requests_of_four_mebibytes(
    store, s3_requests, monkeypatch
):
    monkeypatch.setattr(reader_module, "_LARGE_ROW_GROUP", 24 * MIB)
    keys = [f"{n:012}" for n in range(600_000)]
    meta = {name: keys if name == RECORD_KEY else [""] * len(keys) for name in META_COLUMNS}
    columns = {column.name: np.random.default_rng(7).random(len(keys)) for column in COLUMNS[:5]}
    sink = io.BytesIO()
    pq.write_table(pa.table({**meta, **columns}), sink, row_group_size=len(keys), compression="none")
    store.put("p/large.parquet", sink.getvalue())
    part = FileSlice(
        file_id="l", path="p/large.parquet", partition="p", instant="1", size_bytes=len(sink.getvalue())
    )
    ctx = context(store, COLUMNS[:5])
    s3_requests.clear()
    with open_base_file(store, part, ctx.schema, decoded=frozenset(), batch_bytes=MIB) as reader:
        (group,) = reader.row_groups
        assert sum(batch.num_rows for batch in reader.batches(group)) == len(keys)
    chunk_bytes = [
        chunk.total_compressed_size
        for chunk in map(read_metadata(store, part.path).row_group(0).column, range(10))
    ]
    buffer_bytes = 24 * MIB // 10
    assert 2 * MIB < buffer_bytes < min(chunk_bytes[5:])
    # A buffered column ends with a part of a request, and so does the request that Arrow begins with.
    assert s3_requests["GET"] <= 2 + sum(-(-size // buffer_bytes) + 1 for size in chunk_bytes)


def test_a_file_that_is_removed_while_it_is_read_is_read_anew(store, written):
    path = "p/removed.parquet"
    store.put(path, store.read(written.stat.path))
    part = FileSlice(file_id="f", path=path, partition="p", instant="1", size_bytes=1)
    ctx = context(store, COLUMNS)
    with open_base_file(store, part, ctx.schema, decoded=frozenset(), batch_bytes=MIB) as reader:
        store.delete(path)
        with pytest.raises(RetryWrite, match="was removed by a clean"):
            _ = [rows for group in reader.row_groups for rows in reader.batches(group)]
    with (
        pytest.raises(RetryWrite),
        open_base_file(store, part, ctx.schema, decoded=frozenset(), batch_bytes=MIB),
    ):
        pass
    with pytest.raises(NotFoundError):
        read_metadata(store, path)


def test_a_file_that_is_replaced_while_it_is_read_is_an_outage(store, written):
    path = "p/replaced.parquet"
    content = store.read(written.stat.path)
    store.put(path, content)
    with store.open_input(path) as source:
        store.put(path, content[:-1] + b"x")
        with pytest.raises(StorageError, match="was replaced meanwhile; run again"):
            source.read_at(10, 0)


def test_a_store_that_ignores_ranges_is_refused(store, written, monkeypatch):
    content = store.read(written.stat.path)

    async def whole(key: str, byte_range: str) -> ObjectPart:
        return ObjectPart.answered(content, "tag", None)

    monkeypatch.setattr(store, "_get_part", whole)
    with pytest.raises(StorageError, match="use a store that honours ranges"):
        store.read_range(written.stat.path, 0, 10)
    with store.open_input(written.stat.path) as source:
        assert source.read_at(10, 5) == content[5:15]


@pytest.mark.parametrize("cut", [0, 3, 100_000])
def test_a_cut_file_is_damaged(store, written, cut):
    store.put("p/cut.parquet", store.read(written.stat.path)[:cut])
    with pytest.raises(CorruptTableError, match="is not a whole parquet file"):
        read_metadata(store, "p/cut.parquet")
    part = FileSlice(file_id="f", path="p/cut.parquet", partition="p", instant="1", size_bytes=1)
    with (
        pytest.raises(CorruptTableError, match="is not a whole parquet file"),
        open_base_file(store, part, context(store, COLUMNS).schema, decoded=frozenset(), batch_bytes=MIB),
    ):
        pass
