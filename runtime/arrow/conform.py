"""Conversion of Arrow data to a schema: columns by name, wider numbers, and nulls for missing columns."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.message import Field
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.quoting import quoted_library_text


class Conformer:
    """Converts record batches of one schema to another.

    Columns are matched by name; missing nullable ones become null, surplus ones are dropped. ``source`` is
    the schema of the input, ``schema`` that of the output. It is the wanted schema, except that a column
    which arrives as a dictionary of the wanted type stays one. ``place`` names the data in errors.
    """

    def __init__(self, source: pa.Schema, wanted: pa.Schema, *, place: Field) -> None:
        self.source = source
        self._place = place
        self._indices = [source.get_field_index(field.name) for field in wanted]
        missing = [
            field.name
            for field, index in zip(wanted, self._indices, strict=True)
            if index < 0 and not field.nullable
        ]
        if missing:
            raise InvalidDataError(
                "{place}: the required column {column!r} is missing or duplicated; supply it once",
                place=place,
                column=missing[0],
            )
        self.schema = pa.schema(
            [
                field.with_type(_outgoing_type(source.field(index).type, field.type)) if index >= 0 else field
                for field, index in zip(wanted, self._indices, strict=True)
            ]
        )

    def only(self, names: Collection[str]) -> Conformer:
        """Return a conformer for batches that have only the columns ``names``.

        It converts them to the same types.
        """
        source, wanted = (
            pa.schema([field for field in schema if field.name in names])
            for schema in (self.source, self.schema)
        )
        return Conformer(source, wanted, place=self._place)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in :attr:`schema`; columns that already fit are not copied.

        Raises:
            InvalidDataError: If a column cannot be converted.
        """
        columns = [
            pa.nulls(batch.num_rows, field.type) if index < 0 else self._conform(batch.column(index), field)
            for field, index in zip(self.schema, self._indices, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _conform(self, array: pa.Array, field: pa.Field) -> pa.Array:
        try:
            return conform(array, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidDataError(
                "{place}: column {column!r} of type {found_type} cannot be stored as {column_type}: "
                "{reason}; declare a type that holds its values",
                place=self._place,
                column=field.name,
                found_type=array.type,
                column_type=field.type,
                reason=quoted_library_text(str(error)),
            ) from error


def conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the same values as ``wanted``: numbers widened, struct fields by name, missing fields null.

    Raises:
        pyarrow.ArrowInvalid: If a value does not fit.
        pyarrow.ArrowNotImplementedError: If the type cannot be converted.
    """
    have = array.type
    if have.equals(wanted):
        return array
    if pa.types.is_dictionary(have):
        return conform(array.dictionary_decode(), wanted)
    if pa.types.is_struct(have) and pa.types.is_struct(wanted):
        return _conform_struct(array, wanted)
    if pa.types.is_map(have) and pa.types.is_map(wanted):
        entries = pa.StructArray.from_arrays(
            [conform(array.keys, wanted.key_type), conform(array.items, wanted.item_type)],
            fields=[wanted.key_field, wanted.item_field],
        )
        return with_child(array, wanted, entries)
    if _is_list(have) and pa.types.is_list(wanted):
        return with_child(array, wanted, conform(array.values, wanted.value_type))
    return pc.cast(array, wanted)


def _outgoing_type(have: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type of a column in the output.

    This is the wanted type, or a dictionary of the wanted type if the column arrives as one.
    """
    if pa.types.is_dictionary(have) and have.value_type.equals(wanted):
        return have
    return wanted


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def _conform_struct(array: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    children = []
    for index in range(wanted.num_fields):
        field = wanted.field(index)
        at = array.type.get_field_index(field.name)
        if at < 0 and not field.nullable:
            raise pa.ArrowInvalid(f"the field {field.name!r} is missing and may not be null")
        children.append(pa.nulls(len(array), field.type) if at < 0 else conform(array.field(at), field.type))
    fields = [wanted.field(index) for index in range(wanted.num_fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def with_child(array: pa.Array, wanted: pa.DataType, child: pa.Array) -> pa.Array:
    """Return the list or map with other values below the same offsets and nulls."""
    validity, offsets = array.buffers()[:2]
    if pa.types.is_large_list(array.type):
        if len(child) > np.iinfo(np.int32).max:
            raise pa.ArrowInvalid("more than 2^31 list elements in one batch")
        wide = np.frombuffer(offsets, np.int64, array.offset + len(array) + 1)
        offsets = pa.py_buffer(wide.astype(np.int32))
    return pa.Array.from_buffers(
        wanted,
        len(array),
        [validity, offsets],
        null_count=array.null_count,
        offset=array.offset,
        children=[child],
    )
