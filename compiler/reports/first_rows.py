"""The first rows of a table, for people and scripts, read without Spark."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.read.rows import read_rows
from parquetry.runtime.spec.masking import personal_column_names, pii_columns
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import open_table
from parquetry.text.secret_names import MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """Rows of a table. Each row has a plain value for each column; those of personal columns are masked."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]


def first_rows(
    store: ObjectStore,
    *,
    limit: int,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of: str | None = None,
    declared: TableSpec | None = None,
) -> FirstRows:
    """Return the first rows of a table, in the order of its files.

    Only as much is read as is needed for them. Values of columns that the applied spec or the ``declared``
    one marks as personal data are masked. Dates, times and decimals are texts, and bytes are hexadecimal.

    Args:
        store: The store of the table.
        limit: The largest number of rows.
        columns: As in :func:`read_rows`.
        where: As in :func:`read_rows`.
        as_of: As in :func:`read_rows`.
        declared: The declared spec of the table, if it belongs to a project.

    Raises:
        InvalidDataError: If a column does not exist, for a condition or a time that is refused, or for a
            value with a year before 1 or after 9999.
        CorruptTableError: If a file is missing or damaged.
    """
    handle = open_table(store, declared=declared)
    with handle.failures_masked():
        reader = read_rows(handle, columns=columns, where=where, as_of=as_of)
        found: list[pa.RecordBatch] = []
        missing = limit
        while missing > 0 and (batch := next(reader, None)) is not None:
            found.append(batch)
            missing -= batch.num_rows
        reader.close()
    spec = handle.shown_by
    personal = frozenset() if spec is None else personal_column_names(spec, pii_columns(spec.columns))
    names = tuple(reader.schema.names)
    table = pa.Table.from_batches(found, schema=reader.schema).slice(0, limit)
    shown = [
        [MASK] * table.num_rows if name.lower() in personal else _listed(name, table.column(name))
        for name in names
    ]
    return FirstRows(
        table=handle.name,
        columns=names,
        rows=tuple(dict(zip(names, row, strict=True)) for row in zip(*shown, strict=True)),
    )


def _listed(name: str, values: pa.ChunkedArray) -> list[Any]:
    """Return the plain values of a column. Raise InvalidDataError for a year that Python's dates lack."""
    try:
        return [_plain(value, values.type) for value in values.to_pylist()]
    except (OverflowError, ValueError):
        raise InvalidDataError(
            "column {column!r}: a value has a year before 1 or after 9999, which cannot be shown; "
            "choose other columns",
            column=name,
        ) from None


def _plain(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - a case, an answer
    """Return a value as JSON can hold it; numbers that JSON lacks are texts, as Spark writes them."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes():
            return value.hex()
        case dict():
            return {key: _plain(one, kind.field(key).type) for key, one in value.items()}
        case list() if pa.types.is_map(kind):
            return {key: _plain(one, kind.item_type) for key, one in value}
        case list():
            return [_plain(one, kind.value_type) for one in value]
    return str(value)
