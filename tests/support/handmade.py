"""Tables made by hand, state file by state file, for tests of what is read back from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import TableHandle, create_table, open_table
from parquetry.runtime.table.partition_path import NULL_PARTITION
from parquetry.runtime.timeline.clean import CleanerPlan, CleanMetadata
from parquetry.runtime.timeline.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
)
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.instant import Action, State, Timezone, parse_instant_ms
from parquetry.runtime.timeline.restore import SavepointMetadata
from tests.support.table_versions import table_version
from tests.support.timelines import pending, put_completed, timeline_of

COLUMNS = (
    Column(name="id", type="string", nullable=False),
    Column(name="p", type="string"),
    Column(name="n", type="bigint"),
)
CREATED = "20260101000000000"

Files = Mapping[str, Mapping[str, Sequence[tuple[str, int]]]]
"""partition -> file id -> rows (id, n)"""


def spec(**changes: object) -> TableSpec:
    values = {
        "name": "t",
        "columns": COLUMNS,
        "record_key": ("id",),
        "partition_by": ("p",),
        "table_version": table_version(),
        **changes,
    }
    return TableSpec(**values)


class HandmadeTable:
    """A table whose history is written down by the test. Instants are given as short texts such as ``5``."""

    def __init__(self, folder: Path, table: TableSpec | None = None) -> None:
        self.folder = folder
        self.store: ObjectStore = open_store(folder)
        self.spec = table or spec()
        create_table(
            self.store, self.spec, project="tests", clock=lambda: parse_instant_ms(CREATED, Timezone.UTC)
        )
        self.schema = open_table(self.store).schema_json(open_table(self.store).timeline(), self.spec.columns)

    def open(self) -> TableHandle:
        return open_table(self.store)

    def view(self):
        handle = self.open()
        return handle.view(handle.timeline())

    def request(self, time: str, action: Action = Action.COMMIT, *, content: bytes = b"") -> None:
        self._state(time, action, State.REQUESTED, content)
        self._state(time, action, State.INFLIGHT, b"")

    def files(self, time: str, files: Files) -> dict[str, tuple[WriteStat, ...]]:
        """Base files of a write that may never complete."""
        return {
            partition: tuple(
                self.base_file(time, partition, file_id, rows) for file_id, rows in groups.items()
            )
            for partition, groups in files.items()
        }

    def base_file(
        self,
        time: str,
        partition: str,
        file_id: str,
        rows: Iterable[tuple[str, int]],
        *,
        token: str = "0-0-0",
    ) -> WriteStat:
        rows = list(rows)
        instant = at(time)
        name = f"{file_id}_{token}_{instant}.parquet"
        path = f"{partition}/{name}" if partition else name
        value = partition.partition("=")[2] or partition
        value = None if value == NULL_PARTITION else value
        columns = {
            "_hoodie_commit_time": [instant] * len(rows),
            "_hoodie_commit_seqno": [f"{instant}_0_{index}" for index in range(len(rows))],
            "_hoodie_record_key": [key for key, _ in rows],
            "_hoodie_partition_path": [partition] * len(rows),
            "_hoodie_file_name": [name] * len(rows),
            "id": [key for key, _ in rows],
            "p": [value] * len(rows),
            "n": [n for _, n in rows],
        }
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([*((name, pa.string()) for name in META_COLUMNS), *arrow_schema(COLUMNS)])
        pq.write_table(pa.table(columns, schema), target)
        depth = partition.count("/") + 1 if partition else 0
        (target.parent / ".hoodie_partition_metadata").write_text(
            f"commitTime={instant}\npartitionDepth={depth}\n"
        )
        return WriteStat(
            file_id=file_id,
            path=path,
            partition_path=partition,
            num_writes=len(rows),
            num_inserts=len(rows),
            file_size_bytes=target.stat().st_size,
        )

    def commit(
        self,
        time: str,
        files: Files,
        *,
        operation: str = "UPSERT",
        replaced: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        action = Action.COMMIT if replaced is None else Action.REPLACECOMMIT
        self.request(
            time,
            action,
            content=b"" if operation != "CLUSTER" else RequestedReplace(operation="CLUSTER").encode(),
        )
        metadata = CommitMetadata(
            operation=operation,
            stats=self.files(time, files),
            extra={"schema": self.schema},
            replaced={partition: tuple(ids) for partition, ids in (replaced or {}).items()},
        )
        put_completed(self.store, at(time), action, metadata)

    def plan_clustering(self, time: str, groups: Mapping[str, Sequence[str]]) -> None:
        slices = [
            ClusteringSlice(partition=partition, file_id=file_id, path="")
            for partition, file_ids in groups.items()
            for file_id in file_ids
        ]
        plan = ClusteringPlan(groups=(ClusteringGroup(slices=tuple(slices)),))
        self._state(
            time,
            Action.REPLACECOMMIT,
            State.REQUESTED,
            RequestedReplace(operation="CLUSTER", plan=plan).encode(),
            is_clustering=True,
        )

    def savepoint(self, time: str) -> None:
        record = SavepointMetadata(created_by="tests", created_at_ms=0, comments="", files={})
        put_completed(self.store, at(time), Action.SAVEPOINT, record.encode())

    def clean(self, time: str, earliest: str) -> None:
        plan = CleanerPlan(policy="KEEP_LATEST_COMMITS", earliest_commit_to_retain=at(earliest))
        done = CleanMetadata(start_time=at(time), time_taken_ms=1, earliest_commit_to_retain=at(earliest))
        self._state(time, Action.CLEAN, State.REQUESTED, plan.encode())
        put_completed(self.store, at(time), Action.CLEAN, done.encode())

    def forget(self, time: str) -> None:
        """Removes every state file of a time, as archiving does."""
        for path in (self.folder / timeline_of(self.store).layout.NAMES.folder).glob(f"{at(time)}[._]*"):
            path.unlink()

    def _state(
        self, time: str, action: Action, state: State, content: bytes, *, is_clustering: bool = False
    ) -> None:
        instant = pending(self.store, at(time), action, state, is_clustering=is_clustering)
        self.store.put(instant.path, content)


def at(time: str) -> str:
    """``5`` is the fifth minute of the day on which handmade tables were created."""
    return time if len(time) > 4 else f"20260101{int(time):04d}00000"


def ids(slices: Iterable[object]) -> list[tuple[str, str]]:
    """(file id, instant) of slices, for comparison."""
    return sorted((part.file_id, part.instant) for part in slices)
