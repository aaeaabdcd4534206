"""The task that writes one bucket: a new base file, or the next slice of one, and its rollovers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pyarrow as pa

from parquetry.message import Message, Value
from parquetry.runtime.base_file.bucket import BucketWriter
from parquetry.runtime.base_file.incoming import IncomingRows
from parquetry.runtime.base_file.merge import Merger, merged, without
from parquetry.runtime.base_file.model import DELETE, Bucket, WriteContext, WrittenBucket, WrittenFile
from parquetry.runtime.base_file.reader import BaseFileReader, StoredRows, open_base_file, reading
from parquetry.runtime.base_file.rows import RowOrigin, RowStamper, stored_schema, with_origin
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.assembly import ParquetParts

_ANYWHERE: Final = 2**63 - 1


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
    place: str = f"rows for {context.store.uri}"
    if bucket.partition:
        place = Message(place, ", partition ", Value.partition(bucket.partition))
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
        if incoming.has_below(_ANYWHERE):
            raise CorruptTableError(
                Message(
                    reader.place,
                    f" has {reader.rows} rows, but one was found behind them; the file was replaced under "
                    "its name: put it back from a copy, or restore the table to a savepoint",
                )
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
    group: StoredRows,
    incoming: IncomingRows,
    *,
    merger: Merger,
    writer: BucketWriter,
) -> None:
    """Apply the incoming rows to one row group of the base file, copying as much of it as possible."""
    parts = writer.copyable(reader, group)
    is_touched = incoming.has_below(group.end)
    if parts is not None:
        if not is_touched and writer.copy(reader, parts, group):
            return
        if is_touched and incoming.is_within(group.end, context.row_group_arrow_bytes):
            arrived = _present(incoming.below(group.end))
            if _only_removes(arrived, group):
                _remove(reader, parts, group, arrived, merger=merger, writer=writer)
                return
            stored = reader.whole(group)
            changes = merger.changes(stored, group.first, arrived)
            if not writer.patch(reader, parts, group, stored=stored, changes=changes):
                rows = merged(stored, changes)
                del stored, changes
                writer.append(rows)
            return
    first = group.first
    for batch in reader.batches(group):
        end = first + batch.num_rows
        start = first
        while first < end:
            bound = incoming.bound(end, context.batch_bytes)
            stored = batch.slice(first - start, bound - first)
            arrived = incoming.below(bound)
            if arrived is None:
                writer.append(with_origin(stored, RowOrigin.COPIED))
            else:
                writer.append(merged(stored, merger.changes(stored, first, arrived)))
            first = bound


def _only_removes(arrived: pa.RecordBatch, group: StoredRows) -> bool:
    """Return whether the incoming rows are all deletes, of at most half of the row group."""
    most = (group.end - group.first) // 2
    return bool(arrived.num_rows <= most and arrived.column(DELETE).true_count == arrived.num_rows)


def _remove(
    reader: BaseFileReader,
    parts: ParquetParts,
    group: StoredRows,
    arrived: pa.RecordBatch,
    *,
    merger: Merger,
    writer: BucketWriter,
) -> None:
    """Write a row group of the base file again, without the rows that the incoming deletes remove."""
    with reading(reader.place):
        stored = reader.undecoded(parts, decoded=merger.ordering)
        rows = stored.rows(group.number)
    gone = merger.removed(rows, group.first, arrived)
    if not len(gone) and writer.copy(reader, parts, group):
        return
    rows = without(rows, gone)
    if not writer.replace(parts, group, stored, rows):
        del rows
        writer.append(with_origin(without(reader.whole(group), gone), RowOrigin.COPIED))


def _present(rows: pa.RecordBatch | None) -> pa.RecordBatch:
    assert rows is not None, "rows that were there a moment ago"
    return rows
