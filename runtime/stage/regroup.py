"""A second stage that is grouped by bucket, for large upserts whose buckets take rows of every batch.

A bucket reads whole batches. If the rows of a partition go to many buckets, each bucket would read most of
the partition. So tasks read the stage once, in its order, and stage the rows again with their routes. Then a
bucket reads one range per such task, and only its own rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from parquetry.runtime.base_file.model import DELETE, ORDERING, POSITION
from parquetry.runtime.stage.index import REFERENCE_SHIFT, StageIndex
from parquetry.runtime.stage.part import PARTITION, REFERENCE, StageSpec, stage_rows, type_at
from parquetry.runtime.stage.reader import StageReader

_MIB: Final = 1024 * 1024
_MIN_FETCHED_BYTES: Final = 1024 * _MIB
_MIN_REQUESTS: Final = 10_000
_WORTHWHILE_BYTES_FACTOR: Final = 8
_WORTHWHILE_REQUESTS_FACTOR: Final = 4
_TASK_BYTES: Final = (64 * _MIB, 2048 * _MIB)
_RANGE_BYTES: Final = _MIB
_RUN_BYTES: Final = 32 * _MIB


class ExpectedRows(Protocol):
    """A reader of rows of a stage: new rows of one partition in order, and located rows from anywhere."""

    @property
    def partition(self) -> str:
        """The partition of its rows."""
        ...

    @property
    def expected_inserts(self) -> int:
        """The number of new rows that it reads, in order of arrival."""
        ...

    @property
    def expected_updates(self) -> int:
        """The number of updates that it reads, located by their keys."""
        ...

    @property
    def expected_deletes(self) -> int:
        """The number of deletes that it reads, located by their keys."""
        ...


def regrouping_tasks(index: StageIndex, readers: Iterable[ExpectedRows]) -> int:
    """Return the number of tasks that should group the stage by bucket, or 0 if grouping does not pay.

    Without grouping, the readers read the stage directly. Grouping pays if they would fetch more than 8 times
    the bytes of the stage and more than 1 GiB, or send more than 4 times the requests that grouping takes and
    more than 10,000. A range should then have 1 MiB, and a task 64 MiB to 2 GiB.
    """
    group_bytes = np.bincount(index.group, index.size, len(index.groups))
    group_rows = np.bincount(index.group, index.rows, len(index.groups))
    group_batches = np.bincount(index.group, minlength=len(index.groups))
    parts = np.unique(np.stack([index.group, index.first >> REFERENCE_SHIFT]), axis=1)
    group_parts = np.bincount(parts[0], minlength=len(index.groups))
    numbers = {group: number for number, group in enumerate(index.groups)}
    fetched = requests = 0.0
    count = 0
    for reader in readers:
        count += 1
        if (number := numbers.get(reader.partition)) is None:
            continue
        rows, share = reader.expected_inserts, reader.expected_inserts / max(group_rows[number], 1)
        ranges = share * group_parts[number]
        if located := reader.expected_updates + reader.expected_deletes:
            # These rows can be anywhere: in the worst case, each is in a different batch.
            share = min((located + rows) / max(group_batches[number], 1), 1.0)
            ranges = min(located + rows, group_parts[number])
        fetched += share * group_bytes[number]
        requests += max(ranges, 1)
    total, files = int(index.size.sum()), len(index.files)
    least, most = (max(-(-total // size), 1) for size in reversed(_TASK_BYTES))
    tasks = min(max(total // (max(count, 1) * _RANGE_BYTES), least), most, files)
    is_worth_it = (fetched > max(_MIN_FETCHED_BYTES, _WORTHWHILE_BYTES_FACTOR * total)) or (
        requests > max(_MIN_REQUESTS, _WORTHWHILE_REQUESTS_FACTOR * (files + tasks * count))
    )
    return tasks if is_worth_it else 0


def regrouped_spec(spec: StageSpec, *, folds: bool) -> StageSpec:
    """Return the spec of the second stage, which adds the results of the index lookup and omits other files.

    If ``folds`` is set, a row may be compared by another ordering value than its own, so this value is staged
    too.
    """
    schema = spec.schema.append(pa.field(POSITION, pa.int64())).append(pa.field(DELETE, pa.bool_()))
    if folds and spec.ordering is not None:
        schema = schema.append(pa.field(ORDERING, type_at(spec.schema, spec.ordering)))
    return replace(
        spec,
        schema=schema,
        ordering=None,
        has_arrival=False,
        paths=None,
        required=(),
        keys=False,
        key_fields=(),
        drop_duplicates=False,
        run_bytes=_RUN_BYTES,
    )


def stage_by_bucket(
    spec: StageSpec,
    index: StageIndex,
    part: int,
    routes: Iterable[pa.RecordBatch],
    *,
    bucket: str,
    row_bytes: float,
    instant: str,
    folds: bool,
) -> Iterator[pa.RecordBatch]:
    """Stage the rows of the routes again, grouped by bucket, and yield the summary.

    Args:
        spec: The spec of the stage to read.
        index: The index of the stage to read.
        part: The number of this task.
        routes: Batches that ascend by reference, with reference, position, delete flag, bucket, and the
            ordering value if rows are folded.
        bucket: The name of the column with the number of the bucket.
        row_bytes: The mean size of a row in memory.
        instant: The instant of the write, for generated keys.
        folds: Whether rows may be compared by another ordering value than their own.
    """
    regrouped = regrouped_spec(spec, folds=folds)
    control = [name for name in (POSITION, DELETE, ORDERING) if name in regrouped.schema.names]

    def routed() -> Iterator[pa.RecordBatch]:
        with StageReader(spec, index, instant=instant) as reader:
            for some in _in_runs(routes, most_rows=max(int(_RUN_BYTES / max(row_bytes, 1)), 1)):
                rows = reader.ascending(some.column(REFERENCE).to_numpy())
                yield pa.RecordBatch.from_arrays(
                    [*rows.columns, *map(some.column, control), _texts(some.column(bucket))],
                    names=[*rows.schema.names, *control, PARTITION],
                )

    return stage_rows(regrouped, part, routed())


def group_of(bucket: int) -> str:
    """Return the name of a bucket's group in the second stage, whose groups are buckets."""
    return str(bucket)


def _texts(buckets: pa.Array) -> pa.Array:
    codes = buckets.dictionary_encode()
    texts = pa.array([group_of(bucket) for bucket in codes.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(codes.indices, texts)


def _in_runs(batches: Iterable[pa.RecordBatch], *, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at most ``most_rows``."""
    pending: list[pa.RecordBatch] = []
    for batch in (part for whole in batches for part in _parts(whole, most_rows)):
        if pending and sum(one.num_rows for one in pending) + batch.num_rows > most_rows:
            yield pa.concat_batches(pending)
            pending = []
        pending.append(batch)
    if pending:
        yield pa.concat_batches(pending)


def _parts(batch: pa.RecordBatch, most_rows: int) -> Iterator[pa.RecordBatch]:
    return (batch.slice(start, most_rows) for start in range(0, batch.num_rows, most_rows))
