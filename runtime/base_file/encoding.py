"""The encoding of row groups of a base file: codec, pages, dictionaries, and delta encodings of texts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.runtime.arrow.columns import (
    parquet_columns,
    with_ordered_dictionaries,
    with_required_fields,
)
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS
from parquetry.runtime.spec.table_spec import FilesPolicy, TextEncodings

DISTINCT_SHARE: Final = 0.2
"""A column gets a dictionary if at most this share of the values of a row group is distinct.

Above it a dictionary costs more time and, after compression, more bytes than plain values.
"""

DICTIONARY_BYTES: Final = 1024 * 1024
"""The encoder gives up a larger dictionary, but only after it has filled it."""

DELTA_SHARE: Final = 0.95
"""A text column gets a delta encoding if a sample takes at most this share of its plain bytes, compressed.

Columns without shared prefixes gain nothing, and decoding takes up to half more time.
"""

DIFFERENCES_SHARE: Final = 0.97
"""DELTA_BYTE_ARRAY is chosen if it takes at most this share of DELTA_LENGTH_BYTE_ARRAY.

The latter decodes faster.
"""

ZSTD_LEVEL: Final = 2
"""Level 2 makes files as small as level 3, which other programs use, in hardly more time than level 1.

At level 1, Arrow's default, sorted sessions take a fifth more bytes, most of them for timestamps and keys.
"""

HIGH_ZSTD_LEVEL: Final = 7
"""The level of columns in ordered rows that it makes much smaller.

It is the lowest level that takes short matches into account in pages of more than 16 KiB. Keys that the order
has put near similar keys take a quarter fewer bytes. Random keys take more bytes than at level 2.
"""

HIGH_LEVEL_SHARE: Final = 0.8
"""A column gets the high level if a sample takes at most this share of its bytes at the usual level.

Compression at the high level takes three to five times as long, decompression takes as long.
"""

_SAMPLE_ROWS = 20_000
_ENOUGH_VALUES = 256
_TRIED_PIECES: Final = 4
_FEWEST_TRIED_ROWS: Final = 256
_MOST_TRIED_ROWS: Final = 2048
_TRIED_SHARE: Final = 0.1
"""Delta encodings are tried on pieces of consecutive rows, each with 256 to 2,048 rows.

Together they have a tenth of the rows if that is possible. Encoding these three times takes less time than it
takes to encode all rows.
"""
_HIGH_LEVEL_PIECES: Final = 2
_HIGH_LEVEL_ROWS: Final = ORDERED_PAGE_ROWS // _HIGH_LEVEL_PIECES
"""The high level is tried on pieces that make one page, because it takes longer and has to save more."""

_DIFFERENCES: Final = "DELTA_BYTE_ARRAY"
_LENGTHS: Final = "DELTA_LENGTH_BYTE_ARRAY"
_CODECS = {"none": "NONE", "uncompressed": "NONE", "lz4": "LZ4_RAW"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """Rows as a row group, the only one of a parquet file in memory.

    ``rows`` are the rows that were encoded, after their nulls were checked and their dictionaries ordered.
    ``unbounded`` are the numbers of the parquet columns that contain a NaN. Writers omit NaN from the bounds,
    but Spark sorts NaN as the largest number and would skip such rows.
    """

    rows: pa.Table
    parts: ParquetParts
    unbounded: frozenset[int]

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes that the row group adds to a file."""
        return self.parts.stored_bytes(0) + self.parts.index_bytes(0)


class RowGroupEncoder:
    """Encodes tables of one schema.

    The first rows decide which columns get dictionaries and, if the policy has them, delta encodings. A row
    group of at least twice as many rows decides again.

    Decimals become fixed-length byte arrays, timestamps microseconds, lists three levels with ``element``;
    statistics go to the footer and the page index; the Arrow schema is not stored.

    ``is_ordered`` says that the rows come in the order of a clustering. Their pages then have at most 2,048
    rows, unless the policy sets their size in bytes. With zstd, columns without a dictionary get the high
    level if that makes a sample much smaller.
    """

    def __init__(self, policy: FilesPolicy, *, is_ordered: bool = False) -> None:
        codec = policy.compression.lower()
        self.codec = _CODECS.get(codec, codec.upper())
        self.options: Mapping[str, Any] = {
            "version": "2.6",
            "compression": self.codec,
            "compression_level": ZSTD_LEVEL if self.codec == "ZSTD" else None,
            "data_page_size": policy.page_size_bytes,
            "write_page_index": True,
            "store_schema": False,
        }
        if is_ordered and policy.page_size_bytes is None:
            self.options = {**self.options, **page_options(ORDERED_PAGE_ROWS)}
        self._decided_at_rows: dict[str, int] = {}
        self._dictionaries: set[str] = set()
        self._tries_deltas = policy.text_encodings is TextEncodings.DELTA
        self._deltas: dict[str, str] = {}
        self._tries_high_level = is_ordered and self.codec == "ZSTD"
        self._high_level: set[str] = set()

    def template(self, schema: pa.Schema) -> ParquetParts:
        """Return a parquet file in memory with this schema and without row groups."""
        return _encode(schema.empty_table(), (), self.options)

    @property
    def dictionaries(self) -> list[str]:
        """The sorted parquet paths of the columns that currently get dictionaries."""
        return sorted(self._dictionaries)

    @property
    def deltas(self) -> Mapping[str, str]:
        """The delta encodings of columns that currently have one, by parquet path."""
        return self._deltas

    def level_options(self, rows: pa.Table) -> dict[str, Any]:
        """Return the option with the compression level of each parquet column; empty if all are the usual."""
        if not self._high_level:
            return {}
        paths = (path for path, _ in parquet_columns(rows))
        levels = {path: HIGH_ZSTD_LEVEL if path in self._high_level else ZSTD_LEVEL for path in paths}
        return {"compression_level": levels}

    def encode_constants(self, rows: pa.Table) -> EncodedRows:
        """Return columns with few distinct values as one row group, all with dictionaries."""
        parts = _encode(rows, rows.column_names, self.options)
        return EncodedRows(rows=rows, parts=parts, unbounded=frozenset())

    def undecided(self, names: Iterable[str], rows: int) -> list[str]:
        """Return the columns that need a new decision about encodings for a row group of ``rows`` rows.

        A decision holds for row groups of less than twice as many rows.
        """
        return [name for name in names if rows >= 2 * self._decided_at_rows.get(name, 0)]

    def decide(self, sample: pa.Table, rows: int) -> None:
        """Decide the encodings of columns from a sample of a row group of ``rows`` rows.

        The sample consists of pieces of consecutive rows.
        """
        stride = max(rows // max(sample.num_rows, 1), 1)
        self._record_decision(sample, rows, _repeating(sample, stride))

    def encode_again(self, rows: pa.Table, dictionaries: Iterable[str]) -> EncodedRows:
        """Return rows from a stored row group, encoded again as one row group.

        The columns with the parquet paths ``dictionaries`` get dictionaries.
        """
        rows = with_required_fields(rows)
        dictionaries = list(dictionaries)
        parts = _encode(rows, dictionaries, self.options, self._smaller_by_deltas(rows, dictionaries))
        return EncodedRows(rows=rows, parts=parts, unbounded=_columns_with_nan(rows))

    def encode(self, rows: pa.Table) -> EncodedRows:
        """Return the rows encoded as one row group.

        Raises:
            pyarrow.ArrowInvalid: If a required field is null.
        """
        rows = with_ordered_dictionaries(with_required_fields(rows))
        # Arrow builds this list on each access.
        names = frozenset(rows.column_names)
        unknown = self.undecided(rows.column_names, rows.num_rows)
        undecided = rows.select(unknown)
        self._record_decision(undecided, rows.num_rows, dictionary_columns(undecided))
        dictionaries = [path for path in self._dictionaries if path.partition(".")[0] in names]
        deltas = {path: kind for path, kind in self._deltas.items() if path.partition(".")[0] in names}
        parts = _encode(rows, dictionaries, {**self.options, **self.level_options(rows)}, deltas)
        return EncodedRows(rows=rows, parts=parts, unbounded=_columns_with_nan(rows))

    def _record_decision(self, sample: pa.Table, rows: int, dictionaries: Collection[str]) -> None:
        """Record that, of the parquet paths of these columns, only ``dictionaries`` get dictionaries.

        Others get the delta encoding that makes the sample smaller, if there is one, and the high level if it
        makes the sample much smaller.
        """
        settled = frozenset(sample.column_names)
        kept = {path: kind for path, kind in self._deltas.items() if path.partition(".")[0] not in settled}
        deltas = self._smaller_by_deltas(sample, dictionaries)
        self._deltas = kept | deltas
        self._high_level = {path for path in self._high_level if path.partition(".")[0] not in settled}
        self._high_level |= self._smaller_at_high_level(sample, dictionaries, deltas)
        self._decided_at_rows |= dict.fromkeys(settled, rows)
        self._dictionaries -= {path for path in self._dictionaries if path.partition(".")[0] in settled}
        self._dictionaries |= set(dictionaries)

    def _smaller_by_deltas(self, rows: pa.Table, dictionaries: Collection[str]) -> dict[str, str]:
        """Return the delta encodings, by parquet path, of columns that they make smaller."""
        if not self._tries_deltas or rows.num_rows < _ENOUGH_VALUES:
            return {}
        paths = [
            path
            for path, values in parquet_columns(rows)
            if path not in dictionaries and _is_text(values.type)
        ]
        return _smaller(_pieces_of(rows, {path.partition(".")[0] for path in paths}), paths, self.options)

    def _smaller_at_high_level(
        self, rows: pa.Table, dictionaries: Collection[str], deltas: Mapping[str, str]
    ) -> set[str]:
        """Return the parquet paths of columns that the high level makes much smaller."""
        paths = [path for path, _ in parquet_columns(rows) if path not in dictionaries]
        if not paths or not self._tries_high_level or rows.num_rows < _ENOUGH_VALUES:
            return set()
        names = {path.partition(".")[0] for path in paths}
        pieces = _pieces_of(rows, names, count=_HIGH_LEVEL_PIECES, most=_HIGH_LEVEL_ROWS)
        usual, high = (
            _chunk_bytes(_encode(pieces, (), {**self.options, "compression_level": level}, deltas))
            for level in (ZSTD_LEVEL, HIGH_ZSTD_LEVEL)
        )
        return {path for path in paths if high[path] <= HIGH_LEVEL_SHARE * usual[path]}


def page_options(rows: int) -> dict[str, Any]:
    """Return the options of pyarrow's writer that limit pages to ``rows`` rows.

    Older versions of pyarrow lack this option. With the substitute, pyarrow writes ``rows`` values at a time
    and ends the page after each such write. If the rows of a column are lists, such a page has fewer rows.
    """
    if "max_rows_per_page" in inspect.signature(pq.write_table).parameters:
        return {"max_rows_per_page": rows}
    return {"write_batch_size": rows, "data_page_size": 1}


def dictionary_columns(rows: pa.Table) -> list[str]:
    """Return the parquet paths of the columns whose values repeat often enough for a dictionary.

    The decision uses a systematic sample. It compares the distinct values of the sample with the number to
    expect if ``DISTINCT_SHARE`` of all values were distinct and came in random order.
    """
    stride = max(rows.num_rows // _SAMPLE_ROWS, 1)
    sample = rows.take(pa.array(np.arange(0, rows.num_rows, stride))) if stride > 1 else rows
    return _repeating(sample, stride)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _pieces_of(
    rows: pa.Table, names: Collection[str], *, count: int = _TRIED_PIECES, most: int = _MOST_TRIED_ROWS
) -> pa.Table:
    """Return pieces of consecutive rows, evenly spaced, with the columns ``names``."""
    rows = rows.select([name for name in rows.column_names if name in names])
    each = min(max(int(rows.num_rows * _TRIED_SHARE / count), _FEWEST_TRIED_ROWS), most)
    last = rows.num_rows - each
    if last < (count - 1) * each:
        return rows
    starts = (last * number // (count - 1) for number in range(count))
    return pa.concat_tables([rows.slice(start, each) for start in starts]).combine_chunks()


def _smaller(rows: pa.Table, paths: Sequence[str], options: Mapping[str, Any]) -> dict[str, str]:
    """Return the delta encodings of the columns ``paths`` that make these rows smaller, by path."""
    if not paths:
        return {}
    plain, lengths, differences = (
        _chunk_bytes(_encode(rows, (), options, deltas))
        for deltas in ({}, dict.fromkeys(paths, _LENGTHS), dict.fromkeys(paths, _DIFFERENCES))
    )
    found = {}
    for path in paths:
        is_shared = differences[path] <= DIFFERENCES_SHARE * lengths[path]
        kind, size = (_DIFFERENCES, differences[path]) if is_shared else (_LENGTHS, lengths[path])
        if size <= DELTA_SHARE * plain[path]:
            found[path] = kind
    return found


def _chunk_bytes(parts: ParquetParts) -> dict[str, int]:
    return {chunk.name: chunk.size_bytes for chunk in parts.chunks(0)}


def _encode(
    rows: pa.Table,
    dictionaries: Iterable[str],
    options: Mapping[str, Any],
    deltas: Mapping[str, str] = MappingProxyType({}),
) -> ParquetParts:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        rows.schema,
        use_dictionary=sorted(dictionaries) or False,
        column_encoding=dict(deltas) or None,
        **options,
    ) as writer:
        if rows.num_rows:
            writer.write_table(rows, row_group_size=rows.num_rows)
    return ParquetParts(pa.BufferReader(sink.getvalue()))


def _columns_with_nan(rows: pa.Table) -> frozenset[int]:
    return frozenset(
        number
        for number, (_, values) in enumerate(parquet_columns(rows))
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py()
    )


def _repeating(sample: pa.Table, stride: int) -> list[str]:
    return [path for path, values in parquet_columns(sample) if _is_worth_dictionary(values, stride)]


def _is_worth_dictionary(values: pa.Array, stride: int) -> bool:
    if pa.types.is_dictionary(values.type):
        return True
    if pa.types.is_boolean(values.type):
        return False
    present = len(values) - values.null_count
    if present < _ENOUGH_VALUES:
        return True
    distinct = pc.unique(values)
    worth_it = DISTINCT_SHARE * present * stride
    return bool(
        len(distinct) <= worth_it * -math.expm1(-present / worth_it) and distinct.nbytes <= DICTIONARY_BYTES
    )
