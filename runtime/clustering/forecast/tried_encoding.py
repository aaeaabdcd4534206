"""The compression ratio and the pages of rows that clustering encodes, from its encoder tried on some rows.

Readers skip pages by their bounds. These are predicted from the sample, as the bounds of row groups are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final

import numpy as np
import pyarrow as pa

from parquetry.message import Value
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.schema import fields_named
from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.base_file.reader import reading
from parquetry.runtime.base_file.rows import RowStamper
from parquetry.runtime.base_file.sizing import default_row_group_bytes
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder, sort_indices
from parquetry.runtime.layout.skipping.statistics import (
    ColumnPages,
    ColumnStatistics,
    FileStatistics,
    PageSizes,
    RowGroupPages,
    RowGroupStatistics,
)
from parquetry.runtime.parquet.announcement import announce_chunks
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.encryption import open_parquet
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS, USUAL_PAGE_ROWS, page_locations
from parquetry.runtime.spec.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
)
from parquetry.runtime.spec.table_spec import FilesPolicy
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each

MOST_ROW_GROUP_BYTES: Final = 256 * 1024 * 1024
"""Row groups that are larger than this before compression are not tried, to save the planner's memory."""

_MOST_DECODED_BYTES: Final = 256 * 1024 * 1024
"""The decoded bytes of the rows to try, by the bytes per row of the first row group that is not skipped."""

FORECAST_INSTANT: Final = "99991231235959999"
"""The instant in sequence numbers of a forecast. A real instant has the same length."""

_FEWEST_ROWS: Final = 8192
_FEW_VALUES: Final = frozenset({COMMIT_TIME, PARTITION_PATH, FILE_NAME})

_FEWEST_DRAWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionRatio:
    """The new bytes per stored byte: ``data`` in column chunks, ``written`` with their page indexes.

    ``pages`` is the shape of the encoder's pages, as far as any were tried.
    """

    data: float = 1.0
    written: float = 1.0
    pages: PageShape | None = None


class TriedRows:
    """The rows of some row groups of a clustering group, to try their encoding.

    The row groups, at least one, are chosen evenly, as many as the ``limits`` and ``decoded_bytes`` allow.
    Those beyond ``row_group_bytes`` before compression are skipped. If a file is gone, the constructor
    raises NotFoundError.
    """

    def __init__(
        self,
        store: ObjectStore,
        files: Sequence[FileStatistics],
        schema: pa.Schema,
        limits: SampleLimits,
        *,
        row_group_bytes: int = MOST_ROW_GROUP_BYTES,
        decoded_bytes: int = _MOST_DECODED_BYTES,
    ) -> None:
        listed = [(file, n) for file in files for n, group in enumerate(file.row_groups) if group.rows]
        mean_bytes = sum(file.data_bytes for file in files) / max(len(listed), 1)
        count = min(max(int(limits.tried_bytes / max(mean_bytes, 1)), 1), limits.row_groups, len(listed))
        schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])

        def read(place: int) -> list[pa.RecordBatch]:
            file, number = listed[place]
            return _read(store, file.path, number, schema, most_bytes=row_group_bytes)

        parts: dict[int, list[pa.RecordBatch]] = {}
        for place in _evenly(count, len(listed)):
            parts[place] = read(place)
            if parts[place]:
                break
        first = [batch for part in parts.values() for batch in part]
        row_bytes = sum(batch.nbytes for batch in first) / max(sum(batch.num_rows for batch in first), 1)

        def rows_of(count: int) -> int:
            places = _evenly(count, len(listed))
            return sum(file.row_groups[number].rows for file, number in map(listed.__getitem__, places))

        while count > 1 and rows_of(count) * row_bytes > decoded_bytes:
            count -= 1
        further = [place for place in _evenly(count, len(listed)) if place not in parts]
        parts |= zip(further, map_each(further, read), strict=True)
        tried = [place for place in sorted(parts) if parts[place]]
        self._stored_bytes = sum(file.row_groups[n].data_bytes for file, n in map(listed.__getitem__, tried))
        self._rows = pa.Table.from_batches(
            [batch for place in tried for batch in parts[place]], schema=schema
        ).combine_chunks()

    def compression_ratio(
        self,
        order: RowOrder | None,
        sample: pa.Table,
        policy: FilesPolicy,
        *,
        target_bytes: int,
        of_rows: int,
    ) -> CompressionRatio:
        """Return the compression ratio of these rows in that order, in row groups of the future size.

        If not all rows were read, each row group gets a proportional share of the rows that were read.
        Without rows, the ratio is 1.

        Args:
            order: The order of the rows; None keeps the stored order.
            sample: The rows by which the order ranks.
            policy: The file settings of the writer.
            target_bytes: The target file size.
            of_rows: The number of rows of the group, which are ordered together.

        """
        shape = TriedPages(usual_page_rows(policy, order))
        if not self._rows.num_rows or not self._stored_bytes:
            return CompressionRatio(pages=shape.shape)
        rows = self._rows
        if order is not None:
            rows = _numbered(rows.take(sort_indices(OrderKeys(order, sample).of(rows))))
        rows = _emptied(rows, policy.meta_columns.empty)
        row_group_bytes = policy.row_group_size_bytes or default_row_group_bytes(target_bytes)
        stored = self._stored_bytes / self._rows.num_rows
        read = self._rows.num_rows / of_rows
        encoder = RowGroupEncoder(policy, is_ordered=order is not None)
        data = written = first = 0
        while first < rows.num_rows:
            # As in the writer, the estimate uses the rows written so far, and at first the input files.
            row_bytes = written / first if first else stored
            # A row group's share of the read rows may be too small to compress like the full row group.
            least = 1 if read == 1 else _FEWEST_ROWS
            step = max(min(row_group_bytes, target_bytes) / row_bytes * read, least)
            left = rows.num_rows - first
            count = -(-left // max(round(left / step), 1))
            encoded = encoder.encode(_as_written(rows.slice(first, count).combine_chunks()))
            data += encoded.parts.stored_bytes(0)
            written += encoded.size_bytes
            shape.add(encoded.parts)
            first += count
        return CompressionRatio(
            data=data / self._stored_bytes, written=written / self._stored_bytes, pages=shape.shape
        )


def _evenly(count: int, among: int) -> Sequence[int]:
    """Return that many numbers below ``among``, beginning with 0."""
    return [among * number // count for number in range(count)]


def _read(
    store: ObjectStore, path: str, number: int, schema: pa.Schema, *, most_bytes: int
) -> list[pa.RecordBatch]:
    """Return the rows of a row group, or no rows if it is too large."""
    place = Value.uri(f"{store.uri}/{path}")
    with reading(place), store.open_input(path) as content:
        file = open_parquet(content, store.allowed, place=place)
        if file.metadata.row_group(number).total_byte_size > most_bytes:
            return []
        source = fields_named(file.schema_arrow, schema)
        conformer = Conformer(source, schema, place=place)
        announce_chunks(content, file.metadata, source.names, row_groups=[number])
        rows = file.read_row_group(number, columns=source.names, use_threads=False)
        return [_plain(conformer(batch), schema) for batch in rows.to_batches()]


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            for column in batch.columns
        ],
        schema=schema,
    )


def _emptied(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows with null in these columns."""
    for name in names:
        number = rows.column_names.index(name)
        rows = rows.set_column(number, name, pa.nulls(rows.num_rows, rows.schema.field(number).type))
    return rows


def _numbered(rows: pa.Table) -> pa.Table:
    """Return rows of a new order with new sequence numbers, as they are written."""
    stamper = RowStamper(FORECAST_INSTANT, bucket=0)
    unnumbered = rows.drop_columns([COMMIT_SEQNO]).combine_chunks()
    return pa.Table.from_batches([stamper.number(part) for part in unnumbered.to_batches()], rows.schema)


def _as_written(rows: pa.Table) -> pa.Table:
    """Return the rows as written: some metadata columns dictionary-encoded, and file names empty."""
    for name in _FEW_VALUES:
        at = rows.schema.get_field_index(name)
        values = (
            pa.array([""]).take(pa.array(np.zeros(rows.num_rows, np.int32)))
            if name == FILE_NAME
            else (rows.column(at))
        )
        if isinstance(values, pa.Array):
            values = pa.chunked_array([values])
        rows = rows.set_column(at, name, values.dictionary_encode().combine_chunks())
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PageShape:
    """The way an encoder divides row groups into pages.

    ``rows`` is the number of rows per page of each tried column, ``usual_rows`` that of all other columns.
    ``shares`` maps a number of rows per page to the share of all page bytes in such pages.
    ``dictionary_bytes`` of a row group are read with any page. ``dictionaries`` are the columns with a
    dictionary.
    """

    usual_rows: int
    rows: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[int, float] = field(default_factory=dict)
    dictionary_bytes: int = 0
    dictionaries: frozenset[str] = frozenset()

    def divided(
        self,
        group: RowGroupStatistics,
        bounds: Callable[[str, range], ColumnStatistics],
        *,
        first: int = 0,
        weight: float = 1.0,
        columns: Collection[str] | None = None,
    ) -> RowGroupStatistics:
        """Return the row group with its pages, or unchanged if no column has several pages.

        Args:
            group: The row group.
            bounds: Returns the bounds of a column in a range of rows.
            first: The number of the row group's first row in these ranges.
            weight: The number of rows that each sampled row represents. If a page would contain too few
                sampled rows, several pages count as one.
            columns: The columns that get bounds, or None for all.

        """
        rows, data_bytes = group.rows, group.data_bytes
        grids = {
            name: _grid(rows, _rows_per_sampled_page(self.rows.get(name, self.usual_rows), weight))
            for name, column in group.columns.items()
            # Columns without bounds, such as those with a NaN, have no page index.
            if column.minimum is not None or column.nulls == rows
        }
        if all(len(firsts) == 1 for firsts in grids.values()):
            return group
        fixed = min(self.dictionary_bytes, data_bytes)
        pages = RowGroupPages(
            columns={
                name: ColumnPages(
                    firsts=firsts,
                    bounds=[
                        bounds(name, range(first + begin, first + end))
                        for begin, end in zip(firsts, (*firsts[1:], rows), strict=True)
                    ],
                )
                for name, firsts in grids.items()
                if columns is None or name in columns
            },
            chunks=tuple(
                _pages_of_equal_rows(rows, step, (data_bytes - fixed) * share, fixed * share)
                for step, share in (self.shares or {self.usual_rows: 1.0}).items()
            ),
        )
        return replace(group, pages=pages)


class TriedPages:
    """Learns the shape of pages from encoded row groups, each the only one of its file."""

    def __init__(self, usual_rows: int) -> None:
        self._usual_rows = usual_rows
        self._rows: dict[str, int] = {}
        self._page_bytes: Counter[str] = Counter()
        self._dictionary_bytes = 0
        self._dictionaries: frozenset[str] | None = None
        self._groups = 0

    def add(self, parts: ParquetParts) -> None:
        """Add the page index of a row group."""
        rows = parts.rows(0)
        self._groups += 1
        columns = frozenset(parts.dictionaries(0))
        self._dictionaries = columns if self._dictionaries is None else self._dictionaries & columns
        for chunk in parts.chunks(0):
            index = chunk.offset_index(0)
            if index is None:
                continue
            firsts, sizes = page_locations(index)
            # The last page ends with the row group, so a full page may have more rows.
            longest = int(np.diff(firsts).max()) if len(firsts) > 1 else max(rows, self._usual_rows)
            self._rows[chunk.name] = max(self._rows.get(chunk.name, 1), longest)
            self._page_bytes[chunk.name] += int(sizes.sum())
            self._dictionary_bytes += max(chunk.size_bytes - int(sizes.sum()), 0)

    @property
    def shape(self) -> PageShape:
        """The page shape that fits all row groups so far."""
        total = sum(self._page_bytes.values())
        shares: Counter[int] = Counter()
        for name, size in self._page_bytes.items():
            shares[self._rows[name]] += size
        return PageShape(
            usual_rows=self._usual_rows,
            rows=self._rows,
            shares={step: size / total for step, size in shares.items()} if total else {},
            dictionary_bytes=self._dictionary_bytes // max(self._groups, 1),
            dictionaries=self._dictionaries or frozenset(),
        )


def usual_page_rows(policy: FilesPolicy, order: RowOrder | None) -> int:
    """Return the number of rows after which the writer ends a page at the latest."""
    ordered = order is not None and policy.page_size_bytes is None
    return ORDERED_PAGE_ROWS if ordered else USUAL_PAGE_ROWS


def _rows_per_sampled_page(page_rows: int, weight: float) -> int:
    """Return the rows of a page, or of several pages together if one has too few sampled rows."""
    return page_rows * max(ceil(_FEWEST_DRAWN * weight / page_rows), 1)


def _grid(rows: int, step: int) -> list[int]:
    return list(range(0, max(rows, 1), step))


def _pages_of_equal_rows(rows: int, step: int, page_bytes: float, other_bytes: float) -> PageSizes:
    """Return pages of ``step`` rows with sizes in proportion to their rows."""
    firsts = _grid(rows, step)
    counts = np.diff([*firsts, rows])
    return PageSizes(
        firsts=firsts,
        sizes=(counts * (page_bytes / max(rows, 1))).round().astype(int).tolist(),
        other_bytes=round(other_bytes),
    )
