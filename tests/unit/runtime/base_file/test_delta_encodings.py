"""Base files with delta-encoded texts, as writers of Parquet's second version make them, in every way they are read."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.base_file.bucket import BucketWriter
from parquetry.runtime.base_file.reader import open_base_file
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.spec.table_spec import Column
from tests.support.base_files import FIRST, MIB, SECOND, Incoming, bucket, context, read, slice_of, write

COLUMNS = (
    Column(name="n", type="bigint"),
    Column(name="word", type="string"),
    Column(name="place", type="struct<city:string,zip:int>"),
    Column(name="blob", type="binary"),
)
ENCODINGS = ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")
TEXTS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
    "word",
    "place.city",
)
ROWS = 3000


def encode_again(path, encoding: str) -> None:
    """Write a file of ours with all texts in that encoding, and with the same footer keys."""
    rows = pq.read_table(path)
    texts = [name for name in TEXTS if name.split(".")[0] in rows.column_names]
    with pq.ParquetWriter(
        path,
        rows.schema,
        use_dictionary=False,
        column_encoding=dict.fromkeys(texts, encoding),
        compression="zstd",
        write_page_index=True,
        store_schema=False,
    ) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(
            {key.decode(): value.decode() for key, value in (rows.schema.metadata or {}).items()}
        )


@pytest.fixture(params=ENCODINGS)
def delta_files(tmp_path, request):
    """Two files in one encoding, and the context of the next write."""
    files = []
    rng = random.Random(1)
    for number in range(2):
        ctx = context(tmp_path, COLUMNS, instant=FIRST)
        rows = [
            Incoming(
                key=f"k{number}-{row:05}",
                values={
                    "n": -row,
                    "word": f"word {row % 900}",
                    "place": {"city": f"c{row}", "zip": row},
                    "blob": rng.randbytes(60),
                },
            )
            for row in range(ROWS)
        ]
        files += write(ctx, bucket(ctx, number), rows).files
    for file in files:
        encode_again(tmp_path / file.stat.path, request.param)
        chunk = pq.read_metadata(tmp_path / file.stat.path).row_group(0).column(2)
        assert request.param in chunk.encodings
    return context(tmp_path, COLUMNS, instant=SECOND), files


def own(table: pa.Table) -> list[str]:
    names = ["_hoodie_commit_time", "_hoodie_record_key", "n", "word", "place"]
    return sorted(map(repr, table.select(names).to_pylist()))


@pytest.mark.parametrize(
    "order",
    [
        None,
        RowOrder(strategy="sort", columns=("word", "n")),
        RowOrder(strategy="zorder", columns=("n", "word")),
    ],
)
@pytest.mark.parametrize("budget_bytes", [512 * MIB, 200_000])
def test_a_clustering_keeps_their_rows(delta_files, order, budget_bytes):
    ctx, files = delta_files
    group = GroupWork(
        index=0,
        partition="p=1",
        slices=tuple(slice_of(file) for file in files),
        target_bytes=120 * MIB,
        order=order,
    )
    written = rewrite_group(replace(ctx, memory_budget_bytes=budget_bytes), group)
    assert own(read(ctx, written)) == own(read(ctx, files))


@pytest.mark.parametrize("is_delete", [False, True])
def test_a_merge_keeps_the_other_rows(delta_files, is_delete, monkeypatch):
    if is_delete:  # the rest of a row group is then decoded as little as possible
        monkeypatch.setattr(BucketWriter, "append", None)
    ctx, (file, _) = delta_files
    before = read(ctx, [file])
    base = slice_of(file)
    to = replace(bucket(ctx, base=base), file_id=base.file_id)
    change = Incoming(
        key="k0-00007", position=7, values={} if is_delete else {"n": 1, "word": "new"}, delete=is_delete
    )
    after = read(ctx, write(ctx, to, [change]))
    rest = before.filter(pa.array([number != 7 for number in range(ROWS)]))
    kept = after if is_delete else after.filter(pa.array([key != "k0-00007" for key in after[2].to_pylist()]))
    assert own(kept) == own(rest)
    assert after.num_rows == ROWS - is_delete


def test_long_texts_that_are_stored_once_are_read_in_small_batches(tmp_path):
    ctx = context(tmp_path, COLUMNS[:2], instant=FIRST)
    rows = [Incoming(key=f"k{row}", values={"n": row, "word": "w" * 3000}) for row in range(ROWS)]
    (file,) = write(ctx, bucket(ctx), rows).files
    encode_again(tmp_path / file.stat.path, "DELTA_BYTE_ARRAY")
    most = 512 * 1024
    with open_base_file(
        ctx.store, slice_of(file), ctx.schema, decoded=frozenset({"word"}), batch_bytes=most
    ) as reader:
        batches = list(reader.batches(reader.row_groups[0]))
    assert sum(batch.num_rows for batch in batches) == ROWS
    assert max(map(batch_arrow_bytes, batches)) < 2 * most
