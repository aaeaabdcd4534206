"""The files of one clustering group: of about the target size, the remainder spread over all of them."""

from __future__ import annotations

from dataclasses import dataclass

from parquetry.runtime.base_file.bucket import BucketWriter
from parquetry.runtime.base_file.model import Bucket, WriteContext
from parquetry.runtime.base_file.sizing import STRETCHED, FileSizer
from parquetry.runtime.layout.packing import ALONE, NEARLY, NEARLY_BEHIND, outputs_of
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
            most_bytes=self.limit_bytes,
            nearly=NEARLY if self.is_first else NEARLY_BEHIND,
        )
        return STRETCHED * self.limit_bytes if outputs.files == 1 else outputs.each_bytes


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
        limit_bytes=min(int(ALONE * target_bytes), most_bytes),
        row_group_bytes=row_group_bytes,
        row_group_arrow_bytes=row_group_arrow_bytes,
        target_bytes=target_bytes,
        is_first=is_first,
    )


class SpreadingWriter(BucketWriter):
    """Writes the rows of a group, in the order in which they are appended, to files of like size.

    ``rows`` is how many there will be; ``ordered`` whether readers can skip by their order.
    """

    def __init__(self, context: WriteContext, bucket: Bucket, *, rows: int, ordered: bool) -> None:
        super().__init__(context, bucket, base_rows=rows, page_rows=ORDERED_PAGE_ROWS if ordered else None)

    def end_file(self) -> None:
        """Let the rows that follow go to another file."""
        self._write_due(ended=True)
        self._finish_file()

    def _new_sizer(self) -> FileSizer:
        return spreading_sizer(
            self._context.file_size_bytes,
            most_bytes=self._context.max_file_size_bytes,
            row_group_bytes=self._row_group_bytes,
            row_group_arrow_bytes=self._context.row_group_arrow_bytes,
            is_first=not self._finished,
        )
