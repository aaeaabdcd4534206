"""Quantiles of row keys by bytes, taken as rows pass by; they divide an order into ranges of equal bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parquetry.runtime.arrow.sizes import batch_bytes_before
from parquetry.runtime.clustering.rewrite.order import SAMPLE_ROWS, OrderKeys

_QUANTILES_OF_A_RUN: Final = 1024
_MOST_SHARE: Final = 4


class KeyQuantiles:
    """The key of one row for every so many bytes, each with the bytes of the rows since the previous key.

    While the keys take more than a quarter of ``most_bytes``, every second one is removed.
    """

    def __init__(self, keys: OrderKeys, *, most_bytes: int) -> None:
        self._keys = keys
        self._most_bytes = most_bytes // _MOST_SHARE
        self._step = max(most_bytes // _QUANTILES_OF_A_RUN, 1)
        self._seen = 0
        self._recorded_bytes = 0
        self._recorded_keys: list[pa.Table] = []
        self._weights: list[npt.NDArray[np.int64]] = []
        self._size = self._count = 0

    def recorded(self, pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches unchanged, and record keys of their rows."""
        for piece in pieces:
            self._record(piece)
            yield piece

    def keys(self) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """Return the recorded keys and the bytes that each represents.

        At least one row must have been recorded.
        """
        return pa.concat_tables(self._recorded_keys).combine_chunks(), np.concatenate(self._weights)

    def _record(self, piece: pa.RecordBatch) -> None:
        bytes_after = self._seen + batch_bytes_before(piece, np.arange(1, piece.num_rows + 1))
        row_numbers = np.flatnonzero(np.diff(bytes_after // self._step, prepend=self._seen // self._step))
        self._seen = int(bytes_after[-1]) if len(bytes_after) else self._seen
        if not len(row_numbers):
            return
        keys = self._keys.of(pa.Table.from_batches([piece]).take(pa.array(row_numbers)))
        self._recorded_keys.append(keys)
        self._weights.append(np.diff(bytes_after[row_numbers], prepend=self._recorded_bytes))
        self._recorded_bytes = int(bytes_after[row_numbers[-1]])
        self._size += keys.nbytes
        self._count += len(row_numbers)
        while self._count > 1 and (self._size > self._most_bytes or self._count > SAMPLE_ROWS):
            self._thin()

    def _thin(self) -> None:
        keys, weights = self.keys()
        every_second = np.arange(0, len(weights), 2)
        self._recorded_keys = [keys.take(pa.array(every_second)).combine_chunks()]
        self._weights = [np.add.reduceat(weights, every_second)]
        self._step *= 2
        self._size, self._count = self._recorded_keys[0].nbytes, len(every_second)
