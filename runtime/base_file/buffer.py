"""A buffer for the rows of the next row groups."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from parquetry.runtime.arrow.sizes import Counts, batch_bytes_before

CELL_ROWS = 8
_NEVER_WIDE: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Rows, the row numbers at which they may be cut, the bytes before each of these, and all bytes."""

    rows: pa.RecordBatch
    boundaries: Counts
    bytes_before: Counts
    arrow_bytes: int

    def after(self, index: int) -> _Piece:
        """Return the rows after the boundary with that index."""
        row, before = int(self.boundaries[index]), int(self.bytes_before[index])
        return _Piece(
            rows=self.rows.slice(row),
            boundaries=self.boundaries[index + 1 :] - row,
            bytes_before=self.bytes_before[index + 1 :] - before,
            arrow_bytes=self.arrow_bytes - before,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferCut:
    """A cut in the buffer: after ``pieces`` whole pieces and, in the next one, at boundary ``boundary``."""

    pieces: int
    boundary: int | None


class RowBuffer:
    """A queue of rows. Batches fill it, and row groups of a given number of bytes empty it.

    The possible cuts depend on the rows alone, not on their batches. There is one after every ``CELL_ROWS``
    rows, counted from the first row that was ever appended; one before and one after each row of more than
    ``wide_row_bytes``; and one after each row that :meth:`divide_first_cell` has separated. So the
    rows between two cuts never exceed ``CELL_ROWS`` times ``wide_row_bytes``, except for a single row.
    """

    def __init__(self, *, wide_row_bytes: int = _NEVER_WIDE) -> None:
        self._wide_row_bytes = wide_row_bytes
        self._pieces: deque[_Piece] = deque()
        self._appended = 0
        self.rows = 0
        self.arrow_bytes = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Append rows to the buffer."""
        if not batch.num_rows:
            return
        first = CELL_ROWS - self._appended % CELL_ROWS
        boundaries = np.arange(first, batch.num_rows + 1, CELL_ROWS, dtype=np.int64)
        bounds = np.concatenate([[0], boundaries, [batch.num_rows]])
        before = batch_bytes_before(batch, bounds)
        if (wide := self._wide_rows(batch, bounds, before)).size:
            if wide[0] == 0:
                self._allow_cut_at_end()
            boundaries = np.setdiff1d(np.concatenate([boundaries, wide, wide + 1]), [0])
            before = batch_bytes_before(batch, np.concatenate([[0], boundaries, [batch.num_rows]]))
        piece = _Piece(
            rows=batch, boundaries=boundaries, bytes_before=before[1:-1], arrow_bytes=int(before[-1])
        )
        self._pieces.append(piece)
        self._appended += batch.num_rows
        self.rows += batch.num_rows
        self.arrow_bytes += piece.arrow_bytes

    def _wide_rows(self, batch: pa.RecordBatch, bounds: Counts, before: Counts) -> Counts:
        """Return the sorted numbers of the wide rows. Only cells larger than a wide row are examined."""
        wide = [np.empty(0, np.int64)]
        for cell in np.flatnonzero(np.diff(before) > self._wide_row_bytes):
            rows = np.arange(bounds[cell], bounds[cell + 1] + 1, dtype=np.int64)
            wide.append(rows[:-1][np.diff(batch_bytes_before(batch, rows)) > self._wide_row_bytes])
        return np.concatenate(wide)

    def _allow_cut_at_end(self) -> None:
        """Allow a cut at the end of the last piece."""
        if not self._pieces:
            return
        last = self._pieces[-1]
        if not len(last.boundaries) or last.boundaries[-1] < last.rows.num_rows:
            boundaries = np.append(last.boundaries, last.rows.num_rows)
            self._pieces[-1] = replace(
                last, boundaries=boundaries, bytes_before=np.append(last.bytes_before, last.arrow_bytes)
            )

    def divide_first_cell(self) -> None:
        """Allow a cut after each row before the first possible cut."""
        left = self.rows_before_first_cut
        for number, piece in enumerate(self._pieces):
            rows = min(left, piece.rows.num_rows)
            boundaries = np.union1d(np.arange(1, rows + 1, dtype=np.int64), piece.boundaries)
            before = batch_bytes_before(piece.rows, np.concatenate([[0], boundaries]))[1:]
            self._pieces[number] = replace(piece, boundaries=boundaries, bytes_before=before)
            left -= rows
            if not left:
                return

    @property
    def rows_before_first_cut(self) -> int:
        """The number of rows before the first possible cut."""
        return self._rows_before(self.cut_within(0))

    def measure(self, rows: int, arrow_bytes: int) -> tuple[int, int]:
        """Return the number and the Arrow bytes of the first rows that stay within both limits.

        Call it only before any row was dropped.

        Args:
            rows: The largest number of rows, a multiple of ``CELL_ROWS``.
            arrow_bytes: The largest number of bytes; the first possible cut may exceed it.
        """
        cut = self.cut_within(arrow_bytes)
        within = self._rows_before(cut)
        return (within, self.arrow_bytes_before(cut)) if within <= rows else self._measure_rows(rows)

    def _measure_rows(self, rows: int) -> tuple[int, int]:
        seen = arrow_bytes = 0
        for piece in self._pieces:
            if seen == rows:
                break
            if seen + piece.rows.num_rows > rows:
                at = int(np.searchsorted(piece.boundaries, rows - seen))
                return rows, arrow_bytes + int(piece.bytes_before[at])
            seen += piece.rows.num_rows
            arrow_bytes += piece.arrow_bytes
        return seen, arrow_bytes

    def cut_within(self, arrow_bytes: int) -> BufferCut:
        """Return the last cut that stays within the bytes, or else the first cut.

        If the whole buffer stays within the bytes, or has no cut, the cut is the end of the buffer.
        """
        end = BufferCut(pieces=len(self._pieces), boundary=None)
        if self.arrow_bytes <= arrow_bytes:
            return end
        cut: BufferCut | None = None
        passed = 0
        for index, piece in enumerate(self._pieces):
            fitting = int(np.searchsorted(piece.bytes_before, arrow_bytes - passed, side="right"))
            if fitting:
                cut = BufferCut(pieces=index, boundary=fitting - 1)
            if fitting < len(piece.boundaries):
                return cut or BufferCut(pieces=index, boundary=0)
            passed += piece.arrow_bytes
        return cut or end

    def table(self, cut: BufferCut) -> pa.Table:
        """Return the rows before the cut, with one chunk per column."""
        batches = [piece.rows for piece in islice(self._pieces, cut.pieces)]
        if cut.boundary is not None:
            piece = self._pieces[cut.pieces]
            batches.append(piece.rows.slice(0, int(piece.boundaries[cut.boundary])))
        return pa.Table.from_batches(batches).combine_chunks()

    def arrow_bytes_before(self, cut: BufferCut) -> int:
        """Return the Arrow bytes of the rows before the cut."""
        whole = sum(piece.arrow_bytes for piece in islice(self._pieces, cut.pieces))
        if cut.boundary is None:
            return whole
        return whole + int(self._pieces[cut.pieces].bytes_before[cut.boundary])

    def _rows_before(self, cut: BufferCut) -> int:
        whole = sum(int(piece.rows.num_rows) for piece in islice(self._pieces, cut.pieces))
        if cut.boundary is None:
            return whole
        return whole + int(self._pieces[cut.pieces].boundaries[cut.boundary])

    def drop(self, cut: BufferCut) -> None:
        """Remove the rows before the cut."""
        self.arrow_bytes -= self.arrow_bytes_before(cut)
        self.rows -= sum(self._pieces.popleft().rows.num_rows for _ in range(cut.pieces))
        if cut.boundary is not None:
            piece = self._pieces.popleft()
            tail = piece.after(cut.boundary)
            self.rows -= piece.rows.num_rows - tail.rows.num_rows
            if tail.rows.num_rows:
                self._pieces.appendleft(tail)
