"""Paths of columns and of the fields inside them, for comparisons of specs at any depth."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Map, Struct, parse_type

ColumnPath: TypeAlias = tuple[str, ...]
"""The names from the column down to the field. ``element`` means the items of a list, ``value`` of a map."""


def types_by_path(columns: Iterable[Column]) -> dict[ColumnPath, ColumnType]:
    """Return the types of the columns and of all fields of structs, including those in lists and maps."""
    found: dict[ColumnPath, ColumnType] = {}
    for column in columns:
        declared = parse_type(column.type)
        found[column.name,] = declared
        found.update(_within((column.name,), declared))
    return found


def without(columns: Iterable[Column], gone: Collection[ColumnPath]) -> Iterator[Column]:
    """Yield the columns without the given paths. A struct without remaining fields is dropped."""
    for column in columns:
        declared = parse_type(column.type)
        left = None if (column.name,) in gone else _less((column.name,), declared, gone)
        if left is not None:
            yield column if left == declared else replace(column, type=str(left))


def _within(path: ColumnPath, declared: ColumnType) -> Iterator[tuple[ColumnPath, ColumnType]]:
    match declared:
        case Struct():
            for field in declared.fields:
                yield (*path, field.name), field.type
                yield from _within((*path, field.name), field.type)
        case Array():
            yield from _within((*path, "element"), declared.element)
        case Map():
            yield from _within((*path, "value"), declared.value)
        case _:
            return


def _less(path: ColumnPath, declared: ColumnType, gone: Collection[ColumnPath]) -> ColumnType | None:
    match declared:
        case Struct():
            fields = []
            for field in declared.fields:
                below = (*path, field.name)
                left = None if below in gone else _less(below, field.type, gone)
                if left is not None:
                    fields.append(replace(field, type=left))
            return Struct(fields=tuple(fields)) if fields else None
        case Array():
            element = _less((*path, "element"), declared.element, gone)
            return None if element is None else replace(declared, element=element)
        case Map():
            value = _less((*path, "value"), declared.value, gone)
            return None if value is None else replace(declared, value=value)
    return declared
