"""Agreement between the files of one batch: the types of columns, and the names of their fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import types as T  # noqa: N812  (the customary name)

from parquetry.message import Value
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.conversion import check_type, type_of


def check_one_type(schemas: Sequence[tuple[T.StructType, str]]) -> None:
    """Check for each column that one of its types in the files can contain the values of all others.

    Spark would otherwise read both types as text.

    Args:
        schemas: Each schema, with the name of a file that has it.

    Raises:
        InvalidDataError: If two types of a column are incompatible. It names the column and two files.

    """
    widest: dict[str, tuple[T.DataType, str]] = {}
    for schema, file in schemas:
        for field in schema.fields:
            name = field.name.lower()
            known, where = widest.setdefault(name, (field.dataType, file))
            if isinstance(known, T.NullType):
                widest[name] = (field.dataType, file)
                continue
            if _holds(known, field.dataType, name):
                continue
            if not _holds(field.dataType, known, name):
                raise InvalidDataError(
                    "column {column!r} is {known_type} in {known_file} and {found_type} in {file}; write "
                    "it with one type, or give the files of each type their own folder and a source "
                    "that casts it in its select",
                    column=field.name,
                    known_type=known.simpleString(),
                    known_file=Value.uri(where),
                    found_type=field.dataType.simpleString(),
                    file=Value.uri(file),
                )
            widest[name] = (field.dataType, file)


def check_one_spelling(schema: T.StructType, place: str = "") -> None:
    """Raise InvalidDataError if names of fields differ only in case, as Spark would read only one of them."""
    seen: dict[str, str] = {}
    for field in schema.fields:
        name = f"{place}{field.name}"
        if (other := seen.setdefault(field.name.lower(), name)) != name:
            raise InvalidDataError(
                "the records have fields {field!r} and {other_field!r}, which are the same for Spark; "
                "use one spelling",
                field=other,
                other_field=name,
            )
        for inner, within in _structs(field.dataType, name):
            check_one_spelling(inner, f"{within}.")


def _structs(found: T.DataType, place: str) -> Iterator[tuple[T.StructType, str]]:
    match found:
        case T.StructType():
            yield found, place
        case T.ArrayType():
            yield from _structs(found.elementType, f"{place}.element")
        case T.MapType():
            yield from _structs(found.valueType, f"{place}.value")


def as_texts(found: T.DataType, declared: T.DataType | None) -> T.DataType:
    """Return the type with which Spark reads a JSON field without loss.

    A leaf that the table declares is read as a string. An undeclared leaf keeps its found type, except that a
    number with a fraction is a string, as a double cannot hold every such number. Fields keep the names that
    they have in the files, and all of them are read.

    Args:
        found: The type that Spark infers from the files.
        declared: The type of the table's column, or None.

    """
    if isinstance(declared, T.MapType):
        # JSON has no maps, so Spark infers a struct.
        fields = [f.dataType for f in found.fields] if isinstance(found, T.StructType) else []
        values = (as_texts(kind, declared.valueType) for kind in fields or [T.NullType()])
        return T.MapType(T.StringType(), reduce(_merged, values))
    if isinstance(declared, T.StructType | None) and isinstance(found, T.StructType):
        known = {} if declared is None else {f.name.lower(): f.dataType for f in declared.fields}
        kinds = {f.name: as_texts(f.dataType, known.get(f.name.lower())) for f in found.fields}
        return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
    if isinstance(declared, T.ArrayType | None) and isinstance(found, T.ArrayType):
        return T.ArrayType(as_texts(found.elementType, declared and declared.elementType))
    if isinstance(declared, T.StructType | T.ArrayType):  # the files have only nulls in this column
        return as_texts(declared, declared)
    is_whole = isinstance(found, T.LongType | T.BooleanType | T.DecimalType)
    return found if declared is None and is_whole else T.StringType()


def _merged(one: T.DataType, other: T.DataType) -> T.DataType:
    """Return the type that has the fields of both types, at every level."""
    match one, other:
        case T.StructType(), T.StructType():
            fields = {field.name: field.dataType for field in one.fields}
            for field in other.fields:
                known = fields.get(field.name)
                fields[field.name] = field.dataType if known is None else _merged(known, field.dataType)
            return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_merged(one.elementType, other.elementType))
        case T.MapType(), T.MapType():
            return T.MapType(T.StringType(), _merged(one.valueType, other.valueType))
        case _:
            return other


def _holds(wanted: T.DataType, found: T.DataType, place: str) -> bool:
    """Return whether the wanted type can contain all values of the found type."""
    if isinstance(found, T.NullType) or wanted == found:
        return True
    kind, other = type_of(wanted, place), type_of(found, place)
    if kind is None:
        return True
    try:
        check_type(other, kind, place)
    except InvalidDataError:
        return False
    return True
