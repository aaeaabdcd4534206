"""The task that writes one bucket: it reads rows and returns a result row per file.

The module imports nothing of Spark: workers need pyarrow only.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.base_file.model import Bucket, WriteContext
from parquetry.runtime.base_file.result import failure_row, result_rows
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.errors import RetryWrite, is_outage

BUCKET = "__bucket"
"""The column with the number of a row's bucket."""


def run_bucket_task(context: WriteContext, bucket: Bucket, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Write a bucket and yield its result rows, in the columns of ``RESULT_SCHEMA``.

    A failure that another attempt cannot fix is yielded as a row. A failure of the storage is raised, so that
    Spark runs the task again.
    """
    try:
        yield result_rows(write_bucket(context, bucket, batches))
        pa.default_memory_pool().release_unused()
    except (ParquetryError, RetryWrite) as failure:
        if is_outage(failure):
            raise
        yield failure_row(bucket.index, failure)
