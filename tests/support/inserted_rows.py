"""Rows inserted into a table of any columns by the tasks of a write, without Spark, one file for each insert."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from parquetry.runtime.base_file.model import Bucket, new_file_id
from parquetry.runtime.base_file.result import read_independent_results, result_rows
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.commit.outcome import CommitResult, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.commit.workload_profile import PartitionProfile
from parquetry.runtime.spark.attempt.write_attempt import Attempt
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.markers import MarkerKind
from tests.support.one_process_spark import OneProcessSpark
from tests.support.small_table import FAST


def insert_rows(store: ObjectStore, rows: pa.Table) -> CommitResult:
    """Commit the rows to a table without partitions, as one new file or its roll-overs."""

    def body(transaction: Transaction) -> WriteOutcome:
        state = TableState(handle=transaction.table, timeline=transaction.timeline)
        attempt = Attempt(spark=cast("Any", OneProcessSpark()), transaction=transaction, state=state)
        file_id = new_file_id(transaction.instant, 0)
        transaction.announce({"": PartitionProfile(inserts=rows.num_rows, files={})}, inserted_keys={})
        name = BaseFileName(partition="", file_id=file_id, instant=transaction.instant)
        transaction.put_markers({MarkerKind.CREATE: [name.path]})
        bucket = Bucket(index=0, partition="", file_id=file_id)
        written = write_bucket(attempt.context(ordering=None), bucket, _incoming(rows, transaction.instant))
        return attempt.outcome("INSERT", results=read_independent_results(result_rows(written).to_pylist()))

    return run_write(open_table(store), action=Action.COMMIT, operation="INSERT", body=body, timing=FAST)


def _incoming(rows: pa.Table, instant: str) -> list[pa.RecordBatch]:
    count = rows.num_rows
    controls = {
        "_hoodie_record_key": pa.array([f"{instant}_0_{n}" for n in range(count)]),
        "__position": pa.nulls(count, pa.int64()),
        "__delete": pa.array(np.zeros(count, bool)),
        "__hash": pa.array(np.ones(count, np.int64)),
    }
    for name, values in controls.items():
        rows = rows.append_column(name, values)
    return rows.combine_chunks().to_batches()
