"""What the files of one batch agree on: the types of columns, and the fields within them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T  # noqa: N812  (the customary name)

from parquetry.message import Message, Value
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.conversion import check_type, type_of


def check_one_type(schemas: Sequence[tuple[T.StructType, str]]) -> None:
    """Return when of the types that a column has in several files one holds all the others.

    Each schema comes with a file that has it. InvalidDataError naming the column and two files: Spark
    would turn both into text.
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
                    Message(
                        f"column {field.name!r} is {known.simpleString()} in ",
                        Value.uri(where),
                        f" and {field.dataType.simpleString()} in ",
                        Value.uri(file),
                        "; write it with one type, or keep the files in folders of their own, each with a "
                        "source that casts it in its select",
                    )
                )
            widest[name] = (field.dataType, file)


def with_undeclared_fields(declared: T.DataType, found: T.DataType) -> T.DataType:
    """The declared type with the fields that only the file has, for the write to refuse.

    A reader that is given a type would pass them over without a word.
    """
    match declared, found:
        case T.StructType(), T.StructType():
            there = {field.name.lower(): field for field in found.fields}
            known = [
                T.StructField(
                    f.name,
                    with_undeclared_fields(f.dataType, there[f.name.lower()].dataType)
                    if f.name.lower() in there
                    else f.dataType,
                    f.nullable,
                )
                for f in declared.fields
            ]
            names = {field.name.lower() for field in declared.fields}
            return T.StructType([*known, *(f for f in found.fields if f.name.lower() not in names)])
        case T.ArrayType(), T.ArrayType():
            element = with_undeclared_fields(declared.elementType, found.elementType)
            return T.ArrayType(element, declared.containsNull)
        case T.MapType(), T.StructType():  # JSON has no maps
            value = declared.valueType
            for field in found.fields:
                value = with_undeclared_fields(value, field.dataType)
            return T.MapType(declared.keyType, value, declared.valueContainsNull)
        case _:
            return declared


def _holds(wanted: T.DataType, found: T.DataType, place: str) -> bool:
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
