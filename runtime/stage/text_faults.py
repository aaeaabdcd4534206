"""Text that is no UTF-8: Spark takes any bytes for text, other readers refuse a file that has some."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc


def with_readable_text(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Mapping[str, pa.Array]]:
    """The rows, and by column a mask of those that have such text.

    In columns of text its bytes are spelled out, so that it can be shown. Within lists, maps and
    structs it stays, and the mask is on all rows that are not null.
    """
    found: dict[str, pa.Array] = {}
    for number, field in enumerate(rows.schema):
        column = rows.column(number)
        if not _holds_text(field.type) or _is_utf8(column):
            continue
        if pa.types.is_nested(field.type):
            found[field.name] = pc.is_valid(column)
            continue
        as_bytes = pa.binary() if pa.types.is_string(field.type) else pa.large_binary()
        values = pc.cast(column, as_bytes).to_pylist()
        texts = [None if value is None else value.decode(errors="backslashreplace") for value in values]
        readable = pa.array(texts, field.type)
        found[field.name] = pc.fill_null(
            pc.not_equal(pc.cast(readable, as_bytes), pa.array(values, as_bytes)), fill_value=False
        )
        rows = rows.set_column(number, field, readable)
    return rows, found


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
