"""The columns, statistics and name mapping of a table in the words of Iceberg.

Source: the sections Schemas and Data Types, Schema Evolution, Column Projection and Manifests of Iceberg's
specification. Only ``runtime.publish.iceberg`` imports this module, as it needs pyiceberg.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal as Number
from decimal import localcontext
from itertools import count
from typing import Any, Final, TypeAlias, assert_never

from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from parquetry.runtime.layout.skipping.statistics import StatisticValue
from parquetry.runtime.publish.model import PublishedFile
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.paths import ColumnPath
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Array, ColumnType, Decimal, Map, Primitive, Struct, parse_type

NameTree: TypeAlias = dict[str, "NameTree"]
"""The names that files use, at every depth. Lists have ``element``, maps ``key`` and ``value``."""

_OUTSIDE: Final = 2_147_480_000
"""The first id of names that the schema lacks: below Iceberg's reserved ids, and above any table's ids."""

_MOST_DIGITS: Final = 80
_PRIMITIVES: Final[Mapping[str, PrimitiveType]] = {
    "boolean": BooleanType(),
    "tinyint": IntegerType(),
    "smallint": IntegerType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}


class UnknownToIcebergError(ValueError):
    """A column that Iceberg cannot show. The argument is its path."""


def iceberg_schema(columns: Iterable[Column], former: Schema | None, last_id: int) -> Schema:
    """Return the schema of the columns. Columns and fields of ``former`` keep their ids, by their names.

    All are optional, as files older than a column lack it.

    Args:
        columns: The columns of the table, without meta columns.
        former: The schema before, or None for a new table.
        last_id: The highest id that was ever given.

    Raises:
        UnknownToIcebergError: If old files could not be read by the new type of a column.

    """
    known = {} if former is None else types_by_path(former)
    fresh = count(last_id + 1)

    def field_id(path: ColumnPath, kind: ColumnType) -> int:
        if path not in known:
            return next(fresh)
        number, before = known[path]
        if not _is_promoted(before, kind):
            raise UnknownToIcebergError(".".join(path))
        return number

    def converted(path: ColumnPath, kind: ColumnType) -> IcebergType:
        match kind:
            case Primitive(name=name):
                return _PRIMITIVES[name]
            case Decimal():
                return DecimalType(kind.precision, kind.scale)
            case Array(element=element):
                below = (*path, "element")
                number = field_id(below, element)
                return ListType(number, converted(below, element), element_required=False)
            case Map(value=value):
                key, below = (*path, "key"), (*path, "value")
                numbers = field_id(key, Primitive(name="string")), field_id(below, value)
                return MapType(
                    numbers[0], StringType(), numbers[1], converted(below, value), value_required=False
                )
            case Struct(fields=parts):
                found = [((*path, part.name), part.type) for part in parts]
                ids = [field_id(*part) for part in found]
                return StructType(
                    *(
                        NestedField(number, below[-1], converted(below, kind), required=False)
                        for number, (below, kind) in zip(ids, found, strict=True)
                    )
                )
            case _:
                assert_never(kind)

    declared = [(column, parse_type(column.type)) for column in columns]
    ids = [field_id((column.name,), kind) for column, kind in declared]
    fields = (
        NestedField(
            number, column.name, converted((column.name,), kind), required=False, doc=column.description
        )
        for number, (column, kind) in zip(ids, declared, strict=True)
    )
    return Schema(*fields, schema_id=0 if former is None else former.schema_id)


def types_by_path(schema: Schema) -> dict[ColumnPath, tuple[int, IcebergType]]:
    """Return the ids and types of all columns and fields."""
    found: dict[ColumnPath, tuple[int, IcebergType]] = {}

    def walk(path: ColumnPath, number: int, kind: IcebergType) -> None:
        found[path] = number, kind
        match kind:
            case ListType():
                walk((*path, "element"), kind.element_id, kind.element_type)
            case MapType():
                walk((*path, "key"), kind.key_id, kind.key_type)
                walk((*path, "value"), kind.value_id, kind.value_type)
            case StructType():
                for field in kind.fields:
                    walk((*path, field.name), field.field_id, field.field_type)
            case _:
                return

    for field in schema.fields:
        walk((field.name,), field.field_id, field.field_type)
    return found


def names_of_columns(columns: Iterable[Column]) -> NameTree:
    """Return the names of the columns and of everything inside them."""
    return {column.name: _names_in(parse_type(column.type)) for column in columns}


def names_of_file(file: PublishedFile, tree: NameTree) -> None:
    """Add the names of columns that the statistics of the file contain to a tree."""
    for name in file.statistics.columns:
        place = tree
        for part in name.split("."):
            place = place.setdefault(part, {})


def names_of_mapping(mapping: str) -> NameTree:
    """Return the names in a name mapping, so that they stay in the next one."""

    def names(fields: Sequence[Mapping[str, Any]]) -> NameTree:
        return {name: names(field.get("fields") or ()) for field in fields for name in field["names"]}

    return names(json.loads(mapping))


def name_mapping(schema: Schema, others: Iterable[NameTree]) -> str:
    """Return the name mapping of the table as JSON, by which readers find the columns of the files.

    Readers refuse files with a name that it lacks. So it has the meta columns and the names in ``others``
    too, such as those of dropped columns, with ids that the schema does not have.
    """
    known = types_by_path(schema)
    tree: NameTree = {name: {} for name in META_COLUMNS}
    for path in known:
        place = tree
        for part in path:
            place = place.setdefault(part, {})
    for other in others:
        _merge(tree, other)
    outside = count(_OUTSIDE)

    def fields(path: ColumnPath, names: NameTree) -> list[dict[str, Any]]:
        result = []
        for name, below in names.items():
            found = known.get((*path, name))
            number = next(outside) if found is None else found[0]
            nested = {"fields": fields((*path, name), below)} if below else {}
            result.append({"field-id": number, "names": [name], **nested})
        return result

    return json.dumps(fields((), tree), ensure_ascii=False, separators=(",", ":"))


def metrics(
    file: PublishedFile, known: Mapping[ColumnPath, tuple[int, IcebergType]]
) -> dict[str, dict[int, Any]]:
    """Return the counts and bounds of a file's columns by field id, as arguments of a DataFile.

    Args:
        file: The file.
        known: The ids and types of the columns, from :func:`types_by_path`.

    Raises:
        UnknownToIcebergError: If the file has a column in a type that readers do not convert.

    """
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for name, column in file.statistics.columns.items():
        found = known.get(tuple(name.split(".")))
        if found is None:
            continue
        number, kind = found
        stored = parse_type(column.type)
        if not isinstance(kind, PrimitiveType) or not _is_promoted(_stored(stored), kind):
            raise UnknownToIcebergError(name)
        counts[number] = file.statistics.rows
        if column.nulls is not None:
            nulls[number] = column.nulls
        if column.nan_free:
            nans[number] = 0
        if isinstance(kind, FloatType | DoubleType) and not column.nan_free:
            continue
        for bounds, bound in ((lower, column.minimum), (upper, column.maximum)):
            encoded = None if bound is None else _encoded(kind, bound, is_lower=bounds is lower)
            if encoded is not None:
                bounds[number] = encoded
    return {
        "value_counts": counts,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }


def _stored(kind: ColumnType) -> IcebergType | None:
    match kind:
        case Primitive(name=name):
            return _PRIMITIVES[name]
        case Decimal():
            return DecimalType(kind.precision, kind.scale)
        case _:
            return None


def _is_promoted(before: IcebergType | None, kind: ColumnType | IcebergType) -> bool:
    """Return whether readers convert the values of a type to the other. Nested types: of one kind."""
    after = kind if isinstance(kind, IcebergType) else _stored(kind)
    if after is None:
        nested: Mapping[type, type] = {Array: ListType, Map: MapType, Struct: StructType}
        return isinstance(before, nested[type(kind)])
    match before, after:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return before.scale == after.scale and before.precision <= after.precision
        case _:
            return before == after


def _encoded(kind: PrimitiveType, bound: StatisticValue, *, is_lower: bool) -> bytes | None:
    """Return a bound in Iceberg's single-value form, or None if the type cannot hold it."""
    match kind:
        case FloatType() | DoubleType():
            number = float(bound)
            # Iceberg's -0.0 is less than 0.0, and Parquet's bounds do not tell them apart.
            number = (-0.0 if is_lower else 0.0) if number == 0 else number
            return struct.pack("<f" if isinstance(kind, FloatType) else "<d", number)
        case DecimalType() if isinstance(bound, Number):
            with localcontext(prec=_MOST_DIGITS):
                return to_bytes(kind, bound.quantize(Number(1).scaleb(-kind.scale)))
        case StringType() if isinstance(bound, str):
            try:
                return bound.encode()
            except UnicodeEncodeError:
                return None
        case _:
            return to_bytes(kind, bound)


def _names_in(kind: ColumnType) -> NameTree:
    match kind:
        case Struct(fields=fields):
            return {field.name: _names_in(field.type) for field in fields}
        case Array(element=element):
            return {"element": _names_in(element)}
        case Map(value=value):
            return {"key": {}, "value": _names_in(value)}
        case _:
            return {}


def _merge(tree: NameTree, other: NameTree) -> None:
    for name, below in other.items():
        _merge(tree.setdefault(name, {}), below)
