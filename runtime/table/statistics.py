"""Statistics of base files in sidecars, so that planning need not read every footer.

The sidecar of a commit, the Parquet file ``.hoodie/.parquetry/stats/<T>.statistics``, has one row for each
file, and one for each row group of files with several. It is derived data: the footers contain the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from itertools import groupby, starmap
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
from parquetry.runtime.parquet.footer import file_statistics, read_metadata
from parquetry.runtime.parquet.small_files import read_parquet
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.timeline.sidecars import statistics_path

_VERSION_KEY = b"parquetry.statistics.version"
_VERSION = b"1"
_WHOLE_FILE = -1
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
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), target, compression="zstd")
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
    try:
        table = read_parquet(pa.BufferReader(content))
        if (table.schema.metadata or {}).get(_VERSION_KEY) != _VERSION:
            raise CorruptTableError(
                "{location} has another format version; delete it: the footers contain the same",
                location=location,
            )
        indexed = _columns_by_row(table, columns)
        numbered = enumerate(table.drop_columns(["columns"]).to_pylist())
        by_path = groupby(numbered, key=lambda pair: str(pair[1]["path"]))
        return tuple(_file([(row, indexed.get(number, {})) for number, row in rows]) for _, rows in by_path)
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        # A single changed byte can raise any of these errors, as it may change a name, a type or a value.
        raise CorruptTableError(
            "{location} is not a complete Parquet file of statistics: {reason}; delete it: the footers "
            "contain the same",
            location=location,
            reason=message_of(error),
        ) from error


def look_up(
    store: ObjectStore, slices: Sequence[FileSlice], *, columns: Collection[str] | None = None
) -> dict[str, FileStatistics]:
    """Return the statistics of the files by path, from the sidecars or else from the footers.

    This takes one request for each instant of the slices. It takes another one for each file that the sidecar
    of its instant lacks or lists with another size. Unreadable sidecars are ignored.

    Args:
        store: The store of the table.
        slices: The files.
        columns: The columns to return. None means all that are recorded; fewer columns take less memory.

    """
    wanted = {file_slice.path: file_slice for file_slice in slices}

    def read_sidecar(instant: str) -> bytes | None:
        try:
            return store.read(statistics_path(instant), most_bytes=MOST_BYTES)
        except UNUSABLE:
            return None

    def decoded(instant: str, content: bytes | None) -> list[FileStatistics]:
        if content is None:
            return []
        location = f"{store.uri}/{statistics_path(instant)}"
        try:
            files = decode_statistics(content, location=location, columns=columns)
        except CorruptTableError:
            return []
        return [f for f in files if f.path in wanted and wanted[f.path].size_bytes == f.size_bytes]

    def read_footer(file_slice: FileSlice) -> FileStatistics:
        metadata = read_metadata(store, file_slice.path)
        file = file_statistics(file_slice.path, metadata, size_bytes=file_slice.size_bytes)
        return file if columns is None else _with_columns(file, columns)

    instants = sorted({file_slice.instant for file_slice in slices})
    # Requests run concurrently. Decoding needs the CPU, so threads would not speed it up.
    contents = zip(instants, map_each(instants, read_sidecar), strict=True)
    decoded_files = {file.path: file for files in starmap(decoded, contents) for file in files}
    missing = [file_slice for path, file_slice in sorted(wanted.items()) if path not in decoded_files]
    return decoded_files | {file.path: file for file in map_each(missing, read_footer)}


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
