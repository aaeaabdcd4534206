"""The concatenation of small files without a new row order; data pages are copied where possible.

Several small row groups become one of about the usual size, column by column. If the pages of a column are
independent in each of them, they are copied. Other columns are decoded and encoded again: those with
dictionaries, because a column chunk has at most one, and those whose values repeat enough for one in a larger
row group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from parquetry.runtime.arrow.fingerprint import Tally
from parquetry.runtime.arrow.sizes import batch_arrow_bytes
from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.base_file.reader import BaseFileReader, RowGroupRange, open_base_file
from parquetry.runtime.base_file.rows import RowOrigin, with_origin
from parquetry.runtime.base_file.sizing import SMALL_REST_FACTOR
from parquetry.runtime.clustering.rewrite.writer import SpreadingWriter
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.column_order import order_of
from parquetry.runtime.parquet.joined_pages import (
    ChunkPages,
    JoinedChunk,
    chunk_pages,
    is_joinable_alone,
    leaf_columns,
)
from parquetry.runtime.spec.meta_columns import FILE_NAME, PARTITION_PATH
from parquetry.runtime.storage.bucket import opened_in_turn

_WORTH_COPYING: Final = 0.25
"""A row group waits for others if its independent pages have at least this share of its bytes."""

_LEAST_VALUES: Final = 1500
_LEAST_BYTES: Final = 16 * 1024
"""Pages with fewer values and fewer bytes than this are encoded again.

For lineitem in files of 1,000 rows, copied pages take 9 % more bytes than new pages of 20,000 rows, and for
files of 2,000 rows 5 %. Pages of ordered rows have 2,048 values, and a little less with the last page of each
row group.
"""

_SAMPLE_ROWS: Final = 20_000
_MOST_DICTIONARY_BYTES: Final = 16 * 1024
_MOST_PENDING: Final = 256
"""The largest number of waiting row groups, because each may keep a file open."""

_COLUMN_BYTES: Final = 8 * 1024
"""The memory per column of a waiting row group: its part of the footer, read twice, and its page index.

With 300 columns it was 7.7 KiB per column. Waiting row groups of many columns take no more than one row
group.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingRowGroup:
    """A small row group that will become part of a larger one; ``pages`` are by column number."""

    reader: BaseFileReader
    parts: ParquetParts
    group: RowGroupRange
    pages: tuple[ChunkPages | None, ...]

    stored_bytes: int
    encoded_bytes: int

    @property
    def rows(self) -> int:
        return self.group.end - self.group.first


def stitch(
    context: WriteContext,
    slices: Sequence[FileSlice],
    writer: SpreadingWriter,
    *,
    read_tally: Tally,
    written_tally: Tally,
    dictionaries: frozenset[str],
) -> int:
    """Write the row groups of the files, and return how many rows were copied without a full decoding.

    Args:
        context: The write context.
        slices: The files.
        writer: The writer of the new files.
        read_tally: The tally of the decoded rows.
        written_tally: The tally of these rows as they are encoded.
        dictionaries: The text columns that are read as dictionaries.

    """
    stitcher = _Stitcher(context, writer, read_tally, written_tally)
    opened: deque[tuple[BaseFileReader, ExitStack]] = deque()
    decoded = frozenset(context.schema.names) - dictionaries
    try:
        for part in opened_in_turn(context.store, slices):
            file = ExitStack()
            source = open_base_file(
                context.store, part, context.schema, decoded=decoded, batch_bytes=context.batch_bytes
            )
            opened.append((file.enter_context(source), file))
            for group in opened[-1][0].row_groups:
                stitcher.take(opened[-1][0], group)
            while opened and opened[0][0] is not stitcher.first_pending_file:
                opened.popleft()[1].close()
        stitcher.end()
    finally:
        for _, file in opened:
            file.close()
    return stitcher.copied


class _Stitcher:
    """Passes consecutive row groups to a writer, and joins several small ones into one.

    ``copied`` is the number of rows that were copied without being fully decoded.
    """

    def __init__(
        self, context: WriteContext, writer: SpreadingWriter, read_tally: Tally, written_tally: Tally
    ) -> None:
        self._writer = writer
        self._own_columns = frozenset({PARTITION_PATH, FILE_NAME, *context.files.meta_columns.empty})
        self._row_group_arrow_bytes = context.row_group_arrow_bytes
        columns = leaf_columns(writer.template.columns)
        self._flat = [flat for _, flat in columns]
        self._orders = [order_of(column) for column, _ in columns]
        self._pending: deque[_PendingRowGroup] = deque()
        room = context.row_group_arrow_bytes // (_COLUMN_BYTES * len(columns))
        self._most_pending = max(min(_MOST_PENDING, room), 1)
        self.copied = 0
        self._read_tally, self._written_tally = read_tally, written_tally

    @property
    def first_pending_file(self) -> BaseFileReader | None:
        """The first file that has to stay open."""
        return self._pending[0].reader if self._pending else None

    def take(self, reader: BaseFileReader, group: RowGroupRange) -> None:
        """Append a row group. Small ones that can be copied wait until they make up a large one."""
        if group.end == group.first:
            return
        parts = self._writer.copyable_parts(reader, group)
        if parts is not None and self._writer.is_small(parts, group.number):
            pending = self._pending_of(reader, parts, group)
            if pending is not None:
                self._pending.append(pending)
                self._write_joined(ended=False)
                return
            parts = None
        self._end_run(rows_follow=parts is None)
        if parts is not None and self._writer.copy(reader, parts, group):
            self.copied += group.end - group.first
        else:
            self._decode(reader, group)

    def end(self) -> None:
        """Write all waiting row groups while their files are open."""
        self._end_run(rows_follow=False)

    def _pending_of(
        self, reader: BaseFileReader, parts: ParquetParts, group: RowGroupRange
    ) -> _PendingRowGroup | None:
        """Return the row group with its pages, or None if too little of it can be copied."""
        rows = group.end - group.first
        chunks = parts.chunks(group.number)
        least_bytes = _WORTH_COPYING * parts.stored_bytes(group.number)
        # Most row groups that are not worth it are recognized without their page indexes.
        candidate_bytes = sum(
            chunk.size_bytes
            for chunk in chunks
            if is_joinable_alone(chunk, values=_LEAST_VALUES, stored_bytes=_LEAST_BYTES)
        )
        if candidate_bytes < least_bytes:
            return None
        pages = tuple(
            chunk_pages(chunk, rows, flat=flat) for chunk, flat in zip(chunks, self._flat, strict=True)
        )
        independent = [part for part in pages if part is not None and not part.dictionary_bytes]
        copied_bytes = sum(part.data_bytes for part in independent if not _are_tiny([part]))
        if copied_bytes < least_bytes:
            return None
        return _PendingRowGroup(
            reader=reader,
            parts=parts,
            group=group,
            pages=pages,
            stored_bytes=parts.stored_bytes(group.number) + parts.index_bytes(group.number),
            encoded_bytes=parts.encoded_bytes(group.number),
        )

    def _end_run(self, *, rows_follow: bool) -> None:
        """Write the waiting row groups, as rows if they are small and can join other rows in a row group."""
        pending_bytes = sum(source.stored_bytes for source in self._pending)
        is_little = pending_bytes < self._writer.row_group_bytes / 2
        if is_little and (rows_follow or self._writer.has_rows_to_write):
            while self._pending:
                self._decode_first()
        else:
            self._write_joined(ended=True)

    def _decode_first(self) -> None:
        """Decode the first waiting row group and append its rows."""
        source = self._pending.popleft()
        self._decode(source.reader, source.group)

    def _decode(self, reader: BaseFileReader, group: RowGroupRange) -> None:
        """Decode a row group and append its rows."""
        for batch in self._written_tally.counted(self._read_tally.counted(reader.batches(group))):
            self._writer.append(with_origin(batch, RowOrigin.COPIED))

    def _write_joined(self, *, ended: bool) -> None:
        """Write joined row groups while enough are waiting, or all waiting ones if ``ended``."""
        while self._pending and (ended or self._is_due()):
            due = self._writer.due_bytes()
            count = 0
            if due is not None:
                count = self._fitting(int(SMALL_REST_FACTOR * due))
                count = count if count == len(self._pending) else self._fitting(due)
            if count and self._join(count):
                continue
            if self._writer.has_rows_in_file:
                self._writer.end_file()
            else:
                self._decode_first()

    def _is_due(self) -> bool:
        """Return whether enough row groups wait for a joined one."""
        if len(self._pending) >= self._most_pending:
            return True
        return self._fitting(int(SMALL_REST_FACTOR * self._writer.row_group_bytes)) < len(self._pending)

    def _fitting(self, stored_bytes: int) -> int:
        """Return how many of the first waiting row groups make up about ``stored_bytes``.

        They also have to fit into memory.
        """
        stored = encoded = 0
        for count, source in enumerate(self._pending):
            stored += source.stored_bytes
            encoded += source.encoded_bytes
            if stored - source.stored_bytes / 2 > stored_bytes or encoded > self._row_group_arrow_bytes:
                return count
        return len(self._pending)

    def _join(self, count: int) -> bool:
        """Write the first ``count`` waiting row groups as one, or return False if the file is too full.

        If they exceed the memory limit, fewer are joined, and a single one is decoded row by row.
        """
        sources = list(islice(self._pending, count))
        names = self._independent_columns(sources)
        names -= self._repeating(sources, names)
        joined = {
            leaf: JoinedChunk([_known(source.pages[leaf]) for source in sources], self._orders[leaf])
            for name in sorted(names)
            for leaf in self._writer.leaf_numbers[name]
        }
        others = [name for name in self._writer.leaf_numbers if name not in {*names, *self._own_columns}]
        copied_bytes = sum(chunk.encoded_bytes for chunk in joined.values())
        read_tally = Tally()
        table = _decoded(sources, others, self._row_group_arrow_bytes - copied_bytes, read_tally)
        if table is None and count > 1:
            return self._join(count // 2)
        if table is None:
            self._decode_first()
            return True
        groups = [(source.reader, source.parts, source.group) for source in sources]
        if not self._writer.join(groups, joined, table):
            return self._join(count // 2) if count > 1 else False
        self._read_tally.add_all(read_tally)
        for batch in table.to_batches():
            self._written_tally.add(batch)
        self.copied += sum(source.rows for source in sources)
        for _ in sources:
            self._pending.popleft()
        return True

    def _independent_columns(self, sources: Sequence[_PendingRowGroup]) -> set[str]:
        """Return the columns whose pages can be copied into one chunk and are not tiny."""
        return {
            name
            for name, leaf_numbers in self._writer.leaf_numbers.items()
            if name not in self._own_columns
            and all(_are_independent([one.pages[leaf] for one in sources]) for leaf in leaf_numbers)
        }

    def _repeating(self, sources: Sequence[_PendingRowGroup], names: Collection[str]) -> set[str]:
        """Return the columns that would get a dictionary in a row group of all ``sources``.

        Columns that have a dictionary already are left out.
        """
        plain = sorted(name for name in names if not self._has_dictionary(sources[0], name))
        rows = sum(source.rows for source in sources)
        if unknown := self._writer.encoder.undecided(plain, rows):
            parts = min(len(sources), max(_SAMPLE_ROWS * len(sources) // rows, 1))
            chosen = [sources[number * len(sources) // parts] for number in range(parts)]
            max_rows = -(-_SAMPLE_ROWS // parts)
            sample = [next(one.reader.columns(one.group, unknown, max_rows=max_rows)) for one in chosen]
            self._writer.encoder.decide(pa.Table.from_batches(sample).combine_chunks(), rows)
        return {path.split(".")[0] for path in self._writer.encoder.dictionaries}.intersection(plain)

    def _has_dictionary(self, source: _PendingRowGroup, name: str) -> bool:
        """Return whether a column has a dictionary in the row group."""
        return any(_known(source.pages[leaf]).dictionary_bytes for leaf in self._writer.leaf_numbers[name])


def _decoded(
    sources: Sequence[_PendingRowGroup], names: Sequence[str], most_bytes: int, tally: Tally
) -> pa.Table | None:
    """Return columns of consecutive row groups, or None if they exceed ``most_bytes`` Arrow bytes."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for source in sources:
        for batch in source.reader.columns(source.group, names):
            size += batch_arrow_bytes(batch)
            if size > most_bytes:
                return None
            tally.add(batch)
            batches.append(batch)
    return pa.Table.from_batches(batches).combine_chunks()


def _known(pages: ChunkPages | None) -> ChunkPages:
    assert pages is not None, "only columns whose pages are known are copied"
    return pages


def _are_independent(chunks: Sequence[ChunkPages | None]) -> bool:
    """Return whether chunks of one column can be joined without decoding a page, and are worth it."""
    pages = [one for one in chunks if one is not None]
    if len(pages) < len(chunks) or _are_tiny(pages):
        return False
    sizes = {one.dictionary_bytes for one in pages}
    if len(sizes) > 1 or max(sizes) > _MOST_DICTIONARY_BYTES:
        return False
    return sizes == {0} or len({one.dictionary() for one in pages}) == 1


def _are_tiny(pages: Sequence[ChunkPages]) -> bool:
    """Return whether pages are so small that they cost readers more than new pages cost the writer."""
    count = sum(len(one.locations) for one in pages)
    values, data_bytes = sum(one.values for one in pages), sum(one.data_bytes for one in pages)
    return values < _LEAST_VALUES * count and data_bytes < _LEAST_BYTES * count
