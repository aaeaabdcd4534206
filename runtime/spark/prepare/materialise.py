"""Prepared rows, computed once and staged: later steps of a write read the stage and not the user's query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.sql import DataFrame, SparkSession

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.worker_process import freeze_loaded_objects
from parquetry.runtime.spark.prepare.generated import declared_faults
from parquetry.runtime.spark.prepare.local_stages import owned_place, remove_dead_stages
from parquetry.runtime.spark.prepare.row_width import is_wide_row, without_wide_rows
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spark.session.settings import arrow_settings, is_local, session_settings
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.stage.location import StageLocation, StoreStage
from parquetry.runtime.stage.part import SUMMARY_SQL, StageSpec, stage_rows
from parquetry.runtime.stage.partition_paths import PartitionPaths
from parquetry.runtime.stage.staged import StagedRows, staged_rows
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.timeline.sidecars import STAGE_FOLDER


def stage_location(store: ObjectStore, run: str | None) -> StageLocation:
    """Return the place to stage a write's rows: this machine for a local master, else the table's store.

    ``run`` is the folder of the write in the store, which is deleted once the write is over; None for this
    machine.
    """
    if run is None:
        # Below Spark's own folder, which is removed with the application unless the JVM is killed too.
        root = Path(SparkFiles.getRootDirectory())
        remove_dead_stages(root)
        return owned_place(root)
    return StoreStage(store=store, folder=f"{STAGE_FOLDER}/{run}")


def stages_locally(spark: SparkSession) -> bool:
    """Return whether rows can be staged on this machine.

    That is safe if no executor can end without the driver.
    """
    return is_local(spark)


def stage_spec(
    columns: Sequence[Column],
    *,
    location: StageLocation,
    ordering: str | None,
    key_column: str | None,
    paths: PartitionPaths | None = None,
    rows: bool = True,
    keys: bool = True,
    matched: bool = False,
    has_arrival: bool = False,
    drop_duplicates: bool = False,
    refuses_ties: bool = False,
    key_fields: Sequence[str] = (),
    overwrites: Sequence[str] = (),
) -> StageSpec:
    """Return the spec of the stage for rows with these columns; see :class:`StageSpec` for the options."""
    schema = arrow_schema(columns)
    if key_column == RECORD_KEY:
        schema = schema.append(pa.field(RECORD_KEY, pa.string()))
    return StageSpec(
        location=location,
        schema=schema,
        key_column=key_column,
        paths=paths,
        ordering=ordering,
        required=tuple(c.name for c in columns if not c.nullable) if rows else (),
        rows=rows,
        keys=keys,
        matched=matched,
        has_arrival=has_arrival,
        drop_duplicates=drop_duplicates,
        refuses_ties=refuses_ties,
        key_fields=tuple(key_fields) if len(key_fields) > 1 else (),
        overwrites=tuple(overwrites),
        declared=declared_faults(columns),
    )


def materialise(frame: DataFrame, spec: StageSpec, *, subject: str) -> StagedRows:
    """Run the query and stage its rows.

    The query runs once, or a second time from its start if a row is too wide for batches limited by count.

    Args:
        frame: The prepared rows.
        spec: The spec of the stage.
        subject: The name of the rows in errors.

    Raises:
        InvalidDataError: If the query fails, or rows do not fit the declared columns.

    """
    staged = _staged_by_count(frame, spec, subject) or run_stage(_staging(frame, spec), spec, subject=subject)
    staged.check(subject)
    return staged


def run_stage(
    summary: DataFrame, spec: StageSpec, *, subject: str, rows_of_a_batch: int | None = None
) -> StagedRows:
    """Run the tasks that stage rows, and return the stage that their summaries describe.

    Args:
        summary: The frame whose tasks stage rows and return summaries.
        spec: The spec of the stage.
        subject: The name of the rows in errors.
        rows_of_a_batch: The number of rows per Arrow batch; None to limit batches by bytes.

    """
    spark = summary.sparkSession
    settings = arrow_settings(spark, rows=rows_of_a_batch, by_count=rows_of_a_batch is not None)
    with session_settings(spark, settings), failures_translated(subject):
        rows = summary.collect()
    return staged_rows(spec, (row.asDict() for row in rows))


def _staged_by_count(frame: DataFrame, spec: StageSpec, subject: str) -> StagedRows | None:
    """Stage the rows in batches of a fixed number of rows, or return None if a row is or may be too wide.

    The files of tasks that ran before the failure are not used.
    """
    bounded = without_wide_rows(frame)
    if bounded is None:
        return None
    try:
        return run_stage(
            _staging(bounded.frame, spec), spec, subject=subject, rows_of_a_batch=bounded.rows_of_a_batch
        )
    except Exception as error:
        if is_wide_row(error):
            return None
        raise


def _staging(frame: DataFrame, spec: StageSpec) -> DataFrame:
    return map_in_tasks(frame, _staging_task(spec), SUMMARY_SQL)


def _staging_task(spec: StageSpec) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_loaded_objects()
        context = TaskContext.get()
        assert context is not None
        return stage_rows(spec, context.partitionId(), batches)

    return stage
