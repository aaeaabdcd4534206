"""Reading the footers of base files: metadata, statistics, and the keys of this project."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.message import Value
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.layout.skipping.statistics import (
    KEY_LIMIT,
    FileStatistics,
    RowGroupStatistics,
    merge_columns,
    truncated,
)
from parquetry.runtime.parquet.bounds import column_statistics
from parquetry.runtime.parquet.encryption import is_encrypted, open_footer
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.os_errors import storage_error

MIN_KEY: Final = "hoodie_min_record_key"
MAX_KEY: Final = "hoodie_max_record_key"
CLUSTERING: Final = "parquetry.clustering"
NAN_UNBOUNDED: Final = "parquetry.nan_unbounded_bytes"
"""The footer key of files in which no chunk of floating-point numbers with a NaN has bounds.

Its value is the number of bytes of the column chunks. A writer that writes other rows and keeps the footer's
pairs, as pyarrow does, makes another number of bytes, so the key does not apply to its file.
"""

_INDEXED_COLUMNS = 64


def read_metadata(store: ObjectStore, path: str) -> pq.FileMetaData:
    """Return the footer of the file at ``path``, without reading its rows.

    Raises:
        NotFoundError: If there is no file.
        StorageError: If the store cannot read the file.
        CorruptTableError: If it is not a complete parquet file.
    """
    place = Value.uri(f"{store.uri}/{path}")
    with store.open_input(path) as source:
        try:
            return open_footer(source, store.allowed, place=place)[0]
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise storage_error("read", place, error) from error
            raise CorruptTableError(
                "{file} is not a whole parquet file: {reason}; restore the file, or the table to a "
                "savepoint before it",
                file=place,
                reason=quoted_library_text(str(error).rstrip(".")),
            ) from error


def column_chunks(
    metadata: pq.FileMetaData, names: Collection[str] | None = None
) -> Iterator[pq.ColumnChunkMetaData]:
    """Yield the column chunks of all row groups: of the columns ``names`` and their fields, or of all."""
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if names is None or chunk.path_in_schema.partition(".")[0] in names:
                yield chunk


def row_groups_of(metadata: pq.FileMetaData) -> tuple[RowGroupStatistics, ...]:
    """Return the statistics of the row groups, with bounds of the first 64 columns outside lists and maps."""
    schema, nan_unbounded = metadata.schema, leaves_nan_unbounded(metadata)
    indexed = [i for i in range(len(schema)) if schema.column(i).max_repetition_level == 0]
    indexed = indexed[:_INDEXED_COLUMNS]
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = {}
        for index in indexed:
            statistics = column_statistics(
                group.column(index), schema.column(index), nan_unbounded=nan_unbounded
            )
            if statistics is not None:
                columns[schema.column(index).path] = statistics
        groups.append(
            RowGroupStatistics(rows=group.num_rows, data_bytes=_stored_bytes(group), columns=columns)
        )
    return tuple(groups)


def leaves_nan_unbounded(metadata: pq.FileMetaData) -> bool:
    """Return whether the writer of this footer omits the bounds of columns that contain a NaN.

    The footers of this project have a note of this. Other writers omit only the NaN values from the bounds,
    without a note.
    """
    recorded = (metadata.metadata or {}).get(NAN_UNBOUNDED.encode())
    if recorded is None:
        return False
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return bool(recorded == str(sum(map(_stored_bytes, groups))).encode())


def _stored_bytes(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


def file_statistics(path: str, metadata: pq.FileMetaData, *, size_bytes: int) -> FileStatistics:
    """Return the statistics from a file's footer as they are recorded, with long texts shortened.

    For an encrypted file they contain no values in any form.
    """
    groups = [group for group in row_groups_of(metadata) if group.rows]
    if encrypted := is_encrypted(metadata):
        groups = [replace(group, columns={}) for group in groups]
    keys = merge_columns(groups).get(RECORD_KEY)
    minimum = maximum = None
    if keys is not None and keys.type == "string":
        keys = truncated(keys, limit=KEY_LIMIT)
        minimum, maximum = keys.minimum, keys.maximum
    clustering = (metadata.metadata or {}).get(CLUSTERING.encode())
    return FileStatistics(
        path=path,
        size_bytes=size_bytes,
        row_groups=tuple(
            replace(group, columns={name: truncated(column) for name, column in group.columns.items()})
            for group in groups
        ),
        min_key=minimum if isinstance(minimum, str) else None,
        max_key=maximum if isinstance(maximum, str) else None,
        clustering=clustering.decode() if clustering is not None else None,
        encrypted=encrypted,
    )
