"""Reading columns of a parquet file in bounded memory, however long their texts are.

A file stores a text once that many rows share; decoded, each row has a copy. So texts are read as
dictionaries, rows are chosen, and the chosen rows are decoded a few at a time. Delta-encoded texts cannot be
read as dictionaries, so fewer rows of them are read at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.message import Field
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.schema import fields_named
from parquetry.runtime.arrow.sizes import batch_bytes_before
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.parquet.announcement import announce_chunks
from parquetry.runtime.parquet.encryption import file_with_footer, open_footer
from parquetry.runtime.parquet.footer import column_chunks

PIECE_BYTES: Final = 1024 * 1024
"""The approximate size of the rows that are read, and of those that are decoded, at once."""

_MAX_ROWS: Final = 16_384
_OFFSET_BYTES: Final = 4
_LONG_TEXT_BYTES: Final = 16 * 1024
"""The assumed length of a text without statistics, which writers omit from about 4 KiB on."""

_TEXTS: Final = ("STRING", "NONE")

_DELTA_ENCODINGS: Final = frozenset({"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"})
"""The encodings of texts by their differences or lengths."""


class ColumnReader:
    """Reads the columns of ``wanted`` from an open file, which ``place`` names in errors.

    ``allowed`` limits the keys that may decrypt the file. Texts named in ``encoded`` stay dictionaries. Other
    options are those of ``ParquetFile``.
    """

    def __init__(
        self,
        content: pa.NativeFile,
        wanted: pa.Schema,
        *,
        allowed: Allowed,
        place: Field,
        encoded: Collection[str] = (),
        **options: Any,
    ) -> None:
        self.metadata, decryption = open_footer(content, allowed, place=place)
        self._deltas = delta_columns(self.metadata)
        self._content = content
        self._file = file_with_footer(
            content,
            self.metadata,
            decryption,
            read_dictionary=[name for name in _texts(self.metadata) if name not in self._deltas],
            **options,
        )
        read = fields_named(self._file.schema_arrow, wanted)
        self._encoded = encoded
        self._conformer = Conformer(pa.schema([self._decoded(field) for field in read]), wanted, place=place)

    def announce(self, row_groups: Iterable[int] | None = None, *, most_bytes: int | None = None) -> None:
        """Announce the row groups that will be read, or all, by at most ``most_bytes`` of each chunk."""
        names = self._conformer.source.names
        announce_chunks(self._content, self.metadata, names, row_groups=row_groups, most_bytes=most_bytes)

    def batches(self, row_group: int, *, most_rows: int = _MAX_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a row group as they are stored, in batches of at most ``most_rows`` rows."""
        names = self._conformer.source.names
        width = _widest_row(self.metadata.row_group(row_group), names, self._deltas)
        rows = max(min(int(PIECE_BYTES / width), most_rows), 1)
        yield from self._file.iter_batches(rows, row_groups=[row_group], columns=names, use_threads=False)

    def decoded(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield all or some rows of :meth:`batches` in the wanted schema, about ``PIECE_BYTES`` at a time."""
        widths = sum((_widths(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64))
        before = np.concatenate([[0], np.cumsum(widths)])
        start = 0
        while start < batch.num_rows:
            full = int(np.searchsorted(before, before[start] + PIECE_BYTES, side="right"))
            end = min(max(full - 1, start + 1), batch.num_rows)
            piece = batch.slice(start, end - start)
            columns = [
                column.dictionary_decode() if column.type != field.type else column
                for column, field in zip(piece.columns, self._conformer.source, strict=True)
            ]
            source = self._conformer.source
            rows = pa.RecordBatch.from_arrays(columns, schema=source) if len(source) else piece
            yield self._conformer(rows)
            start = end

    def add_to_sample(
        self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64], sample: SystematicSample
    ) -> None:
        """Add the rows of a batch that the sample accepts to the sample, and decode only these.

        Args:
            batch: Rows of :meth:`batches`.
            numbers: The position of each row in the sequence of all rows from which the sample is drawn.
            sample: The sample.

        """
        indices = sample.accepted_indices(numbers)
        numbers = numbers[indices]
        for piece in self.decoded(batch.take(pa.array(indices))):
            sample.add(numbers[: piece.num_rows], piece)
            numbers = numbers[piece.num_rows :]

    def _decoded(self, field: pa.Field) -> pa.Field:
        is_kept = field.name in self._encoded or not pa.types.is_dictionary(field.type)
        return field if is_kept else field.with_type(field.type.value_type)


def _texts(metadata: pq.FileMetaData) -> list[str]:
    """Return the names of the text columns that can be read as dictionaries.

    Texts within structs and arrays cannot be read as dictionaries.
    """
    columns = map(metadata.schema.column, range(metadata.num_columns))
    return [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY"
        and column.logical_type.type in _TEXTS
        and column.path == column.name
        and not column.max_repetition_level
    ]


def delta_columns(metadata: pq.FileMetaData) -> frozenset[str]:
    """Return the paths of the columns with delta-encoded texts, which Arrow cannot read as dictionaries.

    A delta-encoded text (DELTA_BYTE_ARRAY) has only the bytes in which it differs from the one before.
    """
    return frozenset(
        chunk.path_in_schema
        for chunk in column_chunks(metadata)
        if chunk.physical_type == "BYTE_ARRAY" and not _DELTA_ENCODINGS.isdisjoint(chunk.encodings)
    )


def _widest_row(row_group: pq.RowGroupMetaData, names: Collection[str], deltas: Collection[str]) -> float:
    """Return the approximate bytes of a wide row.

    This is the mean stored size of a row. For texts within structs and lists, and for delta-encoded texts,
    the length of a long text is added.
    """
    columns = [
        column
        for column in map(row_group.column, range(row_group.num_columns))
        if column.path_in_schema.partition(".")[0] in names
    ]
    stored = sum(column.total_uncompressed_size for column in columns) / max(row_group.num_rows, 1)
    within = sum(
        _assumed_text_bytes(column) * column.num_values / max(row_group.num_rows, 1)
        for column in columns
        if "." in column.path_in_schema or column.path_in_schema in deltas
    )
    return float(max(stored + within + _OFFSET_BYTES * len(columns), 1))


def _assumed_text_bytes(column: pq.ColumnChunkMetaData) -> int:
    """Return the length of the longer text bound of a column, or a guess if the writer omitted the bounds."""
    known = column.statistics
    if column.physical_type != "BYTE_ARRAY":
        return 0
    if known is None or not known.has_min_max:
        return min(int(column.total_uncompressed_size), _LONG_TEXT_BYTES)
    return max(len(known.min_raw), len(known.max_raw))


def _widths(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the bytes of each value after it is decoded."""
    if not pa.types.is_dictionary(column.type):
        before = batch_bytes_before(pa.record_batch([column], names=["_"]), np.arange(len(column) + 1))
        return np.diff(before)
    lengths = pc.binary_length(column.dictionary).take(column.indices).fill_null(0)
    widths: npt.NDArray[np.int64] = lengths.to_numpy().astype(np.int64) + _OFFSET_BYTES
    return widths
