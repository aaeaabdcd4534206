"""Encrypted base files as a DataFrame: Arrow reads them inside the tasks, which request the key themselves.

Spark's own reader would need a Java key client on every class path. This reader uses the Python client, as
writes do. It reads whole columns, only those of the table; filters apply afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from parquetry.errors import message_of
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.base_file.model import POSITION
from parquetry.runtime.base_file.reader import BaseFileReader, open_base_file
from parquetry.runtime.base_file.worker_process import freeze_loaded_objects
from parquetry.runtime.errors import NotFoundError, RetryWrite
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.lookup.tagging import FILE
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spec.meta_columns import FILE_NAME, PARTITION_PATH
from parquetry.runtime.storage.model import ObjectStore

_BATCH_BYTES: Final = 8 * 1024 * 1024


def encrypted_frame(
    spark: SparkSession, store: ObjectStore, files: Sequence[FileSlice], ddl: str, meta: Sequence[str]
) -> DataFrame:
    """Return the rows of encrypted files: the ``meta`` columns, those of ``ddl``, file name and row number.

    One task reads each file.

    Args:
        spark: The session.
        store: The store of the table.
        files: The encrypted files.
        ddl: The table's columns as Spark DDL; may be empty.
        meta: The names of Hudi's columns to read.

    Raises:
        KeyUnavailableError: In a task that cannot get the key.
        NotFoundError: In a task whose file was removed, as with Spark's own reader; a write then starts
            again.

    """
    wanted = to_arrow_schema(spark.createDataFrame([], ddl).schema) if ddl else pa.schema([])
    names = [*meta, *wanted.names, FILE, POSITION]
    columns = [*(f"{name} string" for name in meta), *([ddl] if ddl else [])]
    found = ", ".join([*columns, f"{FILE} string", f"{POSITION} bigint"])
    numbers = spark.range(0, len(files), 1, len(files))
    return map_in_tasks(numbers, _reader(store, files, wanted, names), found)


def _reader(
    store: ObjectStore, files: Sequence[FileSlice], wanted: pa.Schema, names: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    def read(numbers: Iterable[pa.RecordBatch]) -> Batches:
        freeze_loaded_objects()
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            part = files[number]
            opened = open_base_file(
                store, part, wanted, decoded=frozenset(wanted.names), batch_bytes=_BATCH_BYTES
            )
            try:
                with opened as reader:
                    yield from _batches(reader, part, names)
            except RetryWrite as gone:
                raise NotFoundError(
                    "{reason}; run again to read the current files", reason=message_of(gone)
                ) from gone

    return read


def _batches(reader: BaseFileReader, part: FileSlice, names: Sequence[str]) -> Batches:
    name = part.path.rpartition("/")[2]
    for group in reader.row_groups:
        first = group.first
        for batch in reader.batches(group):
            rows = batch.num_rows
            stored = dict(zip(batch.schema.names, batch.columns, strict=True))
            stored[FILE_NAME] = stored[FILE] = pa.repeat(name, rows)
            stored[PARTITION_PATH] = pa.repeat(part.partition, rows)
            stored[POSITION] = pa.array(np.arange(first, first + rows, dtype=np.int64))
            first += rows
            yield pa.RecordBatch.from_pydict({column: _plain(stored[column]) for column in names})


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
