"""A writer of Arrow rows into a table of any columns, without Spark, with the dictionary of what the table must hold.

The tasks, the commits, the clustering and the services are the real ones. Positions of stored rows are looked up in
plain base files by ``id``, the record key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.apply.table_change import TableChange, apply_change
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.base_file.model import Bucket, new_file_id
from parquetry.runtime.base_file.result import read_independent_results, result_rows
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.commit.outcome import Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.commit.workload_profile import PartitionProfile, PlannedFile
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.publish.publishing import publish_after
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.attempt.write_attempt import Attempt
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import RetentionPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.table.partition_path import KeyRules, partition_path
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.markers import MarkerKind
from parquetry.runtime.write.partition_deletion import delete_partitions
from tests.support.one_process_spark import OneProcessSpark
from tests.support.small_table import FAST

Row = Mapping[str, Any]


@dataclass(slots=True)
class ArrowWriter:
    """A table whose key is ``id``. ``rows`` are those it must hold, by their key."""

    path: Path
    spec: TableSpec
    rows: dict[Any, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._apply(self.spec, Requirements(exists=False), alters_schema=False)

    @property
    def handle(self) -> TableHandle:
        """The table as it is now, with the keys that its spec names."""
        return open_table(open_store(self.path, allowed=self.spec.allowed))

    def expected(self) -> pa.Table:
        """The rows that every reader has to return, in the columns of the spec."""
        return pa.Table.from_pylist(list(self.rows.values()), schema=arrow_schema(self.spec.columns))

    def insert(self, rows: Iterable[Row]) -> None:
        """Commit new rows, one new file for each of their partitions."""
        self._write(rows, "INSERT", {})

    def upsert(self, rows: Iterable[Row]) -> None:
        """Commit new values of stored rows and new rows."""
        handle = self.handle
        slices = handle.view(handle.timeline()).all_slices()
        self._write(rows, "UPSERT", {part: self._stored_keys(part) for part in slices})

    def delete_partition(self, value: str) -> None:
        """Delete the partition of this value."""
        (column,) = self.spec.partition_by
        delete_partitions(self.handle, [{column: value}])
        publish_after(self.handle, "write")
        self.rows = {key: row for key, row in self.rows.items() if row[column] != value}

    def apply(self, **changes: Any) -> None:
        """Apply the spec with these changes. Rows have null in columns that are added."""
        applied = self.handle.applied
        assert applied is not None
        known = Requirements(exists=True, applied_number=applied.number)
        self._apply(replace(self.spec, **changes), known, alters_schema="columns" in changes)
        names = [column.name for column in self.spec.columns]
        self.rows = {key: {**dict.fromkeys(names), **row} for key, row in self.rows.items()}

    def cluster(self) -> None:
        """Cluster what is due; old files stay until they are cleaned."""
        assert cluster(cast("Any", OneProcessSpark()), self.handle, timing=FAST).instants
        publish_after(self.handle, "clustering")

    def clean(self) -> None:
        """Delete every file that is not live."""
        clean(self.handle, policy=RetentionPolicy(keep_commits=None, keep_versions=1), timing=FAST)

    def _apply(self, spec: TableSpec, known: Requirements, *, alters_schema: bool) -> None:
        change = TableChange(
            spec=spec,
            requirements=known,
            alters_schema=alters_schema,
            changes_version=spec.table_version != self.spec.table_version,
            project="tests",
        )
        apply_change(open_store(self.path, allowed=spec.allowed), change, timing=FAST)
        self.spec = spec

    def _write(self, rows: Iterable[Row], operation: str, stored: Mapping[FileSlice, Sequence[Any]]) -> None:
        rows = [{**dict.fromkeys(column.name for column in self.spec.columns), **row} for row in rows]

        def body(transaction: Transaction) -> WriteOutcome:
            state = TableState(handle=transaction.table, timeline=transaction.timeline)
            attempt = Attempt(spark=cast("Any", OneProcessSpark()), transaction=transaction, state=state)
            buckets = self._buckets(transaction, rows, stored)
            self._announce(transaction, buckets)
            context = attempt.context(ordering=self.spec.ordering)
            results = [
                row
                for bucket, at, held in buckets
                for row in result_rows(write_bucket(context, bucket, self._batches(held, at))).to_pylist()
            ]
            footprint = Footprint(looks_up_keys=operation == "UPSERT")
            return attempt.outcome(operation, results=read_independent_results(results), footprint=footprint)

        run_write(self.handle, action=Action.COMMIT, operation=operation, body=body, timing=FAST)
        publish_after(self.handle, "write")
        self.rows |= {row["id"]: row for row in rows}

    def _buckets(
        self, transaction: Transaction, rows: Sequence[Row], stored: Mapping[FileSlice, Sequence[Any]]
    ) -> list[tuple[Bucket, list[int | None], list[Row]]]:
        """Each bucket with the positions of its rows, None for new ones, and its rows."""
        left = {row["id"]: row for row in rows}
        found: list[tuple[Bucket, list[int | None], list[Row]]] = []
        for part, keys in stored.items():
            hits = [(at, left.pop(key)) for at, key in enumerate(keys) if key in left]
            if hits:
                bucket = Bucket(index=len(found), partition=part.partition, file_id=part.file_id, base=part)
                found.append((bucket, [at for at, _ in hits], [row for _, row in hits]))
        rules = KeyRules.of(transaction.table.config, named_key=False)
        by_partition: dict[str, list[Row]] = {}
        for row in left.values():
            values = {name: row[name] for name in self.spec.partition_by}
            by_partition.setdefault(partition_path(rules, values), []).append(row)
        for partition, held in by_partition.items():
            index = len(found)
            file_id = new_file_id(transaction.instant, index)
            found.append(
                (Bucket(index=index, partition=partition, file_id=file_id), [None] * len(held), held)
            )
        return found

    @staticmethod
    def _announce(
        transaction: Transaction, buckets: Sequence[tuple[Bucket, list[int | None], list[Row]]]
    ) -> None:
        profile: dict[str, PartitionProfile] = {}
        markers: dict[MarkerKind, list[str]] = {MarkerKind.MERGE: [], MarkerKind.CREATE: []}
        for bucket, _, rows in buckets:
            before = profile.get(bucket.partition, PartitionProfile(inserts=0, files={}))
            if bucket.base is None:
                after = replace(before, inserts=before.inserts + len(rows))
            else:
                planned = PlannedFile(base_instant=bucket.base.instant, updates=len(rows))
                after = replace(before, files={**before.files, bucket.file_id: planned})
            profile[bucket.partition] = after
            name = BaseFileName(
                partition=bucket.partition, file_id=bucket.file_id, instant=transaction.instant
            )
            markers[MarkerKind.CREATE if bucket.base is None else MarkerKind.MERGE].append(name.path)
        transaction.announce(profile, inserted_keys={})
        transaction.put_markers({kind: paths for kind, paths in markers.items() if paths})

    def _batches(self, rows: Sequence[Row], positions: Sequence[int | None]) -> list[pa.RecordBatch]:
        schema = pa.schema([each.with_nullable(True) for each in arrow_schema(self.spec.columns)])
        table = pa.Table.from_pylist(list(rows), schema=schema)
        count = len(rows)
        controls = {
            "_hoodie_record_key": pa.array([str(row["id"]) for row in rows]),
            "__position": pa.array(positions, pa.int64()),
            "__delete": pa.array([False] * count),
            "__hash": pa.array([1] * count, pa.int64()),
        }
        for name, values in controls.items():
            table = table.append_column(name, values)
        return table.combine_chunks().to_batches()

    def _stored_keys(self, part: FileSlice) -> list[Any]:
        keys: list[Any] = pq.ParquetFile(self.path / part.path).read(["id"]).column(0).to_pylist()
        return keys
