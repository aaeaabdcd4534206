"""A systematic sample of any number of rows, in bounded memory."""

from __future__ import annotations

from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parquetry.runtime.arrow.sizes import batch_arrow_bytes

RowNumbers = npt.NDArray[np.int64]


class SystematicSample:
    """The rows whose numbers are multiples of ``stride``.

    The stride doubles while the rows have more than ``most_bytes``. So the final sample depends on the rows
    alone, not on the order in which they are added; several threads may add rows. One row is always kept,
    whatever its size.
    """

    def __init__(self, schema: pa.Schema, *, most_bytes: int, stride: int = 1) -> None:
        self.stride = stride
        self._most_bytes = most_bytes
        self._schema = schema
        self._numbers: list[RowNumbers] = []
        self._rows: list[pa.RecordBatch] = []
        self._size = 0
        self._lock = Lock()

    def accepted_indices(self, numbers: RowNumbers) -> RowNumbers:
        """Return the positions in ``numbers`` of the multiples of the current stride."""
        return np.flatnonzero(numbers % self.stride == 0)

    def add(self, numbers: RowNumbers, rows: pa.RecordBatch) -> None:
        """Add those of the rows that belong to the sample. ``numbers`` are their row numbers.

        No row may be added twice.
        """
        with self._lock:
            self._append(numbers, rows)
            while self._size > self._most_bytes and sum(map(len, self._numbers)) > 1:
                self._widen(2 * self.stride)

    def widen(self, stride: int) -> None:
        """Increase the stride, which drops the rows whose numbers are not multiples of it.

        The new stride is a multiple of the current one. A smaller stride has no effect.
        """
        with self._lock:
            if stride > self.stride:
                self._widen(stride)

    def rows_by_number(self) -> tuple[RowNumbers, pa.Table]:
        """Return the numbers and the rows of the sample, sorted by number."""
        numbers = np.concatenate([np.empty(0, np.int64), *self._numbers])
        order = np.argsort(numbers, kind="stable")
        rows = pa.Table.from_batches(self._rows, schema=self._schema)
        return numbers[order], rows.take(pa.array(order)).combine_chunks()

    def _append(self, numbers: RowNumbers, rows: pa.RecordBatch) -> None:
        indices = self.accepted_indices(numbers)
        if len(indices) < len(numbers):
            numbers, rows = numbers[indices], rows.take(pa.array(indices))
        if len(numbers):
            self._numbers.append(numbers)
            self._rows.append(rows)
            self._size += batch_arrow_bytes(rows)

    def _widen(self, stride: int) -> None:
        self.stride = stride
        before = list(zip(self._numbers, self._rows, strict=True))
        self._numbers, self._rows, self._size = [], [], 0
        for numbers, rows in before:
            self._append(numbers, rows)
