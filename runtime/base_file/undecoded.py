"""Reading row groups with as little decoding as possible, to write them again without the deleted rows."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.base_file.rows import one_batch
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.fields import ConvertedType, FileMetaData, PhysicalType, SchemaElement
from parquetry.runtime.parquet.tail import MAGIC
from parquetry.runtime.parquet.thrift import List, ThriftStruct, encode_struct
from parquetry.runtime.spec.meta_columns import FILE_NAME

_DECIMAL_FIELDS: Final = frozenset(
    {
        SchemaElement.CONVERTED_TYPE,
        SchemaElement.LOGICAL_TYPE,
        SchemaElement.SCALE,
        SchemaElement.PRECISION,
    }
)

_NEGATIVE: Final = 0x80


class UndecodedColumns:
    """The columns of a base file, except the file name, in the types that are cheapest to read and write.

    Decimals without a negative value are read as their stored bytes, which sort like the numbers. Texts in
    ``dictionaries`` are read as dictionaries. The column ``decoded``, or the column that contains that field,
    is read as values. Rows in this form are written with the same pages and bounds as decoded rows.
    """

    def __init__(
        self,
        content: pa.NativeFile,
        parts: ParquetParts,
        metadata: pq.FileMetaData,
        *,
        dictionaries: Collection[str],
        decoded: str | None,
        buffer_bytes: int,
    ) -> None:
        self._parts = parts
        self._decoded = (decoded or "").split(".")[0]
        self._byte_decimals = self._find_byte_decimals()
        self._file = pq.ParquetFile(
            content,
            metadata=self._metadata() if self._byte_decimals else metadata,
            read_dictionary=[name for name in dictionaries if name != self._decoded],
            pre_buffer=False,
            buffer_size=buffer_bytes,
        )

    def rows(self, number: int) -> pa.RecordBatch:
        """Return all rows of a row group, without the column of file names."""
        names = [name for name in self._file.schema_arrow.names if name != FILE_NAME]
        rows = self._file.read_row_group(number, columns=names, use_threads=False)
        return one_batch(rows.to_batches())

    @property
    def elements(self) -> list[ThriftStruct]:
        """The schema elements, without root and field ids, of a file that is written from such rows."""
        return self._without_decimals(self._parts.columns)

    def _find_byte_decimals(self) -> frozenset[int]:
        """Return which schema elements, counted below the root, are decimals without negative values."""
        elements = self._parts.columns
        leaves = [index for index, element in enumerate(elements) if SchemaElement.CHILDREN not in element]
        names = [chunk.name.split(".")[0] for chunk in self._parts.chunks(0)]
        return frozenset(
            index
            for number, (index, name) in enumerate(zip(leaves, names, strict=True))
            if _is_decimal(elements[index])
            and name != self._decoded
            and all(self._is_never_negative(group, number) for group in range(len(self._parts.groups)))
        )

    def _is_never_negative(self, group: int, column: int) -> bool:
        bounds = self._parts.bounds(group, column)
        return bounds is not None and bounds[0][0] < _NEGATIVE

    def _metadata(self) -> pq.FileMetaData:
        """Return the footer with these decimals as plain bytes, so that Arrow does not decode them."""
        kind, schema = self._parts.footer[FileMetaData.SCHEMA]
        root, *elements = schema.items
        bare = List(schema.kind, [root, *self._without_decimals(elements)])
        footer = encode_struct({**self._parts.footer, FileMetaData.SCHEMA: (kind, bare)})
        return pq.read_metadata(pa.BufferReader(MAGIC + footer + struct.pack("<I", len(footer)) + MAGIC))

    def _without_decimals(self, elements: list[ThriftStruct]) -> list[ThriftStruct]:
        return [
            {number: value for number, value in element.items() if number not in _DECIMAL_FIELDS}
            if index in self._byte_decimals
            else element
            for index, element in enumerate(elements)
        ]


def _is_decimal(element: ThriftStruct) -> bool:
    kinds = tuple(
        element.get(number, (0, None))[1] for number in (SchemaElement.TYPE, SchemaElement.CONVERTED_TYPE)
    )
    return kinds == (PhysicalType.FIXED_LEN_BYTE_ARRAY, ConvertedType.DECIMAL)
