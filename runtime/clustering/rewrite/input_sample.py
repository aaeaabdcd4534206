"""The sample of a group's files, or of a share of them, that tasks need before they order the rows.

Each file is opened once to sample some of its rows. For a share, the rows are also counted, and all columns
are read at a few places, because only this shows how much memory a row takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from parquetry.message import Field, Value
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.base_file.reader import reading
from parquetry.runtime.base_file.rows import unnumbered_schema
from parquetry.runtime.clustering.rewrite.order import SAMPLE_BYTES, RowOrder
from parquetry.runtime.errors import NotFoundError, RetryWrite
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.column_reader import ColumnReader
from parquetry.runtime.spec.meta_columns import COMMIT_TIME
from parquetry.runtime.storage.bucket import opened_in_turn
from parquetry.runtime.storage.model import ObjectStore

_MEASUREMENTS: Final = 8
_ROWS_OF_A_MEASUREMENT: Final = 512
_READ_AT_ONCE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSample:
    """Every ``stride``-th row of a share with the columns of the order, the number of rows, and their width.

    ``row_bytes`` is the memory of a row with all columns, as it is when files are read.
    """

    sample: pa.Table
    stride: int
    rows: int
    row_bytes: int


def sample_of(
    context: WriteContext, slices: Sequence[FileSlice], order: RowOrder, *, stride: int, most_bytes: int
) -> pa.Table:
    """Return every ``stride``-th row of the files, with only the columns of the order.

    If these take more than about ``most_bytes``, only every second, fourth and so on of them is returned.

    Args:
        context: The write context.
        slices: The files.
        order: The order that the sample is for.
        stride: The distance between sampled rows.
        most_bytes: The memory limit.

    Raises:
        RetryWrite: If a file was cleaned.

    """
    wanted = _of_order(context.schema, order)
    sample = SystematicSample(wanted, stride=stride, most_bytes=most_bytes)
    rows = 0
    for part in opened_in_turn(context.store, slices):
        with _opened(context.store, part) as (content, place):
            reader = ColumnReader(content, wanted, allowed=context.store.allowed, place=place)
            rows = _sample_file(reader, sample, rows)
    return sample.rows_by_number()[1]


def sample_share(
    context: WriteContext, slices: Sequence[FileSlice], order: RowOrder, *, stride: int
) -> ShareSample:
    """Return the sample, the row count and the row width of the files.

    The stride is doubled while the sample takes more than 8 MiB.

    Args:
        context: The write context.
        slices: The files of the share.
        order: The order that the sample is for.
        stride: The smallest distance between sampled rows.

    Raises:
        RetryWrite: If a file was cleaned.

    """
    wanted = _of_order(context.schema, order)
    sample = SystematicSample(wanted, stride=stride, most_bytes=SAMPLE_BYTES)
    rows = 0
    measured = set(_evenly_spaced(_MEASUREMENTS, len(slices)))
    measured_rows = 0
    measured_bytes = 0.0
    for number, part in enumerate(opened_in_turn(context.store, slices)):
        with _opened(context.store, part) as (content, place):
            reader = ColumnReader(content, wanted, allowed=context.store.allowed, place=place)
            rows = _sample_file(reader, sample, rows)
            if number in measured:
                measurements = -(-_MEASUREMENTS // len(measured))
                for count, width in _widths(content, context, place, measurements=measurements):
                    measured_rows += count
                    measured_bytes += count * width
    return ShareSample(
        sample=sample.rows_by_number()[1],
        stride=sample.stride,
        rows=rows,
        row_bytes=int(np.ceil(measured_bytes / max(measured_rows, 1))),
    )


def _sample_file(reader: ColumnReader, sample: SystematicSample, first: int) -> int:
    """Offer the rows of a file, numbered from ``first``, to the sample, and return the next number."""
    reader.announce()
    for row_group in range(reader.metadata.num_row_groups):
        for batch in reader.batches(row_group):
            numbers = np.arange(first, first + batch.num_rows)
            reader.add_to_sample(batch, numbers, sample)
            first += batch.num_rows
    return first


def _of_order(schema: pa.Schema, order: RowOrder) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in order.top_level])


@contextmanager
def _opened(store: ObjectStore, part: FileSlice) -> Iterator[tuple[pa.NativeFile, Value]]:
    """Yield the content of a file, and its name for errors."""
    place = Value.uri(f"{store.uri}/{part.path}")
    try:
        content = store.open_input(part.path)
    except NotFoundError as gone:
        raise RetryWrite("a clean deleted {file} during the clustering", file=place) from gone
    with reading(place), content:
        yield content, place


def _widths(
    content: pa.NativeFile, context: WriteContext, place: Field, *, measurements: int
) -> Iterator[tuple[int, float]]:
    """Yield the row count and the bytes per row of some row groups, measured on their first rows."""
    reader = ColumnReader(
        content,
        unnumbered_schema(context.schema),
        allowed=context.store.allowed,
        place=place,
        encoded=[COMMIT_TIME],
        pre_buffer=False,
        buffer_size=_READ_AT_ONCE,
    )
    numbers = _evenly_spaced(measurements, reader.metadata.num_row_groups)
    reader.announce(numbers, most_bytes=_READ_AT_ONCE)
    for number in numbers:
        batch = next(reader.batches(number, most_rows=_ROWS_OF_A_MEASUREMENT), None)
        if batch is not None and batch.num_rows:
            size = sum(batch_arrow_bytes(piece) for piece in reader.decoded(batch))
            yield reader.metadata.row_group(number).num_rows, size / batch.num_rows


def _evenly_spaced(wanted: int, count: int) -> list[int]:
    """Return ``wanted`` numbers below ``count``, evenly spaced, or all numbers if there are fewer."""
    return sorted({(2 * number + 1) * count // (2 * wanted) for number in range(wanted)}) if count else []
