"""What a task does that writes one bucket: rows in, rows about files out.

Nothing of Spark is imported: workers need pyarrow only.
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
"""The column that numbers the bucket a row belongs to."""


def written_bucket(context: WriteContext, bucket: Bucket, batches: Iterable[pa.RecordBatch]) -> Batches:
    """What ``write_bucket`` made of the rows, in the columns of ``RESULT_SCHEMA``.

    Failures that another attempt cannot fix come back as rows; storage failures are raised, so that
    Spark tries the task again.
    """
    try:
        yield result_rows(write_bucket(context, bucket, batches))
        pa.default_memory_pool().release_unused()
    except (ParquetryError, RetryWrite) as failure:
        if is_outage(failure):
            raise
        yield failure_row(bucket.index, failure)
