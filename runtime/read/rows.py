"""The rows of a read in Arrow batches, read in this process.

Row groups are chosen by their statistics, and their pages by the page index. The rows are decoded a few
megabytes at a time, of several files at once, and the condition is applied to each row. So a read takes the
memory of some batches and of one stored row group for each open file, whatever the size of the table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC
from difflib import get_close_matches
from functools import reduce
from itertools import islice
from operator import and_
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.message import Message, Value
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.schema import arrow_schema, fields_named
from parquetry.runtime.base_file.reader import longest_repeated_value, read_ahead_bytes, reading
from parquetry.runtime.base_file.rows import filled_times
from parquetry.runtime.errors import ConflictError, InvalidDataError, NotFoundError, RetryWrite
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.announcement import announce_chunks
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.encryption import file_with_footer, open_footer
from parquetry.runtime.parquet.footer import column_chunks, file_statistics
from parquetry.runtime.parquet.selected_pages import file_of_pages
from parquetry.runtime.read.files import FilesToRead, When, files_to_read, is_written_in
from parquetry.runtime.read.row_filter import RowFilter, row_filter
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, META_COLUMNS, MetaColumns
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.table.handle import TableHandle

BATCH_BYTES: Final = 4 * 1024 * 1024
"""The approximate size of a batch of rows in Arrow bytes."""

_FILES_AT_ONCE: Final = 4
_BATCHES_AHEAD: Final = 2
_MOST_ROWS: Final = 65_536
_MOST_EXPANSION: Final = 4
"""The most bytes of a row in memory for each byte before compression in the file, apart from long texts."""

_Item = TypeVar("_Item")


def read_rows(
    handle: TableHandle,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of: When | None = None,
    since: When | None = None,
    until: When | None = None,
    meta: bool = False,
) -> pa.RecordBatchReader:
    """Return the rows of a read as a stream of batches, which are read as they are asked for.

    Texts are strings, decimals have 128 bits, timestamps are UTC microseconds, and bytes and shorts have 32
    bits, as in the files.

    Args:
        handle: The table.
        columns: The names of the columns, in the order of the result; None for all. Hudi's columns may be
            among them.
        where: A condition as :func:`row_filter` accepts it. Times without a zone are in UTC.
        as_of: As in :func:`files_to_read`.
        since: As in :func:`files_to_read`.
        until: As in :func:`files_to_read`.
        meta: Whether to add Hudi's five columns in front.

    Raises:
        InvalidDataError: If a column does not exist or occurs twice, if ``columns`` is empty, or for a
            condition or a time that is refused.
        CorruptTableError: If a file is missing or damaged.
    """
    read = files_to_read(handle, as_of=as_of, since=since, until=until, where=where, time_zone=UTC)
    meta_columns = [Column(name=name, type="string") for name in META_COLUMNS]
    known = arrow_schema([*meta_columns, *read.columns])
    result = _chosen(columns, known, meta=meta)
    wanted = RowFilter(None, ()) if where is None else row_filter(where, [*meta_columns, *read.columns], UTC)
    conditions = [] if wanted.expression is None else [wanted.expression]
    needed = {*result, *wanted.columns}
    if read.increment is not None:
        conditions.append(is_written_in(read.increment, pc.field(COMMIT_TIME)))
        needed.add(COMMIT_TIME)
    schema = pa.schema([field for field in known if field.name in needed])
    files = _Files(
        handle=handle,
        read=read,
        schema=schema,
        condition=reduce(and_, conditions) if conditions else None,
        result=pa.schema([schema.field(name) for name in result]),
    )
    return pa.RecordBatchReader.from_batches(files.result, _in_order(read.files, files.batches))


def _chosen(columns: Sequence[str] | None, known: pa.Schema, *, meta: bool) -> list[str]:
    """Return the names of the result's columns.

    Raise InvalidDataError for a name that the table does not have, or that is there twice, and for no name.
    """
    if columns is None:
        return [name for name in known.names if meta or name not in META_COLUMNS]
    chosen = [*(META_COLUMNS if meta else ()), *columns]
    if not chosen:
        raise InvalidDataError("columns: the list is empty; name at least one column, or give no list")
    for name in chosen:
        if name not in known.names:
            near = get_close_matches(name, known.names, n=1)
            hint = Message("did you mean {column!r}?", column=near[0]) if near else None
            raise InvalidDataError(
                "columns: the table has no column {column!r}; {hint}",
                column=name,
                hint=hint or Message("its columns are {columns}", columns=known.names[len(META_COLUMNS) :]),
            )
        if chosen.count(name) > 1:
            raise InvalidDataError("columns: {column!r} is there twice; name it once", column=name)
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Reads the columns ``schema`` of files, and returns ``result`` of the rows that fulfil the condition."""

    handle: TableHandle
    read: FilesToRead
    schema: pa.Schema
    condition: pc.Expression | None
    result: pa.Schema

    def batches(self, file: FileSlice) -> Generator[pa.RecordBatch]:
        """Yield the rows of the read in a file."""
        store = self.handle.store
        place = Value.uri(f"{store.uri}/{file.path}")
        try:
            with (
                self.handle.failures_masked(),
                store.open_input(file.path) as content,
                reading(place),
            ):
                metadata, decryption = open_footer(content, store.allowed, place=place)
                parquet = file_with_footer(
                    content,
                    metadata,
                    decryption,
                    pre_buffer=False,
                    buffer_size=read_ahead_bytes(content, metadata),
                )
                source = fields_named(parquet.schema_arrow, self.schema)
                conform = Conformer(source, self.schema, place=place)
                rows = _first_batch_rows(metadata, source.names)
                for group in self._row_groups(file, content, parquet, source.names):
                    for batch in group.iter_batches(rows):
                        found = self._with_commit_times(conform(batch), file)
                        rows = max(min(int(BATCH_BYTES / found.nbytes * found.num_rows), _MOST_ROWS), 1)
                        yield from self._wanted(found)
        except (NotFoundError, RetryWrite):
            raise ConflictError(
                "{file} was removed by a clean while it was read; read again, or keep more with "
                "retention.clean",
                file=place,
            ) from None

    def _row_groups(
        self, file: FileSlice, content: pa.NativeFile, parquet: pq.ParquetFile, names: list[str]
    ) -> Iterator[_RowGroup]:
        """Yield the row groups that may contain a row of the read, reduced to their pages that may."""
        metadata, pruner = parquet.metadata, self.read.pruner
        stored = [n for n in range(metadata.num_row_groups) if metadata.row_group(n).num_rows]
        statistics = file_statistics(file.path, metadata, size_bytes=file.size_bytes)
        numbers = pruner.row_groups(statistics, file.partition)
        parts: ParquetParts | None = None
        rows: Mapping[int, Sequence[range]] = {}
        if pruner.compares and not statistics.encrypted and numbers:
            parts = ParquetParts(content)
            rows = pruner.rows_by_group(parts, metadata, statistics, numbers)
        for number in numbers:
            pages = None
            if parts is not None and number in rows:
                pages = file_of_pages(parts, stored[number], names, rows[number])
            if pages is None:
                announce_chunks(content, metadata, names, row_groups=[stored[number]])
                yield _RowGroup(parquet, stored[number], names)
            else:
                yield _RowGroup(
                    pq.ParquetFile(pa.BufferReader(pages), coerce_int96_timestamp_unit="us"), 0, names
                )

    def _wanted(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the rows that fulfil the condition, with the columns of the result."""
        found = pa.Table.from_batches([rows])
        if self.condition is not None:
            found = found.filter(self.condition)
        return (batch for batch in found.select(self.result.names).to_batches() if batch.num_rows)

    def _with_commit_times(self, rows: pa.RecordBatch, file: FileSlice) -> pa.RecordBatch:
        """Return the rows, with the time of their file where a table of commit times has none for a row."""
        place = self.schema.get_field_index(COMMIT_TIME)
        if place < 0 or self.handle.config.meta_columns is not MetaColumns.COMMIT_TIME:
            return rows
        return rows.set_column(place, COMMIT_TIME, filled_times(rows.column(place), file.instant))


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """Columns of a row group of a file."""

    file: pq.ParquetFile
    number: int
    names: list[str]

    def iter_batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Return the rows in batches of at most ``rows`` rows."""
        found: Iterator[pa.RecordBatch] = self.file.iter_batches(
            rows, row_groups=[self.number], columns=self.names
        )
        return found


def _first_batch_rows(metadata: pq.FileMetaData, names: Sequence[str]) -> int:
    """Return the number of rows that take no more than a batch in memory, by the sizes in the footer."""
    longest = longest_repeated_value(metadata, names)
    stored = sum(chunk.total_uncompressed_size for chunk in column_chunks(metadata, names))
    per_row = max(_MOST_EXPANSION * stored / max(metadata.num_rows, 1), longest or 1)
    return max(min(int(BATCH_BYTES / per_row), _MOST_ROWS), 1)


def _in_order(
    items: Iterable[_Item], batches_of: Callable[[_Item], Generator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of all items in the order of the items, and read some items ahead in threads.

    Each item is at most ``_BATCHES_AHEAD`` batches ahead. The first failure ends the reading of all items. No
    thread waits for the consumer, so that a program can end while a stream is open.
    """
    rest = iter(items)
    opened: deque[tuple[Generator[pa.RecordBatch], Future[list[pa.RecordBatch]]]] = deque()
    with ThreadPoolExecutor(_FILES_AT_ONCE, thread_name_prefix="rows") as pool:

        def next_of(
            batches: Generator[pa.RecordBatch],
        ) -> tuple[Generator[pa.RecordBatch], Future[list[pa.RecordBatch]]]:
            return batches, pool.submit(list, islice(batches, _BATCHES_AHEAD))

        try:
            opened.extend(next_of(batches_of(item)) for item in islice(rest, _FILES_AT_ONCE))
            while opened:
                batches, ahead = opened[0]
                found = ahead.result()
                if len(found) == _BATCHES_AHEAD:
                    opened[0] = next_of(batches)
                else:
                    opened.popleft()
                    opened.extend(next_of(batches_of(item)) for item in islice(rest, 1))
                yield from found
        finally:
            pool.shutdown(cancel_futures=True)
            for batches, _ in opened:
                batches.close()
