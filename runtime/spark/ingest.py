"""Ingestion: one commit for the due files or rows of a source, which the source's SQL transforms."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from parquetry.errors import failures_at
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.sources.due import DueBatch, check_unchanged
from parquetry.runtime.spark.read.source import read_files, selected, with_typed_texts
from parquetry.runtime.spark.read.source_failures import explained, source_failures
from parquetry.runtime.spark.read.table import read_table
from parquetry.runtime.spark.session.connect import refuse_connect
from parquetry.runtime.spark.session.sql_guard import check_expression
from parquetry.runtime.spark.write import write
from parquetry.runtime.spec.table_spec import Column, Operation, Source
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.write.request import WriteRequest


def write_batch(
    spark: SparkSession,
    handle: TableHandle,
    source: Source,
    batch: DueBatch,
    *,
    directory: str,
    storage: Mapping[str, Any],
    extra: Mapping[str, str],
    clustering_budget_bytes: int | None,
) -> CommitResult:
    """Write the due batch of a source with the source's operation.

    Args:
        spark: The session; it needs its own JVM.
        handle: The table.
        source: The declaration of the source.
        batch: The files, or the range of instants of another table, that are due.
        directory: The directory in which relative paths of the source are resolved.
        storage: The options of the source's file system.
        extra: Entries for the metadata of the commit.
        clustering_budget_bytes: The limit of the inline clustering after the write; None for no limit.

    Returns:
        The result of the write. It is ``superseded`` if another run has ingested the same files meanwhile.

    Raises:
        InvalidDataError: If SQL is refused, or rows do not fit the table.
        SourceChangedError: If a file was replaced or grew while it was read.

    """
    place = f"source {source.name} of {handle.name}"
    refuse_connect(spark, place, reason="parquetry examines its files and checks its SQL in Spark's own JVM")
    settings = f"sources.{source.name}."
    if source.delete_when:
        with failures_at(f"{settings}delete_when"):
            check_expression(spark, source.delete_when, place=f"{place}: {settings}delete_when")
    columns = () if batch.table else handle.effective_spec(handle.timeline()).columns
    explain = explained(source, batch.files, columns, storage)
    with source_failures(place, settings=settings, explain=explain):
        # The random name differs from all column names of the files.
        arrival = f"arrival_{uuid.uuid4().hex}" if _is_ordered(handle, source, batch) else None
        rows = _rows(spark, source, batch, storage, columns, arrival=arrival)
        request = WriteRequest(
            operation=source.operation,
            delete_when=source.delete_when,
            drop=source.drop if arrival is None else (*source.drop, arrival),
            match=source.match,
            drop_duplicates=source.drop_duplicates,
            ties=source.ties,
            consumption=batch.consumption,
            extra=extra,
            confirm=partial(check_unchanged, source, batch.files, directory=directory, storage=storage),
        )
        with failures_at(f"{settings}select"):
            chosen = selected(spark, rows, source, place=f"{place}: {settings}select")
        chosen = with_typed_texts(spark, chosen, columns, source)
        return write(
            spark,
            handle,
            chosen,
            request,
            arrival=arrival,
            clustering_budget_bytes=clustering_budget_bytes,
        )


def _is_ordered(handle: TableHandle, source: Source, batch: DueBatch) -> bool:
    """Return whether the write chooses between rows of a key and each row has a position in a file."""
    if batch.table is not None or source.select is not None:
        return False
    spec = handle.effective_spec(handle.timeline())
    chooses = source.operation is Operation.UPSERT or source.drop_duplicates
    # A column with the name _metadata hides Spark's own column, which contains the file of a row.
    return chooses and bool(spec.record_key) and all(c.name.lower() != "_metadata" for c in spec.columns)


def _rows(
    spark: SparkSession,
    source: Source,
    batch: DueBatch,
    storage: Mapping[str, Any],
    columns: Sequence[Column],
    *,
    arrival: str | None,
) -> DataFrame:
    if batch.table is None:
        return read_files(spark, source, batch.files, columns=columns, storage=storage, arrival=arrival)
    if batch.as_of is not None:
        return read_table(spark, batch.table, as_of=batch.as_of)
    return read_table(spark, batch.table, since=batch.since, until=batch.until)
