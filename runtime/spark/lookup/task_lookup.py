"""Lookup of a small batch by tasks alone, without joins.

If every task can hold the keys of a batch, joins and shuffles cost more than the work itself. Tasks read the
keys from the stage, search for them in base files, and write lists of the rows of each file to the stage. The
tasks that write rows read these lists. Spark transports one row per file and partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from parquetry.runtime.base_file.model import DELETE, HASH, ORDERING, POSITION
from parquetry.runtime.base_file.worker_process import freeze_loaded_objects
from parquetry.runtime.commit.outcome import KeyRange
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.lookup.key_match import row_groups_with
from parquetry.runtime.spark.lookup.tagged_keys import KeyTotals
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import run_numbered
from parquetry.runtime.spark.session.settings import reachable_parallelism
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.batch_keys import BatchKeys, merged_keys, references
from parquetry.runtime.stage.lists import read_list, write_list
from parquetry.runtime.stage.part import REFERENCE, hash_sum
from parquetry.runtime.stage.staged import StagedRows
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.stored_keys import StoredKeys
from parquetry.runtime.task_failures import Task
from parquetry.runtime.write.plan import ChangeCounts

_TASKS_PER_CORE = 3
_KEYS_FILES = 16
_SUMMARY_SCHEMA = pa.schema(
    {
        "number": pa.int32(),
        "name": pa.string(),
        "rows": pa.int64(),
        "deletes": pa.int64(),
        "unmatched": pa.int64(),
        "hash_sum": pa.int64(),
        "min_key": pa.string(),
        "max_key": pa.string(),
    }
)

Summary = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedKeys(KeyTotals):
    """The located rows of a batch: the names of lists on the stage, by base file and by partition.

    Lists of base files (by file name) are sorted by position, those of new rows by arrival.
    """

    update_lists: Mapping[str, str]
    insert_lists: Mapping[str, str]

    def release(self) -> None:
        """Do nothing: the lists are removed with the stage."""


def locate_keys(
    spark: SparkSession,
    store: ObjectStore,
    staged: StagedRows,
    files: Sequence[FileSlice],
    *,
    stored_keys: StoredKeys,
    partitioned: bool,
) -> LocatedKeys:
    """Locate the rows of a small batch whose rows stay in their partitions.

    Args:
        spark: The session.
        store: The store of the table.
        staged: The batch.
        files: The files to search.
        stored_keys: The origin of their keys, which must be spelled here.
        partitioned: Whether keys are searched for only in the partition of their row. If not, every row of
            the batch must be a delete.

    """
    keys = BatchKeys(
        location=staged.spec.location,
        names=_keys_files(spark, staged),
        partitioned=partitioned,
        refuses_ties=staged.spec.refuses_ties,
    )
    ordered = sorted(files, key=lambda f: (f.partition, f.path))
    tasks = _TASKS_PER_CORE * reachable_parallelism(spark)
    found = _run_tasks(
        spark, _finder(keys, store, stored_keys, _shares(ordered, tasks)), min(len(ordered), tasks)
    )
    lists: dict[str, list[str]] = {}
    for row in found:
        partition = ordered[row["number"]].partition if partitioned else ""
        lists.setdefault(partition, []).append(row["name"])
    partitions = sorted(staged.totals) if partitioned else [""]
    work = [(partition, tuple(lists.get(partition, ()))) for partition in partitions]
    tasks = min(len(work), reachable_parallelism(spark))
    new_rows = _run_tasks(spark, _new_row_lister(keys, _shares(work, tasks)), tasks)
    return _located(found, ordered, new_rows, partitions)


def _keys_files(spark: SparkSession, staged: StagedRows) -> tuple[str, ...]:
    """Return the names of the keys files; merge many into one first, as every task reads all of them."""
    location, names = staged.spec.location, tuple(sorted(set(staged.names.values())))
    if len(names) <= _KEYS_FILES:
        return names

    def merge(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _start_task(numbers)
        yield pa.RecordBatch.from_pydict({"name": [merged_keys(location, names)]})

    return tuple(row["name"] for row in _run_tasks(spark, merge, 1))


def _located(
    found: Sequence[Summary],
    files: Sequence[FileSlice],
    new_rows: Sequence[Summary],
    partitions: Sequence[str],
) -> LocatedKeys:
    """Return the lists and totals that the summaries of both kinds of tasks contain."""
    changes: dict[str, dict[str, ChangeCounts]] = {}
    sums: dict[str, int] = {}
    for row in found:
        file = files[row["number"]]
        sums[file.partition] = (sums.get(file.partition, 0) + row["hash_sum"]) % (1 << 64)
        changes.setdefault(file.partition, {})[file.file_id] = ChangeCounts(
            updates=row["rows"] - row["deletes"], deletes=row["deletes"]
        )
    new = {partitions[row["number"]]: row for row in new_rows if row["rows"]}
    for partition, row in new.items():
        sums[partition] = (sums.get(partition, 0) + row["hash_sum"]) % (1 << 64)
    return LocatedKeys(
        changes=changes,
        inserts={partition: row["rows"] for partition, row in new.items()},
        inserted_keys={
            partition: KeyRange(smallest=row["min_key"], largest=row["max_key"])
            for partition, row in new.items()
        },
        hash_sums=sums,
        unmatched_deletes=sum(row["unmatched"] for row in new_rows),
        update_lists={files[row["number"]].path.rpartition("/")[2]: row["name"] for row in found},
        insert_lists={partition: row["name"] for partition, row in new.items()},
    )


def _run_tasks(spark: SparkSession, task: Task, tasks: int) -> Sequence[Summary]:
    with failures_translated("the keys of the rows", of_table=True):
        return run_numbered(spark, task, tasks)


def _shares(items: Sequence[Any], tasks: int) -> list[list[tuple[int, Any]]]:
    """Divide the items, with their numbers, into one contiguous share for each task."""
    count = max(min(len(items), tasks), 1)
    numbered = list(enumerate(items))
    bounds = [len(items) * share // count for share in range(count + 1)]
    return [numbered[low:high] for low, high in pairwise(bounds)]


def _finder(
    keys: BatchKeys,
    store: ObjectStore,
    stored_keys: StoredKeys,
    shares: Sequence[Sequence[tuple[int, FileSlice]]],
) -> Task:
    """Return the task that writes, for each base file of its share, the list of winning rows stored there."""

    def find(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in _start_task(numbers):
            partition, winners = None, None
            for number, file in shares[share]:
                if winners is None or file.partition != partition:
                    partition, winners = file.partition, keys.winners(file.partition)
                rows = _found_in(store, file, winners, stored_keys)
                if rows.num_rows:
                    deletes = rows.column(DELETE).combine_chunks().true_count
                    yield _summary(
                        number, write_list(keys.location, rows.to_batches()), rows, deletes=deletes
                    )

    return find


def _new_row_lister(
    keys: BatchKeys, shares: Sequence[Sequence[tuple[int, tuple[str, Sequence[str]]]]]
) -> Task:
    """Return the task that lists, for each partition of its share, the winning rows that no file contains.

    Such inserts are written to a list in order of arrival; such deletes are only counted.
    """

    def list_new_rows(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in _start_task(numbers):
            for number, (partition, names) in shares[share]:
                winners = keys.winners(partition)
                found = references([read_list(keys.location, name) for name in names])
                missing = ~np.isin(winners.column(REFERENCE).to_numpy(), found)
                deletes = winners.column(DELETE).to_numpy()
                rows = winners.filter(pa.array(missing & ~deletes)).sort_by(REFERENCE)
                assert keys.partitioned or not rows.num_rows, "only deletes are looked up everywhere"
                new = rows.select([REFERENCE]).to_batches()
                name = write_list(keys.location, new) if rows.num_rows else ""
                yield _summary(number, name, rows, unmatched=int((missing & deletes).sum()))

    return list_new_rows


def _start_task(numbers: Iterable[pa.RecordBatch]) -> list[int]:
    """Return the numbers of the shares that a task gets."""
    freeze_loaded_objects()
    return [number for batch in numbers for number in batch.column(0).to_pylist()]


def _found_in(store: ObjectStore, file: FileSlice, winners: pa.Table, stored_keys: StoredKeys) -> pa.Table:
    """Return the rows whose keys the file contains, with their positions, once per position."""
    wanted = winners.column(RECORD_KEY).combine_chunks()
    positions, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first, stored, _ in row_groups_with(store, file, wanted, stored_keys):
        matched = pc.index_in(stored, value_set=wanted)
        at = np.flatnonzero(matched.is_valid().to_numpy(zero_copy_only=False))
        positions.append(at + first)
        numbers.append(matched.take(pa.array(at)).to_numpy().astype(np.int64))
    rows = winners.take(pa.array(np.concatenate(numbers)))
    kept = [name for name in (REFERENCE, DELETE, HASH, RECORD_KEY, ORDERING) if name in rows.column_names]
    return rows.select(kept).append_column(POSITION, pa.array(np.concatenate(positions)))


def _summary(
    number: int, name: str, rows: pa.Table, *, deletes: int = 0, unmatched: int = 0
) -> pa.RecordBatch:
    ends = pc.min_max(rows.column(RECORD_KEY)).as_py()
    hashes = hash_sum(rows.column(HASH))
    row = {
        "number": number,
        "name": name,
        "rows": rows.num_rows,
        "deletes": deletes,
        "unmatched": unmatched,
        "hash_sum": hashes - (1 << 64 if hashes >> 63 else 0),
        "min_key": ends["min"],
        "max_key": ends["max"],
    }
    return pa.RecordBatch.from_pylist([row], schema=_SUMMARY_SCHEMA)
