"""How many bytes row groups take, beside what the same rows take as other programs write them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.base_file import encoding
from parquetry.runtime.base_file.encoding import HIGH_ZSTD_LEVEL, RowGroupEncoder
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS
from parquetry.runtime.spec.table_spec import FilesPolicy, TextEncodings
from tests.support.base_files import page_starts

ROWS, EVENTS = 100_000, 20
PARQUET_MR_ZSTD_LEVEL = 3
"""parquet.compression.codec.zstd.level, which Hudi leaves as it is."""


def sessions_in_random_order():
    """Events session by session, as a sort by a random id leaves them: those of a session are minutes apart."""
    random = np.random.default_rng(5)
    started = np.repeat(random.integers(0, 30 * 86_400, ROWS // EVENTS), EVENTS)
    times = ((started + random.exponential(300, ROWS)) * 1_000_000).astype("int64")
    arrived = np.empty(ROWS, "int64")
    arrived[np.argsort(times)] = np.arange(ROWS)
    return pa.table(
        {
            "_hoodie_commit_seqno": pa.array([f"20261122010824309_0_{number}" for number in arrived]),
            "_hoodie_record_key": pa.array([f"e-{number}" for number in arrived]),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "duration": pa.array(random.exponential(20_000, ROWS).astype("int32")),
            "page": pa.array([f"/shop/item-{number:05d}" for number in random.integers(0, 5_000, ROWS)]),
        }
    )


def written_by_pyarrow(rows, **options):
    target = pa.BufferOutputStream()
    pq.write_table(rows, target, use_dictionary=["page"], row_group_size=ROWS, **options)
    group = pq.read_metadata(pa.BufferReader(target.getvalue())).row_group(0)
    return sum(group.column(number).total_compressed_size for number in range(group.num_columns))


def test_zstd_takes_about_the_bytes_that_hudi_makes_of_the_same_rows():
    rows = sessions_in_random_order()
    ours = RowGroupEncoder(FilesPolicy(compression="zstd")).encode(rows).parts.stored_bytes(0)
    theirs = written_by_pyarrow(rows, compression="zstd", compression_level=PARQUET_MR_ZSTD_LEVEL)
    lowest = written_by_pyarrow(rows, compression="zstd", compression_level=1)
    assert ours <= 1.1 * theirs < lowest


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4", "uncompressed"])
def test_other_codecs_have_no_level(codec):
    rows = sessions_in_random_order().slice(0, 1_000)
    assert RowGroupEncoder(FilesPolicy(compression=codec)).encode(rows).parts.stored_bytes(0)


@pytest.mark.parametrize("pyarrow_knows_rows", [True, False])
def test_pages_of_ordered_rows_have_as_many_rows_in_every_column(pyarrow_knows_rows, monkeypatch):
    rows = sessions_in_random_order().slice(0, 20_000)
    if not pyarrow_knows_rows:
        monkeypatch.setattr(pq, "write_table", lambda table, where, *, data_page_size=None: None)
    encoded = RowGroupEncoder(FilesPolicy(), is_ordered=True).encode(rows)
    for chunk in encoded.parts.chunks(0):
        assert page_starts(chunk) == list(range(0, 20_000, ORDERED_PAGE_ROWS))


def test_a_page_size_in_bytes_is_kept_for_ordered_rows():
    rows = sessions_in_random_order().slice(0, 20_000)
    policy = FilesPolicy(page_size_bytes=64 * 1024, compression="snappy")
    plain = RowGroupEncoder(policy).encode(rows)
    ordered = RowGroupEncoder(policy, is_ordered=True).encode(rows)
    assert ordered.parts.content.read_at(ordered.parts.size_bytes, 0) == plain.parts.content.read_at(
        plain.parts.size_bytes, 0
    )


def deltas_of(rows: pa.Table, **policy) -> dict[str, set[str]]:
    """The delta encodings of each parquet column of a row group of these rows."""
    encoder = RowGroupEncoder(FilesPolicy(**policy))
    content = encoder.encode(rows).parts.content
    group = pq.ParquetFile(content).metadata.row_group(0)
    chunks = map(group.column, range(group.num_columns))
    return {c.path_in_schema: {e for e in c.encodings if e.startswith("DELTA")} for c in chunks}


def texts() -> pa.Table:
    """Keys in order, bytes of any length, words of few values, and numbers."""
    rng = np.random.default_rng(3)
    count = 20_000
    return pa.table(
        {
            "key": [f"order:{number:09}" for number in range(count)],
            "short": [rng.bytes(rng.integers(0, 30)) for _ in range(count)],
            "few": [f"word {number % 7}" for number in range(count)],
            "within": pa.array([{"key": f"{number:012}"} for number in range(count)]),
            "number": pa.array(range(count)),
        }
    )


@pytest.mark.parametrize("codec", ["zstd", "snappy", "uncompressed"])
def test_texts_get_delta_encodings_where_these_are_smaller(codec):
    rows = texts()
    assert deltas_of(rows, compression=codec, text_encodings=TextEncodings.DELTA) == {
        "key": {"DELTA_BYTE_ARRAY"},
        "short": {"DELTA_LENGTH_BYTE_ARRAY"},
        "few": set(),
        "within.key": {"DELTA_BYTE_ARRAY"},
        "number": set(),
    }
    assert not any(deltas_of(rows, compression=codec).values())


def test_delta_encodings_never_make_a_row_group_larger():
    rows = texts()
    plain, delta = (
        RowGroupEncoder(FilesPolicy(text_encodings=encodings)).encode(rows) for encodings in TextEncodings
    )
    assert delta.size_bytes < 0.95 * plain.size_bytes
    assert pq.ParquetFile(delta.parts.content).read().equals(pq.ParquetFile(plain.parts.content).read())


def test_rows_that_are_encoded_again_get_delta_encodings_too():
    encoder = RowGroupEncoder(FilesPolicy(text_encodings=TextEncodings.DELTA))
    again = encoder.encode_again(texts(), ["few"])
    group = pq.ParquetFile(again.parts.content).metadata.row_group(0)
    assert "DELTA_BYTE_ARRAY" in group.column(0).encodings


def keys(rows: int, *, near: bool) -> list[str]:
    """Keys of events, twenty in a row from one session; or random ones."""
    rng = np.random.default_rng(4)
    if not near:
        return [rng.bytes(16).hex() for _ in range(rows)]
    first = rng.integers(10_000_000, 20_000_000, rows // EVENTS)
    later = rng.exponential(2_300, (rows // EVENTS, EVENTS)).astype(int)
    return [f"e-{number}" for number in (first[:, None] + np.sort(later)).ravel()]


def bytes_of(encoder: RowGroupEncoder, rows: pa.Table) -> dict[str, int]:
    return {chunk.name: chunk.size_bytes for chunk in encoder.encode(rows).parts.chunks(0)}


def test_ordered_rows_get_the_high_level_where_it_makes_them_much_smaller(monkeypatch):
    count = 20_000
    rows = pa.table(
        {
            "near": keys(count, near=True),
            "random": keys(count, near=False),
            "few": [f"word {number % 7}" for number in range(count)],
            "within": pa.array([{"key": key} for key in keys(count, near=True)]),
        }
    )
    policy = FilesPolicy(compression="zstd")
    high = RowGroupEncoder(policy, is_ordered=True)
    sizes = bytes_of(high, rows)
    monkeypatch.setattr(encoding, "HIGH_LEVEL_SHARE", 0)
    usual = RowGroupEncoder(policy, is_ordered=True)
    usual_sizes = bytes_of(usual, rows)
    smaller = {name for name, size in sizes.items() if size != usual_sizes[name]}
    assert smaller == {"near", "within.key"}
    assert all(sizes[name] <= 0.85 * usual_sizes[name] for name in smaller)
    content = high.encode(rows).parts.content
    assert pq.ParquetFile(content).read().equals(rows)


@pytest.mark.parametrize(
    ("compression", "is_ordered"), [("zstd", False), ("gzip", True), ("snappy", True), ("uncompressed", True)]
)
def test_other_rows_and_codecs_have_no_high_level(compression, is_ordered):
    rows = pa.table({"near": keys(5_000, near=True)})
    encoder = RowGroupEncoder(FilesPolicy(compression=compression), is_ordered=is_ordered)
    encoder.encode(rows)
    assert encoder.level_options(rows) == {}


def test_a_larger_row_group_decides_again_about_the_level():
    encoder = RowGroupEncoder(FilesPolicy(compression="zstd"), is_ordered=True)
    near, random = (pa.table({"key": keys(rows, near=rows < 20_000)}) for rows in (15_000, 30_000))
    encoder.encode(near)
    assert encoder.level_options(near) == {"compression_level": {"key": HIGH_ZSTD_LEVEL}}
    encoder.encode(random)
    assert encoder.level_options(random) == {}
