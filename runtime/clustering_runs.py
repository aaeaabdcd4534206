"""Rows of any number in order, in bounded memory: sorted runs on local disk, put together by ranges.

The order is cut into ranges by a sample; every run is sorted and written range by range, and then
the pieces of each range are sorted together. An external distribution sort: D. Knuth, The Art of
Computer Programming, volume 3, section 5.4.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa

from parquetry.runtime.base_file_bytes import batch_arrow_bytes
from parquetry.runtime.clustering_order import Cuts, OrderKeys, sort_indices, taken

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_ROWS_AT_ONCE: Final = 65_536


def in_order(rows: pa.Table, keys: OrderKeys, *, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows, which are in one piece, sorted; batch by batch."""
    yield from _taken_by(rows, sort_indices(keys.of(rows)), batch_bytes=batch_bytes)


def in_order_by_ranges(
    batches: Iterable[pa.RecordBatch], keys: OrderKeys, cuts: Cuts, *, run_bytes: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows of all batches sorted; about ``run_bytes`` of them are held at a time, and one range.

    What does not fit lies in the folder for temporary files until the last row is taken.
    """
    with tempfile.TemporaryDirectory(prefix="parquetry-clustering-") as folder:
        runs = []
        for number, run in enumerate(runs_of(batches, run_bytes)):
            path = Path(folder, f"{number}.arrow")
            runs.append((path, _write_run(path, taken(run), keys, cuts)))
        for number in range(cuts.ranges):
            pieces = _pieces(runs, number)
            if number in cuts.single:
                yield from pieces
            elif held := list(pieces):
                yield from in_order(taken(held), keys, batch_bytes=batch_bytes)


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


def _write_run(path: Path, rows: pa.Table, keys: OrderKeys, cuts: Cuts) -> list[int]:
    """Write the rows range by range; with which batch of the file each range begins, and the end."""
    order, starts = cuts.divide(keys.of(rows))
    bounds = [0]
    written = 0
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema, options=_OPTIONS) as writer:
        for start, end in pairwise(starts):
            for first in range(int(start), int(end), _ROWS_AT_ONCE):
                numbers = pa.array(order[first : min(first + _ROWS_AT_ONCE, int(end))])
                writer.write_table(rows.take(numbers).combine_chunks())
                written += 1
            bounds.append(written)
    return bounds


def _pieces(runs: Sequence[tuple[Path, Sequence[int]]], number: int) -> Iterator[pa.RecordBatch]:
    """The rows of a range, run by run. Files are read, not mapped: their pages would count as memory."""
    for path, bounds in runs:
        first, end = bounds[number], bounds[number + 1]
        if first < end:
            with pa.OSFile(str(path)) as source:
                reader = pa.ipc.open_file(source)
                for at in range(first, end):
                    yield reader.get_batch(at)


def _taken_by(rows: pa.Table, order: pa.Array, *, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    width = max(rows.nbytes // max(rows.num_rows, 1), 1)
    step = max(min(batch_bytes // width, _ROWS_AT_ONCE), 1)
    for first in range(0, rows.num_rows, step):
        yield from rows.take(order.slice(first, step)).combine_chunks().to_batches()
