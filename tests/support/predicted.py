"""Tables of the kinds that clustering is for, and how well what it is good for is predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from parquetry.runtime.base_file.model import WrittenFile
from parquetry.runtime.base_file.task import write_bucket
from parquetry.runtime.clustering.forecast.by_sample import Forecaster
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.clustering.rewrite.task import GroupWork, rewrite_group
from parquetry.runtime.layout.clustering.model import ClusteringFile
from parquetry.runtime.layout.skipping.files import Reads
from parquetry.runtime.parquet.dictionaries import with_dictionaries
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, FilesPolicy, Query, TableSpec
from tests.support.base_files import FIRST, SECOND, bucket, context, slice_of

KIB = 1024
START = datetime(2013, 1, 1, tzinfo=UTC)

Rows = Mapping[str, pa.Array]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of table: its columns, rows in order of arrival, how it is clustered and what it is asked."""

    name: str
    columns: tuple[Column, ...]
    rows: Callable[[np.random.Generator, int], Rows]
    order: RowOrder
    asked: tuple[str, ...]


def sessions(rng: np.random.Generator, count: int) -> Rows:
    """Arriving in order of time, with ids at random and countries and users by Zipf's law."""
    started = np.sort(rng.integers(0, 30 * 86_400 * 10**6, count))
    return {
        "session_id": pa.array([f"{number:016x}" for number in rng.integers(0, 2**62, count)]),
        "started_at": _times(started),
        "user": pa.array(np.minimum(rng.zipf(1.3, count), 10**6)),
        "country": pa.array([f"c{number:02d}" for number in np.minimum(rng.zipf(1.5, count), 60)]),
        "pages": pa.array(rng.poisson(6, count).astype(np.int32)),
    }


def flights(rng: np.random.Generator, count: int) -> Rows:
    """Arriving by day, with few airports, many planes and distances that belong to the airports."""
    minute = np.sort(rng.integers(0, 365 * 24 * 60, count))
    origin, dest = rng.integers(0, 3, count), np.minimum(rng.zipf(1.2, count), 100)
    return {
        "flight_id": pa.array([f"{number:08d}" for number in range(count)]),
        "departed_at": _times(minute * 60 * 10**6),
        "origin": pa.array([("EWR", "JFK", "LGA")[number] for number in origin]),
        "dest": pa.array([f"D{number:03d}" for number in dest]),
        "distance": pa.array((dest * 37 % 2500 + 100).astype(np.float64)),
        "delay": pa.array(
            np.where(rng.random(count) < 0.02, np.nan, rng.gamma(2, 12, count) - 15), from_pandas=True
        ),
    }


def lineitem(rng: np.random.Generator, count: int) -> Rows:
    """TPC-H's: ordered by order key, with parts, suppliers and dates at random."""
    shipped = rng.integers(8036, 10561, count)
    quantity = rng.integers(1, 51, count)
    return {
        "l_orderkey": pa.array(np.sort(rng.integers(1, 4 * count, count))),
        "l_partkey": pa.array(rng.integers(1, 20_000, count)),
        "l_suppkey": pa.array(rng.integers(1, 1000, count)),
        "l_quantity": pa.array(quantity.astype(np.int32)),
        "l_price": pa.array(np.round(quantity * rng.uniform(900, 2000, count), 2)),
        "l_shipdate": pa.array(shipped.astype(np.int32), pa.date32()),
        "l_flag": pa.array([("A", "N", "R")[number] for number in rng.integers(0, 3, count)]),
    }


def _columns(**types: str) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=kind) for name, kind in types.items())


KINDS = (
    Kind(
        name="sessions",
        columns=_columns(
            session_id="string", started_at="timestamp", user="bigint", country="string", pages="int"
        ),
        rows=sessions,
        order=RowOrder(strategy="sort", columns=("session_id",)),
        asked=("session_id", "started_at", "user"),
    ),
    Kind(
        name="flights",
        columns=_columns(
            flight_id="string",
            departed_at="timestamp",
            origin="string",
            dest="string",
            distance="double",
            delay="double",
        ),
        rows=flights,
        order=RowOrder(strategy="hilbert", columns=("departed_at", "distance")),
        asked=("departed_at", "distance", "dest"),
    ),
    Kind(
        name="lineitem",
        columns=_columns(
            l_orderkey="bigint",
            l_partkey="bigint",
            l_suppkey="bigint",
            l_quantity="int",
            l_price="double",
            l_shipdate="date",
            l_flag="string",
        ),
        rows=lineitem,
        order=RowOrder(strategy="zorder", columns=("l_partkey", "l_suppkey")),
        asked=("l_partkey", "l_suppkey", "l_shipdate"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class PredictedGroups:
    """One condition: what was expected to be read after clustering, and what is."""

    table: str
    where: str
    expected: Reads
    measured: Reads

    def error(self, kind: str) -> float:
        """The share of what is read by which more or less was expected."""
        expected, measured = getattr(self.expected, kind), getattr(self.measured, kind)
        return float(abs(expected - measured) / measured)


def predicted(
    folder: Path,
    kind: Kind,
    *,
    rows: int,
    files: int,
    predicates: int,
    seed: int,
    limits: SampleLimits,
    target_bytes: int = 512 * KIB,
    row_group_bytes: int = 64 * KIB,
    conditions: Sequence[str] = (),
) -> list[PredictedGroups]:
    """Conditions drawn by row from a table of so many small files, before and after it is clustered.

    And those that are given as ``conditions``.
    """
    rng = np.random.default_rng(seed)
    policy = FilesPolicy(row_group_size_bytes=row_group_bytes)
    before = context(folder, kind.columns, instant=FIRST, files=policy)
    table = pa.table(dict(kind.rows(rng, rows)))
    written = [file for part in _small_files(table, files) for file in _write(before, *part)]
    spec = TableSpec(name=kind.name, columns=kind.columns, files=policy)
    asked = [
        Query(name=str(n), where=where)
        for n, where in enumerate([*conditions, *drawn_conditions(rng, table, kind.asked, predicates)])
    ]
    queries = DeclaredQueries.of(replace(spec, extra=Extra(queries=tuple(asked))))
    group = [_clustering_file(file) for file in written]
    forecaster = Forecaster(
        before.store, spec, [group], columns=kind.order.columns, queries=queries, limits=limits
    )
    execution = ExecutionPolicy(strategy=kind.order.strategy, columns=kind.order.columns)
    (forecast,) = forecaster.forecast(execution, target_bytes=target_bytes)
    work = GroupWork(
        index=0,
        partition="p=1",
        slices=tuple(slice_of(file) for file in written),
        target_bytes=target_bytes,
        order=kind.order,
    )
    after = rewrite_group(replace(before, instant=SECOND, clustering="sha256:1"), work)
    statistics = {file.stat.path: file.statistics for file in after.files}
    for look_into in (with_pages, with_dictionaries):
        statistics = look_into(before.store, statistics, queries.predicates, queries.types)
    measured = queries.reads(statistics.values())
    return [
        PredictedGroups(table=kind.name, where=query.where, expected=found.expected, measured=read)
        for query, found, read in zip(queries, forecast.queries, measured, strict=True)
    ]


def _small_files(table: pa.Table, files: int) -> Iterator[tuple[int, pa.Table]]:
    bounds = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number, (first, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        yield number, table.slice(first, end - first)


def _write(ctx: Any, number: int, rows: pa.Table) -> Sequence[WrittenFile]:
    count = rows.num_rows
    whole = rows.append_column("_hoodie_record_key", pa.array([f"{number}-{n}" for n in range(count)]))
    whole = whole.append_column("__position", pa.nulls(count, pa.int64()))
    whole = whole.append_column("__delete", pa.array(np.zeros(count, bool)))
    whole = whole.append_column("__hash", pa.array(np.ones(count, np.int64)))
    return write_bucket(ctx, bucket(ctx, number), whole.combine_chunks().to_batches()).files


def _clustering_file(file: WrittenFile) -> ClusteringFile:
    part = slice_of(file)
    return ClusteringFile(
        partition=part.partition,
        file_id=part.file_id,
        instant=part.instant,
        path=part.path,
        size_bytes=part.size_bytes,
        rows=part.rows,
    )


def drawn_conditions(
    rng: np.random.Generator, table: pa.Table, asked: Sequence[str], count: int
) -> Iterator[str]:
    """Points and ranges around the values of rows drawn at random, of one column or of two."""
    for number in range(count):
        row = table.slice(int(rng.integers(table.num_rows)), 1).to_pylist()[0]
        name = asked[number % len(asked)]
        value = row[name]
        condition = f"{name} = {_sql(value)}"
        if number % 4 == 1 and not isinstance(value, str):
            condition = f"{name} >= {_sql(value)} AND {name} < {_sql(_further(value, rng))}"
        elif number % 4 == 2:
            other = asked[(number + 1) % len(asked)]
            condition += f" AND {other} = {_sql(row[other])}"
        yield condition


def _further(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, datetime):
        return value + timedelta(hours=float(rng.uniform(1, 24)))
    if isinstance(value, int | float):
        return value + max(abs(value) * float(rng.uniform(0.01, 0.1)), 1)
    return value + timedelta(days=int(rng.integers(1, 30)))


def _sql(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, int | float):
        return repr(value)
    return f"'{value}'"


def _times(microseconds: np.ndarray) -> pa.Array:
    first = int(START.timestamp() * 10**6)
    return pa.array(microseconds + first, pa.timestamp("us", tz="UTC"))
