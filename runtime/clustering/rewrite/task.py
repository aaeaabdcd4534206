"""The task that rewrites one clustering group: it writes the rows of its files in a new order to new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.message import Value
from parquetry.runtime.arrow.fingerprint import Tally
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.base_file.model import Bucket, WriteContext, WrittenBucket, new_file_id
from parquetry.runtime.base_file.reader import BaseFileReader, open_base_file, small_dictionaries
from parquetry.runtime.base_file.result import RESULT_SCHEMA, failure_row, result_rows
from parquetry.runtime.base_file.sizing import default_row_group_bytes
from parquetry.runtime.base_file.worker_process import freeze_loaded_objects, small_pages
from parquetry.runtime.clustering.rewrite.input_sample import sample_of
from parquetry.runtime.clustering.rewrite.kept_sample import KeptSample
from parquetry.runtime.clustering.rewrite.order import (
    SAMPLE_BYTES,
    SAMPLE_ROWS,
    OrderKeys,
    RowOrder,
    boundaries_of,
    declared_order,
    split_starts,
    split_value_count,
)
from parquetry.runtime.clustering.rewrite.runs import drained, ranges_of, sort_by_ranges, sort_rows
from parquetry.runtime.clustering.rewrite.stitch import stitch
from parquetry.runtime.clustering.rewrite.writer import SEQNO_BYTES, SpreadingWriter
from parquetry.runtime.errors import InvalidDataError, NotFoundError, RetryWrite, is_outage
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.footer import read_metadata
from parquetry.runtime.storage.bucket import opened_in_turn

_RUN_SHARE: Final = 6
_LONGEST_RUN_BYTES: Final = 64 * 1024 * 1024

_DICTIONARY_BYTES: Final = 256 * 1024
"""Text columns stay in dictionaries of at most this total size, compressed: less to copy, hash and encode."""

_RUN_COPIES: Final = 3
"""The copies of a run: decoded, with the decoder's reserve, in one piece, and partly sorted."""

_ROW_GROUP_COPIES: Final = 3
"""The copies of a row group: collected, in one piece, and encoded."""

_ALLOCATED: Final = 1.1
"""The memory that the allocator takes per byte of sorted rows."""

_DENSER: Final = 1.5
"""Sorted rows may take so much less space that this many times the rows fit into a byte."""

_KEY_BYTES: Final = 56
"""The memory per row for its position on a curve and its number in the order."""

_MOST_WHOLE_BYTES: Final = 1024 * 1024 * 1024
"""A text column in one piece has to be smaller than 2 GiB."""

_MOST_VALUES: Final = 10_000
"""The largest number of ``split_by`` values for which a task writes files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """Files to be rewritten together; if ``order`` is None, rows keep their order.

    The new files have about ``target_bytes``. ``tasks`` tasks write them, each with a range of the order and
    a bucket of its own. The buckets have the numbers from ``index`` on, which no other group of a run has.
    ``ranked_by`` is the plan's sample by which a strategy ranks values; without it, one is drawn.
    """

    index: int
    partition: str
    slices: tuple[FileSlice, ...]
    target_bytes: int
    order: RowOrder | None = None
    tasks: int = 1
    ranked_by: KeptSample | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(part.size_bytes for part in self.slices)

    @property
    def numbers(self) -> range:
        """The numbers of the buckets."""
        return range(self.index, self.index + self.tasks)

    def bucket(self, instant: str, task: int = 0) -> Bucket:
        """Return the bucket of a task: a new file group, and further ones if needed."""
        number = self.numbers[task]
        return Bucket(index=number, partition=self.partition, file_id=new_file_id(instant, number))


def group_rewriter(
    context: WriteContext, groups: Sequence[GroupWork]
) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Return the task function of a job over the groups: it gets numbers of groups and yields results.

    For a group with a missing file it yields only the number, because a writer was faster.
    """

    def rewrite(numbers: Iterable[pa.RecordBatch]) -> Batches:
        freeze_loaded_objects()
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            group = groups[number]
            try:
                yield result_rows(rewrite_group(context, group))
            except RetryWrite:
                yield pa.RecordBatch.from_pylist([{"bucket": group.index}], schema=RESULT_SCHEMA)
            except ParquetryError as failure:
                if is_outage(failure):
                    raise
                yield failure_row(group.index, failure)
            pa.default_memory_pool().release_unused()

    return rewrite


def rewrite_group(context: WriteContext, group: GroupWork) -> WrittenBucket:
    """Write the new files of the group under their final names, and return them with the number of rows read.

    Rows keep their commit time and key. In a new order they get new sequence numbers. Memory is bounded by
    ``context.memory_budget_bytes``; rows that do not fit are sorted on the local disk. The same input always
    makes the same bytes under the same names.

    Raises:
        RetryWrite: If a file was cleaned.
        ConflictError: If the run was rolled back.
        ParquetryError: If the rows written are not the rows read.

    """
    rows, stored_bytes, dictionaries = _read_footers(context, group)
    context = context_of(context, group, rows=rows)
    read_tally, written_tally, copied = Tally(), Tally(), 0
    bucket = group.bucket(context.instant)
    if group.order is None:
        with SpreadingWriter(context, bucket, rows=rows, ordered=False) as writer:
            copied = stitch(
                context,
                group.slices,
                writer,
                read_tally=read_tally,
                written_tally=written_tally,
                dictionaries=dictionaries,
            )
            files = writer.finish()
    else:
        readers = readers_of(context, group.slices, dictionaries=dictionaries)
        with SpreadingWriter(context, bucket, rows=rows, ordered=True) as writer:
            incoming = read_tally.counted(_batches(readers))
            batches = _sorted(context, group, group.order, incoming, rows=rows, stored_bytes=stored_bytes)
            append_in_order(writer, group, written_tally.counted(batches))
            files = writer.finish()
    in_files = sum(file.stat.num_writes for file in files)
    _check(group, rows, read_tally, written_tally, copied=copied, in_files=in_files)
    return WrittenBucket(
        index=group.index,
        files=tuple(files),
        consumed_rows=read_tally.rows + copied,
        consumed_hash=read_tally.fingerprint,
        late_rows=0,
    )


def context_of(context: WriteContext, group: GroupWork, *, rows: int) -> WriteContext:
    """Return the context of a group's tasks; ``rows`` is the number of rows in the whole group."""
    return replace(
        context,
        target_file_size_bytes=group.target_bytes,
        record_size_bytes=group.size_bytes / rows if rows else None,
        sorted_by=() if group.order is None else declared_order(group.order, context.schema),
    )


def run_bytes_of(context: WriteContext) -> int:
    """Return how many Arrow bytes of rows are sorted at once if not all rows fit into memory."""
    return min(context.memory_budget_bytes // _RUN_SHARE, _LONGEST_RUN_BYTES)


def held_bytes_of(context: WriteContext) -> int:
    """Return how many Arrow bytes of sorted rows fit into memory beside those for sorting and writing."""
    working = _RUN_COPIES * run_bytes_of(context) + _ROW_GROUP_COPIES * context.row_group_arrow_bytes
    return max(int((context.memory_budget_bytes - working) / _ALLOCATED), 0)


def whole_bytes_of(
    context: WriteContext, batches: Sequence[pa.RecordBatch], bytes_per_stored_byte: float
) -> int:
    """Return how many Arrow bytes of rows like those of the batches can be sorted in one piece.

    Beside them, memory must hold one of their columns or their sort keys, and the row groups that are being
    written.

    Args:
        context: The write context.
        batches: Some of the rows.
        bytes_per_stored_byte: The memory per stored byte, from which the size of row groups in memory
            follows.

    """
    stored = context.files.row_group_size_bytes or default_row_group_bytes(context.file_size_bytes)
    row_group = min(_DENSER * stored * bytes_per_stored_byte, context.row_group_arrow_bytes)
    columns = [
        sum(part.nbytes for part in parts) for parts in zip(*(b.columns for b in batches), strict=True)
    ]
    beside = max(*columns, _KEY_BYTES * sum(batch.num_rows for batch in batches))
    copies = _ALLOCATED + beside / max(sum(columns), 1)
    room = (context.memory_budget_bytes - _ROW_GROUP_COPIES * row_group) / copies
    return int(min(max(room, run_bytes_of(context)), _MOST_WHOLE_BYTES))


def append_in_order(writer: SpreadingWriter, group: GroupWork, batches: Batches) -> None:
    """Append rows in the group's order. Rows with different values of ``split_by`` go to different files.

    Raises:
        InvalidDataError: If there are too many values of ``split_by``.

    """
    order = group.order
    assert order is not None
    before: pa.RecordBatch | None = None
    values = 1
    for batch in batches:
        start = 0
        for split in split_starts(batch, before, order):
            values += 1
            _refuse_many(values, order, group)
            if split > start:
                writer.append_reordered(batch.slice(start, split - start))
            writer.end_file()
            start = split
        writer.append_reordered(batch.slice(start))
        before = batch


def check_values(group: GroupWork, sample: pa.Table) -> None:
    """Raise InvalidDataError if the sample alone shows that there are too many values of ``split_by``.

    This check comes before any file is written. Values that the sample lacks are checked when rows are
    appended.
    """
    assert group.order is not None
    _refuse_many(split_value_count(sample, group.order) // group.tasks, group.order, group)


def _refuse_many(values: int, order: RowOrder, group: GroupWork) -> None:
    """Raise InvalidDataError if there are too many values of ``split_by``."""
    if values > _MOST_VALUES:
        raise InvalidDataError(
            "clustering.execution.split_by: rows of partition {partition} have more than "
            "{limit:,} different values of {columns}, and each value takes at least one file; "
            "name columns with fewer values",
            partition=Value.partition(group.partition),
            limit=_MOST_VALUES,
            columns=order.split_by,
        )


def _check(
    group: GroupWork, rows: int, read_tally: Tally, written_tally: Tally, *, copied: int, in_files: int
) -> None:
    """Raise ParquetryError unless the rows that were read, ordered and written are the same rows."""
    counts = {rows, read_tally.rows + copied, written_tally.rows + copied, in_files}
    if len(counts) == 1 and read_tally.fingerprint == written_tally.fingerprint:
        return
    raise ParquetryError(
        "partition {partition}: the clustering of {rows} rows read {read_rows} rows with the fingerprint "
        "{read_fingerprint:x} and wrote {written_rows} rows with the fingerprint {written_fingerprint:x}. "
        "They are not the same rows, so the group is not published; report this with the clustering spec",
        partition=Value.partition(group.partition),
        rows=rows,
        read_rows=read_tally.rows + copied,
        read_fingerprint=read_tally.fingerprint,
        written_rows=in_files,
        written_fingerprint=written_tally.fingerprint,
    )


def _read_footers(context: WriteContext, group: GroupWork) -> tuple[int, int, frozenset[str]]:
    """Return the number of rows, their bytes before compression, and the text columns to keep encoded.

    These are the columns that have small dictionaries in all files. Columns of the order are left out,
    because a whole run holds their values in full.
    """
    try:
        files = opened_in_turn(context.store, group.slices)
        footers = [read_metadata(context.store, part.path) for part in files]
    except NotFoundError as gone:
        raise RetryWrite(
            "a clean deleted a file during the clustering: {reason}", reason=gone.message
        ) from gone
    kept = [small_dictionaries(footer, context.schema) for footer in footers if footer.num_rows]
    shared = frozenset(kept[0]).intersection(*kept) if kept else frozenset[str]()
    if group.order is not None:
        shared -= group.order.top_level
    row_groups = (footer.row_group(n) for footer in footers for n in range(footer.num_row_groups))
    return (
        sum(footer.num_rows for footer in footers),
        sum(row_group.total_byte_size for row_group in row_groups),
        frozenset(name for name in shared if sum(sizes[name] for sizes in kept) <= _DICTIONARY_BYTES),
    )


def _batches(readers: Iterable[BaseFileReader]) -> Batches:
    return (batch for reader in readers for part in reader.row_groups for batch in reader.batches(part))


def _sorted(
    context: WriteContext,
    group: GroupWork,
    order: RowOrder,
    batches: Batches,
    *,
    rows: int,
    stored_bytes: int,
) -> Batches:
    """Yield the rows in order, sorted in memory if they fit, otherwise by ranges on the local disk."""
    held: list[pa.RecordBatch] = []
    size = seen = 0
    run_bytes = run_bytes_of(context)
    room = run_bytes
    with small_pages():
        for batch in batches:
            held.append(batch)
            size += batch_arrow_bytes(batch)
            seen += batch.num_rows
            if size > room:
                # The first files may lack a column that was added later. Rows take at least their stored
                # bytes.
                expected_bytes = max(rows * size / seen, stored_bytes)
                numbered_bytes = expected_bytes + SEQNO_BYTES * rows
                room = whole_bytes_of(context, held, numbered_bytes / max(group.size_bytes, 1))
                if max(expected_bytes, size) > room:
                    break
        else:
            if held:
                planned = planned_sample(context, group)
                sample = planned if planned and not order.split_by else _sample_in(context, held, order)
                check_values(group, sample)
                yield sort_rows(held, OrderKeys(order, planned or sample))
            return
    stride = max(rows // SAMPLE_ROWS, 1)
    sample = sample_of(context, group.slices, order, stride=stride, most_bytes=run_bytes)
    check_values(group, sample)
    keys = OrderKeys(order, planned_sample(context, group) or sample)
    room = held_bytes_of(context)
    yield from sort_by_ranges(
        chain(drained(held), batches),
        keys,
        boundaries_of(keys.of(sample), ranges_of(expected_bytes, run_bytes=run_bytes)),
        run_bytes=run_bytes,
        held_bytes=room if expected_bytes <= room else 0,
        encrypt_spills=context.files.encryption_key is not None,
    )


def readers_of(
    context: WriteContext, slices: Sequence[FileSlice], *, dictionaries: frozenset[str] = frozenset()
) -> Iterator[BaseFileReader]:
    """Yield an open reader for each file in turn, for rows without sequence numbers.

    Only the text columns in ``dictionaries`` are read as dictionaries, one for each file.
    """
    decoded = frozenset(context.schema.names) - dictionaries
    for part in opened_in_turn(context.store, slices):
        with open_base_file(
            context.store,
            part,
            context.schema,
            decoded=decoded,
            batch_bytes=context.batch_bytes,
            is_reordered=True,
        ) as reader:
            yield reader


def planned_sample(context: WriteContext, group: GroupWork) -> pa.Table | None:
    """Return the sample that the plan stored for the group, or None if there is none."""
    if group.ranked_by is None:
        return None
    return group.ranked_by.read(context.store, context.schema, most_bytes=_sample_bytes_of(context))


def _sample_bytes_of(context: WriteContext) -> int:
    return min(SAMPLE_BYTES, run_bytes_of(context))


def _sample_in(context: WriteContext, batches: Sequence[pa.RecordBatch], order: RowOrder) -> pa.Table:
    """Return a sample of the rows with the columns of the order, no larger than a planned sample."""
    names = [name for name in batches[0].schema.names if name in order.top_level]
    sample = SystematicSample(
        batches[0].select(names).schema,
        stride=max(sum(batch.num_rows for batch in batches) // SAMPLE_ROWS, 1),
        most_bytes=_sample_bytes_of(context),
    )
    first = 0
    for batch in batches:
        sample.add(np.arange(first, first + batch.num_rows), batch.select(names))
        first += batch.num_rows
    return sample.rows_by_number()[1]
