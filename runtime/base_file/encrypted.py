"""Encrypted base files, written row group by row group.

Each page is encrypted for its place in one file, so encoded row groups cannot be copied as in
:mod:`parquetry.runtime.parquet.assembly`. The rows are encoded again, into the file.
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
_GCM_BYTES = 32
"""Length, nonce and tag of a part that AES-GCM encrypts: a page, its header, or an index of pages."""

_MIN_LOCATION_BYTES = 7
"""The smallest entry of an offset index: three fields of a header and a byte or more, and the end."""


class EncryptedFile:
    """Writes one parquet file to ``sink`` and encrypts all of it with the key that ``reference`` names.

    ``properties`` come from :func:`~parquetry.runtime.parquet.encryption.encryption_properties`. They are
    requested before anything of the file exists.
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
        """The number of bytes written so far."""
        return self._sink.tell()

    @property
    def size_bytes(self) -> int:
        """The largest possible size of the file if it is finished now, without key-value pairs."""
        return self.data_bytes + self._index_bytes + _FOOTER_BYTES

    def encryption_bytes(self, parts: ParquetParts) -> int:
        """Return how many bytes encryption adds at most to the row group of ``parts`` and its page index."""
        chunks = parts.chunks(0)
        pages = sum(chunk.offset_index_bytes // _MIN_LOCATION_BYTES + 1 for chunk in chunks)
        return _GCM_BYTES * 2 * (pages + len(chunks))

    def append(self, encoded: EncodedRows, *, sorted_by: Collection[int] = ()) -> None:
        """Write the rows as a row group.

        ``sorted_by`` are the sorting columns, as in :meth:`ParquetAssembly.append`; only the first call sets
        them.
        """
        rows = encoded.rows
        if self._writer is None:
            self._writer = self._open(rows.schema, sorted_by)
        columns = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in rows.columns
        ]
        plain = pa.table(columns, schema=self._writer.schema)
        self._writer.write_table(plain, row_group_size=max(rows.num_rows, 1))
        self._index_bytes += encoded.parts.index_bytes(0) + 2 * _GCM_BYTES * len(encoded.parts.chunks(0))

    def finish(self, key_values: Mapping[str, str]) -> pq.FileMetaData:
        """Write the footer and return it."""
        writer = self._writer or self._open(self._schema, ())
        writer.add_key_value_metadata({**key_values, ENCRYPTION: self._reference})
        writer.close()
        return self._written[0]

    def abort(self) -> None:
        """Discard all that the parquet writer still writes. After :meth:`finish` this has no effect."""
        self._sink.discard()
        if self._writer is not None:
            # Otherwise garbage collection makes it write a footer to a sink that is already closed.
            self._writer.is_open = False

    def _open(self, schema: pa.Schema, sorted_by: Collection[int]) -> pq.ParquetWriter:
        plain = _plain(schema)
        # Bounds omit NaN, which Spark sorts as the largest number: no bounds are better than wrong ones.
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
            column_encoding=dict(self._encoder.deltas) or None,
            write_statistics=bounded or False,
            sorting_columns=[pq.SortingColumn(column) for column in sorted_by] or None,
            metadata_collector=self._written,
            **{**self._encoder.options, **self._encoder.level_options(plain.empty_table())},
        )


class _CountingSink:
    """The part of a Python file that pyarrow needs for writing. The owner closes the underlying sink."""

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
        """Do nothing: the owner flushes the sink."""

    def discard(self) -> None:
        """Discard everything that is written from now on."""
        self._discards = True

    def close(self) -> None:
        self.closed = True


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the value types instead of dictionary types."""
    return pa.schema(
        [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema]
    )
