"""The writer of a group's files: they have about the target size, and the remainder is spread over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from parquetry.runtime.base_file.bucket import BucketWriter
from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.base_file.footer import AddedKeys
from parquetry.runtime.base_file.model import Bucket, WriteContext
from parquetry.runtime.base_file.reader import BaseFileReader, RowGroupRange
from parquetry.runtime.base_file.rows import RowOrigin, RowStamper, with_origin
from parquetry.runtime.base_file.sizing import STRETCHED_SHARE, FileSizer
from parquetry.runtime.base_file.writer import stored_keys
from parquetry.runtime.layout.packing import EQUAL_FILES_SHARE, LATER_FILES_SHARE, MOST_TARGETS, outputs_of
from parquetry.runtime.parquet.assembly import ParquetParts, end_bytes
from parquetry.runtime.parquet.joined_pages import JoinedChunk

SEQNO_BYTES: Final = 36
"""The memory of a sequence number."""

_NUMBERED_AT_ONCE: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadingSizer(FileSizer):
    """Ends a file so that it and the rows after it make files of equal size near the target, or full ones."""

    target_bytes: int
    is_first: bool

    def goal_bytes(self, file_bytes: int, remaining_bytes: float) -> float:
        """Return the file's share of all bytes to be written from this file on."""
        outputs = outputs_of(
            file_bytes + remaining_bytes,
            target_bytes=self.target_bytes,
            most_bytes=self.max_bytes,
            equal_files_share=EQUAL_FILES_SHARE if self.is_first else LATER_FILES_SHARE,
        )
        return STRETCHED_SHARE * self.max_bytes if outputs.files == 1 else outputs.each_bytes


def spreading_sizer(
    target_bytes: int,
    *,
    most_bytes: int,
    row_group_bytes: int,
    row_group_arrow_bytes: int,
    is_first: bool,
) -> SpreadingSizer:
    """Return the sizer of a clustering file, of about ``target_bytes`` and under the limit of all writers.

    Args:
        target_bytes: The target file size.
        most_bytes: The maximum file size.
        row_group_bytes: The size of a row group in the file.
        row_group_arrow_bytes: The largest size of a row group in memory.
        is_first: Whether it is the first file of the group.

    """
    return SpreadingSizer(
        max_bytes=min(int(MOST_TARGETS * target_bytes), most_bytes),
        row_group_bytes=row_group_bytes,
        row_group_arrow_bytes=row_group_arrow_bytes,
        target_bytes=target_bytes,
        is_first=is_first,
    )


class SpreadingWriter(BucketWriter):
    """Writes the rows of a group, in the order in which they are appended, to files of about equal size.

    ``rows`` is the total number of rows. ``ordered`` shows whether readers can skip by their order. Rows that
    keep the order of their source files are expected to take as many bytes as there.
    """

    def __init__(self, context: WriteContext, bucket: Bucket, *, rows: int, ordered: bool) -> None:
        super().__init__(context, bucket, base_rows=rows, is_ordered=ordered)
        self._ordered = ordered
        self._stamper = RowStamper(context.instant, bucket.index)

    @property
    def template(self) -> ParquetParts:
        """A file of this writer without row groups."""
        return self._template

    @property
    def leaf_numbers(self) -> Mapping[str, Sequence[int]]:
        """The numbers of the Parquet columns of each column."""
        return self._column_numbers

    @property
    def encoder(self) -> RowGroupEncoder:
        """The encoder of the rows of all files."""
        return self._encoder

    @property
    def row_group_bytes(self) -> int:
        """The approximate bytes of a row group in a file."""
        return self._row_group_bytes

    @property
    def has_rows_to_write(self) -> bool:
        """True if there are appended rows that are not in a row group yet."""
        return bool(self._buffer.rows)

    @property
    def has_rows_in_file(self) -> bool:
        """True if the open file has a row group."""
        return self._file is not None and bool(self._file.rows)

    def append_reordered(self, rows: pa.RecordBatch) -> None:
        """Append rows of a new order, without sequence numbers. They get those of this bucket.

        Their old numbers would be in no order, so that they would hardly compress.
        """
        for start in range(0, rows.num_rows, _NUMBERED_AT_ONCE):
            numbered = self._stamper.number(rows.slice(start, _NUMBERED_AT_ONCE))
            self.append(with_origin(numbered, RowOrigin.COPIED))

    def due_bytes(self) -> int | None:
        """Write the pending rows, and return the bytes for the next joined row group, or None if full."""
        self._write_row_groups(ended=True)
        file = self._file or self._open_file()
        remaining = self._remaining_bytes()
        if file.rows and self._sizer.is_full(file.size_bytes(), remaining):
            return None
        return self._sizer.next_arrow_bytes(file.size_bytes(), remaining, ratio=1.0, guessed=False)

    def join(
        self,
        sources: Sequence[tuple[BaseFileReader, ParquetParts, RowGroupRange]],
        joined: Mapping[int, JoinedChunk],
        table: pa.Table,
    ) -> bool:
        """Write row groups of other files as one, or return False and write nothing if they do not fit.

        Call :meth:`due_bytes` first.

        Args:
            sources: The row groups with their files.
            joined: The column chunks that are copied, by number of the Parquet column.
            table: The other columns, decoded.

        """
        file = self._file or self._open_file()
        rows = sum(group.end - group.first for _, _, group in sources)
        columns = file.encode_columns(table, rows)
        size = columns.encoded.size_bytes + sum(
            chunk.size_bytes + end_bytes(chunk) for chunk in joined.values()
        )
        keys = [stored_keys(*source) for source in sources]
        so_far = file.size_bytes(
            AddedKeys(
                count=rows,
                smallest_bytes=max(key.smallest_bytes for key in keys),
                largest_bytes=max(key.largest_bytes for key in keys),
            )
        )
        if not self._sizer.is_allowed(so_far + size):
            return False
        file.join(sources, joined, columns)
        self._account(rows, size)
        return True

    def end_file(self) -> None:
        """End the open file, so that the next rows go to another file."""
        self._write_row_groups(ended=True)
        self._finish_file()

    def _remaining_bytes(self) -> float:
        if self._ordered or self._written_rows or self._record_size_bytes is None:
            return super()._remaining_bytes()
        return self._expected_rows * self._record_size_bytes

    def _new_sizer(self) -> FileSizer:
        return spreading_sizer(
            self._context.file_size_bytes,
            most_bytes=self._context.max_file_size_bytes,
            row_group_bytes=self._row_group_bytes,
            row_group_arrow_bytes=self._context.row_group_arrow_bytes,
            is_first=not self._finished,
        )
