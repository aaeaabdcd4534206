"""The task that writes one bucket: a new base file, or the next slice of one, and its rollovers.

It reads rows and returns a result row per file. The module imports nothing of Spark: workers need pyarrow
only.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.message import Field, Message, Value
from parquetry.runtime.arrow.schema import Batches
from parquetry.runtime.base_file.bucket import BucketWriter
from parquetry.runtime.base_file.incoming import NO_POSITION, IncomingRows
from parquetry.runtime.base_file.merge import Merger, apply_changes, without_rows
from parquetry.runtime.base_file.model import DELETE, Bucket, WriteContext, WrittenBucket, WrittenFile
from parquetry.runtime.base_file.reader import BaseFileReader, RowGroupRange, open_base_file, reading
from parquetry.runtime.base_file.result import failure_row, result_rows
from parquetry.runtime.base_file.rows import RowOrigin, RowStamper, stored_schema, with_origin
from parquetry.runtime.errors import CorruptTableError, RetryWrite, is_outage
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.assembly import ParquetParts

BUCKET = "__bucket"
"""The column with the number of a row's bucket."""


def write_bucket(context: WriteContext, bucket: Bucket, batches: Iterable[pa.RecordBatch]) -> WrittenBucket:
    """Write the files of a bucket under their final names and return them with the counts of the input.

    The rows of the base file come first and keep their order; inserts follow. A full file rolls over into a
    new file group. The same rows always make the same bytes under the same names. Memory is bounded by
    ``context.memory_budget_bytes``, whatever the size of the bucket.

    A new bucket without rows makes no file. If all incoming rows of a merge are late, no file is written and
    the base file stays the newest version. A merged file may have no rows.

    Args:
        context: The settings of the write.
        bucket: The file group to write, with the base file if there is one.
        batches: The table's columns, ``_hoodie_record_key`` and the control columns ``__position`` (row
            number in the base file, null for an insert), ``__delete`` and ``__hash``, sorted by position with
            nulls last.

    Raises:
        RetryWrite: If a clean has removed the base file.
        ConflictError: If another writer has rolled the write back, or the bucket was abandoned.
        CorruptTableError: If the base file is damaged.
        InvalidDataError: If the schema does not allow a row.
    """
    place: Field = f"rows for {context.store.uri}"
    if bucket.partition:
        place = Message(
            "{place}, partition {partition}", place=place, partition=Value.partition(bucket.partition)
        )
    incoming = IncomingRows(batches, context.schema, place=place)
    merger = Merger(stamper=RowStamper(context.instant, bucket.index), ordering=context.ordering)
    files = (
        _created(context, bucket, incoming, merger)
        if bucket.base is None
        else _merged(context, bucket, bucket.base, incoming, merger)
    )
    if files:
        first = files[0]
        files[0] = replace(first, stat=replace(first.stat, num_deletes=merger.deleted))
    return WrittenBucket(
        index=bucket.index,
        files=tuple(files),
        consumed_rows=incoming.consumed_rows,
        consumed_hash=incoming.consumed_hash,
        late_rows=merger.late,
    )


class _Unchanged(Exception):  # noqa: N818 - leaves the blocks that would give the file its name
    """Signals that no row of the base file changes: the base file stays, and the begun file gets no name."""


def _created(
    context: WriteContext, bucket: Bucket, incoming: IncomingRows, merger: Merger
) -> list[WrittenFile]:
    with BucketWriter(context, bucket, base_rows=0) as writer:
        for rows in merger.inserted(incoming, stored_schema(context.schema)):
            writer.append(rows)
        return writer.finish()


def _merged(
    context: WriteContext, bucket: Bucket, base: FileSlice, incoming: IncomingRows, merger: Merger
) -> list[WrittenFile]:
    decoded = frozenset(filter(None, [context.ordering]))
    with (
        suppress(_Unchanged),
        open_base_file(
            context.store, base, context.schema, decoded=decoded, batch_bytes=context.batch_bytes
        ) as reader,
        BucketWriter(context, bucket, base_rows=reader.rows, base_clustering=reader.clustering) as writer,
    ):
        for group in reader.row_groups:
            _merge_group(context, reader, group, incoming, merger=merger, writer=writer)
        if incoming.has_rows_below(NO_POSITION):
            raise CorruptTableError(
                "{file} has {rows} rows, but the write changes a row after them: another file has "
                "replaced it; restore the file from a backup, or the table to a savepoint",
                file=reader.place,
                rows=reader.rows,
            )
        for rows in merger.inserted(incoming, reader.schema):
            writer.append(rows)
        if merger.late and not merger.changed and not writer.has_rolled_over:
            raise _Unchanged
        return writer.finish()
    return []


def _merge_group(
    context: WriteContext,
    reader: BaseFileReader,
    group: RowGroupRange,
    incoming: IncomingRows,
    *,
    merger: Merger,
    writer: BucketWriter,
) -> None:
    """Apply the incoming rows to one row group of the base file, copying as much of it as possible."""
    parts = writer.parts_to_copy(reader, group)
    is_touched = incoming.has_rows_below(group.end)
    if parts is not None:
        if not is_touched and writer.copy(reader, parts, group):
            return
        if is_touched and incoming.is_within(group.end, context.row_group_arrow_bytes):
            incoming_rows = incoming.take_below(group.end)
            assert incoming_rows is not None, "has_rows_below was true"
            if _only_removes(incoming_rows, group):
                _remove(reader, parts, group, incoming_rows, merger=merger, writer=writer)
                return
            stored = reader.whole(group)
            changes = merger.decide(stored, group.first, incoming_rows)
            if not writer.patch(reader, parts, group, stored=stored, changes=changes):
                rows = apply_changes(stored, changes)
                del stored, changes
                writer.append(rows)
            return
    first = group.first
    for batch in reader.batches(group):
        end = first + batch.num_rows
        start = first
        while first < end:
            cut = incoming.next_cut(end, context.batch_bytes)
            stored = batch.slice(first - start, cut - first)
            incoming_rows = incoming.take_below(cut)
            if incoming_rows is None:
                writer.append(with_origin(stored, RowOrigin.COPIED))
            else:
                writer.append(apply_changes(stored, merger.decide(stored, first, incoming_rows)))
            first = cut


def _only_removes(incoming_rows: pa.RecordBatch, group: RowGroupRange) -> bool:
    """Return whether the incoming rows are all deletes, of at most half of the row group."""
    most = (group.end - group.first) // 2
    return bool(
        incoming_rows.num_rows <= most and incoming_rows.column(DELETE).true_count == incoming_rows.num_rows
    )


def _remove(
    reader: BaseFileReader,
    parts: ParquetParts,
    group: RowGroupRange,
    incoming_rows: pa.RecordBatch,
    *,
    merger: Merger,
    writer: BucketWriter,
) -> None:
    """Write a row group of the base file again, without the rows that the incoming deletes remove."""
    with reading(reader.place):
        stored = reader.undecoded_columns(parts, decoded=merger.ordering)
        rows = stored.rows(group.number)
    removed = merger.decide_deletes(rows, group.first, incoming_rows)
    if not len(removed) and writer.copy(reader, parts, group):
        return
    rows = without_rows(rows, removed)
    if not writer.replace(parts, group, stored, rows):
        del rows
        writer.append(with_origin(without_rows(reader.whole(group), removed), RowOrigin.COPIED))


def run_bucket_task(context: WriteContext, bucket: Bucket, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Write a bucket and yield its result rows, in the columns of ``RESULT_SCHEMA``.

    A failure that another attempt cannot fix is yielded as a row. A failure of the storage is raised, so that
    Spark runs the task again.
    """
    try:
        yield result_rows(write_bucket(context, bucket, batches))
        pa.default_memory_pool().release_unused()
    except (ParquetryError, RetryWrite) as failure:
        if is_outage(failure):
            raise
        yield failure_row(bucket.index, failure)
