"""Writes of Structured Streaming: each micro-batch is one commit, written once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.sources import ledger
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spark.session.connect import refuse_connect
from parquetry.runtime.spark.write import write
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.effective_writes import EffectiveWrites
from parquetry.runtime.write.request import WriteRequest

_QUERY_ID = "sql.streaming.queryId"

BatchWriter = Callable[[DataFrame, int], None]


def batch_writer(
    store: ObjectStore,
    request: WriteRequest,
    *,
    owner: TableOwner | None = None,
    stream: str | None,
) -> BatchWriter:
    """Return a function for ``foreachBatch`` that writes each micro-batch as one commit.

    The id of the query (which the checkpoint contains) and the number of the batch identify a batch. The
    commit records both. If Spark repeats a batch after a failure, the function skips it. A batch without rows
    makes no commit.

    Args:
        store: The store of the table.
        request: The operation and its options.
        owner: The project that opens the table; None opens it without the checks of a project.
        stream: The name of the record in the ledger; None for the query's id.

    """

    def write_batch(frame: DataFrame, batch_id: int) -> None:
        refuse_connect(
            frame.sparkSession,
            "a batch writer",
            reason="the server does not tell which streaming query a batch belongs to",
        )
        query_id = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if query_id is None:
            raise InvalidDataError(
                "batch {batch_id} belongs to no streaming query; pass the writer to foreachBatch, and "
                "use upsert() or insert() for other rows",
                batch_id=batch_id,
            )
        handle = open_table(store, owner=owner)
        consumption = Consumption(source=f"stream:{stream or query_id}", query_id=query_id, batch_id=batch_id)
        if _is_written(handle, consumption):
            return
        with handle.failures_masked():
            write(frame.sparkSession, handle, frame, replace(request, consumption=consumption))

    return write_batch


def _is_written(handle: TableHandle, batch: Consumption) -> bool:
    effective = EffectiveWrites(handle.timeline())
    if ledger.history(handle.store, batch.source, effective, batch=batch.batch):
        return True
    ledger.fold(handle.store, batch.source, effective)
    return False
