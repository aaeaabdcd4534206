"""Writes of small tables through Spark, as values: what is done, and what the table holds afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from unittest import mock

from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.spec.table_spec import Operation
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timing import Timing
from parquetry.runtime.write.partition_deletion import delete_partitions
from parquetry.runtime.write.request import WriteRequest
from tests.support.small_table import FAST, Rows


class Way(StrEnum):
    """How keys are looked up and rows fetched: as their number asks, or as that of a large batch would.

    ``MATCHED``: Spark joins keys with what tasks find in base files. ``JOINED``: with all keys of these files.
    ``REGROUPED``: so too, and two tasks stage the rows again, grouped by bucket.
    """

    BY_SIZE = "by size"
    MATCHED = "matched"
    JOINED = "joined"
    REGROUPED = "regrouped"


@dataclass(frozen=True, kw_only=True)
class SparkWrite:
    """One write of rows ``key -> (value, partition)``.

    Of a delete only keys and partitions count, of a delete_partition only the partitions. With
    ``on_cluster`` the rows go the way they take when executors may die: staged in the table's
    store, and shuffled.
    """

    operation: Operation
    rows: Rows
    on_cluster: bool = False
    way: Way = Way.BY_SIZE

    def after(self, old: Rows) -> Rows:
        """What the table holds afterwards."""
        touched = {partition for _, partition in self.rows.values()}
        match self.operation:
            case Operation.DELETE:
                return {key: row for key, row in old.items() if key not in self.rows}
            case Operation.DELETE_PARTITION:
                return {key: row for key, row in old.items() if row[1] not in touched}
            case Operation.INSERT_OVERWRITE:
                return {key: row for key, row in old.items() if row[1] not in touched} | dict(self.rows)
            case _:
                return {**old, **self.rows}

    def perform(self, spark: Any, store: ObjectStore, *, timing: Timing = FAST) -> CommitResult:
        """Do it."""
        from parquetry.runtime.spark.write import write

        handle = open_table(store)
        if self.operation is Operation.DELETE_PARTITION:
            return delete_partitions(
                handle, sorted({f"p={row[1]}" for row in self.rows.values()}), timing=timing
            )
        listed = [(key, value, partition) for key, (value, partition) in self.rows.items()]
        frame = spark.createDataFrame(listed, "id string, v bigint, p string")
        if self.operation is Operation.DELETE:
            frame = frame.select("id", "p")
        with ExitStack() as stack:
            if self.on_cluster:
                stack.enter_context(as_on_a_cluster())
            stack.enter_context(looked_up(self.way))
            return write(spark, handle, frame, WriteRequest(operation=self.operation), timing=timing)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "operation": self.operation.value,
            "rows": dict(self.rows),
            "on_cluster": self.on_cluster,
            "way": self.way.value,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SparkWrite:
        """The write that :meth:`to_json` gave."""
        rows = {key: (value, partition) for key, (value, partition) in document["rows"].items()}
        return cls(
            operation=Operation(document["operation"]),
            rows=rows,
            on_cluster=document["on_cluster"],
            way=Way(document["way"]),
        )


@contextmanager
def as_on_a_cluster() -> Iterator[None]:
    """Spark under a local master does as it does where executors can go without the driver."""
    with mock.patch("parquetry.runtime.spark.write.stages_locally", return_value=False):
        yield


@contextmanager
def looked_up(way: Way) -> Iterator[None]:
    """Look keys up and fetch rows as a way says."""
    attempt = "parquetry.runtime.spark.attempt"
    with ExitStack() as stack:
        if way is not Way.BY_SIZE:
            stack.enter_context(mock.patch(f"{attempt}.upsert._is_located_by_tasks", return_value=False))
        if way in (Way.JOINED, Way.REGROUPED):
            stack.enter_context(mock.patch(f"{attempt}.upsert.is_small", return_value=False))
        if way is Way.REGROUPED:
            stack.enter_context(mock.patch(f"{attempt}.deliver.regrouping_tasks", return_value=2))
        yield
