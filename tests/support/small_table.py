"""A writer of small tables: the commit protocol driven with pyarrow alone, no Spark between.

``deleted`` are the keys that the last delete found. Rows are ``key -> (value, partition)``; every operation goes through ``run_write`` with a body that
looks keys up, merges, and writes files as the real writer does, only without sizing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.commit.outcome import CommitResult, Footprint, KeyRange, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.commit.workload_profile import PartitionProfile, PlannedFile
from parquetry.runtime.errors import NotFoundError, RetryWrite
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.footer import file_statistics
from parquetry.runtime.services.after_write import run_due_services
from parquetry.runtime.sources.ledger import Consumption
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.meta_columns import META_COLUMNS, MetaColumns
from parquetry.runtime.spec.table_spec import Column, FilesPolicy, RetentionPolicy, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.table.handle import TableHandle, create_table, open_table
from parquetry.runtime.table.statistics import encode_statistics
from parquetry.runtime.timeline.commit import WriteStat
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.markers import MarkerKind
from parquetry.runtime.timeline.sidecars import statistics_path
from parquetry.runtime.timing import Timing
from tests.support import hudi_rs
from tests.support.table_versions import table_version as chosen_version

COLUMNS = (
    Column(name="id", type="string", nullable=False),
    Column(name="v", type="bigint"),
    Column(name="p", type="string"),
)
SCHEMA = pa.schema([*((name, pa.string()) for name in META_COLUMNS), *arrow_schema(COLUMNS)])
FAST = Timing(
    heartbeat_seconds=0.5,
    dead_after_seconds=3.0,
    foreign_lock_seconds=0.5,
    listing_valid_seconds=0.0,
    poll_seconds=0.01,
    longest_poll_seconds=0.05,
    backoff_seconds=0.01,
    longest_backoff_seconds=0.2,
)

Rows = Mapping[str, tuple[int, str]]


@dataclass(slots=True)
class SmallTable:
    """One writer's sight of a table. ``small_file_rows``: files below it are filled with new rows."""

    store: ObjectStore
    timing: Timing = FAST
    small_file_rows: int = 0
    services: bool = False
    deleted: list[str] = field(default_factory=list)
    inserted_keys: Mapping[str, KeyRange] = field(default_factory=dict)
    before_publish: Callable[[Transaction], None] = field(default=lambda _: None)
    owner: TableOwner | None = None

    @property
    def handle(self) -> TableHandle:
        return open_table(self.store, owner=self.owner)

    def upsert(self, rows: Rows, *, consumed: Iterable[Consumption] = ()) -> CommitResult:
        return self._run(Action.COMMIT, "UPSERT", lambda txn: self._upsert(txn, rows, tuple(consumed)))

    def insert(self, rows: Rows) -> CommitResult:
        return self._run(Action.COMMIT, "INSERT", lambda txn: self._insert(txn, rows))

    def delete(self, keys: Iterable[str]) -> CommitResult:
        wanted = set(keys)
        return self._run(Action.COMMIT, "DELETE", lambda txn: self._delete(txn, wanted))

    def overwrite(self, rows: Rows) -> CommitResult:
        return self._run(Action.REPLACECOMMIT, "INSERT_OVERWRITE", lambda txn: self._overwrite(txn, rows))

    def delete_partition(self, partition: str) -> CommitResult:
        def body(txn: Transaction) -> WriteOutcome:
            slices = txn.table.view(txn.timeline).slices(partition)
            return _outcome(
                txn,
                replaced={partition: tuple(s.file_id for s in slices)} if slices else {},
                footprint=Footprint(overwritten=frozenset({partition})),
            )

        return self._run(Action.REPLACECOMMIT, "DELETE_PARTITION", body)

    def _run(
        self, action: Action, operation: str, body: Callable[[Transaction], WriteOutcome | None]
    ) -> CommitResult:
        def hooked(txn: Transaction) -> WriteOutcome | None:
            outcome = body(txn)
            self.before_publish(txn)
            return outcome

        handle = self.handle
        services = partial(run_due_services, timing=self.timing) if self.services else None
        result = run_write(
            handle, action=action, operation=operation, body=hooked, timing=self.timing, services=services
        )
        return handle.cleared(result)

    def _upsert(self, txn: Transaction, rows: Rows, consumed: tuple[Consumption, ...]) -> WriteOutcome:
        view = txn.table.view(txn.timeline)
        view.list_partitions(sorted(_by_partition(rows)))
        merges: dict[FileSlice, dict[str, tuple[int, str] | None]] = {}
        inserts: dict[str, dict[str, tuple[int, str]]] = {}
        for partition, wanted in _by_partition(rows).items():
            left = dict(wanted)
            for part in view.slices(partition):
                hits = {k: wanted[k] for k in _keys(self.store, part) if k in wanted}
                if hits:
                    merges[part] = dict(hits)
                for key in hits:
                    left.pop(key, None)
            if left:
                inserts[partition] = left
        footprint = Footprint(looks_up_keys=True, consumed=consumed, inserted_keys=self.inserted_keys)
        return self._write(txn, merges, inserts, footprint)

    def _insert(self, txn: Transaction, rows: Rows) -> WriteOutcome:
        return self._write(txn, {}, {p: dict(r) for p, r in _by_partition(rows).items()}, Footprint())

    def _delete(self, txn: Transaction, wanted: set[str]) -> WriteOutcome | None:
        view = txn.table.view(txn.timeline)
        merges: dict[FileSlice, dict[str, tuple[int, str] | None]] = {}
        for part in view.all_slices():
            hits = {key: None for key in _keys(self.store, part) if key in wanted}
            if hits:
                merges[part] = dict(hits)
        self.deleted = [key for hits in merges.values() for key in hits]
        return self._write(txn, merges, {}, Footprint()) if merges else None

    def _overwrite(self, txn: Transaction, rows: Rows) -> WriteOutcome:
        view = txn.table.view(txn.timeline)
        by_partition = _by_partition(rows)
        replaced = {p: tuple(s.file_id for s in view.slices(p)) for p in by_partition}
        names = {p: _name(txn, p, f"new-{p}") for p in by_partition}
        txn.put_markers({MarkerKind.CREATE: [name.path for name in names.values()]})
        stats = {p: (_write_new(self.store, txn, names[p], dict(r)),) for p, r in by_partition.items()}
        return _outcome(
            txn,
            stats=stats,
            replaced={p: ids for p, ids in replaced.items() if ids},
            footprint=Footprint(overwritten=frozenset(by_partition)),
        )

    def _write(
        self,
        txn: Transaction,
        merges: Mapping[FileSlice, Mapping[str, tuple[int, str] | None]],
        inserts: Mapping[str, Mapping[str, tuple[int, str]]],
        footprint: Footprint,
    ) -> WriteOutcome:
        view = txn.table.view(txn.timeline)
        filled: dict[str, FileSlice] = {}
        for partition in inserts:
            small = [s for s in view.slices(partition) if len(_keys(self.store, s)) < self.small_file_rows]
            if small:
                filled[partition] = small[0]
        left_out = txn.announce(_profile(merges, inserts, filled), inserted_keys=self.inserted_keys)
        filled = {p: s for p, s in filled.items() if s.file_id not in left_out}
        changes = {part: dict(rows) for part, rows in merges.items()}
        for partition, part in filled.items():
            changes.setdefault(part, {}).update(inserts[partition])
        targets = {
            part: BaseFileName(partition=part.partition, file_id=part.file_id, instant=txn.instant)
            for part in changes
        }
        fresh = {p: _name(txn, p, f"new-{p}") for p in inserts if p not in filled}
        txn.put_markers(
            {
                MarkerKind.MERGE: [name.path for name in targets.values()],
                MarkerKind.CREATE: [name.path for name in fresh.values()],
            }
        )
        stats: dict[str, list[WriteStat]] = {}
        for part, rows in changes.items():
            stats.setdefault(part.partition, []).append(_merge(self.store, txn, part, targets[part], rows))
        for partition, name in fresh.items():
            stats.setdefault(partition, []).append(
                _write_new(self.store, txn, name, dict(inserts[partition]))
            )
        return _outcome(txn, stats={p: tuple(s) for p, s in stats.items()}, footprint=footprint)


def make_table(
    path: Path | str | ObjectStore,
    *,
    table_version: int | None = None,
    meta_columns: MetaColumns = MetaColumns.ALL,
    **retention: int | None,
) -> SmallTable:
    """A new table, partitioned by ``p``."""
    store = open_store(path) if isinstance(path, (Path, str)) else path
    spec = TableSpec(
        name="small",
        columns=COLUMNS,
        record_key=("id",),
        partition_by=("p",),
        files=FilesPolicy(meta_columns=meta_columns),
        retention=RetentionPolicy(**retention),
        table_version=table_version or chosen_version(),
    )
    create_table(store, spec, project="tests")
    write_applied(store, spec, number=1)
    return SmallTable(store=store)


def rows_of(path: Path | str, **options: str) -> dict[str, tuple[int, str]]:
    """The table's rows as hudi-rs sees them; a key that occurs twice fails."""
    table = hudi_rs.read(str(path), **options)
    return _as_rows(table.select(["id", "v", "p"]).to_pylist())


def view_rows(path: Path | str | ObjectStore, as_of: str | None = None) -> dict[str, tuple[int, str]]:
    """The table's rows as our own view sees them."""
    handle = open_table(open_store(path) if isinstance(path, (Path, str)) else path)
    slices = handle.view(handle.timeline()).all_slices(as_of)
    return _as_rows([row for part in slices for row in _read(handle.store, part.path).to_pylist()])


def _as_rows(found: list[dict[str, object]]) -> dict[str, tuple[int, str]]:
    rows = {str(row["id"]): (int(str(row["v"])), str(row["p"])) for row in found}
    assert len(rows) == len(found), f"{len(found) - len(rows)} keys occur twice"
    return rows


def _by_partition(rows: Rows) -> dict[str, dict[str, tuple[int, str]]]:
    found: dict[str, dict[str, tuple[int, str]]] = {}
    for key, row in rows.items():
        found.setdefault(f"p={row[1]}", {})[key] = row
    return found


def _profile(
    merges: Mapping[FileSlice, Mapping[str, object]],
    inserts: Mapping[str, Mapping[str, object]],
    filled: Mapping[str, FileSlice],
) -> dict[str, PartitionProfile]:
    partitions = {part.partition for part in merges} | set(inserts)
    profile = {}
    for partition in partitions:
        files = {
            part.file_id: PlannedFile(base_instant=part.instant, updates=len(rows))
            for part, rows in merges.items()
            if part.partition == partition
        }
        small = filled.get(partition)
        if small is not None and small.file_id not in files:
            files[small.file_id] = PlannedFile(base_instant=small.instant, inserts=len(inserts[partition]))
        profile[partition] = PartitionProfile(inserts=len(inserts.get(partition, ())), files=files)
    return profile


def _outcome(
    txn: Transaction,
    *,
    stats: Mapping[str, tuple[WriteStat, ...]] | None = None,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    footprint: Footprint,
) -> WriteOutcome:
    columns = COLUMNS if txn.table.spec is None else txn.table.spec.columns
    return WriteOutcome(
        operation=txn.operation,
        schema_json=txn.table.schema_json(txn.timeline, columns),
        stats=stats or {},
        replaced=replaced or {},
        footprint=footprint,
        sidecars=((statistics_path(txn.instant), _statistics(txn.store, stats or {})),),
    )


def _statistics(store: ObjectStore, stats: Mapping[str, tuple[WriteStat, ...]]) -> bytes:
    files = []
    for stat in (stat for group in stats.values() for stat in group):
        with store.open_input(stat.path) as source:
            metadata = pq.read_metadata(source)
        files.append(file_statistics(stat.path, metadata, size_bytes=stat.file_size_bytes))
    return encode_statistics(files)


def _name(txn: Transaction, partition: str, bucket: str) -> BaseFileName:
    file_id = f"{uuid.uuid5(uuid.NAMESPACE_OID, txn.instant + bucket)}-0"
    return BaseFileName(partition=partition, file_id=file_id, instant=txn.instant)


def _read(store: ObjectStore, path: str) -> pa.Table:
    with store.open_input(path) as source, pq.ParquetFile(source) as file:
        return file.read()


def _keys(store: ObjectStore, part: FileSlice) -> list[str]:
    try:
        return [str(key) for key in _read(store, part.path).column("id").to_pylist()]
    except NotFoundError as error:
        raise RetryWrite(f"{part.path} was cleaned") from error


def _write_file(
    store: ObjectStore, txn: Transaction, name: BaseFileName, rows: list[dict[str, object]]
) -> int:
    own = {"_hoodie_file_name": name.name, **dict.fromkeys(txn.table.config.meta_columns.empty)}
    rows = [row | own for row in rows]
    if not txn.guard.is_pending(store):
        raise RetryWrite(f"{txn.instant} was rolled back")
    with store.create_file(name.path) as sink:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink, store_schema=False)
    if not txn.guard.is_pending(store):
        store.delete(name.path)
        raise RetryWrite(f"{txn.instant} was rolled back")
    info = store.stat(name.path)
    assert info is not None
    return info.size_bytes


def _row(txn: Transaction, number: int, key: str, row: tuple[int, str]) -> dict[str, object]:
    return {
        "_hoodie_commit_time": txn.instant,
        "_hoodie_commit_seqno": f"{txn.instant}_0_{number}",
        "_hoodie_record_key": key,
        "_hoodie_partition_path": f"p={row[1]}",
        "id": key,
        "v": row[0],
        "p": row[1],
    }


def _write_new(
    store: ObjectStore, txn: Transaction, name: BaseFileName, rows: Mapping[str, tuple[int, str]]
) -> WriteStat:
    records = [_row(txn, n, key, row) for n, (key, row) in enumerate(rows.items())]
    size = _write_file(store, txn, name, records)
    return WriteStat(
        file_id=name.file_id,
        path=name.path,
        partition_path=name.partition,
        num_writes=len(rows),
        num_inserts=len(rows),
        file_size_bytes=size,
    )


def _merge(
    store: ObjectStore,
    txn: Transaction,
    part: FileSlice,
    name: BaseFileName,
    changes: Mapping[str, tuple[int, str] | None],
) -> WriteStat:
    try:
        old = _read(store, part.path).to_pylist()
    except NotFoundError as error:
        raise RetryWrite(f"{part.path} was cleaned") from error
    known = {row["id"] for row in old}
    records, updated, deleted = [], 0, 0
    for number, row in enumerate(old):
        if row["id"] not in changes:
            time = row.get("_hoodie_commit_time") or part.instant
            records.append({**row, "_hoodie_commit_time": time})
            continue
        change = changes[row["id"]]
        if change is None:
            deleted += 1
        else:
            updated += 1
            records.append(_row(txn, number, row["id"], change))
    fresh = {key: row for key, row in changes.items() if key not in known and row is not None}
    records += [_row(txn, len(old) + n, key, row) for n, (key, row) in enumerate(fresh.items())]
    size = _write_file(store, txn, name, records)
    return WriteStat(
        file_id=name.file_id,
        path=name.path,
        partition_path=name.partition,
        prev_commit=part.instant,
        num_writes=len(records),
        num_update_writes=updated,
        num_deletes=deleted,
        num_inserts=len(fresh),
        file_size_bytes=size,
    )
