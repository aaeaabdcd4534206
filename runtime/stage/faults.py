"""Values that no base file may contain, and the rows that have them.

These are nulls in required struct fields, and text that is not valid UTF-8. Spark accepts any bytes as text,
but other readers refuse a file that contains such text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc


def required_nulls(array: pa.Array, field: pa.Field, parent: str) -> Iterator[tuple[str, pa.Array]]:
    """Yield the required struct fields that are null in some rows: the path of each and a mask of these rows.

    Structs within structs are checked row by row. Elements of lists and maps are checked as a whole; the mask
    then selects all rows that are not null.
    """
    kind = field.type
    if not has_required(kind):
        return
    if pa.types.is_struct(kind):
        present = pc.is_valid(array)
        for index in range(kind.num_fields):
            child = kind.field(index)
            at = array.type.get_field_index(child.name)
            if at < 0:
                continue
            values, path = pc.struct_field(array, [at]), f"{parent}.{child.name}"
            if not child.nullable and values.null_count:
                yield path, pc.and_(present, pc.is_null(values))
            yield from required_nulls(values, child, path)
        return
    inner = array.items if pa.types.is_map(kind) else array.values
    child = kind.item_field if pa.types.is_map(kind) else kind.value_field
    for path, nulls in required_nulls(inner, child, f"{parent}.{child.name}"):
        if pc.any(nulls).as_py():
            yield path, pc.is_valid(array)


def has_required(kind: pa.DataType) -> bool:
    """Return whether the type contains a struct with a field that must not be null."""
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return any(not f.nullable or has_required(f.type) for f in fields)
    if pa.types.is_map(kind):
        return has_required(kind.item_type)
    return bool(pa.types.is_list(kind)) and has_required(kind.value_type)


def with_valid_text(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Mapping[str, pa.Array]]:
    """Return the rows with valid UTF-8 in text columns, and masks of the rows that had invalid text.

    Invalid bytes of text columns are replaced by escapes, so that the text can be shown. The masks are by
    column name. Within lists, maps and structs invalid bytes stay, and the mask selects all rows that are not
    null.
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
