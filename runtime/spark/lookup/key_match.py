"""Lookup of a small batch's keys in base files, by tasks that read only the key or its columns.

This is cheaper than a Spark join as long as the keys of the batch fit into every task: a task compares the
keys of a file where it decodes or computes them, skips row groups without a wanted key, and returns only the
found positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from parquetry.message import Value
from parquetry.runtime.arrow.conform import conform
from parquetry.runtime.base_file.model import POSITION
from parquetry.runtime.base_file.reader import reading
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.announcement import announce_chunks
from parquetry.runtime.parquet.encryption import open_parquet
from parquetry.runtime.spark.lookup.tagging import FILE, STORED_KEY, STORED_ORDERING, STORED_PARTITION
from parquetry.runtime.spark.session.numbered import map_in_tasks
from parquetry.runtime.spark.session.settings import TYPE_SETTINGS, reachable_parallelism, session_settings
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.batch_keys import BatchKeys
from parquetry.runtime.stage.part import PARTITION, type_at
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.storage.bucket import opened_in_turn
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.stored_keys import StoredKeys

SMALL_ROWS: Final = 500_000
SMALL_BYTES: Final = 32 * 1024 * 1024
_TEXT_BYTES: Final = 24
_TASKS_PER_CORE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOrdering:
    """The ordering column to fetch with each found key: its name, and its type in Arrow and in Spark."""

    column: str
    arrow: pa.DataType
    ddl: str


def is_small(staged: StagedRows) -> bool:
    """Return whether every task can hold the batch's keys, partition paths and ordering values in memory."""
    return staged.rows <= SMALL_ROWS and _held_bytes(staged) <= SMALL_BYTES


def _held_bytes(staged: StagedRows) -> int:
    """Estimate the bytes of texts and ordering values that a task holds.

    A text counts at least 24 bytes, and each row has the longest path.
    """
    ordering = staged.spec.ordering
    kind = pa.null() if ordering is None else type_at(staged.spec.schema, ordering)
    is_fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
    texts = 1 if ordering is None or is_fixed else 2
    text_bytes = sum(total.text_bytes for total in staged.totals.values())
    longest_path = max((len(path.encode()) for path in staged.totals), default=0)
    row_bytes = longest_path + (-(-kind.bit_width // 8) if is_fixed else 0)
    return max(text_bytes, staged.rows * texts * _TEXT_BYTES) + staged.rows * row_bytes


def find_positions(
    spark: SparkSession,
    store: ObjectStore,
    staged: StagedRows,
    files: Sequence[FileSlice],
    *,
    stored_keys: StoredKeys,
    by_partition: bool,
    ordering: StoredOrdering | None,
) -> DataFrame:
    """Return every position of the batch's keys in the files: key, partition, file name, position.

    Args:
        spark: The session.
        store: The store of the table.
        staged: The batch.
        files: The files to search.
        stored_keys: The origin of their keys, which must be spelled here.
        by_partition: Whether a key is searched for only in the partition of its row.
        ordering: The ordering column to return as well, or None.

    """
    ordered = sorted(files, key=lambda f: (f.partition, f.path))
    tasks = min(len(ordered), _TASKS_PER_CORE * reachable_parallelism(spark))
    shares = [list(share) for share in np.array_split(np.arange(len(ordered)), tasks)]
    work = [[ordered[i] for i in share] for share in shares]
    keys = BatchKeys(
        location=staged.spec.location,
        names=tuple(sorted(set(staged.names.values()))),
        partitioned=by_partition,
        columns=(RECORD_KEY, PARTITION) if by_partition else (RECORD_KEY,),
    )
    task = _matcher(keys, store, work, stored_keys, ordering)
    ddl = f"{STORED_KEY} string, {STORED_PARTITION} string, {FILE} string, {POSITION} bigint"
    if ordering is not None:
        ddl += f", {STORED_ORDERING} {ordering.ddl}"
    with session_settings(spark, TYPE_SETTINGS):
        return map_in_tasks(spark.range(0, tasks, 1, tasks), task, ddl)


def _matcher(
    keys: BatchKeys,
    store: ObjectStore,
    work: Sequence[Sequence[FileSlice]],
    stored_keys: StoredKeys,
    ordering: StoredOrdering | None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def match(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chosen = [number for batch in numbers for number in batch.column(0).to_pylist()]
        for number in chosen:
            files_in_turn = opened_in_turn(store, work[number])
            for partition, files in groupby(files_in_turn, key=lambda f: f.partition):
                wanted = keys.distinct(partition)
                for file in files:
                    yield from find_in_file(store, file, wanted, stored_keys, ordering)

    return match


def find_in_file(
    store: ObjectStore,
    file: FileSlice,
    wanted: pa.Array,
    stored_keys: StoredKeys,
    ordering: StoredOrdering | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the positions in the file of the wanted keys."""
    columns = [ordering.column] if ordering else []
    for first, keys, table in row_groups_with(store, file, wanted, stored_keys, columns):
        yield from _matched_rows(keys, table, wanted, first=first, file=file, ordering=ordering)


def row_groups_with(
    store: ObjectStore,
    file: FileSlice,
    wanted: pa.Array,
    stored_keys: StoredKeys,
    columns: Sequence[str] = (),
) -> Iterator[tuple[int, pa.Array, pa.Table]]:
    """Yield the first row number, the keys and the columns of each row group that may have a wanted key.

    ``wanted`` are sorted as UTF-8 bytes.
    """
    names = [*dict.fromkeys((*stored_keys.columns, *columns))]
    if not len(wanted):
        return
    place = Value.uri(f"{store.uri}/{file.path}")
    with store.open_input(file.path) as source, reading(place):
        parquet = open_parquet(source, store.allowed, place=place, pre_buffer=False)
        metadata = parquet.metadata
        matching = []
        for number in range(metadata.num_row_groups):
            bounds = stored_keys.bounds_of_group(metadata, number)
            if bounds is None or any_between(wanted, *bounds):
                matching.append(number)
        announce_chunks(source, metadata, {name.partition(".")[0] for name in names}, row_groups=matching)
        rows = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        firsts = [*accumulate(rows, initial=0)]
        for number in matching:
            table = parquet.read_row_group(number, columns=names, use_threads=False)
            yield firsts[number], stored_keys.of_rows(table), table


def _matched_rows(
    keys: pa.Array,
    table: pa.Table,
    wanted: pa.Array,
    *,
    first: int,
    file: FileSlice,
    ordering: StoredOrdering | None,
) -> Iterator[pa.RecordBatch]:
    found = pc.is_in(keys, value_set=wanted)
    if not found.true_count:
        return
    indices = pc.indices_nonzero(found)
    count = len(indices)
    columns = {
        STORED_KEY: keys.take(indices),
        STORED_PARTITION: pa.repeat(file.partition, count),
        FILE: pa.repeat(file.path.rpartition("/")[2], count),
        POSITION: pc.add(pc.cast(indices, pa.int64()), first),
    }
    if ordering is not None:
        stored = (
            table.column(ordering.column).combine_chunks() if ordering.column in table.column_names else None
        )
        columns[STORED_ORDERING] = (
            pa.nulls(count, ordering.arrow)
            if stored is None
            else conform(stored.take(indices), ordering.arrow)
        )
    yield pa.RecordBatch.from_pydict(columns)


def any_between(ordered: pa.Array, low: str, high: str) -> bool:
    """Return whether one of the sorted texts is between ``low`` and ``high``, compared as UTF-8 bytes."""
    start, stop = 0, len(ordered)
    least = low.encode()
    while start < stop:
        middle = (start + stop) // 2
        if ordered[middle].as_py().encode() < least:
            start = middle + 1
        else:
            stop = middle
    return start < len(ordered) and ordered[start].as_py().encode() <= high.encode()
