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

from parquetry.message import Message, Value
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.base_file.reader import reading
from parquetry.runtime.base_file.rows import stored_schema
from parquetry.runtime.clustering.rewrite.order import SAMPLE_BYTES, RowOrder
from parquetry.runtime.errors import NotFoundError, RetryWrite
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.column_reader import ColumnReader
from parquetry.runtime.spec.meta_columns import COMMIT_TIME
from parquetry.runtime.storage.model import ObjectStore

_PLACES: Final = 8
_ROWS_OF_A_PLACE: Final = 512
_READ_AT_ONCE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSample:
    """Every ``stride``-th row with the columns of an order alone, how many rows there are, and their width.

    ``row_bytes`` is what a row of all columns takes in memory, as it is when files are read.
    """

    sample: pa.Table
    stride: int
    rows: int
    row_bytes: int


def sample_of(
    context: WriteContext, slices: Sequence[FileSlice], order: RowOrder, *, stride: int, most_bytes: int
) -> pa.Table:
    """Every ``stride``-th row of the files, with the columns of the order alone.

    Every second, fourth and so on of those where they would take more than ``most_bytes``, about.
    RetryWrite when a file was cleaned.
    """
    wanted = _of_order(context.schema, order)
    sample = SystematicSample(wanted, stride=stride, most_bytes=most_bytes)
    rows = 0
    for part in slices:
        with _opened(context.store, part) as (content, place):
            reader = ColumnReader(content, wanted, allowed=context.store.allowed, place=place)
            rows = _look_at_all(reader, sample, rows)
    return sample.found()[1]


def sample_share(
    context: WriteContext, slices: Sequence[FileSlice], order: RowOrder, *, stride: int
) -> ShareSample:
    """What there is to know of the files, of at most 8 MiB. RetryWrite when one was cleaned.

    The stride is doubled where every ``stride``-th row would take more.
    """
    wanted = _of_order(context.schema, order)
    sample = SystematicSample(wanted, stride=stride, most_bytes=SAMPLE_BYTES)
    rows = 0
    measured = set(_even(_PLACES, len(slices)))
    measured_rows = 0
    measured_bytes = 0.0
    for number, part in enumerate(slices):
        with _opened(context.store, part) as (content, place):
            reader = ColumnReader(content, wanted, allowed=context.store.allowed, place=place)
            rows = _look_at_all(reader, sample, rows)
            if number in measured:
                places = -(-_PLACES // len(measured))
                for count, width in _widths(content, context, place, places=places):
                    measured_rows += count
                    measured_bytes += count * width
    return ShareSample(
        sample=sample.found()[1],
        stride=sample.stride,
        rows=rows,
        row_bytes=int(np.ceil(measured_bytes / max(measured_rows, 1))),
    )


def _look_at_all(reader: ColumnReader, sample: SystematicSample, first: int) -> int:
    """Offer the rows of a file to the sample, numbered from ``first``; the number behind the last."""
    for row_group in range(reader.metadata.num_row_groups):
        for batch in reader.batches(row_group):
            numbers = np.arange(first, first + batch.num_rows)
            reader.offer(batch, numbers, sample)
            first += batch.num_rows
    return first


def _of_order(schema: pa.Schema, order: RowOrder) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in order.top_level])


@contextmanager
def _opened(store: ObjectStore, part: FileSlice) -> Iterator[tuple[pa.NativeFile, str]]:
    """The content of a file, and what errors call it."""
    place = Message(Value.uri(f"{store.uri}/{part.path}"))
    try:
        content = store.open_input(part.path)
    except NotFoundError as gone:
        raise RetryWrite(Message(place, " has been cleaned meanwhile")) from gone
    with reading(place), content:
        yield content, place


def _widths(
    content: pa.NativeFile, context: WriteContext, place: str, *, places: int
) -> Iterator[tuple[int, float]]:
    """The rows of some row groups, and the bytes of a row by those in front."""
    reader = ColumnReader(
        content,
        stored_schema(context.schema),
        allowed=context.store.allowed,
        place=place,
        encoded=[COMMIT_TIME],
        pre_buffer=False,
        buffer_size=_READ_AT_ONCE,
    )
    for number in _even(places, reader.metadata.num_row_groups):
        batch = next(reader.batches(number, most_rows=_ROWS_OF_A_PLACE), None)
        if batch is not None and batch.num_rows:
            size = sum(batch_arrow_bytes(piece) for piece in reader.decoded(batch))
            yield reader.metadata.row_group(number).num_rows, size / batch.num_rows


def _even(places: int, count: int) -> list[int]:
    """So many numbers below ``count``, evenly; all of them when there are fewer."""
    return sorted({(2 * place + 1) * count // (2 * places) for place in range(places)}) if count else []
