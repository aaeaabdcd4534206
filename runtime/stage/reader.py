"""The reader of whole rows of a stage, used within tasks."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryFile
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.batches import BatchSink, joined_batches
from parquetry.runtime.stage.index import (
    BATCHES,
    POSITION_MASK,
    REFERENCE_SHIFT,
    IndexBuilder,
    IndexNumbers,
    StageIndex,
)
from parquetry.runtime.stage.location import (
    LocalStage,
    ReadRanges,
    StageLocation,
    as_storage_error,
    mapped_ranges,
    scratch_folder,
    validated_reads,
)
from parquetry.runtime.stage.part import StageSpec, rows_schema

_LAST: Final = np.iinfo(np.int64).max

_PIECE_BYTES: Final = 8 * 1024 * 1024

TakeRows = Callable[[IndexNumbers], Iterator[pa.RecordBatch]]
"""A function that yields the rows of the references, in their order, a few MiB at a time."""


class StageReader:
    """A context manager that reads a stage within a task.

    Batches have the stage's columns, the row hash and ``_hoodie_record_key``. Generated keys have the form
    ``<instant>_<task>_<number>``.
    """

    def __init__(self, spec: StageSpec, index: StageIndex, *, instant: str) -> None:
        self._spec = spec
        self._index = index
        self._instant = instant
        self._stack = ExitStack()
        ranges = self._stack.enter_context(spec.location.reading())
        self._batches = _Batches(index, rows_schema(spec), ranges, spec.location)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def rows(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows ``start`` to ``stop`` (exclusive) of a partition, in order of arrival."""
        numbers = self._index.of_group(partition)
        ends = np.cumsum(self._index.rows[numbers])
        first, last = np.searchsorted(ends, [start, stop - 1], side="right") if start < stop else (0, -1)
        chosen = numbers[first : last + 1]
        before = ends[first : last + 1] - self._index.rows[chosen]
        for number, batch, passed in zip(
            chosen.tolist(), self._batches.read(chosen), before.tolist(), strict=True
        ):
            low, high = max(start - passed, 0), min(stop - passed, batch.num_rows)
            references = self._index.first[number] + np.arange(low, high)
            yield self._with_key(batch.slice(low, high - low), references)

    @contextmanager
    def taking(self, references: Iterable[IndexNumbers]) -> Iterator[TakeRows]:
        """Yield a function that takes rows by their references, in any order, some at a time.

        ``references`` are all references that the caller will request. Each row is fetched from a store only
        once: the rows are copied to the local disk first.
        """
        if self._spec.location.is_mapped:
            yield lambda some: (self._with_key(rows, few) for few, rows in self._batches.take_pieces(some))
            return
        wanted = np.unique(np.concatenate([np.empty(0, np.int64), *references]))
        places = np.empty(len(wanted), np.int64)

        def fetched() -> Iterator[pa.RecordBatch]:
            copied = 0
            for low, high, rows in self._batches.rows_by_batch(wanted):
                places[low:high] = np.arange(copied, copied + high - low)
                copied += high - low
                yield rows

        with TemporaryFile(dir=scratch_folder()) as file:
            copies = self._local_copy(fetched(), file)

            def take(some: IndexNumbers) -> Iterator[pa.RecordBatch]:
                done = 0
                for few, rows in copies.take_pieces(places[np.searchsorted(wanted, some)]):
                    yield self._with_key(rows, some[done : done + len(few)])
                    done += len(few)

            yield take

    def ascending(self, references: IndexNumbers) -> pa.RecordBatch:
        """Return the rows of at least one reference; the references must ascend."""
        return self._with_key(self._batches.take(references), references)

    def in_order(self, group: str, column: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group, sorted by an integer column, a few MiB at a time.

        Nulls come last, in order of arrival.
        """
        numbers = self._index.of_group(group)
        keys: list[IndexNumbers] = []

        def fetched() -> Iterator[pa.RecordBatch]:
            for rows in self._batches.read(numbers):
                keys.append(rows.column(column).fill_null(_LAST).to_numpy())
                yield rows

        with TemporaryFile(dir=scratch_folder()) as file:
            copies = self._local_copy(fetched(), file)
            order = np.argsort(np.concatenate([np.empty(0, np.int64), *keys]), kind="stable")
            for _, rows in copies.take_pieces(order):
                # These rows were found by their keys, so no key has to be generated.
                yield self._with_key(rows, order[:0])

    def samples(self, files: int) -> Iterator[pa.RecordBatch]:
        """Yield the first batch of ``files`` files at equal distances, or of all files if there are fewer."""
        first = self._index.first_of_files
        yield from self._batches.read(first[:: -(-len(first) // files) or 1])

    def _local_copy(self, batches: Iterable[pa.RecordBatch], file: Any) -> _Batches:
        """Copy the batches to a local file and return a reader of it. The copied rows are numbered from 0."""
        schema = rows_schema(self._spec)
        sink = BatchSink(file, schema, compress=False)
        written: list[dict[str, int]] = []
        copied = 0
        for rows in joined_batches(batches):
            with as_storage_error(scratch_folder()):
                written += sink.write(rows, first=copied)
            copied += rows.num_rows
        with as_storage_error(scratch_folder()):
            file.flush()
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        index = IndexBuilder()
        index.add(0, "", [""], pa.array([written], BATCHES))
        location = LocalStage(folder=scratch_folder())
        return _Batches(
            index.index(), schema, lambda ranges: mapped_ranges(lambda _: pages, ranges), location
        )

    def _with_key(self, rows: pa.RecordBatch, references: IndexNumbers) -> pa.RecordBatch:
        """Return the rows with their record keys: those of the key column, or generated ones."""
        if RECORD_KEY in rows.schema.names:
            return rows
        if self._spec.key_column:
            key = rows.column(self._spec.key_column)
        else:
            key = generated_keys(self._instant, references)
        return pa.RecordBatch.from_arrays([*rows.columns, key], names=[*rows.schema.names, RECORD_KEY])


class _Batches:
    """A reader of batches by their numbers, and of rows by their references."""

    def __init__(
        self, index: StageIndex, schema: pa.Schema, read: ReadRanges, location: StageLocation
    ) -> None:
        self._index = index
        self._location = location
        self._schema = schema
        self._read = read

    def read(self, numbers: IndexNumbers) -> Iterator[pa.RecordBatch]:
        """Yield the batches in the given order; each is read after the previous one has been used."""
        chosen = numbers.tolist()
        for number, message in zip(chosen, self._read(self._index.ranges(chosen)), strict=True):
            (wanted,) = self._index.ranges([number])
            with validated_reads(self._location, wanted.name) as check:
                batch = check(pa.ipc.read_record_batch(message, self._schema))
                if batch.num_rows != self._index.rows[number]:
                    raise pa.ArrowInvalid("a batch does not have the number of rows that was written")
            yield batch

    def rows_by_batch(self, ascending: IndexNumbers) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Yield the rows of ascending references, batch by batch in the order of the files.

        Each batch comes with the positions (start and exclusive stop) of its references in ``ascending``.
        """
        numbers, starts = np.unique(self._index.batches_of(ascending), return_index=True)
        stops = np.append(starts[1:], len(ascending))
        order = self._index.by_offset(numbers)
        for at, batch in zip(order.tolist(), self.read(numbers[order]), strict=True):
            start, stop = int(starts[at]), int(stops[at])
            yield start, stop, batch.take(pa.array(ascending[start:stop] - self._index.first[numbers[at]]))

    def take_pieces(self, references: IndexNumbers) -> Iterator[tuple[IndexNumbers, pa.RecordBatch]]:
        """Yield references and their rows in the given order, some at a time.

        Each piece takes a few MiB, estimated by the mean uncompressed row size of each batch.
        """
        if not len(references):
            return
        batches = self._index.batches_of(references)
        sizes = np.cumsum(self._index.size[batches] / self._index.rows[batches])
        for few in np.split(references, np.flatnonzero(np.diff(sizes // _PIECE_BYTES)) + 1):
            yield few, self.take(few)

    def take(self, references: IndexNumbers) -> pa.RecordBatch:
        """Return the rows of at least one reference, in the order of the references."""
        order = np.argsort(references, kind="stable")
        back = np.empty_like(order)
        pieces, done = [], 0
        for start, stop, rows in self.rows_by_batch(references[order]):
            pieces.append(rows)
            back[order[start:stop]] = np.arange(done, done + stop - start)
            done += stop - start
        rows = pa.concat_batches(pieces)
        return rows if (back[1:] > back[:-1]).all() else rows.take(pa.array(back))


def generated_keys(instant: str, references: IndexNumbers) -> pa.Array:
    """Return unique keys for a table without a record key; they contain instant, task and position."""
    tasks = pc.cast(pa.array(references >> REFERENCE_SHIFT), pa.string())
    places = pc.cast(pa.array(references & POSITION_MASK), pa.string())
    return pc.binary_join_element_wise(instant, tasks, places, "_")
