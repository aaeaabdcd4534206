"""Arrow rows of chosen width and compressibility, made from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import pyarrow as pa

from parquetry.runtime.spec.table_spec import Column

COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="amount", type="double"),
    Column(name="status", type="string"),
    Column(name="payload", type="string"),
)
_HEX = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_", np.uint8)
_OTHER_BYTES = 44
_FEW = 50


class Content(StrEnum):
    INCOMPRESSIBLE = "incompressible"
    DICTIONARY = "dictionary"
    MIXED = "mixed"


_FILE_BYTES_PER_PAYLOAD_BYTE = {Content.INCOMPRESSIBLE: 0.76, Content.DICTIONARY: 0.0015, Content.MIXED: 0.38}


def file_bytes_per_row(width: int, content: Content) -> float:
    """About what such a row takes in a file, compressed."""
    return 12 + _FILE_BYTES_PER_PAYLOAD_BYTE[content] * max(width - _OTHER_BYTES, 1)


def incoming_table(
    seed: int, first: int, rows: int, *, width: int, content: Content, positions: pa.Array | None = None
) -> pa.Table:
    """Rows of about ``width`` Arrow bytes with keys from ``first`` on, with their control columns."""
    batches = incoming_batches(
        seed, first, rows, width=width, content=content, positions=positions, batch_rows=max(rows, 1)
    )
    return pa.Table.from_batches(batches)


def incoming_batches(
    seed: int,
    first: int,
    rows: int,
    *,
    width: int,
    content: Content,
    positions: pa.Array | None = None,
    batch_rows: int = 5000,
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`incoming_table`, made batch by batch."""
    rng = np.random.default_rng(seed)
    length = max(width - _OTHER_BYTES, 1)
    few = _texts(rng, _FEW, length)
    for start in range(0, rows, batch_rows):
        count = min(batch_rows, rows - start)
        ids = np.arange(first + start, first + start + count)
        repeated = {
            Content.INCOMPRESSIBLE: 0,
            Content.DICTIONARY: count,
            Content.MIXED: min(max(rows // 2 - start, 0), count),
        }[content]
        payload = [few.take(pa.array(rng.integers(0, _FEW, repeated))), _texts(rng, count - repeated, length)]
        columns = {
            "id": ids,
            "amount": rng.normal(size=count),
            "status": pa.array(["new", "paid", "shipped"]).take(pa.array(rng.integers(0, 3, count))),
            "payload": pa.concat_arrays(payload),
            "_hoodie_record_key": pa.array(ids).cast(pa.string()),
            "__position": pa.nulls(count, pa.int64())
            if positions is None
            else positions[start : start + count],
            "__delete": np.zeros(count, bool),
            "__hash": np.ones(count, np.int64),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _texts(rng: np.random.Generator, rows: int, length: int) -> pa.Array:
    lengths = rng.integers(max(length // 2, 1), length + length // 2 + 1, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = _HEX[rng.integers(0, 64, offsets[-1], np.uint8)]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
