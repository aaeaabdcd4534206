"""The rules for the columns of a Hudi table and for the columns that its settings name.

A broken rule is a value, so a spec file can show all of them at their places. :func:`check_columns` and
:func:`check_new_columns` raise an error for the first one.
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
"""The names of columns that writes add to the rows of a table."""

MAX_LEVELS: Final = 48
"""The maximum depth of a type. The JSON schema of a deeper type would exceed the depth that is read."""


_BINARY: Final = Primitive(name="binary")


class Rule(StrEnum):
    """The rules for columns and for the settings that name them."""

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
    """The rule that a column breaks, the problem and its remedy."""

    rule: Rule
    problem: str
    remedy: str


def check_new_columns(columns: Iterable[Column]) -> None:
    """Raise InvalidDataError if a table must not get these columns.

    The rules are those of :func:`check_columns` and two more: names that begin with ``_hoodie_`` in any case
    belong to Hudi, and ``_hoodie_is_deleted``, the one exception, must be boolean. A table to which another
    program gave such columns can still be written.
    """
    columns = tuple(columns)
    for column in columns:
        if broken := broken_flag(column.name, parse_type(column.type)):
            raise _refused(broken)
    _check(columns, new=True)


def check_columns(columns: Iterable[Column]) -> None:
    """Raise InvalidDataError if no table can be written with these columns.

    They may have invalid or duplicate names, or types that a table cannot store.
    """
    _check(tuple(columns), new=False)


def broken_names(names: Iterable[str], *, new: bool) -> Iterator[tuple[int, BrokenRule]]:
    """Yield the broken rules of column names, each with the index of its column.

    Names must be Avro names at every level (Hudi stores the schema as Avro) and differ by more than case
    (Spark's default). They must not begin with ``_hoodie_`` (Hudi's own columns), except
    ``_hoodie_is_deleted``. They must not be one of Hudi's five columns in another case, nor one of
    :data:`CONTROL_COLUMNS`. Names of ``new`` columns must not begin with ``_hoodie_`` in another case either.
    """
    first: dict[str, str] = {}
    for index, name in enumerate(names):
        lower = name.lower()
        prefixed = (lower if new else name).startswith(RESERVED_PREFIX) and name != DELETE_FLAG
        if prefixed or lower in META_COLUMNS:
            problem = f"column name {name!r} belongs to the table format"
            yield index, BrokenRule(rule=Rule.RESERVED, problem=problem, remedy="rename it")
        if lower in CONTROL_COLUMNS:
            problem = f"parquetry reserves the column name {name!r} for writes"
            yield index, BrokenRule(rule=Rule.CONTROL, problem=problem, remedy="rename it")
        if broken := _broken_name("column", name, first):
            yield index, broken


def broken_flag(name: str, column_type: ColumnType) -> BrokenRule | None:
    """Return the broken rule if this is Hudi's delete flag and its type is not boolean, or else None."""
    if name != DELETE_FLAG or column_type == Primitive(name="boolean"):
        return None
    return BrokenRule(
        rule=Rule.DELETE_FLAG, problem=f"column {name!r} is {column_type}", remedy="make it boolean"
    )


def broken_type(column_type: ColumnType) -> BrokenRule | None:
    """Return the reason why a table cannot store values of the type, or None."""
    return _broken_type(column_type, levels=1)


def broken_references(
    spec: TableSpec, types: Mapping[str, ColumnType]
) -> Iterator[tuple[str, str, BrokenRule]]:
    """Yield the path in the spec, the column name and the broken rule of each invalid reference to a column.

    Args:
        spec: The spec with the settings.
        types: The types of the columns by name. References to fields of structs contain dots.

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
    """Return the broken rule of a setting that names a missing column."""
    problem = f"{setting} names the column '{name}', which the table does not have"
    return BrokenRule(rule=Rule.MISSING, problem=problem, remedy="declare the column, or choose another")


def type_of(types: Mapping[str, ColumnType], dotted: str) -> ColumnType | None:
    """Return the type of a column, or of a field of it given with dots, or None if there is none."""
    name, *fields = dotted.split(".")
    top = types.get(name)
    return field_type(top, fields) if top is not None else None


def deletes_by_flag(columns: Iterable[Column]) -> bool:
    """Return whether a true ``_hoodie_is_deleted`` deletes rows of a table with these columns.

    It does not if the table has a column of that name with another type than boolean, which Hudi treats as an
    ordinary column.
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
            raise InvalidDataError(
                "column {column!r}: {problem}; {remedy}",
                column=column.name,
                problem=broken.problem,
                remedy=broken.remedy,
            )


def _refused(broken: BrokenRule) -> InvalidDataError:
    return InvalidDataError("{problem}; {remedy}", problem=broken.problem, remedy=broken.remedy)


def _broken_type(column_type: ColumnType, *, levels: int) -> BrokenRule | None:
    match column_type:
        case _ if levels > MAX_LEVELS:
            return _unstorable(f"a type of more than {MAX_LEVELS} levels", "flatten it")
        case Primitive(name="timestamp_ntz"):
            # Hudi 1.2 writes and reads it in versions 6, 8 and 9; Hudi 0.15 refuses it.
            problem = "hudi-rs cannot read a table with timestamp_ntz, whatever its version"
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
    """Return the rule that a name breaks, or None, and add the name to ``first``.

    ``first`` has the earlier names by their lower-case form.
    """
    if not AVRO_NAME.fullmatch(name):
        problem = f"{noun} {name!r} needs a name of letters, digits and '_', as Hudi stores schemas as Avro"
        return BrokenRule(rule=Rule.NAME, problem=problem, remedy="rename it")
    if name.lower() in first:
        problem = f"{noun} {name!r} is a duplicate of {first[name.lower()]!r}"
        return BrokenRule(rule=Rule.TWICE, problem=problem, remedy="rename one of them")
    first[name.lower()] = name
    return None
