"""What of a row goes into its hash: Spark refuses to hash maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from parquetry.runtime.spark.session.keys import quoted
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Map, Struct, parse_type


def hashable(columns: Sequence[Column]) -> Iterator[str]:
    """SQL for each of the columns as it is hashed."""
    for column in columns:
        yield hashable_value(quoted(column.name), parse_type(column.type), 0)


def hashable_value(value: str, kind: ColumnType, depth: int) -> str:
    """SQL with the same content and no map in it: Spark refuses to hash maps."""
    if not has_map(kind):
        return value
    item = f"h{depth}"
    match kind:
        case Map(value=inner):
            entry = hashable_value(f"{item}.value", inner, depth + 1)
            entries = f"transform(map_entries({value}), {item} -> struct({item}.key, {entry}))"
            return f"array_sort({entries})"
        case Array(element=inner):
            return f"transform({value}, {item} -> {hashable_value(item, inner, depth + 1)})"
        case Struct(fields=fields):
            parts = (hashable_value(f"{value}.{quoted(f.name)}", f.type, depth) for f in fields)
            return f"struct({', '.join((f'{value} IS NULL', *parts))})"
        case _:
            return value


def has_map(kind: ColumnType) -> bool:
    """Whether there is a map anywhere in the type."""
    match kind:
        case Map():
            return True
        case Array(element=inner):
            return has_map(inner)
        case Struct(fields=fields):
            return any(has_map(f.type) for f in fields)
        case _:
            return False
