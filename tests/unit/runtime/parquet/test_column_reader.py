"""Columns that are read as they are stored, and even samples of them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parquetry.runtime.allowed import NOTHING_ALLOWED
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.parquet.column_reader import PIECE_BYTES, ColumnReader

ROWS = 3000
DELTAS = {
    "often": "DELTA_BYTE_ARRAY",
    "once": "DELTA_LENGTH_BYTE_ARRAY",
    "bytes": "DELTA_BYTE_ARRAY",
    "struct.c": "DELTA_BYTE_ARRAY",
    "array.list.element": "DELTA_LENGTH_BYTE_ARRAY",
}


def table() -> pa.Table:
    """Texts that are there often, once and never, in structs, arrays and maps too."""
    numbers = range(ROWS)
    return pa.table(
        {
            "often": [None if n % 11 == 0 else f"t{n % 7}" * (n % 50) for n in numbers],
            "once": [f"{n:09d}" for n in numbers],
            "bytes": [bytes([n % 256]) * (n % 9) for n in numbers],
            "int": pa.array(numbers, pa.int32()),
            "struct": [
                None if n % 5 == 0 else {"c": "x" * (n % 300), "l": [str(n)] * (n % 3)} for n in numbers
            ],
            "array": [["p" * (n % 20)] * (n % 4) for n in numbers],
            "map": pa.array([[("k", "v" * (n % 30))] for n in numbers], pa.map_(pa.string(), pa.string())),
        }
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"row_group_size": 700, "data_page_size": 500, "dictionary_pagesize_limit": 2000},
        {"use_dictionary": False, "column_encoding": DELTAS},
    ],
)
@pytest.mark.parametrize("names", [["often", "once"], ["struct", "int"], ["array", "map", "bytes"], ["gone"]])
def test_values_are_those_of_the_file_whatever_it_encodes(tmp_path, options, names):
    rows = table()
    pq.write_table(rows, tmp_path / "a.parquet", **options)
    kinds = {name: rows.schema.field(name).type for name in rows.column_names}
    wanted = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    if "int" in names:
        wanted = wanted.set(1, pa.field("int", pa.int64()))
    with pa.OSFile(str(tmp_path / "a.parquet")) as content:
        reader = ColumnReader(content, wanted, allowed=NOTHING_ALLOWED, place="a")
        found = [
            piece
            for row_group in range(reader.metadata.num_row_groups)
            for batch in reader.batches(row_group)
            for piece in reader.decoded(batch)
        ]
    columns = [
        rows.column(field.name).cast(field.type) if field.name in kinds else pa.nulls(ROWS, field.type)
        for field in wanted
    ]
    assert pa.Table.from_batches(found).equals(pa.table(columns, schema=wanted))


def test_a_text_that_all_rows_share_is_decoded_by_pieces(tmp_path):
    long = pa.table({"s": pa.array(["x" * 10_000]).take(pa.array([0] * ROWS))})
    pq.write_table(long, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.parquet")) as content:
        reader = ColumnReader(content, long.schema, allowed=NOTHING_ALLOWED, place="a")
        (batch,) = reader.batches(0)
        pieces = list(reader.decoded(batch))
    assert sum(piece.num_rows for piece in pieces) == ROWS
    assert max(map(batch_arrow_bytes, pieces)) <= PIECE_BYTES


def test_a_delta_encoded_text_that_all_rows_share_is_read_by_pieces(tmp_path):
    long = pa.table({"s": pa.array(["x" * 10_000]).take(pa.array([0] * ROWS))})
    options = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    pq.write_table(long, tmp_path / "a.parquet", **options)
    with pa.OSFile(str(tmp_path / "a.parquet")) as content:
        reader = ColumnReader(content, long.schema, allowed=NOTHING_ALLOWED, place="a")
        batches = list(reader.batches(0))
    assert sum(batch.num_rows for batch in batches) == ROWS
    assert max(map(batch_arrow_bytes, batches)) <= PIECE_BYTES


def test_an_even_sample_does_not_depend_on_who_adds_rows_first():
    rows = pa.record_batch({"n": pa.array(range(ROWS)), "s": ["x" * (n % 400) for n in range(ROWS)]})
    samples = []
    for seed in range(5):
        rnd = random.Random(seed)
        starts = list(range(0, ROWS, 100))
        rnd.shuffle(starts)
        sample = SystematicSample(rows.schema, most_bytes=20_000, stride=3)
        for start in starts:
            sample.add(np.arange(start, start + 100), rows.slice(start, 100))
        numbers, found = sample.rows_by_number()
        assert numbers.tolist() == list(range(0, ROWS, sample.stride)) == found.column("n").to_pylist()
        assert 5_000 < found.nbytes < 22_000
        samples.append(found)
    assert all(sample.equals(samples[0]) for sample in samples)
