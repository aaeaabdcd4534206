"""Division of the rows of one bucket into row groups and files."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from parquetry.runtime.arrow.columns import parquet_column_numbers
from parquetry.runtime.base_file.buffer import CELL_ROWS, RowBuffer
from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.base_file.footer import AddedKeys
from parquetry.runtime.base_file.merge import RowChanges, unchanged_columns
from parquetry.runtime.base_file.model import Bucket, WriteContext, WrittenFile
from parquetry.runtime.base_file.reader import BaseFileReader, RowGroupRange
from parquetry.runtime.base_file.rows import schema_with_origin
from parquetry.runtime.base_file.sizing import (
    MIB,
    SMALL_REST_FACTOR,
    FileSizer,
    default_row_group_bytes,
    kept_row_groups,
)
from parquetry.runtime.base_file.undecoded import UndecodedColumns
from parquetry.runtime.base_file.writer import BaseFileWriter, file_schema, keys_of, stored_keys
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.spec.meta_columns import COMMIT_TIME

_SAMPLE_ROWS: Final = 1024
_RATIOS: Final = (0.02, 1.0)
_LARGE_ENCODED_BYTES: Final = 8 * MIB
_LEAST_KEPT_SHARE: Final = 0.25


class BucketWriter:
    """Takes the rows of a bucket in order and writes its files.

    ``base_rows`` is the number of rows of the base file, 0 without one. ``base_clustering`` is the layout
    digest of the base file. The output depends on the rows and on the expected row counts of the bucket,
    never on the batches in which the rows arrive. ``is_ordered`` says that they arrive in the order of a
    clustering. A ``with`` block that ends with an exception leaves no unfinished file.
    """

    def __init__(
        self,
        context: WriteContext,
        bucket: Bucket,
        *,
        base_rows: int,
        base_clustering: str | None = None,
        is_ordered: bool = False,
    ) -> None:
        self._context = context
        self._base_clustering = base_clustering
        self._bucket = bucket
        self._buffer = RowBuffer(wide_row_bytes=max(context.file_size_bytes // (2 * CELL_ROWS), 1))
        self._encoder = RowGroupEncoder(context.files, is_ordered=is_ordered)
        schema = file_schema(schema_with_origin(context.schema))
        self._template = self._encoder.template(schema)
        self._column_numbers = parquet_column_numbers(schema)
        self._resources = ExitStack()
        self._finished: list[WrittenFile] = []
        self._file: BaseFileWriter | None = None
        policy_bytes = context.files.row_group_size_bytes
        self._row_group_bytes = policy_bytes or default_row_group_bytes(context.file_size_bytes)
        self._sizer = self._new_sizer()
        self._next_bytes: int | None = None
        self._expected_rows = base_rows - bucket.expected_deletes + bucket.expected_inserts
        self._record_size_bytes = context.record_size_bytes
        if bucket.base is not None and base_rows:
            self._record_size_bytes = bucket.base.size_bytes / base_rows
        self._ratio: float | None = None
        self._merged: frozenset[int] | None = None
        self._written_rows = 0
        self._written_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.__exit__(kind, error, trace)

    def append(self, rows: pa.RecordBatch) -> None:
        """Append rows with their origins, and write the row groups that are complete."""
        self._buffer.append(rows)
        buffer = self._buffer
        is_wide = buffer.rows >= CELL_ROWS and buffer.arrow_bytes > self._context.row_group_arrow_bytes
        if is_wide or buffer.rows >= _SAMPLE_ROWS:
            self._write_row_groups(ended=False)

    def parts_to_copy(self, reader: BaseFileReader, group: RowGroupRange) -> ParquetParts | None:
        """Return the parts to copy a row group from, or None if its rows must be appended instead.

        None is also the answer for a small row group that should become part of a larger one.
        """
        parts = self.copyable_parts(reader, group)
        if parts is None:
            return None
        if self._merged is None:
            self._merged = self._row_groups_to_merge(parts)
        return None if group.number in self._merged else parts

    def copyable_parts(self, reader: BaseFileReader, group: RowGroupRange) -> ParquetParts | None:
        """Return the parts to copy a row group from, or None if the new file cannot contain its bytes.

        That is the case if columns or codec have changed, if the new file is encrypted, if rows lack the
        commit time that they have by their file, or if the row group is too large to be held in memory.
        """
        parts = reader.parts if self._context.files.encryption_key is None else None
        if parts is None or parts.columns != self._template.columns:
            return None
        if COMMIT_TIME not in self._context.files.meta_columns.empty and not reader.has_every_time:
            return None
        if parts.codecs(group.number) != {self._encoder.codec}:
            return None
        return None if parts.encoded_bytes(group.number) > 2 * self._context.row_group_arrow_bytes else parts

    def _row_groups_to_merge(self, parts: ParquetParts) -> frozenset[int]:
        """Return the small row groups to merge with their neighbours or with the inserts after them."""
        merged: set[int] = set()
        run: list[int] = []
        for number in range(len(parts.groups)):
            if self.is_small(parts, number):
                run.append(number)
            else:
                merged |= _to_merge(parts, run, 0)
                run = []
        inserted_bytes = self._bucket.expected_inserts * (self._record_size_bytes or 0)
        return frozenset(merged | _to_merge(parts, run, inserted_bytes))

    def is_small(self, parts: ParquetParts, number: int) -> bool:
        """Return whether a row group should be merged with its neighbours."""
        is_small = parts.stored_bytes(number) < self._row_group_bytes / 2
        return is_small and parts.encoded_bytes(number) < _LARGE_ENCODED_BYTES

    def copy(self, reader: BaseFileReader, parts: ParquetParts, group: RowGroupRange) -> bool:
        """Copy a row group of the base file, byte by byte, after the rows so far.

        Returns:
            False, without copying, if the file is nearly full.
        """
        self._write_row_groups(ended=True)
        file = self._file or self._open_file()
        size = parts.stored_bytes(group.number) + parts.index_bytes(group.number)
        if not self._fits(file, size, stored_keys(reader, parts, group)):
            return False
        file.copy(reader, parts, group)
        self._account(group.end - group.first, size)
        return True

    def patch(
        self,
        reader: BaseFileReader,
        parts: ParquetParts,
        group: RowGroupRange,
        *,
        stored: pa.RecordBatch,
        changes: RowChanges,
    ) -> bool:
        """Copy a row group of the base file, and encode only those columns again in which rows were updated.

        Args:
            reader: The base file.
            parts: The parts of the base file to copy from.
            group: The row group to copy.
            stored: All rows of the row group.
            changes: The updated and deleted rows.

        Returns:
            False, without writing it, if rows are deleted, if most of the row group changes, or if the file
                is nearly full.
        """
        if len(changes.deleted):
            return False
        if not len(changes.updated):
            return self.copy(reader, parts, group)
        kept = unchanged_columns(stored, changes)
        chunks = parts.chunks(group.number)
        kept_bytes = sum(chunks[place].size_bytes for name in kept for place in self._column_numbers[name])
        if kept_bytes < _LEAST_KEPT_SHARE * parts.stored_bytes(group.number):
            return False
        self._write_row_groups(ended=True)
        file = self._file or self._open_file()
        columns = file.encode_changed(stored, changes, kept)
        size = kept_bytes + columns.encoded.size_bytes + parts.index_bytes(group.number)
        if size > SMALL_REST_FACTOR * max(self._row_group_bytes, parts.stored_bytes(group.number)):
            return False
        if not self._fits(file, size, stored_keys(reader, parts, group)):
            return False
        file.patch(reader, parts, group, columns)
        self._account(stored.num_rows, size)
        return True

    def replace(
        self, parts: ParquetParts, group: RowGroupRange, stored: UndecodedColumns, rows: pa.RecordBatch
    ) -> bool:
        """Write the remaining rows of a row group as one row group after the rows so far.

        Args:
            parts: The base file.
            group: The row group that is replaced.
            stored: The reader that has read the rows.
            rows: The remaining rows, decoded as little as possible.

        Returns:
            False, without writing, if the file is nearly full or would have a different schema.
        """
        self._write_row_groups(ended=True)
        file = self._file or self._open_file()
        encoded = file.encode_remaining(rows, parts.dictionaries(group.number))
        if encoded.parts.columns != stored.elements or not self._fits(
            file, encoded.size_bytes, keys_of(encoded)
        ):
            return False
        file.append_remaining(encoded)
        self._account(rows.num_rows, encoded.size_bytes)
        return True

    @property
    def has_rolled_over(self) -> bool:
        """True if a file already exists under its final name."""
        return bool(self._finished)

    def finish(self) -> list[WrittenFile]:
        """Write the remaining rows and return all files. A merged bucket has a file even without rows."""
        self._write_row_groups(ended=True)
        if self._bucket.base is not None and not self._finished and self._file is None:
            self._open_file()
        self._finish_file()
        return self._finished

    def _write_row_groups(self, *, ended: bool) -> None:
        """Write the row groups that are complete; if ``ended``, write all remaining rows."""
        while self._buffer.rows:
            file = self._file or self._open_file()
            if self._next_bytes is None:
                remaining = self._remaining_bytes()
                size = file.size_bytes(AddedKeys(count=self._buffer.rows))
                if file.rows and self._sizer.is_full(size, remaining):
                    self._finish_file()
                    continue
                self._next_bytes = self._sizer.next_arrow_bytes(
                    size,
                    remaining,
                    ratio=self._expected_ratio(),
                    guessed=self._ratio is None,
                )
            if self._buffer.arrow_bytes > SMALL_REST_FACTOR * self._next_bytes:
                self._write_row_group(file, self._next_bytes)
            elif ended:
                self._write_row_group(file, self._buffer.arrow_bytes)
            else:
                return

    def _write_row_group(self, file: BaseFileWriter, arrow_bytes: int) -> None:
        """Write the first rows as a row group; fewer if a guess was wrong or the file would get too large."""
        self._next_bytes = None
        guessed = self._ratio is None
        while True:
            cut = self._buffer.cut_within(arrow_bytes)
            rows = self._buffer.table(cut)
            is_smallest = rows.num_rows <= self._buffer.rows_before_first_cut
            encoded = file.encode(rows)
            taken_bytes = self._buffer.arrow_bytes_before(cut)
            self._ratio = encoded.size_bytes / max(taken_bytes, 1)
            if guessed and encoded.size_bytes > 2 * self._row_group_bytes and not is_smallest:
                guessed = False
                arrow_bytes = int(self._row_group_bytes / self._ratio)
                continue
            size = file.size_bytes(keys_of(encoded))
            added_bytes = file.added_bytes(encoded)
            if self._sizer.is_allowed(size + added_bytes):
                break
            if file.rows and (is_smallest or self._sizer.is_full(size, self._remaining_bytes())):
                self._finish_file()
                return
            if is_smallest:
                if rows.num_rows == 1:
                    break
                self._buffer.divide_first_cell()
            arrow_bytes = self._sizer.smaller_arrow_bytes(
                taken_bytes, file_bytes=size, encoded_bytes=added_bytes
            )
        file.append(rows, encoded)
        self._buffer.drop(cut)
        self._account(rows.num_rows, added_bytes)

    def _fits(self, file: BaseFileWriter, size: int, keys: AddedKeys) -> bool:
        so_far = file.size_bytes(keys)
        return so_far + size <= self._sizer.goal_bytes(so_far, self._remaining_bytes())

    def _account(self, rows: int, file_bytes: int) -> None:
        self._written_rows += rows
        self._written_bytes += file_bytes

    def _remaining_bytes(self) -> float:
        """Return the estimated file bytes of all expected rows that are not yet written."""
        rows = max(self._expected_rows - self._written_rows, 0)
        if self._written_rows:
            return rows * self._written_bytes / self._written_rows
        return rows * self._expected_ratio() * self._sampled_arrow_bytes_per_row()

    def _expected_ratio(self) -> float:
        """Return the file bytes per Arrow byte of the last row group, or an estimate from the record size."""
        if self._ratio is not None:
            return self._ratio
        smallest, largest = _RATIOS
        if self._record_size_bytes is None:
            return largest
        return min(max(self._record_size_bytes / self._sampled_arrow_bytes_per_row(), smallest), largest)

    def _sampled_arrow_bytes_per_row(self) -> float:
        rows, arrow_bytes = self._buffer.measure(_SAMPLE_ROWS, self._context.row_group_arrow_bytes)
        return max(arrow_bytes / max(rows, 1), 1)

    def _open_file(self) -> BaseFileWriter:
        self._sizer = self._new_sizer()
        file = BaseFileWriter(
            self._context,
            self._bucket,
            len(self._finished),
            encoder=self._encoder,
            template=self._template,
            base_clustering=self._base_clustering,
        )
        self._file = self._resources.enter_context(file)
        return self._file

    def _new_sizer(self) -> FileSizer:
        context, base = self._context, self._bucket.base
        return FileSizer(
            max_bytes=context.max_file_size_bytes,
            row_group_bytes=self._row_group_bytes,
            row_group_arrow_bytes=context.row_group_arrow_bytes,
            replaced_bytes=0 if base is None or self._finished else base.size_bytes,
        )

    def _finish_file(self) -> None:
        if self._file is not None:
            self._finished.append(self._file.finish())
            self._file = None


def _to_merge(parts: ParquetParts, run: list[int], following_bytes: float) -> set[int]:
    """Return which of these consecutive small row groups become one with the rows after them."""
    kept = kept_row_groups([parts.stored_bytes(number) for number in run], following_bytes)
    return set(run[kept:])
