"""Lookup of a small batch's keys in base files, by tasks that read only the key column.

This is cheaper than a Spark join as long as the keys of the batch fit into every task: a task compares the
keys of a file where it decodes them, skips row groups without a wanted key, and returns only the found
positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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
from parquetry.runtime.storage.model import ObjectStore

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
    by_partition: bool,
    ordering: StoredOrdering | None,
) -> DataFrame:
    """Return every position of the batch's keys in the files: key, partition, file name, position.

    Args:
        spark: The session.
        store: The store of the table.
        staged: The batch.
        files: The files to search.
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
    task = _matcher(keys, store, work, ordering)
    ddl = f"{STORED_KEY} string, {STORED_PARTITION} string, {FILE} string, {POSITION} bigint"
    if ordering is not None:
        ddl += f", {STORED_ORDERING} {ordering.ddl}"
    with session_settings(spark, TYPE_SETTINGS):
        return map_in_tasks(spark.range(0, tasks, 1, tasks), task, ddl)


def _matcher(
    keys: BatchKeys,
    store: ObjectStore,
    work: Sequence[Sequence[FileSlice]],
    ordering: StoredOrdering | None,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def match(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chosen = [number for batch in numbers for number in batch.column(0).to_pylist()]
        for number in chosen:
            for partition, files in groupby(work[number], key=lambda f: f.partition):
                wanted = keys.distinct(partition)
                for file in files:
                    yield from find_in_file(store, file, wanted, ordering)

    return match


def find_in_file(
    store: ObjectStore, file: FileSlice, wanted: pa.Array, ordering: StoredOrdering | None
) -> Iterator[pa.RecordBatch]:
    """Yield the positions in the file of the wanted keys."""
    columns = [RECORD_KEY, *([ordering.column] if ordering else [])]
    for first, table in key_columns(store, file, wanted, columns):
        yield from _matched_rows(table, wanted, first, file, ordering)


def key_columns(
    store: ObjectStore, file: FileSlice, wanted: pa.Array, columns: Sequence[str]
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the columns of each row group that may contain a wanted key, with the number of its first row.

    ``wanted`` are sorted as UTF-8 bytes.
    """
    if not len(wanted):
        return
    place = Value.uri(f"{store.uri}/{file.path}")
    with store.open_input(file.path) as source, reading(place):
        parquet = open_parquet(source, store.allowed, place=place, pre_buffer=False)
        metadata = parquet.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        matching = [number for number, group in enumerate(groups) if _may_hold(group, wanted)]
        announce_chunks(source, metadata, columns, row_groups=matching)
        firsts = [*accumulate((group.num_rows for group in groups), initial=0)]
        for number in matching:
            yield firsts[number], parquet.read_row_group(number, columns=list(columns), use_threads=False)


def _matched_rows(
    table: pa.Table, wanted: pa.Array, first: int, file: FileSlice, ordering: StoredOrdering | None
) -> Iterator[pa.RecordBatch]:
    keys = table.column(RECORD_KEY).combine_chunks()
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


def _may_hold(group: pq.RowGroupMetaData, wanted: pa.Array) -> bool:
    """Return whether a wanted key is between the smallest and the largest key of the row group."""
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema == RECORD_KEY:
            statistics = column.statistics
            if statistics is None or not statistics.has_min_max:
                return True
            return any_between(wanted, statistics.min, statistics.max)
    return True


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
