"""Rows on their way into a base file: Hudi's commit columns, the table's columns, and a mark."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.spec.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY

ORIGIN: Final = "__origin"
"""A column that says where a row came from; it is counted and not written."""

DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


class RowOrigin(IntEnum):
    """Where a row of a file came from."""

    COPIED = 0
    UPDATED = 1
    INSERTED = 2


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """What is read of a base file: the partition path and the file's name are constants."""
    meta = [
        pa.field(COMMIT_TIME, DICTIONARY),
        pa.field(COMMIT_SEQNO, pa.string()),
        pa.field(RECORD_KEY, pa.string()),
    ]
    return pa.schema([*meta, *schema])


def marked_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of :func:`stored_schema` with the mark behind it."""
    return stored_schema(schema).append(pa.field(ORIGIN, pa.int8()))


class RowStamper:
    """Gives new row versions their commit time and sequence numbers, counted through a bucket."""

    def __init__(self, instant: str, bucket: int) -> None:
        self._instants = pa.array([instant])
        self._prefix = pa.scalar(f"{instant}_{bucket}_")
        self._next = 0

    def stamp(self, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Rows with record key and table columns as rows of ``schema`` (that of :func:`stored_schema`)."""
        count = rows.num_rows
        numbers = pa.array(np.arange(self._next, self._next + count))
        self._next += count
        times = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), self._instants)
        seqnos = pc.binary_join_element_wise(self._prefix, pc.cast(numbers, pa.string()), "")
        own = [_as(rows.column(field.name), field.type) for field in list(schema)[2:]]
        return pa.RecordBatch.from_arrays([times, seqnos, *own], schema=schema)


def with_origin(rows: pa.RecordBatch, origins: pa.Array | RowOrigin) -> pa.RecordBatch:
    """The rows with their mark."""
    if isinstance(origins, RowOrigin):
        origins = pa.array(np.full(rows.num_rows, origins, np.int8))
    schema = rows.schema.append(pa.field(ORIGIN, pa.int8()))
    return pa.RecordBatch.from_arrays([*rows.columns, origins], schema=schema)


def _as(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(array.type):
        return array.dictionary_encode()
    return array


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all batches, of which there is at least one, in one piece."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
