"""Random tables with random weighted queries, and what these read once a table is clustered by a layout."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.commit.outcome import Footprint, WriteOutcome
from parquetry.runtime.commit.publish import run_write
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.commit.workload_profile import PartitionProfile
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types, parse_where, reads_of
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, FilesPolicy, Query, TableSpec
from parquetry.runtime.storage.local import LocalStore
from parquetry.runtime.table.applied import write_applied
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.table.statistics import encode_statistics, look_up
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.sidecars import statistics_path
from tests.support.base_files import bucket, context
from tests.support.one_process_spark import OneProcessSpark
from tests.support.small_table import FAST

TARGET = 256 * 1024
ROW_GROUP = 32 * 1024
MOST_COLUMNS = 3


@dataclass(frozen=True, kw_only=True)
class RandomTable:
    """A table of one partition with declared queries; ``asked`` are the columns in their conditions."""

    path: Path
    spec: TableSpec
    slices: tuple[FileSlice, ...]
    asked: tuple[str, ...]

    @property
    def store(self) -> LocalStore:
        return LocalStore(str(self.path))


def random_table(
    folder: Path, seed: int, *, rows: int, columns: int, in_force: ExecutionPolicy | None = None
) -> RandomTable:
    """Columns of different types, cardinality, skew and correlation, in an order of arrival drawn too."""
    rng = np.random.default_rng(seed)
    values = {f"c{number}": _column(rng, rows) for number in range(columns)}
    names = list(values)
    if rng.random() < 0.6:
        # The second column follows the first one, more or less.
        first = _ranks(values[names[0]])
        noise = rng.normal(0, rows * float(rng.choice([0.002, 0.05, 0.3])), rows)
        values[names[1]] = np.argsort(np.argsort(first + noise)).astype(np.int64) * 3
    arrival = _ranks(values[str(rng.choice(names))]) + rng.normal(0, rows * rng.choice([0.01, 0.2, 9]), rows)
    order = np.argsort(arrival)
    values = {name: column[order] for name, column in values.items()}
    payload = rng.integers(0, 2**62, rows) % int(rng.choice([50, 5000, 2**62]))
    declared = (
        Column(name="id", type="string", nullable=False),
        *(Column(name=name, type=_type_of(column)) for name, column in values.items()),
        Column(name="payload", type="bigint"),
    )
    table = pa.table(
        {
            "id": pa.array([f"{number:08d}" for number in range(rows)]),
            **{name: pa.array(column) for name, column in values.items()},
            "payload": pa.array(payload),
        }
    )
    queries = tuple(_query(rng, number, values) for number in range(int(rng.integers(2, 6))))
    section = _section(in_force or ExecutionPolicy())
    spec = TableSpec(
        name="random",
        columns=declared,
        record_key=("id",),
        files=FilesPolicy(row_group_size_bytes=ROW_GROUP),
        sizing=SizingPolicy(max_file_size_bytes=TARGET, small_file_limit_bytes=TARGET // 2),
        extra=Extra(clustering=section, queries=queries),
    )
    path = folder / "table"
    store = LocalStore(str(path))
    create_table(store, spec, project="tests")
    write_applied(store, spec, number=1)
    parts = int(rng.integers(4, 12))
    for part in range(parts):
        first, end = rows * part // parts, rows * (part + 1) // parts
        insert(store, spec, table.slice(first, end - first))
    handle = open_table(store)
    text = " ".join(query.where for query in queries)
    return RandomTable(
        path=path,
        spec=spec,
        slices=tuple(handle.view(handle.timeline()).all_slices()),
        asked=tuple(name for name in names if name in text),
    )


def insert(store: LocalStore, spec: TableSpec, rows: pa.Table) -> None:
    """Commit the rows as one file, or as many as it takes."""

    def body(txn: Transaction) -> WriteOutcome:
        txn.announce({"": PartitionProfile(inserts=rows.num_rows)})
        ctx = context(
            store,
            spec.columns,
            instant=txn.instant,
            files=spec.files,
            max_file_size_bytes=spec.sizing.max_file_size_bytes,
        )
        count = rows.num_rows
        whole = rows.append_column("_hoodie_record_key", rows.column("id"))
        whole = whole.append_column("__position", pa.nulls(count, pa.int64()))
        whole = whole.append_column("__delete", pa.array(np.zeros(count, bool)))
        whole = whole.append_column("__hash", pa.array(np.ones(count, np.int64)))
        to = bucket(ctx, 0, "", expected_inserts=count)
        files = write_bucket(ctx, to, whole.combine_chunks().to_batches()).files
        recorded = encode_statistics([file.statistics for file in files])
        return WriteOutcome(
            operation=txn.operation,
            schema_json=txn.table.schema_json(txn.timeline, spec.columns),
            stats={"": tuple(file.stat for file in files)},
            replaced={},
            footprint=Footprint(),
            sidecars=((statistics_path(txn.instant), recorded),),
        )

    run_write(open_table(store), action=Action.COMMIT, operation="INSERT", body=body, timing=FAST)


def all_layouts(names: Sequence[str]) -> Iterator[ExecutionPolicy]:
    """Sorts by up to three of the columns, and curves over two and three of them, in every order."""
    for count in range(1, MOST_COLUMNS + 1):
        for columns in permutations(names, count):
            for strategy in ("sort", "zorder", "hilbert") if count > 1 else ("sort",):
                yield ExecutionPolicy(strategy=strategy, columns=columns)


def measured_bytes(table: RandomTable, layout: ExecutionPolicy) -> float:
    """What the queries read, by weight, once a copy of the table has been clustered by the layout."""
    with TemporaryDirectory() as folder:
        store = LocalStore(str(shutil.copytree(table.path, Path(folder) / "table")))
        extra = replace(table.spec.extra, clustering=_section(layout))
        write_applied(store, replace(table.spec, extra=extra), number=2)
        cluster(OneProcessSpark(), open_table(store), timing=FAST)
        handle = open_table(store)
        return _read_bytes(table, store, look_up(store, handle.view(handle.timeline()).all_slices()))


def _read_bytes(table: RandomTable, store: LocalStore, statistics: Mapping[str, FileStatistics]) -> float:
    types = column_types(table.spec.columns)
    queries = table.spec.extra.queries
    predicates = [parse_where(query.where, types=types, time_zone=UTC) for query in queries]
    paged = with_pages(store, statistics, predicates, types)
    return sum(
        query.weight * reads_of(paged.values(), predicate, types).data_bytes
        for query, predicate in zip(queries, predicates, strict=True)
    )


def _section(layout: ExecutionPolicy) -> ClusteringSpec:
    return ClusteringSpec(
        plan=PlanPolicy(small_file_limit_bytes=TARGET * 5 // 6, target_file_size_bytes=TARGET),
        execution=layout,
    )


def _column(rng: np.random.Generator, rows: int) -> np.ndarray:
    kind = rng.choice(["few", "zipf", "uniform", "time", "text", "normal"])
    if kind == "few":
        return rng.integers(0, int(rng.integers(2, 40)), rows)
    if kind == "zipf":
        return np.minimum(rng.zipf(float(rng.uniform(1.2, 2)), rows), 10**6)
    if kind == "uniform":
        return rng.integers(0, int(rng.choice([1000, 10**6, 10**12])), rows)
    if kind == "time":
        return np.sort(rng.integers(0, 10**9, rows))
    if kind == "text":
        return np.array([f"t{number:06d}" for number in rng.integers(0, int(rng.choice([20, 3000])), rows)])
    return np.round(rng.normal(0, 1000, rows), 2)


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable")).astype(float)


def _type_of(values: np.ndarray) -> str:
    return {"i": "bigint", "f": "double"}.get(values.dtype.kind, "string")


def _query(rng: np.random.Generator, number: int, values: dict[str, np.ndarray]) -> Query:
    """A point or a range of one column, or of two, around a row's values."""
    names = [str(name) for name in rng.choice(list(values), size=int(rng.choice([1, 1, 2])), replace=False)]
    row = int(rng.integers(len(values[names[0]])))
    conditions = []
    for name in names:
        value = values[name][row].item()
        if isinstance(value, str):
            conditions.append(f"{name} = '{value}'")
        elif rng.random() < 0.5:
            conditions.append(f"{name} = {value!r}")
        else:
            ordered = np.sort(values[name])
            at = int(np.searchsorted(ordered, value))
            width = int(len(ordered) * float(rng.choice([0.002, 0.02, 0.1])))
            until = ordered[min(at + width, len(ordered) - 1)].item()
            conditions.append(f"{name} >= {value!r} AND {name} <= {until!r}")
    return Query(
        name=f"q{number}",
        where=" AND ".join(conditions),
        weight=float(rng.choice([0.2, 1.0, 1.0, 5.0])),
    )
