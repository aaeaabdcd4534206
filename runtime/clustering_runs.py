"""Rows of any number in order, in bounded memory: sorted runs, put together by ranges.

The order is cut into ranges by a sample; every run is sorted and divided into ranges, and then
the pieces of each range are sorted together. Runs that memory has no room for lie on the local disk.
An external distribution sort: D. Knuth, The Art of Computer Programming, volume 3, section 5.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa

from parquetry.runtime.base_file_bytes import batch_arrow_bytes
from parquetry.runtime.clustering_order import Cuts, OrderKeys, gathered, sort_indices
from parquetry.runtime.clustering_spill import Seal, SpilledRun

_ROWS_AT_ONCE: Final = 65_536


def in_order(rows: pa.Table, keys: OrderKeys, *, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows, which are in one piece, sorted; batch by batch."""
    yield from _taken_by(rows, sort_indices(keys.of(rows)), batch_bytes=batch_bytes)


def in_order_by_ranges(
    batches: Iterable[pa.RecordBatch],
    keys: OrderKeys,
    cuts: Cuts,
    *,
    run_bytes: int,
    held_bytes: int,
    batch_bytes: int,
    sealed: bool,
) -> Iterator[pa.RecordBatch]:
    """The rows of all batches sorted; about ``run_bytes`` of them are sorted at a time, and one range.

    Sorted runs stay in memory up to ``held_bytes``. Those behind lie in the folder for temporary files
    until the last row is taken, encrypted if they are to be ``sealed``.
    """
    with ExitStack() as resources:
        runs = _Runs(keys, cuts, held_bytes=held_bytes, sealed=sealed, resources=resources)
        for run in runs_of(batches, run_bytes):
            runs.add(run)
            pa.default_memory_pool().release_unused()
        for number in range(cuts.ranges):
            pieces = runs.range(number)
            if number in cuts.single:
                yield from pieces
            elif together := list(pieces):
                yield from in_order(gathered(together), keys, batch_bytes=batch_bytes)
                pa.default_memory_pool().release_unused()


class _Runs:
    """Sorted runs, divided into ranges, in memory as far as they have room."""

    def __init__(
        self, keys: OrderKeys, cuts: Cuts, *, held_bytes: int, sealed: bool, resources: ExitStack
    ) -> None:
        self._keys = keys
        self._cuts = cuts
        self._room = held_bytes
        self._resources = resources
        self._held: list[list[list[pa.RecordBatch]]] = []
        self._folder: Path | None = None
        self._sealed = sealed
        self._seal: Seal | None = None
        self._spilled: list[SpilledRun] = []

    def add(self, run: list[pa.RecordBatch]) -> None:
        """Sort the rows; the list lets go of them."""
        rows = gathered(run)
        self._room -= rows.nbytes
        ranges = _divided(rows, self._keys, self._cuts)
        if self._room >= 0:
            self._held.append([list(pieces) for pieces in ranges])
            return
        if self._folder is None:
            folder = TemporaryDirectory(prefix="parquetry-clustering-")
            self._folder = Path(self._resources.enter_context(folder))
            self._seal = Seal() if self._sealed else None
        path = self._folder / f"{len(self._spilled)}.arrow"
        self._spilled.append(SpilledRun(path, ranges, seal=self._seal))

    def range(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of a range, run by run; they can be had once."""
        for ranges in self._held:
            pieces, ranges[number] = ranges[number], []
            yield from drained(pieces)
        for run in self._spilled:
            yield from run.range(number)


def runs_of(batches: Iterable[pa.RecordBatch], run_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    """The batches, as many together as have about ``run_bytes``."""
    run: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        run.append(batch)
        size += batch_arrow_bytes(batch)
        if size >= run_bytes:
            yield run
            run, size = [], 0
    if run:
        yield run


def _divided(rows: pa.Table, keys: OrderKeys, cuts: Cuts) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows in order, by range; pieces have memory of their own."""
    order, starts = cuts.divide(keys.of(rows))
    for start, end in pairwise(starts.tolist()):
        yield (
            piece
            for first in range(start, end, _ROWS_AT_ONCE)
            for piece in rows.take(pa.array(order[first : min(first + _ROWS_AT_ONCE, end)]))
            .combine_chunks()
            .to_batches()
        )


def drained(pieces: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of the list, which lets go of each as it is taken."""
    pieces.reverse()
    while pieces:
        yield pieces.pop()


def _taken_by(rows: pa.Table, order: pa.Array, *, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    width = max(rows.nbytes // max(rows.num_rows, 1), 1)
    step = max(min(batch_bytes // width, _ROWS_AT_ONCE), 1)
    for first in range(0, rows.num_rows, step):
        yield from rows.take(order.slice(first, step)).combine_chunks().to_batches()
