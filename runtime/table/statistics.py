"""Statistics of base files in sidecars, so that planning need not read every footer.

The sidecar of a commit, the Parquet file ``.hoodie/.parquetry/stats/<T>.statistics``, has one row for each
file, and one for each row group of files with several. It is derived data: the footers contain the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.errors import message_of
from parquetry.runtime.errors import UNUSABLE, CorruptTableError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.statistics import (
    ColumnStatistics,
    FileStatistics,
    RowGroupStatistics,
    StatisticValue,
)
from parquetry.runtime.parquet.announcement import announce_chunks
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import MOST_AT_ONCE, batches, map_each
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.timeline.sidecars import statistics_path

_VERSION_KEY = b"parquetry.statistics.version"
_VERSION = b"1"
_WHOLE_FILE = -1
_ROWS_PER_GROUP: Final = 1000
"""The rows of a row group. A sidecar of which more files are read is not read whole."""

_ROWS_AT_ONCE: Final = 64
_FOOTERS_AT_ONCE: Final = 8 * MOST_AT_ONCE
_COLUMN = pa.struct(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        ("minimum", pa.string()),
        ("maximum", pa.string()),
        ("nulls", pa.int64()),
        ("nan_free", pa.bool_()),
    ]
)
_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("row_group", pa.int32(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("data_bytes", pa.int64(), nullable=False),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("clustering", pa.string()),
        ("encrypted", pa.bool_()),
        pa.field("columns", pa.list_(pa.field("element", _COLUMN)), nullable=False),
    ],
    metadata={_VERSION_KEY: _VERSION},
)


def encode_statistics(files: Iterable[FileStatistics]) -> bytes:
    """Return the content of a sidecar. Tasks also return the statistics of their files in this form."""
    rows = [row for file in sorted(files, key=lambda file: file.path) for row in _rows(file)]
    target = BytesIO()
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    pq.write_table(table, target, compression="zstd", row_group_size=_ROWS_PER_GROUP)
    return target.getvalue()


def decode_statistics(
    content: bytes, *, location: str, columns: Collection[str] | None = None
) -> tuple[FileStatistics, ...]:
    """Return the statistics in a sidecar, sorted by path.

    Args:
        content: The content of the sidecar.
        location: The location of the file for error messages.
        columns: The columns to return, compared without case. None means all.

    Raises:
        CorruptTableError: If the content is not that of a sidecar or has another format version.

    """
    return tuple(_decoded(pa.BufferReader(content), location=location, columns=columns))


def look_up(
    store: ObjectStore, slices: Iterable[FileSlice], *, columns: Collection[str] | None = None
) -> dict[str, FileStatistics]:
    """Return the statistics of the files by path, as :func:`each_statistics` yields them."""
    return {file.path: file for file in each_statistics(store, slices, columns=columns)}


def each_statistics(
    store: ObjectStore, slices: Iterable[FileSlice], *, columns: Collection[str] | None = None
) -> Iterator[FileStatistics]:
    """Yield the statistics of the files from the sidecars or else from the footers, a few files in memory.

    Files of a sidecar come together, in the order of instants and paths. This takes one request for each
    instant of the slices. It takes another one for each file that the sidecar of its instant lacks or lists
    with another size. Unreadable sidecars are ignored.

    Args:
        store: The store of the table.
        slices: The files.
        columns: The columns to return. None means all that are recorded; fewer columns take less memory.

    """
    wanted: dict[str, dict[str, FileSlice]] = {}
    for file_slice in slices:
        wanted.setdefault(file_slice.instant, {})[file_slice.path] = file_slice

    def open_sidecar(instant: str) -> pa.NativeFile | None:
        path = statistics_path(instant)
        try:
            if len(wanted[instant]) > _ROWS_PER_GROUP:
                return store.open_input(path)
            return pa.BufferReader(store.read(path, most_bytes=MOST_BYTES))
        except UNUSABLE:
            return None

    def recorded(instant: str, content: pa.NativeFile) -> Iterator[FileStatistics]:
        left = wanted[instant]
        location = f"{store.uri}/{statistics_path(instant)}"
        with suppress(CorruptTableError):
            for file in _decoded(content, location=location, columns=columns, paths=left):
                if file.path in left and left[file.path].size_bytes == file.size_bytes:
                    del left[file.path]
                    yield file

    def read_footer(file_slice: FileSlice) -> FileStatistics:
        metadata = read_metadata(store, file_slice.path)
        file = file_statistics(file_slice.path, metadata, size_bytes=file_slice.size_bytes)
        return file if columns is None else _with_columns(file, columns)

    # Requests run concurrently. Decoding needs the CPU, so threads would not speed it up.
    for instants in batches(sorted(wanted), MOST_AT_ONCE):
        for instant, content in zip(instants, map_each(instants, open_sidecar), strict=True):
            if content is not None:
                yield from recorded(instant, content)
    missing = sorted((part for left in wanted.values() for part in left.values()), key=lambda part: part.path)
    for parts in batches(missing, _FOOTERS_AT_ONCE):
        yield from map_each(parts, read_footer)


def _decoded(
    content: pa.NativeFile,
    *,
    location: str,
    columns: Collection[str] | None,
    paths: Collection[str] | None = None,
) -> Iterator[FileStatistics]:
    """Yield the statistics in a sidecar, sorted by path, or those of some paths. Few are in memory at once.

    Raises:
        CorruptTableError: If the content is not that of a sidecar or has another format version.

    """
    try:
        with content, pq.ParquetFile(content, pre_buffer=False) as source:
            if (source.schema_arrow.metadata or {}).get(_VERSION_KEY) != _VERSION:
                raise CorruptTableError(
                    "{location} has another format version; delete it: the footers contain the same",
                    location=location,
                )
            announce_chunks(content, source.metadata, source.schema_arrow.names)
            batches = source.iter_batches(_ROWS_AT_ONCE, use_threads=False)
            rows = (row for batch in batches for row in _rows_with_columns(batch, columns, paths))
            for _, found in groupby(rows, key=lambda pair: str(pair[0]["path"])):
                yield _file(list(found))
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        # A single changed byte can raise any of these errors, as it may change a name, a type or a value.
        raise CorruptTableError(
            "{location} is not a complete Parquet file of statistics: {reason}; delete it: the footers "
            "contain the same",
            location=location,
            reason=message_of(error),
        ) from error


def _rows_with_columns(
    batch: pa.RecordBatch, columns: Collection[str] | None, paths: Collection[str] | None
) -> Iterator[tuple[dict[str, Any], dict[str, ColumnStatistics]]]:
    """Yield the rows of a batch with the statistics of their columns, or those of some paths."""
    table = pa.Table.from_batches([batch])
    if paths is not None:
        chosen = [path in paths for path in table.column("path").to_pylist()]
        table = table.filter(pa.array(chosen, pa.bool_()))
    indexed = _columns_by_row(table, columns)
    for number, row in enumerate(table.drop_columns(["columns"]).to_pylist()):
        yield row, indexed.get(number, {})


def _with_columns(file: FileStatistics, columns: Collection[str]) -> FileStatistics:
    """Return the statistics with only these columns, whose names are compared without case."""
    names = {name.lower() for name in columns}
    groups = (
        replace(group, columns={n: c for n, c in group.columns.items() if n.lower() in names})
        for group in file.row_groups
    )
    return replace(file, row_groups=tuple(groups))


def _columns_by_row(
    table: pa.Table, columns: Collection[str] | None
) -> dict[int, dict[str, ColumnStatistics]]:
    lists = table.column("columns").combine_chunks()
    flat = pa.table({"row": pc.list_parent_indices(lists), "column": pc.list_flatten(lists)}).flatten()
    if columns is not None:
        names = pa.array([name.lower() for name in columns], pa.string())
        flat = flat.filter(pc.is_in(pc.utf8_lower(flat.column("column.name")), value_set=names))
    found: dict[int, dict[str, ColumnStatistics]] = {}
    for line in flat.to_pylist():
        kind = line["column.type"]
        found.setdefault(line["row"], {})[line["column.name"]] = ColumnStatistics(
            type=kind,
            minimum=_from_text(line["column.minimum"], kind),
            maximum=_from_text(line["column.maximum"], kind),
            nulls=line["column.nulls"],
            # Sidecars of the first releases lack this field.
            nan_free=bool(line.get("column.nan_free")),
        )
    return found


def _rows(file: FileStatistics) -> list[dict[str, Any]]:
    whole = RowGroupStatistics(rows=file.rows, data_bytes=file.data_bytes, columns=file.columns)
    numbered = [(_WHOLE_FILE, whole)]
    if len(file.row_groups) != 1:
        numbered += enumerate(file.row_groups)
    return [
        {
            "path": file.path,
            "row_group": number,
            "size_bytes": file.size_bytes,
            "rows": group.rows,
            "data_bytes": group.data_bytes,
            "min_key": file.min_key,
            "max_key": file.max_key,
            "clustering": file.clustering,
            "encrypted": file.encrypted or None,
            "columns": [
                {
                    "name": name,
                    "type": column.type,
                    "minimum": _to_text(column.minimum),
                    "maximum": _to_text(column.maximum),
                    "nulls": column.nulls,
                    "nan_free": column.nan_free or None,
                }
                for name, column in group.columns.items()
            ],
        }
        for number, group in numbered
    ]


def _file(rows: list[tuple[dict[str, Any], dict[str, ColumnStatistics]]]) -> FileStatistics:
    whole, _ = rows[0]
    groups = rows[1:] if len(rows) > 1 or whole["rows"] == 0 else rows
    return FileStatistics(
        path=whole["path"],
        size_bytes=whole["size_bytes"],
        row_groups=tuple(
            RowGroupStatistics(rows=row["rows"], data_bytes=row["data_bytes"], columns=columns)
            for row, columns in groups
        ),
        min_key=whole["min_key"],
        max_key=whole["max_key"],
        clustering=whole["clustering"],
        # Sidecars of the first releases lack this column.
        encrypted=bool(whole.get("encrypted")),
    )


def _to_text(bound: StatisticValue | None) -> str | None:
    match bound:
        case None:
            return None
        case bytes():
            return bound.hex()
        case float():
            return repr(bound)
    return str(bound)


def _from_text(text: str | None, kind: str) -> StatisticValue | None:
    if text is None:
        return None
    read = Decimal if kind.startswith("decimal") else _READERS[kind]
    return read(text)


_READERS: Final[dict[str, Callable[[str], StatisticValue]]] = {
    "boolean": "True".__eq__,
    "int": int,
    "bigint": int,
    "date": int,
    "timestamp": int,
    "timestamp_ntz": int,
    "float": float,
    "double": float,
    "binary": bytes.fromhex,
    "string": str,
}
