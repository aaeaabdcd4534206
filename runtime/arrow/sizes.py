"""The sizes of rows in Arrow bytes, counted so that they do not depend on the batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Counts = npt.NDArray[np.int64]

_OFFSET_BYTES = 4


def batch_bytes_before(batch: pa.RecordBatch, rows: Counts) -> Counts:
    """Return the Arrow bytes of all rows before each of the given row numbers.

    Offsets count four bytes per row, validity nothing, booleans one byte, dictionaries only their indices. So
    the sum over consecutive slices equals the size of the whole.
    """
    total = np.zeros(len(rows), np.int64)
    width = 0
    for column in batch.columns:
        fixed = _fixed_width(column.type)
        if fixed is None:
            total += _bytes_before(column, rows)
        else:
            width += fixed
    return total + width * rows


def batch_arrow_bytes(batch: pa.RecordBatch) -> int:
    """Return the Arrow bytes of all rows of the batch."""
    return int(batch_bytes_before(batch, np.array([batch.num_rows]))[0])


def _bytes_before(array: pa.Array, rows: Counts) -> Counts:
    fixed = _fixed_width(array.type)
    if fixed is not None:
        return rows * fixed
    if pa.types.is_struct(array.type):
        fields = (_bytes_before(array.field(index), rows) for index in range(array.type.num_fields))
        return sum(fields, np.zeros(len(rows), np.int64))
    offsets = _offsets(array)
    starts: Counts = offsets[rows].astype(np.int64)
    if pa.types.is_list(array.type):
        children = [array.values]
    elif pa.types.is_map(array.type):
        children = [array.keys, array.items]
    else:
        return _difference(starts, int(offsets[0])) + _OFFSET_BYTES * rows
    at = np.append(starts, int(offsets[0]))
    inside = sum((_bytes_before(child, at) for child in children), np.zeros(len(at), np.int64))
    return _difference(inside[:-1], int(inside[-1])) + _OFFSET_BYTES * rows


def _difference(counts: Counts, first: int) -> Counts:
    return counts - first


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return the offsets into the values, one more than the array has rows."""
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * _OFFSET_BYTES)


def _fixed_width(data_type: pa.DataType) -> int | None:
    if pa.types.is_boolean(data_type):
        return 1
    if pa.types.is_null(data_type):
        return 0
    if pa.types.is_dictionary(data_type):
        return _fixed_width(data_type.index_type)
    try:
        return int(data_type.bit_width) // 8
    except ValueError:
        return None
