"""The function that Spark's ``mapInArrow`` runs: rows of buckets in, rows about files out.

Nothing of Spark is imported: workers need pyarrow only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import numpy as np
import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.base_file.incoming import incoming_schema
from parquetry.runtime.base_file.model import Bucket, WriteContext
from parquetry.runtime.base_file.result import failure_row, result_rows
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.base_file.worker_process import spare_loaded_modules
from parquetry.runtime.errors import RetryWrite, is_outage

BUCKET = "__bucket"
"""The column that numbers the bucket a row belongs to."""

_NO_BUCKET = -1


def bucket_writer(
    context: WriteContext, buckets: Mapping[int, Bucket]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """What to pass to ``mapInArrow`` with ``RESULT_DDL``, for a frame whose partitions hold whole buckets.

    Within a partition rows are sorted by bucket, then position with nulls last, then arrival. Columns
    are those of :func:`~parquetry.runtime.base_file.task.write_bucket` and ``__bucket``. Failures that
    another attempt cannot fix come back as rows; storage failures are raised, so that Spark tries
    the task again.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Batches:
        spare_loaded_modules()
        index = _NO_BUCKET
        try:
            for index, rows in buckets_in(_conformed(batches, context.schema)):
                yield result_rows(write_bucket(context, buckets[index], rows))
                pa.default_memory_pool().release_unused()
        except (ParquetryError, RetryWrite) as failure:
            if is_outage(failure):
                raise
            yield failure_row(index, failure)

    return write


def buckets_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Batches]]:
    """Each bucket's number and its rows; a bucket's rows must be read before the next is asked for.

    AssertionError when a bucket comes twice: the rows were not sorted.
    """
    runs = _runs(batches)
    seen: set[int] = set()
    upcoming = next(runs, None)

    def rows_of(index: int) -> Batches:
        nonlocal upcoming
        while upcoming is not None and upcoming[0] == index:
            rows = upcoming[1]
            upcoming = next(runs, None)
            yield rows

    while upcoming is not None:
        index = upcoming[0]
        assert index not in seen, f"the rows of bucket {index} are not together"
        seen.add(index)
        rows = rows_of(index)
        yield index, rows
        for _ in rows:
            pass


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Slices of batches whose rows belong to one bucket."""
    for batch in batches:
        numbers = batch.column(BUCKET).to_numpy()
        ends = chain((np.flatnonzero(np.diff(numbers)) + 1).tolist(), [len(numbers)])
        start = 0
        for end in ends:
            if end > start:
                yield int(numbers[start]), batch.slice(start, end - start)
            start = end


def _conformed(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Batches:
    """The batches with the table's types, before they are sliced: slices of nested columns convert whole."""
    wanted = incoming_schema(schema).append(pa.field(BUCKET, pa.int32(), nullable=False))
    conformer: Conformer | None = None
    for batch in batches:
        if conformer is None or not batch.schema.equals(conformer.source):
            conformer = Conformer(batch.schema, wanted, place="the rows to write")
        yield conformer(batch)
