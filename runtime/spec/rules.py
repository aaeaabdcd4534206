"""Which columns a Hudi table can hold, and which of them its settings can name.

A broken rule is a value, so that a spec file can show all of them at their places; :func:`check_columns` and
:func:`check_new_columns` raise the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.types import (
    AVRO_NAME,
    Array,
    ColumnType,
    Map,
    Primitive,
    Struct,
    StructField,
    field_type,
    is_nested,
    parse_type,
)

RESERVED_PREFIX: Final = "_hoodie_"
DELETE_FLAG: Final = "_hoodie_is_deleted"
CONTROL_COLUMNS: Final = frozenset(
    {
        "__arrival",
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

MAX_LEVELS: Final = 48
"""How deep types are nested: of more levels, the JSON of a schema is deeper than it is read back."""


_BINARY: Final = Primitive(name="binary")


class Rule(StrEnum):
    """What columns have to be, and what settings name."""

    NAME = "name"
    TWICE = "twice"
    RESERVED = "reserved"
    CONTROL = "control"
    DELETE_FLAG = "delete flag"
    TYPE = "type"
    MISSING = "missing"
    WITHIN_STRUCT = "within struct"
    USE = "use"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule:
    """Why there can be no such column: the rule, what is wrong, and what to do."""

    rule: Rule
    problem: str
    remedy: str


def check_new_columns(columns: Iterable[Column]) -> None:
    """Refuses columns that a table is not to be given: those of :func:`check_columns`, and two names.

    Names that begin with ``_hoodie_`` in any case are Hudi's own, but for ``_hoodie_is_deleted``,
    which is boolean. A table that another program gave such columns can be written.
    """
    columns = tuple(columns)
    for column in columns:
        if broken := broken_flag(column.name, parse_type(column.type)):
            raise _refused(broken)
    _check(columns, new=True)


def check_columns(columns: Iterable[Column]) -> None:
    """Refuses columns that no table can be written with: by name, by type, or twice."""
    _check(tuple(columns), new=False)


def broken_names(names: Iterable[str], *, new: bool) -> Iterator[tuple[int, BrokenRule]]:
    """What is wrong with the names of columns, each with the index of its column.

    Names must be Avro names at every level (Hudi stores the schema as Avro), differ by more than
    case (Spark's default), not begin with ``_hoodie_`` (Hudi's own columns) but for
    ``_hoodie_is_deleted``, not be one of Hudi's five columns in other letters, and not be one of
    :data:`CONTROL_COLUMNS`. ``new`` columns do not begin with ``_hoodie_`` in other letters either.
    """
    first: dict[str, str] = {}
    for index, name in enumerate(names):
        lower = name.lower()
        prefixed = (lower if new else name).startswith(RESERVED_PREFIX) and name != DELETE_FLAG
        if prefixed or lower in META_COLUMNS:
            problem = f"column name {name!r} belongs to the table format"
            yield index, BrokenRule(rule=Rule.RESERVED, problem=problem, remedy="rename it")
        if lower in CONTROL_COLUMNS:
            problem = f"writing needs the column name {name!r} for itself"
            yield index, BrokenRule(rule=Rule.CONTROL, problem=problem, remedy="rename it")
        if broken := _broken_name("column", name, first):
            yield index, broken


def broken_flag(name: str, column_type: ColumnType) -> BrokenRule | None:
    """What is wrong with the column by which Hudi deletes, if this is it."""
    if name != DELETE_FLAG or column_type == Primitive(name="boolean"):
        return None
    return BrokenRule(
        rule=Rule.DELETE_FLAG, problem=f"column {name!r} is {column_type}", remedy="make it boolean"
    )


def broken_type(column_type: ColumnType) -> BrokenRule | None:
    """Why a table cannot hold values of the type."""
    return _broken_type(column_type, levels=1)


def broken_references(
    spec: TableSpec, types: Mapping[str, ColumnType]
) -> Iterator[tuple[str, str, BrokenRule]]:
    """The columns that the table's settings name wrongly: path in the spec, name, and what is wrong.

    ``types`` has the columns by name; fields of structs are named after dots.
    """
    execution = spec.clustering.execution
    for setting, noun, names in (
        ("record_key", "key", spec.record_key),
        ("partition_by", "partition", spec.partition_by),
        ("clustering.execution.columns", "clustering", execution.columns),
        ("clustering.execution.split_by", "split_by", execution.split_by),
    ):
        for index, name in enumerate(names):
            type_ = type_of(types, name)
            if type_ is None:
                yield f"{setting}.{index}", name, missing_column(setting, name)
            elif is_nested(type_) or (type_ == _BINARY and setting in ("record_key", "partition_by")):
                problem = f"{noun} column '{name}' is {type_}"
                remedy = "choose a column with a simple value"
                yield f"{setting}.{index}", name, BrokenRule(rule=Rule.USE, problem=problem, remedy=remedy)
    if spec.ordering is not None and (broken := _broken_ordering(spec.ordering, types)):
        yield "ordering", spec.ordering, broken


def missing_column(setting: str, name: str) -> BrokenRule:
    """A setting names a column that the table does not have."""
    problem = f"{setting} names the column '{name}', which the table does not have"
    return BrokenRule(rule=Rule.MISSING, problem=problem, remedy="declare the column, or choose another")


def type_of(types: Mapping[str, ColumnType], dotted: str) -> ColumnType | None:
    """The type of a column, or of a field of one after dots; None where there is none."""
    name, *fields = dotted.split(".")
    top = types.get(name)
    return field_type(top, fields) if top is not None else None


def deletes_by_flag(columns: Iterable[Column]) -> bool:
    """Whether a true ``_hoodie_is_deleted`` in rows of a table with these columns deletes.

    Not where the table itself has a column of that name and another type than boolean, which Hudi
    takes for one like any other.
    """
    return all(
        column.name.lower() != DELETE_FLAG or parse_type(column.type) == Primitive(name="boolean")
        for column in columns
    )


def _broken_ordering(name: str, types: Mapping[str, ColumnType]) -> BrokenRule | None:
    type_ = type_of(types, name)
    if type_ is None:
        return missing_column("ordering", name)
    if is_nested(type_) or type_ in (_BINARY, Primitive(name="boolean")):
        problem, remedy = f"ordering column '{name}' is {type_}", "choose a number, date or time"
        return BrokenRule(rule=Rule.USE, problem=problem, remedy=remedy)
    if "." in name:
        problem = f"ordering '{name}' is part of a struct"
        remedy = "add a generated column with its value, and order by that column"
        return BrokenRule(rule=Rule.WITHIN_STRUCT, problem=problem, remedy=remedy)
    return None


def _check(columns: tuple[Column, ...], *, new: bool) -> None:
    names = dict(reversed([*broken_names((column.name for column in columns), new=new)]))
    for index, column in enumerate(columns):
        if index in names:
            raise _refused(names[index])
        if broken := broken_type(parse_type(column.type)):
            raise InvalidDataError(f"column {column.name!r}: {broken.problem}; {broken.remedy}")


def _refused(broken: BrokenRule) -> InvalidDataError:
    return InvalidDataError(f"{broken.problem}; {broken.remedy}")


def _broken_type(column_type: ColumnType, *, levels: int) -> BrokenRule | None:
    match column_type:
        case _ if levels > MAX_LEVELS:
            return _unstorable(f"a type of more than {MAX_LEVELS} levels", "flatten it")
        case Primitive(name="timestamp_ntz"):
            problem = "tables of version 6 cannot hold timestamp_ntz"
            return _unstorable(problem, "use timestamp, or bigint for a local time")
        case Array(element=inner) | Map(value=inner):
            return _broken_type(inner, levels=levels + 1)
        case Struct(fields=()):
            return _unstorable("a struct without fields, which parquet cannot store", "give it a field")
        case Struct(fields=fields):
            return _broken_field(fields, levels=levels)
    return None


def _unstorable(problem: str, remedy: str) -> BrokenRule:
    return BrokenRule(rule=Rule.TYPE, problem=problem, remedy=remedy)


def _broken_field(fields: Iterable[StructField], *, levels: int) -> BrokenRule | None:
    first: dict[str, str] = {}
    for field in fields:
        if broken := _broken_name("field", field.name, first):
            return broken
        if broken := _broken_type(field.type, levels=levels + 1):
            return replace(broken, problem=f"field {field.name!r}: {broken.problem}")
    return None


def _broken_name(noun: str, name: str, first: dict[str, str]) -> BrokenRule | None:
    """What is wrong with a name behind those that came ``first``, by their small letters."""
    if not AVRO_NAME.fullmatch(name):
        problem = f"{noun} {name!r} needs a name of letters, digits and '_', as Hudi stores schemas as Avro"
        return BrokenRule(rule=Rule.NAME, problem=problem, remedy="rename it")
    if name.lower() in first:
        problem = f"{noun} {name!r} is there twice, also as {first[name.lower()]!r}"
        return BrokenRule(rule=Rule.TWICE, problem=problem, remedy="rename one of them")
    first[name.lower()] = name
    return None
