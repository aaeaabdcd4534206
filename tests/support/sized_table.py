"""A writer of tables in files of limited sizes, without Spark: its plans, its tasks and its commits are the real ones.

Every write decides as `runtime/spark/attempt` does (record sizes, buckets), writes each bucket by the real task, and
commits by the real protocol, with the table's services behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.commit.outcome import Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.services.after_write import run_due_services
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, FilesPolicy, RetentionPolicy, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, write_applied
from parquetry.runtime.table.handle import TableHandle, create_table, open_table
from parquetry.runtime.table.statistics import encode_statistics
from parquetry.runtime.timeline.commit import WriteStat
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.sidecars import statistics_path
from parquetry.runtime.write.plan import (
    DECISIONS_KEY,
    ChangeCounts,
    PartitionChanges,
    decisions_json,
    plan_buckets,
)
from parquetry.runtime.write.record_sizes import learned_record_size, table_record_size
from tests.support.base_files import context
from tests.support.one_process_spark import OneProcessSpark
from tests.support.sized_rows import COLUMNS, Content, incoming_table
from tests.support.small_table import FAST

KIB = 1024
MOST = 128 * KIB
SIZING = SizingPolicy(max_file_size_bytes=MOST, small_file_limit_bytes=MOST * 5 // 6)
SPEC = TableSpec(
    name="sized",
    columns=(*COLUMNS, Column(name="p", type="string")),
    record_key=("id",),
    partition_by=("p",),
    files=FilesPolicy(row_group_size_bytes=16 * KIB),
    sizing=SIZING,
    retention=RetentionPolicy(keep_commits=3, archive_keep_commits=8),
    extra=Extra(clustering=ClusteringSpec.defaults_for(SIZING)),
)
_TASKS = 8


@dataclass(slots=True)
class SizedTable:
    """One writer's sight of a table; rows of a write are about ``width`` Arrow bytes wide."""

    store: ObjectStore
    width: int = 200
    content: Content = Content.INCOMPRESSIBLE
    keys: int = 0
    seed: int = 0
    services: bool = True
    _removed: dict[str, int] = field(default_factory=dict)

    @classmethod
    def create(cls, path: Path | ObjectStore, spec: TableSpec = SPEC, *, seed: int = 0) -> SizedTable:
        store = open_store(path) if isinstance(path, Path) else path
        create_table(store, spec, project="tests")
        write_applied(store, spec, number=1)
        return cls(store=store, seed=seed)

    @property
    def handle(self) -> TableHandle:
        return open_table(self.store)

    @property
    def spec(self) -> TableSpec:
        applied = read_applied(self.store)
        assert applied is not None
        return applied.spec

    def slices(self) -> list[FileSlice]:
        handle = self.handle
        return handle.view(handle.timeline()).all_slices()

    def insert(self, rows: Mapping[str, int], *, operation: str = "INSERT") -> None:
        """New rows by partition; ``BULK_INSERT`` fills no file."""
        self._run(Action.COMMIT, operation, rows, {}, fill=operation == "INSERT")

    def overwrite(self, rows: Mapping[str, int]) -> None:
        """New rows in place of all others of these partitions."""
        self._run(Action.REPLACECOMMIT, "INSERT_OVERWRITE", rows, {}, fill=False)

    def upsert(
        self, rows: Mapping[str, int], *, updates: Mapping[str, int], files: int | None = None
    ) -> None:
        """New rows, and updates of existing ones by partition, drawn from at most so many of its files."""
        self._run(Action.COMMIT, "UPSERT", rows, updates, fill=True, files=files)

    def delete(self, deletes: Mapping[str, int], *, files: int | None = None) -> None:
        """Delete rows by partition."""
        self._run(Action.COMMIT, "DELETE", {}, deletes, fill=False, files=files, deletes=True)

    def cluster(self) -> None:
        cluster(OneProcessSpark(), self.handle, timing=FAST)

    def apply(self, spec: TableSpec) -> None:
        applied = read_applied(self.store)
        assert applied is not None
        write_applied(self.store, spec, number=applied.ref.number + 1)

    def _run(
        self,
        action: Action,
        operation: str,
        inserts: Mapping[str, int],
        changed: Mapping[str, int],
        *,
        fill: bool,
        files: int | None = None,
        deletes: bool = False,
    ) -> None:
        self.seed += 1
        rng = np.random.default_rng(self.seed)
        inserts = {f"p={name}": rows for name, rows in inserts.items() if rows}
        changed = {f"p={name}": rows for name, rows in changed.items() if rows}

        def body(txn: Transaction) -> WriteOutcome:
            spec = txn.table.effective_spec(txn.timeline)
            view = txn.table.view(txn.timeline)
            overwrites = operation == "INSERT_OVERWRITE"
            slices = {p: view.slices(p) for p in {*inserts, *changed}}
            drawn = {
                p: _draw(self.store, rng, slices[p], rows, files) for p, rows in changed.items() if slices[p]
            }
            works = []
            for partition in sorted({*inserts, *drawn}):
                there = () if overwrites else slices[partition]
                learned = spec.sizing.record_size_bytes or learned_record_size(txn.timeline, there)
                size = learned or table_record_size(txn.timeline) or self.width * 0.35
                rows = drawn.get(partition, {})
                works.append(
                    PartitionChanges(
                        partition=partition,
                        inserts=inserts.get(partition, 0),
                        slices=[s for s in there if fill or s.file_id in rows],
                        changes={
                            file_id: ChangeCounts(deletes=len(at))
                            if deletes
                            else ChangeCounts(updates=len(at))
                            for file_id, (at, _) in rows.items()
                        },
                        record_size_bytes=size,
                        is_record_size_known=learned is not None,
                    )
                )
            policy = spec.sizing if fill else replace(spec.sizing, small_file_limit_bytes=0)
            plan = plan_buckets(txn.instant, works, policy=policy, tasks=_TASKS)
            txn.announce(plan.profile)
            txn.put_markers(plan.markers(txn.instant))
            ctx = self._context(txn, spec)
            stats: dict[str, list[WriteStat]] = {}
            statistics = []
            for bucket in plan.buckets:
                at, keys = drawn.get(bucket.partition, {}).get(bucket.file_id, ((), ()))
                parts = self._rows(bucket.partition, at, keys, bucket.expected_inserts, deletes=deletes)
                written = write_bucket(ctx, bucket, parts)
                for file in written.files:
                    stats.setdefault(file.stat.partition_path, []).append(file.stat)
                    statistics.append(file.statistics)
            replaced = {p: tuple(s.file_id for s in slices[p]) for p in inserts} if overwrites else {}
            return WriteOutcome(
                operation=operation,
                schema_json=txn.table.schema_json(txn.timeline, spec.columns),
                stats={p: tuple(found) for p, found in stats.items()},
                replaced={p: ids for p, ids in replaced.items() if ids},
                footprint=Footprint(overwritten=frozenset(inserts) if overwrites else frozenset()),
                extra={DECISIONS_KEY: decisions_json(plan)},
                sidecars=((statistics_path(txn.instant), encode_statistics(statistics)),),
            )

        handle = self.handle
        result = run_write(handle, action=action, operation=operation, body=body, timing=FAST)
        if self.services:
            run_due_services(handle, result, timing=FAST)

    def _context(self, txn: Transaction, spec: TableSpec) -> WriteContext:
        return context(
            self.store,
            spec.columns,
            instant=txn.instant,
            files=spec.files,
            max_file_size_bytes=spec.sizing.max_file_size_bytes,
            guard=txn.guard,
            has_markers=True,
        )

    def _rows(
        self, partition: str, at: Sequence[int], keys: Sequence[str], inserts: int, *, deletes: bool
    ) -> Iterator[pa.RecordBatch]:
        """The changed rows by their positions, then new ones."""
        count = len(at) + inserts
        positions = pa.array([*map(int, at), *[None] * inserts], pa.int64())
        self.seed += 1
        rows = incoming_table(
            self.seed, self.keys, count, width=self.width, content=self.content, positions=positions
        )
        ids = np.concatenate([np.array([int(key) for key in keys], np.int64), self.keys + np.arange(inserts)])
        self.keys += inserts
        changes = {
            "id": pa.array(ids.astype(np.int64)),
            "_hoodie_record_key": pa.array(ids.astype(np.int64)).cast(pa.string()),
            "__delete": pa.array([deletes] * len(at) + [False] * inserts),
        }
        for name, values in changes.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, values)
        rows = rows.add_column(
            len(COLUMNS), "p", pa.array([partition.removeprefix("p=")] * count, pa.string())
        )
        yield from rows.combine_chunks().to_batches()


def _draw(
    store: ObjectStore,
    rng: np.random.Generator,
    slices: Sequence[FileSlice],
    rows: int,
    files: int | None,
) -> dict[str, tuple[list[int], list[str]]]:
    """Positions and keys of random rows, by file id."""
    among = [slices[i] for i in sorted(rng.permutation(len(slices))[: files or len(slices)])]
    keys = []
    for part in among:
        with store.open_input(part.path) as source:
            keys.append(pq.read_table(source, columns=["_hoodie_record_key"]).column(0).to_pylist())
    ends = np.cumsum([len(one) for one in keys])
    chosen = np.sort(rng.permutation(int(ends[-1]))[:rows])
    found: dict[str, tuple[list[int], list[str]]] = {}
    for number in chosen:
        place = int(np.searchsorted(ends, number, side="right"))
        position = int(number - (ends[place - 1] if place else 0))
        at, names = found.setdefault(among[place].file_id, ([], []))
        at.append(position)
        names.append(keys[place][position])
    return found
