"""Some columns of a parquet file, read in bounded memory however long their texts are.

A file keeps a text that many rows share once; decoded it is there for each of them. So texts are read as
dictionaries, rows are chosen, and what is left is decoded some rows at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.runtime.allowed import Allowed
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.schema import fields_named
from parquetry.runtime.arrow.sizes import batch_bytes_before
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.parquet.encryption import open_footer

PIECE_BYTES: Final = 1024 * 1024
"""About how many bytes of rows are read, and are decoded, at once."""

_MOST_ROWS: Final = 16_384
_OFFSET_BYTES: Final = 4
_LONG_TEXT_BYTES: Final = 16 * 1024
"""Writers leave statistics out from about 4 KiB of a text on."""

_TEXTS: Final = ("STRING", "NONE")


class ColumnReader:
    """The columns of ``wanted`` of an open file; ``place`` names it in errors, ``allowed`` may decrypt it.

    Texts named in ``encoded`` stay dictionaries. Further options are those of ``ParquetFile``.
    """

    def __init__(
        self,
        content: pa.NativeFile,
        wanted: pa.Schema,
        *,
        allowed: Allowed,
        place: str,
        encoded: Collection[str] = (),
        **options: Any,
    ) -> None:
        self.metadata, decryption = open_footer(content, allowed, place=place)
        self._file = pq.ParquetFile(
            content,
            # What decrypts a file is set up while its own footer is read.
            metadata=self.metadata if decryption is None else None,
            decryption_properties=decryption,
            read_dictionary=_texts(self.metadata),
            **options,
        )
        read = fields_named(self._file.schema_arrow, wanted)
        self._encoded = encoded
        self._conformer = Conformer(pa.schema([self._decoded(field) for field in read]), wanted, place=place)

    def batches(self, row_group: int, *, most_rows: int = _MOST_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, as they are stored."""
        names = self._conformer.source.names
        width = _widest_row(self.metadata.row_group(row_group), names)
        rows = max(min(int(PIECE_BYTES / width), most_rows), 1)
        yield from self._file.iter_batches(rows, row_groups=[row_group], columns=names, use_threads=False)

    def decoded(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows of :meth:`batches`, or some of them, with the schema that is wanted; by pieces."""
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

    def offer(self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64], sample: SystematicSample) -> None:
        """Add the rows of :meth:`batches`, of these numbers, as far as the sample takes them."""
        places = sample.of(numbers)
        numbers = numbers[places]
        for piece in self.decoded(batch.take(pa.array(places))):
            sample.add(numbers[: piece.num_rows], piece)
            numbers = numbers[piece.num_rows :]

    def _decoded(self, field: pa.Field) -> pa.Field:
        is_kept = field.name in self._encoded or not pa.types.is_dictionary(field.type)
        return field if is_kept else field.with_type(field.type.value_type)


def _texts(metadata: pq.FileMetaData) -> list[str]:
    """The texts that can be read as dictionaries: no fields of structs, no elements of arrays."""
    columns = map(metadata.schema.column, range(metadata.num_columns))
    return [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY"
        and column.logical_type.type in _TEXTS
        and column.path == column.name
        and not column.max_repetition_level
    ]


def _widest_row(row_group: pq.RowGroupMetaData, names: Collection[str]) -> float:
    """About the most bytes that a row may take as it is read: what is stored, of fields a longest text."""
    columns = [
        column
        for column in map(row_group.column, range(row_group.num_columns))
        if column.path_in_schema.partition(".")[0] in names
    ]
    stored = sum(column.total_uncompressed_size for column in columns) / max(row_group.num_rows, 1)
    within = sum(
        _long_text(column) * column.num_values / max(row_group.num_rows, 1)
        for column in columns
        if "." in column.path_in_schema
    )
    return float(max(stored + within + _OFFSET_BYTES * len(columns), 1))


def _long_text(column: pq.ColumnChunkMetaData) -> int:
    """The longer of the smallest and the greatest text; where writers left them out, a guess at long ones."""
    known = column.statistics
    if column.physical_type != "BYTE_ARRAY":
        return 0
    if known is None or not known.has_min_max:
        return min(int(column.total_uncompressed_size), _LONG_TEXT_BYTES)
    return max(len(known.min_raw), len(known.max_raw))


def _widths(column: pa.Array) -> npt.NDArray[np.int64]:
    """What each value takes when it is decoded."""
    if not pa.types.is_dictionary(column.type):
        before = batch_bytes_before(pa.record_batch([column], names=["_"]), np.arange(len(column) + 1))
        return np.diff(before)
    lengths = pc.binary_length(column.dictionary).take(column.indices).fill_null(0)
    widths: npt.NDArray[np.int64] = lengths.to_numpy().astype(np.int64) + _OFFSET_BYTES
    return widths
