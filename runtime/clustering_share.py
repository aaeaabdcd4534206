"""What tasks need to know of a group's files, or a share of them, before they order its rows.

Each file is opened once and some of its rows are taken for the sample. Of a share they are counted too,
and at a few places all columns are read, since nothing else tells how much memory a row takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.base_file_bytes import batch_arrow_bytes
from parquetry.runtime.base_file_conform import Conformer
from parquetry.runtime.base_file_model import WriteContext
from parquetry.runtime.base_file_reader import reading
from parquetry.runtime.base_file_rows import one_batch, stored_schema
from parquetry.runtime.clustering_order import RowOrder, taken
from parquetry.runtime.encryption import open_parquet
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.meta_columns import COMMIT_TIME
from parquetry.runtime.outcome import RetryWrite
from parquetry.runtime.storage_model import ObjectStore

_PLACES: Final = 8
_ROWS_OF_A_PLACE: Final = 512
_READ_AT_ONCE: Final = 64 * 1024
_READ_ROWS: Final = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSample:
    """Every so many-th row with the columns of an order alone, how many rows there are, and their width.

    ``row_bytes`` is what a row of all columns takes in memory, as it is when files are read.
    """

    sample: pa.Table
    rows: int
    row_bytes: int


def sample_of(
    context: WriteContext, slices: Sequence[FileSlice], order: RowOrder, *, stride: int, most_bytes: int
) -> pa.Table:
    """Every ``stride``-th row of the files, with the columns of the order alone.

    Every second, fourth and so on of those where they would take more than ``most_bytes``, about.
    RetryWrite when a file was cleaned.
    """
    sample = _Sample(_of_order(context.schema, order), stride=stride, most_bytes=most_bytes)
    for part in slices:
        with _opened(context.store, part) as (content, place):
            sample.add(content, place)
    return taken(sample.taken)


def sample_share(
    context: WriteContext, slices: Sequence[FileSlice], order: RowOrder, *, stride: int
) -> ShareSample:
    """What there is to know of the files. RetryWrite when one was cleaned."""
    sample = _Sample(_of_order(context.schema, order), stride=stride)
    measured = set(_even(_PLACES, len(slices)))
    measured_rows = 0
    measured_bytes = 0.0
    for number, part in enumerate(slices):
        with _opened(context.store, part) as (content, place):
            sample.add(content, place)
            if number in measured:
                for count, width in _widths(
                    content, context.schema, place, places=-(-_PLACES // len(measured))
                ):
                    measured_rows += count
                    measured_bytes += count * width
    return ShareSample(
        sample=taken(sample.taken),
        rows=sample.rows,
        row_bytes=int(np.ceil(measured_bytes / max(measured_rows, 1))),
    )


class _Sample:
    """Every so many-th of the rows of all files, and how many rows they have.

    The stride doubles, and every second row goes, while those taken have more than ``most_bytes``.
    """

    def __init__(self, wanted: pa.Schema, *, stride: int, most_bytes: int | None = None) -> None:
        self._wanted = wanted
        self._stride = stride
        self._most_bytes = most_bytes
        self._size = 0
        self.rows = 0
        self.taken: list[pa.RecordBatch] = [pa.RecordBatch.from_pylist([], schema=wanted)]

    def add(self, content: pa.NativeFile, place: str) -> None:
        """Look at all rows of the next file."""
        file = open_parquet(content)
        conformer = _conformer(file, self._wanted, place)
        for batch in file.iter_batches(_READ_ROWS, columns=conformer.source.names, use_threads=False):
            chosen = np.arange(-self.rows % self._stride, batch.num_rows, self._stride)
            self.taken.append(conformer(batch.take(pa.array(chosen))))
            self.rows += batch.num_rows
            self._size += batch_arrow_bytes(self.taken[-1])
            while self._most_bytes is not None and self._size > self._most_bytes and self._stride < self.rows:
                self._thin()

    def _thin(self) -> None:
        rows = taken(self.taken)
        every_second = rows.take(pa.array(np.arange(0, rows.num_rows, 2)))
        self.taken = [one_batch(every_second.to_batches())]
        self._stride *= 2
        self._size = batch_arrow_bytes(self.taken[0])


def _of_order(schema: pa.Schema, order: RowOrder) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in order.top_level])


@contextmanager
def _opened(store: ObjectStore, part: FileSlice) -> Iterator[tuple[pa.NativeFile, str]]:
    """The content of a file, and what errors call it."""
    place = f"{store.uri}/{part.path}"
    try:
        content = store.open_input(part.path)
    except NotFoundError as gone:
        raise RetryWrite(f"{place} has been cleaned meanwhile") from gone
    with reading(place), content:
        yield content, place


def _widths(
    content: pa.NativeFile, schema: pa.Schema, place: str, *, places: int
) -> Iterator[tuple[int, float]]:
    """The rows of some row groups, and the bytes of a row by those in front."""
    file = open_parquet(content, read_dictionary=[COMMIT_TIME], pre_buffer=False, buffer_size=_READ_AT_ONCE)
    conformer = _conformer(file, stored_schema(schema), place)
    for number in _even(places, file.num_row_groups):
        batches = file.iter_batches(
            _ROWS_OF_A_PLACE, row_groups=[number], columns=conformer.source.names, use_threads=False
        )
        batch = next(batches, None)
        if batch is not None and batch.num_rows:
            count = file.metadata.row_group(number).num_rows
            yield count, batch_arrow_bytes(conformer(batch)) / batch.num_rows


def _conformer(file: pq.ParquetFile, wanted: pa.Schema, place: str) -> Conformer:
    source = pa.schema([field for field in file.schema_arrow if field.name in wanted.names])
    return Conformer(source, wanted, place=place)


def _even(places: int, count: int) -> list[int]:
    """So many numbers below ``count``, evenly; all of them when there are fewer."""
    return sorted({(2 * place + 1) * count // (2 * places) for place in range(places)}) if count else []
