"""The files of one clustering group: of about the target size, the remainder spread over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parquetry.runtime.base_file.bucket import BucketWriter
from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.base_file.footer import MoreKeys
from parquetry.runtime.base_file.model import Bucket, WriteContext
from parquetry.runtime.base_file.reader import BaseFileReader, StoredRows
from parquetry.runtime.base_file.sizing import STRETCHED, FileSizer
from parquetry.runtime.base_file.writer import stored_keys
from parquetry.runtime.layout.packing import ALONE, NEARLY, NEARLY_BEHIND, outputs_of
from parquetry.runtime.parquet.assembly import ParquetParts, end_bytes
from parquetry.runtime.parquet.joined_pages import JoinedChunk
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadingSizer(FileSizer):
    """Ends a file where what is left, and it, make files of one size near the target, or full ones."""

    target_bytes: int
    is_first: bool

    def goal_bytes(self, file_bytes: int, remaining_bytes: float) -> float:
        """Its share of all that is to be written from this file on."""
        outputs = outputs_of(
            file_bytes + remaining_bytes,
            target_bytes=self.target_bytes,
            most_bytes=self.max_bytes,
            nearly=NEARLY if self.is_first else NEARLY_BEHIND,
        )
        return STRETCHED * self.max_bytes if outputs.files == 1 else outputs.each_bytes


def spreading_sizer(
    target_bytes: int,
    *,
    most_bytes: int,
    row_group_bytes: int,
    row_group_arrow_bytes: int,
    is_first: bool,
) -> SpreadingSizer:
    """The sizer of one of clustering's files: of about ``target_bytes``, with every other writer's ceiling.

    ``is_first`` of those that the group's rows go to.
    """
    return SpreadingSizer(
        max_bytes=min(int(ALONE * target_bytes), most_bytes),
        row_group_bytes=row_group_bytes,
        row_group_arrow_bytes=row_group_arrow_bytes,
        target_bytes=target_bytes,
        is_first=is_first,
    )


class SpreadingWriter(BucketWriter):
    """Writes the rows of a group, in the order in which they are appended, to files of like size.

    ``rows`` is how many there will be; ``ordered`` whether readers can skip by their order. Rows that are
    not, and keep the order of the files that they come from, are expected to take as many bytes as there.
    """

    def __init__(self, context: WriteContext, bucket: Bucket, *, rows: int, ordered: bool) -> None:
        super().__init__(context, bucket, base_rows=rows, page_rows=ORDERED_PAGE_ROWS if ordered else None)
        self._ordered = ordered

    @property
    def template(self) -> ParquetParts:
        """A file of this writer's without row groups."""
        return self._template

    @property
    def places(self) -> Mapping[str, Sequence[int]]:
        """The numbers of each column's parquet columns."""
        return self._places

    @property
    def encoder(self) -> RowGroupEncoder:
        """What encodes the rows of all files."""
        return self._encoder

    @property
    def row_group_bytes(self) -> int:
        """About how many bytes a row group has in a file."""
        return self._row_group_bytes

    @property
    def has_rows_to_write(self) -> bool:
        """Whether rows were appended that are not in a row group yet."""
        return bool(self._buffer.rows)

    @property
    def has_rows_in_file(self) -> bool:
        """Whether the file that is open has a row group."""
        return self._file is not None and bool(self._file.rows)

    def due_bytes(self) -> int | None:
        """How many bytes a row group to join is to have behind all rows so far; None if the file is full."""
        self._write_due(ended=True)
        file = self._file or self._open_file()
        remaining = self._remaining_bytes()
        if file.rows and self._sizer.is_full(file.size_bytes(), remaining):
            return None
        return self._sizer.next_arrow_bytes(file.size_bytes(), remaining, ratio=1.0, guessed=False)

    def join(
        self,
        sources: Sequence[tuple[BaseFileReader, ParquetParts, StoredRows]],
        joined: Mapping[int, JoinedChunk],
        table: pa.Table,
    ) -> bool:
        """Write the row groups of other files as one; the columns that are not ``joined`` are the table's.

        False, and nothing written, if the file would be too large. To be called behind :meth:`due_bytes`.
        """
        file = self._file or self._open_file()
        rows = sum(group.end - group.first for _, _, group in sources)
        columns = file.encode_columns(table, rows)
        size = columns.encoded.size_bytes + sum(
            chunk.size_bytes + end_bytes(chunk) for chunk in joined.values()
        )
        keys = [stored_keys(*source) for source in sources]
        so_far = file.size_bytes(
            MoreKeys(
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
        """Let the rows that follow go to another file."""
        self._write_due(ended=True)
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
