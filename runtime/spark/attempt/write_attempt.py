"""One attempt of a write: the table state that it is based on, and the steps that all operations share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from parquetry.errors import ParquetryError
from parquetry.message import Value
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.base_file.result import WriteResults
from parquetry.runtime.commit.outcome import Footprint, KeyRange, WriteOutcome
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.encryption import ENCRYPTION
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spark.attempt.record_size import sampled_record_size
from parquetry.runtime.spark.session.settings import parallelism, task_memory_bytes
from parquetry.runtime.spec.avro import with_meta_columns
from parquetry.runtime.spec.masking import must_hide_record_keys
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.table.partition_path import check_nesting, check_partition_path
from parquetry.runtime.table.statistics import encode_statistics
from parquetry.runtime.timeline.commit import WriteStat
from parquetry.runtime.timeline.sidecars import decisions_path, statistics_path
from parquetry.runtime.write.plan import (
    DECISIONS_KEY,
    BucketPlanner,
    ChangeCounts,
    PartitionChanges,
    WritePlan,
    decisions_json,
)
from parquetry.runtime.write.record_sizes import learned_record_size, table_record_size

_DECISIONS_BYTES = 64 * 1024
_GUESSED_COMPRESSION = 0.35
_UNKNOWN_RECORD_BYTES = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    """The outcome of an attempt, None if there is nothing to write, and counts of rows that changed no file.

    ``unmatched_deletes`` found no row with their key. ``late_rows`` have a smaller ordering value than the
    stored rows. ``incomplete_deletes`` have a null in a column to match by.
    """

    outcome: WriteOutcome | None
    unmatched_deletes: int = 0
    late_rows: int = 0
    incomplete_deletes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A transaction in progress; see :func:`parquetry.runtime.commit.publish.run_write`."""

    spark: SparkSession
    transaction: Transaction
    state: TableState
    consumption: Consumption | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def check_partitions(self, partitions: Iterable[str]) -> None:
        """Raise InvalidDataError if readers could not find one of the partitions again."""
        paths = sorted(partitions)
        for path in paths:
            check_partition_path(self.state.rules, path)
        check_nesting(self.state.handle.store, self.state.rules, paths)

    def context(self, *, ordering: str | None) -> WriteContext:
        """Return the settings of the write that all tasks share."""
        spec = self.state.spec
        return WriteContext(
            store=self.state.handle.store,
            instant=self.transaction.instant,
            schema=arrow_schema(spec.columns),
            avro_schema=with_meta_columns(self.state.schema_json),
            files=spec.files,
            max_file_size_bytes=spec.sizing.max_file_size_bytes,
            guard=self.transaction.guard,
            ordering=ordering,
            memory_budget_bytes=task_memory_bytes(self.spark),
            has_markers=True,
        )

    def planner(
        self,
        staged: StagedRows | None,
        *,
        inserts: Mapping[str, int],
        slices: Mapping[str, Sequence[FileSlice]],
        changes: Mapping[str, Mapping[str, ChangeCounts]],
        fill: bool,
    ) -> BucketPlanner:
        """Return the planner of the buckets.

        Args:
            staged: The staged rows, or None for a delete.
            inserts: The number of new rows, by partition.
            slices: The file slices that may take rows, by partition.
            changes: The updates and deletes, by partition and file id.
            fill: Whether to fill small files.

        """
        policy = self.state.spec.sizing
        sizes = self._record_sizes(staged, inserts, slices)
        works = [
            PartitionChanges(
                partition=partition,
                inserts=inserts.get(partition, 0),
                slices=[
                    s for s in slices.get(partition, ()) if fill or s.file_id in changes.get(partition, {})
                ],
                changes=changes.get(partition, {}),
                record_size_bytes=sizes[partition][0],
                is_record_size_known=sizes[partition][1],
            )
            for partition in sorted({p for p, n in inserts.items() if n} | set(changes))
        ]
        return BucketPlanner(
            instant=self.transaction.instant,
            works=works,
            policy=policy if fill else replace(policy, small_file_limit_bytes=0),
            tasks=2 * parallelism(self.spark),
        )

    def announce(
        self, planner: BucketPlanner, *, inserted_keys: Mapping[str, KeyRange] | None = None
    ) -> WritePlan:
        """Announce the planned buckets, put their markers, and return the plan.

        If other writes need some of the small files, the buckets are planned again without these.
        ``inserted_keys`` is the key range of the new rows of an upsert, by partition. It is not announced if
        keys are personal data.
        """
        plan = planner.plan()
        private = must_hide_record_keys(self.state.spec)
        taken = self.transaction.announce(
            plan.profile,
            key_scope=self.state.spec.key_scope,
            inserted_keys={} if private else inserted_keys or {},
        )
        if taken & plan.filled:
            reason = "another write has announced it, or its clustering is pending"
            plan = planner.plan(excluded=dict.fromkeys(taken, reason))
        self.transaction.put_markers(plan.markers(self.transaction.instant))
        return plan

    def outcome(
        self,
        operation: str,
        *,
        plan: WritePlan | None = None,
        results: WriteResults | None = None,
        replaced: Mapping[str, tuple[str, ...]] | None = None,
        footprint: Footprint | None = None,
    ) -> WriteOutcome:
        """Return the outcome to publish.

        Args:
            operation: Hudi's name of the operation.
            plan: The plan of the write, or None if no rows were written.
            results: The results of the tasks, or None if no rows were written.
            replaced: The ids of replaced file groups, by partition.
            footprint: The part of the table that the write read or overwrote, for the conflict check.

        """
        footprint = footprint or Footprint()
        if self.consumption is not None:
            footprint = replace(footprint, consumed=(self.consumption,))
        stats: dict[str, list[WriteStat]] = {}
        for file in results.files if results else ():
            stats.setdefault(file.stat.partition_path, []).append(file.stat)
        extra = dict(self.extra)
        if (key := self.state.spec.files.encryption_key) is not None and stats:
            extra[ENCRYPTION] = key
        sidecars: list[tuple[str, bytes]] = []
        if plan is not None:
            decisions = decisions_json(plan)
            if len(decisions) > _DECISIONS_BYTES:
                path = decisions_path(self.transaction.instant)
                sidecars.append((path, decisions.encode()))
                decisions = json.dumps({"file": path})
            extra[DECISIONS_KEY] = decisions
        if results is not None and (content := _statistics(results)) is not None:
            sidecars.append((statistics_path(self.transaction.instant), content))
        return WriteOutcome(
            operation=operation,
            schema_json=self.state.schema_json,
            stats={partition: tuple(listed) for partition, listed in stats.items()},
            replaced=replaced or {},
            extra=extra,
            footprint=footprint,
            sidecars=tuple(sidecars),
        )

    def empty_outcome(self, operation: str) -> WriteOutcome | None:
        """Return the outcome of a write without effect: None, or an empty commit if there are consumed files.

        The batch of a stream makes no such commit.
        """
        consumption = self.consumption
        if consumption is None or consumption.query_id is not None:
            return None
        return self.outcome(operation)

    def _record_sizes(
        self,
        staged: StagedRows | None,
        inserts: Mapping[str, int],
        slices: Mapping[str, Sequence[FileSlice]],
    ) -> Mapping[str, tuple[float, bool]]:
        """Return the bytes per row by partition, each with a flag that is false if they are only an estimate.

        A rough estimate is enough where the new rows of a partition fit into one file.
        """
        policy, timeline = self.state.spec.sizing, self.state.timeline
        sizes: dict[str, tuple[float, bool]] = {}
        unknown = []
        for partition in {*inserts, *slices}:
            learned = policy.record_size_bytes or learned_record_size(timeline, slices.get(partition, ()))
            if learned is None:
                unknown.append(partition)
            else:
                sizes[partition] = (learned, True)
        if not unknown:
            return sizes
        known = table_record_size(timeline)
        if known is None and staged is not None and staged.row_bytes is not None:
            guess = staged.row_bytes * _GUESSED_COMPRESSION
            room = policy.max_file_size_bytes
            new_files = sum(-(-inserts.get(p, 0) * guess // room) for p in unknown if inserts.get(p))
            enough = len(unknown) >= parallelism(self.spark) or new_files <= len(unknown)
            known = guess if enough else sampled_record_size(self.spark, staged, self.state.spec.files)
        return sizes | dict.fromkeys(unknown, (known or _UNKNOWN_RECORD_BYTES, False))


def check_results(plan: WritePlan, results: WriteResults, hash_sums: Mapping[str, int]) -> None:
    """Raise ParquetryError unless the tasks consumed exactly the rows of the plan, by count and hash.

    ``hash_sums`` are the expected sums by partition, modulo 2**64.
    """
    sums = dict.fromkeys(hash_sums, 0)
    for bucket in plan.buckets:
        expected = bucket.expected_updates + bucket.expected_deletes + bucket.expected_inserts
        found = results.buckets.get(bucket.index)
        if found is None or found.consumed_rows != expected:
            raise ParquetryError(
                "partition {partition}: a task received {found_rows} of its {expected_rows} rows; nothing "
                "was published, run the write again",
                partition=Value.partition(bucket.partition),
                found_rows=found.consumed_rows if found else None,
                expected_rows=expected,
            )
        sums[bucket.partition] = (sums.get(bucket.partition, 0) + found.consumed_hash) % (1 << 64)
    for partition, expected in hash_sums.items():
        if sums[partition] != expected:
            raise ParquetryError(
                "partition {partition}: the written rows differ from the rows that arrived (sums of "
                "hashes {written_sum:x} and {expected_sum:x}); nothing was published; a disk or the memory "
                "of a worker changes data, or this is a bug: check the workers before the next run",
                partition=Value.partition(partition),
                written_sum=sums[partition],
                expected_sum=expected,
            )


def _statistics(results: WriteResults) -> bytes | None:
    """Return the statistics sidecar of the written files, or None without files."""
    files = [file.statistics for file in results.files]
    return encode_statistics(files) if files else None
