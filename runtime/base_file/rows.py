"""Rows on their way into a base file: Hudi's commit columns, the table's columns, and their origin."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.spec.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY

ORIGIN: Final = "__origin"
"""The column with the :class:`RowOrigin` of each row, which is counted and not written."""

DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


class RowOrigin(IntEnum):
    """The origin of a row of a file."""

    COPIED = 0
    UPDATED = 1
    INSERTED = 2


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which base files are read: without partition path and file name (constants)."""
    meta = [
        pa.field(COMMIT_TIME, DICTIONARY),
        pa.field(COMMIT_SEQNO, pa.string()),
        pa.field(RECORD_KEY, pa.string()),
    ]
    return pa.schema([*meta, *schema])


def unnumbered_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which rows are read that get a new order, and new sequence numbers with it."""
    stored = stored_schema(schema)
    return stored.remove(stored.get_field_index(COMMIT_SEQNO))


def schema_with_origin(schema: pa.Schema) -> pa.Schema:
    """Return the schema of :func:`stored_schema` with the origin as its last column."""
    return stored_schema(schema).append(pa.field(ORIGIN, pa.int8()))


class RowStamper:
    """Sets the sequence number of rows, and the commit time of new row versions.

    The numbers run through a bucket.
    """

    def __init__(self, instant: str, bucket: int) -> None:
        self._instants = pa.array([instant])
        self._prefix = pa.scalar(f"{instant}_{bucket}_")
        self._next = 0

    def stamp(self, rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows with commit time and sequence number.

        Args:
            rows: Rows with record key and table columns.
            schema: The schema of the result, as :func:`stored_schema` returns it.
        """
        count = rows.num_rows
        times = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), self._instants)
        own = [_as(rows.column(field.name), field.type) for field in list(schema)[2:]]
        return pa.RecordBatch.from_arrays([times, self._take_numbers(count), *own], schema=schema)

    def number(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of :func:`unnumbered_schema` with sequence numbers. They keep their commit time."""
        schema = rows.schema.insert(1, pa.field(COMMIT_SEQNO, pa.string()))
        time, *others = rows.columns
        numbers = self._take_numbers(rows.num_rows)
        return pa.RecordBatch.from_arrays([time, numbers, *others], schema=schema)

    def _take_numbers(self, count: int) -> pa.Array:
        numbers = pa.array(np.arange(self._next, self._next + count))
        self._next += count
        return pc.binary_join_element_wise(self._prefix, pc.cast(numbers, pa.string()), "")


def filled_times(times: pa.Array, instant: str) -> pa.Array:
    """Return commit times with the instant of the file for rows that have none.

    Bulk inserts of Hudi leave an empty text there, and its other writers null.
    """
    return pc.if_else(pc.fill_null(pc.equal(times, ""), fill_value=True), instant, times)


def with_origin(rows: pa.RecordBatch, origins: pa.Array | RowOrigin) -> pa.RecordBatch:
    """Return the rows with their origin as the last column: one for all rows, or one for each."""
    if isinstance(origins, RowOrigin):
        origins = pa.array(np.full(rows.num_rows, origins, np.int8))
    schema = rows.schema.append(pa.field(ORIGIN, pa.int8()))
    return pa.RecordBatch.from_arrays([*rows.columns, origins], schema=schema)


def _as(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(array.type):
        return array.dictionary_encode()
    return array


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of at least one batch as one batch."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
