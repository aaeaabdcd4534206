"""The compression ratio of rows that are ordered and encoded again, tried on some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from parquetry.message import Message, Value
from parquetry.runtime.arrow.conform import Conformer
from parquetry.runtime.arrow.schema import fields_named
from parquetry.runtime.base_file.encoding import RowGroupEncoder
from parquetry.runtime.base_file.reader import reading
from parquetry.runtime.base_file.sizing import default_row_group_bytes
from parquetry.runtime.clustering.forecast.pages import PageShape, TriedPages, usual_page_rows
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder, sort_indices
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.encryption import open_parquet
from parquetry.runtime.parquet.page_index import ORDERED_PAGE_ROWS
from parquetry.runtime.spec.meta_columns import COMMIT_TIME, FILE_NAME, META_COLUMNS, PARTITION_PATH
from parquetry.runtime.spec.table_spec import FilesPolicy
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each

MOST_ROW_GROUP_BYTES: Final = 256 * 1024 * 1024
"""Row groups that are larger than this before compression are not tried, to save the planner's memory."""

_FEWEST_ROWS: Final = 8192
_FEW_VALUES: Final = frozenset({COMMIT_TIME, PARTITION_PATH, FILE_NAME})


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

    The row groups, at least one, are chosen evenly, as many as the ``limits`` allow. Those beyond
    ``row_group_bytes`` before compression are skipped. If a file is gone, the constructor raises
    NotFoundError.
    """

    def __init__(
        self,
        store: ObjectStore,
        files: Sequence[FileStatistics],
        schema: pa.Schema,
        limits: SampleLimits,
        *,
        row_group_bytes: int = MOST_ROW_GROUP_BYTES,
    ) -> None:
        listed = [(file, n) for file in files for n, group in enumerate(file.row_groups) if group.rows]
        mean_bytes = sum(file.data_bytes for file in files) / max(len(listed), 1)
        count = min(max(int(limits.tried_bytes / max(mean_bytes, 1)), 1), limits.row_groups, len(listed))
        chosen = [listed[len(listed) * n // count] for n in range(count)]
        schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])
        parts = map_each(
            chosen, lambda part: _read(store, part[0].path, part[1], schema, most_bytes=row_group_bytes)
        )
        self._stored_bytes = sum(
            file.row_groups[n].data_bytes for (file, n), part in zip(chosen, parts, strict=True) if part
        )
        self._rows = pa.Table.from_batches(
            [b for part in parts for b in part], schema=schema
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
            rows = rows.take(sort_indices(OrderKeys(order, sample).of(rows)))
        row_group_bytes = policy.row_group_size_bytes or default_row_group_bytes(target_bytes)
        stored = self._stored_bytes / self._rows.num_rows
        read = self._rows.num_rows / of_rows
        encoder = RowGroupEncoder(policy, page_rows=None if order is None else ORDERED_PAGE_ROWS)
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


def _read(
    store: ObjectStore, path: str, number: int, schema: pa.Schema, *, most_bytes: int
) -> list[pa.RecordBatch]:
    """Return the rows of a row group, or no rows if it is too large."""
    place = Message(Value.uri(f"{store.uri}/{path}"))
    with reading(place), store.open_input(path) as content:
        file = open_parquet(content, store.allowed, place=place)
        if file.metadata.row_group(number).total_byte_size > most_bytes:
            return []
        source = fields_named(file.schema_arrow, schema)
        conformer = Conformer(source, schema, place=place)
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
