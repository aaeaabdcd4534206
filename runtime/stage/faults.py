"""Nulls in fields of structs that may not be null: which rows have them, and where."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc


def required_holes(array: pa.Array, field: pa.Field, place: str) -> Iterator[tuple[str, pa.Array]]:
    """Struct fields inside ``array`` that must not be null and are: their path and a mask of rows.

    Only structs within structs are looked at row by row; elements of lists and maps are looked at
    as a whole, with the mask on all rows that are not null.
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
            values, path = pc.struct_field(array, [at]), f"{place}.{child.name}"
            if not child.nullable and values.null_count:
                yield path, pc.and_(present, pc.is_null(values))
            yield from required_holes(values, child, path)
        return
    inner = array.items if pa.types.is_map(kind) else array.values
    child = kind.item_field if pa.types.is_map(kind) else kind.value_field
    for path, holes in required_holes(inner, child, f"{place}.{child.name}"):
        if pc.any(holes).as_py():
            yield path, pc.is_valid(array)


def has_required(kind: pa.DataType) -> bool:
    """Whether a struct somewhere inside has a field that must not be null."""
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return any(not f.nullable or has_required(f.type) for f in fields)
    if pa.types.is_map(kind):
        return has_required(kind.item_type)
    return bool(pa.types.is_list(kind)) and has_required(kind.value_type)
