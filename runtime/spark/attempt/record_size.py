"""The number of bytes that a row will have in a file, measured by encoding samples of the staged rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spec.table_spec import FilesPolicy
from parquetry.runtime.stage.reader import StageReader
from parquetry.runtime.stage.staged import StagedRows

_FILES = 8
_ROWS_PER_FILE = 16_384
_BYTES_PER_FILE = 8 * 1024 * 1024
_CAUTION = 1.03


def sampled_record_size(spark: SparkSession, staged: StagedRows, files: FilesPolicy) -> float | None:
    """Return the compressed bytes per row, measured with samples of the stage, or None without rows.

    The samples come from up to eight files. The result is 3 % higher than measured, because a file below its
    maximum size is better than an additional file.
    """
    if not len(staged.index.first):
        return None
    task = _sampler(staged, files)
    with failures_translated("a sample of the rows"):
        (row,) = map_in_tasks(spark.range(0, 1, 1, 1), task, "size double").collect()
    size: float | None = row["size"]
    return size


def _sampler(
    staged: StagedRows, files: FilesPolicy
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    spec, index = staged.spec, staged.index

    def sample(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in numbers:
            pass
        with StageReader(spec, index, instant="") as reader:
            some = [_some_rows(batch) for batch in reader.samples(_FILES)]
        rows = pa.Table.from_batches(some).select(spec.schema.names)
        size = _encoded_bytes(rows, files) / rows.num_rows * _CAUTION
        yield pa.RecordBatch.from_pydict({"size": [size]})

    return sample


def _encoded_bytes(rows: pa.Table, files: FilesPolicy) -> int:
    """Return the number of bytes of a Parquet file with these rows."""
    sink = io.BytesIO()
    codec = RowGroupEncoder(files).codec
    pq.write_table(rows, sink, compression=codec, row_group_size=max(rows.num_rows, 1))
    return sink.tell()


def _some_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    per_row = max(batch.nbytes / batch.num_rows, 1)
    few = batch.slice(0, int(min(_ROWS_PER_FILE, max(_BYTES_PER_FILE / per_row, 1))))
    # A copy, as the stage is closed before the rows are used.
    return few.take(pa.array(range(few.num_rows)))
