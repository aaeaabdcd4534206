"""What tasks need to know of a share of a group's files before its rows are divided between them.

Each file is opened once: its rows are counted, some of them taken for the sample, and at a few places of
the share all columns are read, since nothing else tells how much memory a row takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.base_file_bytes import batch_arrow_bytes
from parquetry.runtime.base_file_conform import Conformer
from parquetry.runtime.base_file_model import WriteContext
from parquetry.runtime.base_file_reader import reading
from parquetry.runtime.base_file_rows import stored_schema
from parquetry.runtime.clustering_order import RowOrder, taken
from parquetry.runtime.encryption import open_parquet
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.meta_columns import COMMIT_TIME

_PLACES: Final = 8
_ROWS_OF_A_PLACE: Final = 512
_READ_AT_ONCE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSample:
    """Every so many-th row with the columns of an order alone, how many rows there are, and their width.

    ``row_bytes`` is what a row of all columns takes in memory, as it is when files are read.
    """

    sample: pa.Table
    rows: int
    row_bytes: int


def sample_share(
    context: WriteContext, slices: Sequence[FileSlice], order: RowOrder, *, stride: int
) -> ShareSample:
    """What there is to know of the files. NotFoundError when one is gone."""
    wanted = pa.schema([field for field in context.schema if field.name in order.top_level])
    sampled: list[pa.RecordBatch] = [pa.RecordBatch.from_pylist([], schema=wanted)]
    measured = set(_even(_PLACES, len(slices)))
    seen = measured_rows = 0
    measured_bytes = 0.0
    for number, part in enumerate(slices):
        place = f"{context.store.uri}/{part.path}"
        with reading(place), context.store.open_input(part.path) as content:
            file = open_parquet(content)
            conformer = _conformer(file, wanted, place)
            for batch in file.iter_batches(columns=conformer.source.names, use_threads=False):
                chosen = np.arange(-seen % stride, batch.num_rows, stride)
                sampled.append(conformer(batch.take(pa.array(chosen))))
                seen += batch.num_rows
            if number in measured:
                for rows, width in _widths(
                    content, context.schema, place, places=-(-_PLACES // len(measured))
                ):
                    measured_rows += rows
                    measured_bytes += rows * width
    return ShareSample(
        sample=taken(sampled), rows=seen, row_bytes=int(np.ceil(measured_bytes / max(measured_rows, 1)))
    )


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
