"""How many bytes a row will take in a file, found by encoding some of the staged rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.spark.session.settings import failures_translated
from parquetry.runtime.spec.table_spec import FilesPolicy
from parquetry.runtime.stage.part import StageSpec, rows_name
from parquetry.runtime.stage.staged import StagedRows

_FILES = 8
_ROWS_PER_FILE = 16_384
_BYTES_PER_FILE = 8 * 1024 * 1024
_CAUTION = 1.03


def sampled_record_size(spark: SparkSession, staged: StagedRows, files: FilesPolicy) -> float | None:
    """Compressed bytes per row of up to eight samples from the stage; None without rows.

    A little high rather than low: a file that ends below its maximum is better than one more file.
    """
    names = sorted(set(staged.names.values()))
    chosen = names[:: -(-len(names) // _FILES) or 1]
    if not chosen:
        return None
    task = _sampler(staged.spec, chosen, files)
    with failures_translated("a sample of the rows"):
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(task, "size double").collect()
    size: float | None = row["size"]
    return size


def _sampler(
    spec: StageSpec, names: Sequence[str], files: FilesPolicy
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def sample(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in numbers:
            pass
        rows = pa.concat_tables([_some_rows(spec, name) for name in names]).select(spec.schema.names)
        size = _encoded_bytes(rows, files) / rows.num_rows * _CAUTION
        yield pa.RecordBatch.from_pydict({"size": [size]})

    return sample


def _encoded_bytes(rows: pa.Table, files: FilesPolicy) -> int:
    sink = io.BytesIO()
    codec = RowGroupEncoder(files).codec
    pq.write_table(rows, sink, compression=codec, row_group_size=max(rows.num_rows, 1))
    return sink.tell()


def _first_rows(file: pq.ParquetFile) -> pa.RecordBatch:
    group = file.metadata.row_group(0)
    fitting = _BYTES_PER_FILE * group.num_rows / max(group.total_byte_size, 1)
    return next(file.iter_batches(int(min(_ROWS_PER_FILE, max(fitting, 1))), use_threads=False))


def _some_rows(spec: StageSpec, name: str) -> pa.Table:
    with spec.place.open(rows_name(name)) as source:
        batch = _first_rows(pq.ParquetFile(source)) if spec.parquet else pa.ipc.open_file(source).get_batch(0)
        per_row = max(batch.nbytes / batch.num_rows, 1)
        few = batch.slice(0, int(min(_ROWS_PER_FILE, max(_BYTES_PER_FILE / per_row, 1))))
        # A copy: the source is closed when the rows are used.
        return pa.Table.from_batches([few.take(pa.array(range(few.num_rows)))])
