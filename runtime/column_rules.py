"""Which columns a Hudi table can hold: their names and their types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from parquetry.runtime.column_types import AVRO_NAME, Array, ColumnType, Map, Primitive, Struct, parse_type
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.meta_columns import META_COLUMNS
from parquetry.runtime.spec import Column

RESERVED_PREFIX: Final = "_hoodie_"
DELETE_FLAG: Final = "_hoodie_is_deleted"
CONTROL_COLUMNS: Final = frozenset(
    {
        "__bucket",
        "__delete",
        "__file",
        "__generated_wrong",
        "__hash",
        "__ordering",
        "__origin",
        "__partition",
        "__position",
        "__ref",
    }
)
"""What travels beside a table's own columns while rows are written."""


def check_new_columns(columns: Iterable[Column]) -> None:
    """Refuses columns that a table is not to be given: those of :func:`check_columns`, and two names.

    Names that begin with ``_hoodie_`` in any case are Hudi's own, but for ``_hoodie_is_deleted``,
    which is boolean. A table that another program gave such columns can be written.
    """
    columns = tuple(columns)
    for column in columns:
        if column.name.lower().startswith(RESERVED_PREFIX) and column.name != DELETE_FLAG:
            raise _reserved(column)
        if column.name == DELETE_FLAG and parse_type(column.type) != Primitive(name="boolean"):
            raise InvalidDataError(
                f"column {column.name!r} is {column.type}: Hudi deletes by it; declare boolean, or rename it"
            )
    check_columns(columns)


def check_columns(columns: Iterable[Column]) -> None:
    """Refuses columns that no table can be written with: by name, by type, or twice.

    Names must be Avro names at every level (Hudi stores the schema as Avro), differ by more than
    case (Spark's default), not begin with ``_hoodie_`` (Hudi's own columns) but for
    ``_hoodie_is_deleted``, not be one of Hudi's five columns in other letters, and not be one of
    :data:`CONTROL_COLUMNS`.
    """
    seen: dict[str, str] = {}
    for column in columns:
        reserved = column.name.startswith(RESERVED_PREFIX) and column.name != DELETE_FLAG
        if reserved or column.name.lower() in META_COLUMNS:
            raise _reserved(column)
        if column.name.lower() in CONTROL_COLUMNS:
            raise InvalidDataError(
                f"column {column.name!r}: writing needs a column of that name for itself; rename it"
            )
        _check_name(column.name, seen, f"column {column.name!r}")
        _check_type(parse_type(column.type), f"column {column.name!r}")


def deletes_by_flag(columns: Iterable[Column]) -> bool:
    """Whether a true ``_hoodie_is_deleted`` in rows of a table with these columns deletes.

    Not where the table itself has a column of that name and another type than boolean, which Hudi
    takes for one like any other.
    """
    return all(
        column.name.lower() != DELETE_FLAG or parse_type(column.type) == Primitive(name="boolean")
        for column in columns
    )


def _check_type(column_type: ColumnType, place: str) -> None:
    match column_type:
        case Primitive(name="timestamp_ntz"):
            raise InvalidDataError(
                f"{place}: Hudi tables of version 6 cannot hold timestamp_ntz; declare timestamp, "
                f"or bigint with the microseconds of the wall clock"
            )
        case Array(element=inner) | Map(value=inner):
            _check_type(inner, place)
        case Struct(fields=fields):
            if not fields:
                raise InvalidDataError(f"{place}: a struct needs a field; parquet cannot store an empty one")
            seen: dict[str, str] = {}
            for field in fields:
                _check_name(field.name, seen, f"{place}, field {field.name!r}")
                _check_type(field.type, f"{place}, field {field.name!r}")
        case _:
            pass


def _check_name(name: str, seen: dict[str, str], place: str) -> None:
    if not AVRO_NAME.fullmatch(name):
        raise InvalidDataError(
            f"{place}: Hudi stores the schema as Avro, whose names are letters, digits and underscores "
            f"and do not begin with a digit; rename it"
        )
    other = seen.setdefault(name.lower(), name)
    if other is not name:
        raise InvalidDataError(
            f"{place}: the name is taken by {other!r}, Spark does not tell case apart; rename one"
        )


def _reserved(column: Column) -> InvalidDataError:
    return InvalidDataError(
        f"column {column.name!r}: names that begin with {RESERVED_PREFIX} belong to Hudi; rename it"
    )
