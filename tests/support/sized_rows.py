"""Arrow tables of chosen row width and compressibility, made from a seed."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pyarrow as pa

from parquetry.runtime.spec import Column

COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="amount", type="double"),
    Column(name="status", type="string"),
    Column(name="payload", type="string"),
)
_HEX = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_", np.uint8)


class Content(StrEnum):
    INCOMPRESSIBLE = "incompressible"
    DICTIONARY = "dictionary"
    MIXED = "mixed"


def incoming_table(
    seed: int, first: int, rows: int, *, width: int, content: Content, positions: pa.Array | None = None
) -> pa.Table:
    """Rows of about ``width`` Arrow bytes with keys from ``first`` on, with their control columns."""
    rng = np.random.default_rng(seed)
    ids = np.arange(first, first + rows)
    length = max(width - 44, 1)
    columns = {
        "id": ids,
        "amount": rng.normal(size=rows),
        "status": pa.array(["new", "paid", "shipped"]).take(pa.array(rng.integers(0, 3, rows))),
        "payload": _payload(rng, rows, length, content),
        "_hoodie_record_key": pa.array(ids).cast(pa.string()),
        "__position": positions if positions is not None else pa.nulls(rows, pa.int64()),
        "__delete": np.zeros(rows, bool),
        "__hash": np.ones(rows, np.int64),
    }
    return pa.table(columns)


def _payload(rng: np.random.Generator, rows: int, length: int, content: Content) -> pa.Array:
    random = _texts(rng, rows, length)
    few = _texts(rng, 50, length).take(pa.array(rng.integers(0, 50, rows)))
    if content is Content.INCOMPRESSIBLE:
        return random
    if content is Content.DICTIONARY:
        return few
    half = pa.array(np.arange(rows) < rows // 2)
    return pa.compute.if_else(half, few, random)


def _texts(rng: np.random.Generator, rows: int, length: int) -> pa.Array:
    lengths = rng.integers(max(length // 2, 1), length + length // 2 + 1, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = _HEX[rng.integers(0, 64, offsets[-1])]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))
