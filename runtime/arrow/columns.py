"""Columns of Arrow tables in Parquet's terms: leaves by path, ordered dictionaries, required fields."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.arrow.conform import with_child


def parquet_columns(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Yield the path in the parquet schema, and the values, of each parquet column of the table."""
    for column, name in zip(rows.columns, rows.column_names, strict=True):
        yield from _leaves(_one_piece(column), name)


def parquet_column_numbers(schema: pa.Schema) -> dict[str, list[int]]:
    """Return the numbers of the parquet columns that each column of the schema consists of."""
    positions: dict[str, list[int]] = {name: [] for name in schema.names}
    owners = (
        name
        for name, column in zip(schema.names, schema.empty_table().columns, strict=True)
        for _ in _leaves(_one_piece(column), name)
    )
    for number, name in enumerate(owners):
        positions[name].append(number)
    return positions


def values_at(rows: pa.RecordBatch, path: str) -> pa.Array:
    """Return the values of a column, or of a field within structs by its dotted path.

    A field of a null struct is null.
    """
    name, *fields = path.split(".")
    values = rows.column(name)
    for field in fields:
        values = pc.struct_field(values, [values.type.get_field_index(field)])
    return values


def are_surely_same(one: pa.Array, other: pa.Array) -> bool:
    """Return whether two arrays of one type hold the same values, bit by bit.

    For nested types with floats the answer is always False.
    """
    if pa.types.is_dictionary(one.type):
        one, other = one.dictionary_decode(), other.dictionary_decode()
    if pa.types.is_floating(one.type):
        bits = pa.int64() if pa.types.is_float64(one.type) else pa.int32()
        one, other = one.view(bits), other.view(bits)
    elif _has_floats(one.type):
        return False
    return bool(one.equals(other))


def with_ordered_dictionaries(rows: pa.Table) -> pa.Table:
    """Return the same rows with sorted dictionaries, which contain exactly the values that occur.

    Otherwise the dictionary would depend on the batches in which the rows arrived.
    """
    for number, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = _one_piece(rows.column(number))
            if len(column.dictionary) != 1 or column.null_count == len(column):
                rows = rows.set_column(number, field, _ordered(column))
    return rows


def with_required_fields(rows: pa.Table) -> pa.Table:
    """Return the same rows without nulls in required fields, also below null structs.

    pyarrow's encoder misses some nulls in required fields (before version 18 it writes zeros), and it
    mistakes a null below a null struct for one.

    Raises:
        pyarrow.ArrowInvalid: If a required field is null in a row whose struct is not null.
    """
    for number, field in enumerate(rows.schema):
        column = rows.column(number)
        if column.null_count and not field.nullable:
            raise _forbidden_null(field.name)
        if _requires_fields(field.type):
            rows = rows.set_column(number, field, _fill_required(_one_piece(column), None, field.name))
    return rows


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def _leaves(array: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(array.type):
        for index in range(array.type.num_fields):
            yield from _leaves(array.field(index), f"{path}.{array.type.field(index).name}")
    elif pa.types.is_list(array.type):
        yield from _leaves(array.flatten(), f"{path}.list.element")
    elif pa.types.is_map(array.type):
        yield from _leaves(array.keys, f"{path}.key_value.key")
        yield from _leaves(array.items, f"{path}.key_value.value")
    else:
        yield path, array


def _ordered(column: pa.DictionaryArray) -> pa.DictionaryArray:
    nulls = column.indices.is_null() if column.indices.null_count else None
    indices = column.indices.fill_null(0).to_numpy()
    used = np.bincount(indices if nulls is None else indices[~nulls.to_numpy(zero_copy_only=False)])
    occurring = column.dictionary.take(pa.array(np.flatnonzero(used)))
    order = pc.sort_indices(occurring)
    positions = np.zeros(max(len(column.dictionary), 1), np.int32)
    positions[np.flatnonzero(used)[order.to_numpy()]] = np.arange(len(occurring), dtype=np.int32)
    mask = None if nulls is None else nulls.to_numpy(zero_copy_only=False)
    return pa.DictionaryArray.from_arrays(pa.array(positions[indices], mask=mask), occurring.take(order))


def _requires_fields(data_type: pa.DataType) -> bool:
    """Return whether any field below the type is required, apart from the keys of a map."""
    if pa.types.is_map(data_type):
        fields = [data_type.item_field]
    elif pa.types.is_nested(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
    else:
        return False
    return any(not field.nullable or _requires_fields(field.type) for field in fields)


def _fill_required(array: pa.Array, present: pa.BooleanArray | None, name: str) -> pa.Array:
    """Return the array without nulls in required fields.

    Args:
        array: The values of a column or field.
        present: For each element, whether its parents are not null.
        name: The dotted name, for errors.

    """
    if not _requires_fields(array.type):
        return array
    if pa.types.is_struct(array.type):
        here = array.is_valid() if present is None else pc.and_(array.is_valid(), present)
        fields = [array.type.field(index) for index in range(array.type.num_fields)]
        children = [_fill_required_field(array.field(i), here, field, name) for i, field in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_map(array.type):
        items = _fill_required_field(array.items, None, array.type.item_field, name)
        fields = [array.type.key_field, array.type.item_field]
        return with_child(array, array.type, pa.StructArray.from_arrays([array.keys, items], fields=fields))
    return with_child(
        array, array.type, _fill_required_field(array.values, None, array.type.value_field, name)
    )


def _fill_required_field(
    child: pa.Array, present: pa.BooleanArray | None, field: pa.Field, name: str
) -> pa.Array:
    if child.null_count and not field.nullable:
        if present is None or pc.any(pc.and_(child.is_null(), present)).as_py():
            raise _forbidden_null(name)
        return _fill_required(_without_validity(child), present, name)
    return _fill_required(child, present, name)


def _without_validity(array: pa.Array) -> pa.Array:
    """Return the array without nulls. A null becomes the value that its buffer has at this position."""
    if pa.types.is_struct(array.type):
        children = [array.field(index) for index in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    if pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        children = [pa.StructArray.from_arrays([array.keys, array.items], fields=fields)]
    else:
        children = [array.values] if pa.types.is_list(array.type) else []
    buffers = [None, *array.buffers()[1 : 2 if children else None]]
    return pa.Array.from_buffers(
        array.type, len(array), buffers, null_count=0, offset=array.offset, children=children
    )


def _forbidden_null(name: str) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"column {name!r} is declared non-nullable but contains nulls")


def _has_floats(data_type: pa.DataType) -> bool:
    if pa.types.is_floating(data_type):
        return True
    return any(_has_floats(data_type.field(index).type) for index in range(data_type.num_fields))
