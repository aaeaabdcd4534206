"""Rows of Parquet files with their keys, which tasks read with pyarrow alone.

If a source only selects columns of Parquet files, the JVM is a detour: it decodes the rows, converts them one
by one and sends them to a task, which can itself read them in the form that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.arrow.conform import conform
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.spark.session.settings import ARROW_BATCH_BYTES
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct, parse_type
from parquetry.runtime.table.partition_path import KeyRules
from parquetry.runtime.table.stored_keys import record_keys

_MOST_ROWS = 131_072
_ARROW_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
}


class NotPlainError(Exception):
    """The error for a file or value that only Spark reads correctly, so that Spark has to read the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """Row groups of a local Parquet file."""

    path: str
    row_groups: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRows:
    """The input of a task that reads rows with pyarrow: the table's columns, and the file's column for each.

    A table column that ``sources`` lacks is null.
    """

    columns: tuple[Column, ...]
    sources: Mapping[str, str]
    rules: KeyRules
    computes_key: bool

    def read(self, pieces: Sequence[FilePiece]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the table's columns, and with the record key unless it is one of these columns.

        Raises:
            NotPlainError: If pyarrow cannot read a file.

        """
        try:
            yield from self._read(pieces)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise NotPlainError(str(error)) from error

    def _read(self, pieces: Sequence[FilePiece]) -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            with pq.ParquetFile(piece.path, coerce_int96_timestamp_unit="us") as file:
                rows = _batch_rows(file, piece.row_groups)
                names = list(dict.fromkeys(self.sources.values()))
                for batch in file.iter_batches(
                    rows, row_groups=list(piece.row_groups), columns=names, use_threads=False
                ):
                    yield self._with_keys(batch)

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = {
            field.name: conform(batch.column(self.sources[field.name]), field.type)
            if field.name in self.sources
            else pa.nulls(batch.num_rows, field.type)
            for field in arrow_schema(self.columns)
        }
        if self.computes_key:
            arrays[RECORD_KEY] = record_keys(self.rules, [arrays[f] for f in self.rules.record_key])
        return pa.RecordBatch.from_pydict(arrays)


def is_read_alike(arrow: pa.DataType, spark_type: str) -> bool:
    """Return whether Spark and pyarrow read the same values from a Parquet column, as ``spark_type``."""
    return _alike(arrow, parse_type(spark_type))


def _alike(arrow: pa.DataType, kind: ColumnType) -> bool:  # noqa: PLR0911 - a case, an answer
    if pa.types.is_dictionary(arrow):
        return _alike(arrow.value_type, kind)
    match kind:
        case Primitive(name="string"):
            return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))
        case Primitive(name="binary"):
            return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))
        case Primitive(name="timestamp"):
            return bool(pa.types.is_timestamp(arrow)) and arrow.tz is not None and arrow.unit in ("ms", "us")
        case Primitive(name=name):
            return name in _ARROW_TYPES and bool(arrow.equals(_ARROW_TYPES[name]))
        case Decimal(precision=precision, scale=scale):
            return bool(arrow.equals(pa.decimal128(precision, scale)))
        case Array(element=element):
            return bool(pa.types.is_list(arrow)) and _alike(arrow.value_type, element)
        case Map(value=value):
            return (
                bool(pa.types.is_map(arrow))
                and _alike(arrow.key_type, Primitive(name="string"))
                and _alike(arrow.item_type, value)
            )
        case Struct(fields=fields):
            return (
                bool(pa.types.is_struct(arrow))
                and [arrow.field(i).name for i in range(arrow.num_fields)] == [f.name for f in fields]
                and all(_alike(arrow.field(i).type, f.type) for i, f in enumerate(fields))
            )


def _batch_rows(file: pq.ParquetFile, groups: Sequence[int]) -> int:
    """Return the number of rows per batch, from the mean size of a row in the row groups."""
    stored = [file.metadata.row_group(group) for group in groups]
    rows = sum(group.num_rows for group in stored)
    bytes_per_row = 2 * sum(group.total_byte_size for group in stored) / max(rows, 1)
    return int(min(max(2 * ARROW_BATCH_BYTES / max(bytes_per_row, 1), 1), _MOST_ROWS))
