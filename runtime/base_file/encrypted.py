"""Encrypted base files, row group by row group.

Pages are sealed for their place in one file, so they cannot be put together from encoded row groups as
those of :mod:`parquetry.runtime.parquet.assembly` are: the rows are encoded again, into the file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.arrow.columns import parquet_columns
from parquetry.runtime.base_file.encoding import EncodedRows, RowGroupEncoder
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.encryption import ENCRYPTION

_FOOTER_BYTES = 2048
_SEAL_BYTES = 32
"""Length, nonce and tag of a part that is sealed by AES-GCM: a page, its header, an index of pages."""

_LEAST_LOCATION_BYTES = 7
"""Of a page in an offset index: three fields of a byte or more, each behind its number, and the end."""


class EncryptedFile:
    """Writes one parquet file to ``sink``, all of it encrypted by the key that ``reference`` names.

    ``properties`` are those that :func:`~parquetry.runtime.parquet.encryption.encryption_properties` has for
    it, asked for before anything of the file is there.
    """

    def __init__(
        self, sink: Any, encoder: RowGroupEncoder, schema: pa.Schema, *, reference: str, properties: Any
    ) -> None:
        self._sink = _CountingSink(sink)
        self._encoder = encoder
        self._schema = _plain(schema)
        self._reference = reference
        self._properties = properties
        self._written: list[pq.FileMetaData] = []
        self._writer: pq.ParquetWriter | None = None
        self._index_bytes = 0

    @property
    def data_bytes(self) -> int:
        """How many bytes have been written."""
        return self._sink.tell()

    @property
    def size_bytes(self) -> int:
        """How large the file is at most when it is finished now, without key-value pairs."""
        return self.data_bytes + self._index_bytes + _FOOTER_BYTES

    def sealing_bytes(self, parts: ParquetParts) -> int:
        """How many bytes at most it takes to seal the only row group of ``parts``, and its page index."""
        chunks = parts.chunks(0)
        pages = sum(chunk.offset_index_bytes // _LEAST_LOCATION_BYTES + 1 for chunk in chunks)
        return _SEAL_BYTES * 2 * (pages + len(chunks))

    def append(self, encoded: EncodedRows, *, sorted_by: Collection[int] = ()) -> None:
        """Write the rows as a row group; ``sorted_by`` as for :class:`ParquetAssembly`, once for a file."""
        rows = encoded.rows
        if self._writer is None:
            self._writer = self._open(rows.schema, sorted_by)
        columns = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in rows.columns
        ]
        plain = pa.table(columns, schema=self._writer.schema)
        self._writer.write_table(plain, row_group_size=max(rows.num_rows, 1))
        self._index_bytes += encoded.parts.index_bytes(0) + 2 * _SEAL_BYTES * len(encoded.parts.chunks(0))

    def finish(self, key_values: Mapping[str, str]) -> pq.FileMetaData:
        """Write the footer, which is returned."""
        writer = self._writer or self._open(self._schema, ())
        writer.add_key_value_metadata({**key_values, ENCRYPTION: self._reference})
        writer.close()
        return self._written[0]

    def abort(self) -> None:
        """Write nothing more, whatever the parquet writer has left; nothing to do behind :meth:`finish`."""
        self._sink.discard()
        if self._writer is not None:
            # Else it writes a footer when it is collected, to a sink that is closed by then.
            self._writer.is_open = False

    def _open(self, schema: pa.Schema, sorted_by: Collection[int]) -> pq.ParquetWriter:
        plain = _plain(schema)
        # Spark takes NaN for the largest number, bounds leave it out: none are better than wrong ones.
        bounded = [
            path
            for path, values in parquet_columns(plain.empty_table())
            if not pa.types.is_floating(values.type)
        ]
        return pq.ParquetWriter(
            self._sink,
            plain,
            encryption_properties=self._properties,
            use_dictionary=self._encoder.dictionaries or False,
            write_statistics=bounded or False,
            sorting_columns=[pq.SortingColumn(column) for column in sorted_by] or None,
            metadata_collector=self._written,
            **self._encoder.options,
        )


class _CountingSink:
    """What pyarrow asks of a Python file to write to; it is closed by its owner."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._bytes = 0
        self._discards = False

    def write(self, data: bytes) -> int:
        if not self._discards:
            self._sink.write(data)
        self._bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self._bytes

    def flush(self) -> None:
        """Nothing: the owner sees to it."""

    def discard(self) -> None:
        """From now on what is written goes nowhere."""
        self._discards = True

    def close(self) -> None:
        self.closed = True


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with values where it has dictionaries of them."""
    return pa.schema(
        [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema]
    )
