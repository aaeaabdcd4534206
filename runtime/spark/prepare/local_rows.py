"""Rows of this process as a DataFrame: the driver writes them to the stage, and tasks read them there.

They do not pass through the driver's JVM, so their number does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from parquetry.runtime.arrow.local_rows import LocalRows
from parquetry.runtime.base_file.worker_process import freeze_loaded_objects
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spark.session.settings import TYPE_SETTINGS, session_settings
from parquetry.runtime.stage.location import StageLocation, validated_reads

_PIECE_BYTES: Final = 16 * 1024 * 1024


def frame_of_local_rows(spark: SparkSession, rows: LocalRows, location: StageLocation) -> DataFrame:
    """Write the rows to ``location`` and return a DataFrame that reads them; one task reads about 16 MiB."""
    names = list(_written(rows.batches, location))
    escaped = ((name.replace("`", "``"), kind) for name, kind in rows.types.items())
    columns = ", ".join(f"`{name}` {kind}" for name, kind in escaped)
    with session_settings(spark, TYPE_SETTINGS):
        numbers = spark.range(0, len(names), 1, max(len(names), 1))
        return map_in_tasks(numbers, _reader(location, names), columns)


def _written(batches: Iterator[pa.RecordBatch], location: StageLocation) -> Iterator[str]:
    """Write the rows to files, and yield the name of each when the file is complete."""
    batch = next(batches, None)
    number = 0
    while batch is not None:
        name = f"local-{number:06d}"
        size = 0
        with location.create(name) as sink, pa.ipc.new_file(sink, batch.schema) as file:
            while batch is not None and size < _PIECE_BYTES:
                file.write_batch(batch)
                size += batch.nbytes
                batch = next(batches, None)
        yield name
        number += 1


def _reader(
    location: StageLocation, names: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_loaded_objects()
        chosen = [number for batch in numbers for number in batch.column(0).to_pylist()]
        for number in chosen:
            name = names[number]
            with validated_reads(location, name) as check, pa.ipc.open_file(location.read(name)) as file:
                for index in range(file.num_record_batches):
                    yield check(file.get_batch(index))

    return read
