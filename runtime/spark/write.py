"""A write of rows to a table: one call makes one commit, or none if there is nothing to write."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from parquetry.runtime.arrow.local_rows import is_spark_frame, local_rows
from parquetry.runtime.commit.outcome import CommitResult, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import NotFoundError, RetryWrite
from parquetry.runtime.services.after_write import run_due_services
from parquetry.runtime.spark.attempt.insert import insert_rows
from parquetry.runtime.spark.attempt.upsert import delete_keys, delete_matches, upsert_rows
from parquetry.runtime.spark.attempt.write_attempt import Attempt, AttemptResult
from parquetry.runtime.spark.cluster_inline import cluster_inline
from parquetry.runtime.spark.prepare.local_rows import frame_of_local_rows
from parquetry.runtime.spark.prepare.materialise import stage_location, stages_locally
from parquetry.runtime.spark.prepare.staging import Incoming, Staged, stage
from parquetry.runtime.spark.session.connect import check_timestamp_type
from parquetry.runtime.spark.session.keys import ROW_POSITION_SQL
from parquetry.runtime.spark_log import LogRules, add_rules
from parquetry.runtime.spec.masking import has_personal_columns
from parquetry.runtime.spec.table_spec import Operation
from parquetry.runtime.stage.location import StageLocation
from parquetry.runtime.storage.os_errors import LATE_FAILURES
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.runtime.write.request import WriteRequest

_REPLACES = frozenset({Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE})


def write(
    spark: SparkSession,
    handle: TableHandle,
    rows: Any,
    request: WriteRequest,
    *,
    arrival: str | None = None,
    clustering_budget_bytes: int | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> CommitResult:
    """Write ``rows`` as one commit, run the services that are due, and return the result.

    A query is computed once, or again from its start if a row is too wide. The rows of the last computation
    are written.

    Args:
        spark: The session.
        handle: The table.
        rows: A DataFrame, or rows of this process in a form that ``local_rows`` accepts.
        request: The operation and its options.
        arrival: SQL for a text that sorts the rows of a DataFrame by their order of arrival; None if they
            have no such order. Rows of this process always have one.
        clustering_budget_bytes: The limit of the inline clustering that the applied policy may require after
            the write; None for no limit.
        timing: The periods of the commit protocol.

    Raises:
        InvalidDataError: If the rows do not fit the table. Nothing has been written then.

    """
    add_rules(LogRules(personal=has_personal_columns(handle.spec)))
    check_timestamp_type(spark)
    job = _Job(spark, rows, request, arrival=arrival, subject=f"rows for {handle.name}")
    try:
        known = None
        if stages_locally(spark):
            known = handle.timeline()
            job.stage(TableState(handle=handle, timeline=known), run=None)
        result = run_write(
            handle,
            action=Action.REPLACECOMMIT if request.operation in _REPLACES else Action.COMMIT,
            operation=request.operation.value.upper(),
            body=job.body,
            timing=timing,
            services=partial(run_due_services, timing=timing),
            known=known,
        )
        counted = job.counted(result)
    finally:
        job.close()
    return cluster_inline(spark, handle, counted, budget_bytes=clustering_budget_bytes, timing=timing)


class _Job:
    """One write with all its attempts; rows are staged once, and again only if the table's columns change."""

    def __init__(
        self, spark: SparkSession, rows: Any, request: WriteRequest, *, arrival: str | None, subject: str
    ) -> None:
        self._spark = spark
        self._rows = rows
        self._request = request
        self._arrival = arrival if is_spark_frame(rows) else ROW_POSITION_SQL
        self._subject = subject
        self._incoming: Incoming | None = None
        self._staged: Staged | None = None
        self._staged_for: object = None
        self._locations: list[StageLocation] = []
        self._result: AttemptResult | None = None

    def close(self) -> None:
        """Remove the stages of this write."""
        for location in self._locations:
            with suppress(*LATE_FAILURES):  # the next clean deletes the rest of a stage
                location.remove()

    def counted(self, result: CommitResult) -> CommitResult:
        """Return the result with the counts and warnings about rows that changed no file."""
        last = self._result
        if last is None or result.superseded:
            return result
        unmatched = last.unmatched_deletes
        warnings = [f"{unmatched} deletes found no row with their key"] if unmatched else []
        if last.incomplete_deletes:
            columns = ", ".join(self._request.match)
            warnings.append(f"{last.incomplete_deletes} rows without a value in {columns} matched nothing")
        return replace(
            result,
            unmatched_deletes=unmatched,
            late_rows=last.late_rows,
            warnings=(*warnings, *result.warnings),
        )

    def body(self, transaction: Transaction) -> WriteOutcome | None:
        """Write the files of one attempt.

        Raises:
            RetryWrite: If another writer has replaced and cleaned a file before it was read.

        """
        try:
            self._result = self._run_attempt(transaction)
        except NotFoundError as gone:
            if _has_newer_instants(transaction):
                raise RetryWrite(
                    "another writer has replaced and cleaned a file: {reason}", reason=gone.message
                ) from gone
            raise
        return self._result.outcome

    def _run_attempt(self, transaction: Transaction) -> AttemptResult:
        state = TableState(handle=transaction.table, timeline=transaction.timeline)
        run = None if stages_locally(self._spark) else transaction.run
        staged = self.stage(state, run=run)
        request = self._request
        attempt = Attempt(
            spark=self._spark,
            transaction=transaction,
            state=state,
            consumption=request.consumption,
            extra=request.extra,
        )
        match request.operation:
            case Operation.UPSERT:
                return upsert_rows(attempt, staged.rows)
            case Operation.DELETE if request.match:
                return delete_matches(attempt, staged.rows, request.match)
            case Operation.DELETE:
                return delete_keys(attempt, staged.rows, located=staged.located)
            case operation:
                return insert_rows(attempt, staged.rows, operation)

    def stage(self, state: TableState, *, run: str | None) -> Staged:
        """Return the staged rows; stage them anew if the table's columns or keys have changed."""
        shape = (state.spec.columns, state.rules, state.spec.ordering)
        if self._staged is None or self._staged_for != shape:
            location = stage_location(state.handle.store, run)
            self._locations.append(location)
            if self._incoming is None:
                # Once only: a stream of Arrow batches cannot be read again for another attempt.
                columns = state.spec.columns
                frame = (
                    self._rows
                    if is_spark_frame(self._rows)
                    else frame_of_local_rows(self._spark, local_rows(self._rows, columns), location)
                )
                self._incoming = Incoming(
                    frame=frame, request=self._request, subject=self._subject, arrival=self._arrival
                )
            self._staged = stage(self._incoming, state, location)
            if self._request.confirm is not None:
                self._request.confirm()
            self._staged_for = shape
        return self._staged


def _has_newer_instants(transaction: Transaction) -> bool:
    """Return whether an instant was completed since the transaction read the timeline."""
    before, now = (
        {instant for instant in timeline.instants if instant.is_completed}
        for timeline in (transaction.timeline, transaction.timeline.reload())
    )
    return not now <= before
