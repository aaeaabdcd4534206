"""The incoming rows of one bucket: first those with a position in the base file, then inserts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parquetry.message import Field
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING, POSITION
from parquetry.runtime.base_file.rows import one_batch
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.meta_columns import RECORD_KEY

RowPositions = npt.NDArray[np.int64]

NO_POSITION: Final = 2**63 - 1
"""The position that sorts inserts after every row of a base file."""

_CONTROL = pa.schema(
    [
        pa.field(RECORD_KEY, pa.string(), nullable=False),
        pa.field(POSITION, pa.int64()),
        pa.field(DELETE, pa.bool_()),
        pa.field(HASH, pa.int64()),
    ]
)


def incoming_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of incoming rows: record key and control columns, then the table's columns."""
    return pa.schema([*_CONTROL, *schema])


class IncomingRows:
    """A one-way stream over record batches that are sorted by position, nulls last.

    Batches have the columns of ``schema`` in any order, the record key, and the control columns position (row
    number in the base file, null for an insert), delete and hash. They may have the control column ordering:
    the ordering value if it is not that of the row itself. ``consumed_rows`` and ``consumed_hash`` (modulo
    2^64) count the rows that were taken from the iterator so far.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, *, place: Field) -> None:
        self._batches = iter(batches)
        self._wanted = incoming_schema(schema)
        self._place = place
        self._conformer: Conformer | None = None
        self._ready: deque[tuple[pa.RecordBatch, RowPositions]] = deque()
        self._last = -1
        self.consumed_rows = 0
        self.consumed_hash = 0

    def has_rows_below(self, position: int) -> bool:
        """Return whether the next row has a smaller position."""
        return self._read_ahead() and bool(self._ready[0][1][0] < position)

    def next_cut(self, position: int, max_bytes: int) -> int:
        """Return a position, at most ``position``, with about ``max_bytes`` Arrow bytes of rows below it.

        If any row is below ``position``, at least one is below the result.
        """
        arrow_bytes = 0
        for index in count():
            if not self._read_ahead(index + 1):
                return position
            rows, positions = self._ready[index]
            if index and (arrow_bytes >= max_bytes or positions[0] >= position):
                return min(int(positions[0]), position)
            if positions[-1] >= position:
                return position
            arrow_bytes += batch_arrow_bytes(rows)
        raise AssertionError

    def is_within(self, position: int, max_bytes: int) -> bool:
        """Return whether all rows below the position have at most ``max_bytes`` Arrow bytes.

        The answer depends on the rows alone, not on their batches.
        """
        arrow_bytes = 0
        for index in count():
            if not self._read_ahead(index + 1):
                return True
            rows, positions = self._ready[index]
            number = int(np.searchsorted(positions, position))
            arrow_bytes += batch_arrow_bytes(rows.slice(0, number))
            if arrow_bytes > max_bytes:
                return False
            if number < len(positions):
                return True
        raise AssertionError

    def take_below(self, position: int) -> pa.RecordBatch | None:
        """Take and return the rows below the position; None if there are none."""
        taken: list[pa.RecordBatch] = []
        while self._read_ahead():
            rows, positions = self._ready[0]
            number = int(np.searchsorted(positions, position))
            if number:
                taken.append(rows.slice(0, number))
            self._drop(number)
            if number < len(positions):
                break
        if not taken:
            return None
        return taken[0] if len(taken) == 1 else one_batch(taken)

    def take_rest(self) -> Iterator[pa.RecordBatch]:
        """Take and yield all remaining rows, batch by batch."""
        while self._read_ahead():
            yield self._ready.popleft()[0]

    def _drop(self, number: int) -> None:
        rows, positions = self._ready.popleft()
        if number < len(positions):
            self._ready.appendleft((rows.slice(number), positions[number:]))

    def _read_ahead(self, batches: int = 1) -> bool:
        """Read ahead until ``batches`` batches are ready; return False if the input ends before."""
        while len(self._ready) < batches:
            batch = next(self._batches, None)
            if batch is None:
                return False
            if batch.num_rows:
                self._take_in(batch)
        return True

    def _take_in(self, batch: pa.RecordBatch) -> None:
        if self._conformer is None or not batch.schema.equals(self._conformer.source):
            at = batch.schema.get_field_index(ORDERING)
            wanted = self._wanted if at < 0 else self._wanted.append(batch.schema.field(at))
            self._conformer = Conformer(batch.schema, wanted, place=self._place)
        rows = self._conformer(batch)
        if rows.column(0).null_count:
            raise InvalidDataError(
                "{place}: {rows} rows have no record key; drop them or give every part of the key a value",
                place=self._place,
                rows=rows.column(0).null_count,
            )
        positions: RowPositions = rows.column(1).fill_null(NO_POSITION).to_numpy()
        known = positions[positions != NO_POSITION]
        steps = np.diff(known, prepend=self._last)
        in_order = bool((steps > 0).all()) and bool((positions[: len(known)] == known).all())
        if not in_order or (len(known) and self._last == NO_POSITION):
            raise AssertionError("rows to write are unsorted, or two have the same position")
        self._last = int(positions[-1])
        self._ready.append((rows, positions))
        self.consumed_rows += rows.num_rows
        hashes = rows.column(3).fill_null(0).to_numpy().view(np.uint64)
        self.consumed_hash = (self.consumed_hash + int(hashes.sum(dtype=np.uint64))) % 2**64
