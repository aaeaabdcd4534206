"""Data skipping: the files and row groups that may contain rows for a condition, by their statistics.

The result errs on one side only. What is skipped contains no row for which the condition is true in Spark
SQL, with its comparisons between types, its nulls, and NaN as the largest number.

A reader with the page index reads a part of a row group. Each part of a condition selects the pages of its
own column that may contain a matching row. The row ranges of the pages are intersected for AND and united for
OR, as in parquet-mr (ColumnIndexFilter, RowRanges).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, tzinfo
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from parquetry.runtime.layout.skipping.condition import (
    Comparator,
    Compared,
    Condition,
    Conjunction,
    Disjunction,
    IsNull,
    Like,
)
from parquetry.runtime.layout.skipping.literals import interval_of
from parquetry.runtime.layout.skipping.parser import parse_condition
from parquetry.runtime.layout.skipping.predicate import (
    AllOf,
    AnyOf,
    Bounds,
    Comparison,
    Null,
    Operator,
    Predicate,
    StartsWith,
    Unknown,
    may_hold,
    may_hold_without,
    value_conditions,
)
from parquetry.runtime.layout.skipping.statistics import (
    ColumnStatistics,
    FileStatistics,
    RowGroupPages,
    RowGroupStatistics,
)
from parquetry.runtime.spec.codec import OMIT_EMPTY
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import Decimal, Primitive, Struct, StructField, parse_type

Types: TypeAlias = Mapping[str, str]
"""Spark types by column; fields of structs have dotted names."""

BoundsByPath: TypeAlias = Mapping[str, Mapping[str, Bounds]]
"""Bounds that are known besides a file's statistics, such as partition values: by path, then by column."""

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_OPERATORS = {
    Comparator.NOT_EQUAL: Operator.NOT_EQUAL,
    Comparator.LESS: Operator.LESS,
    Comparator.LESS_OR_EQUAL: Operator.AT_MOST,
    Comparator.GREATER: Operator.GREATER,
    Comparator.GREATER_OR_EQUAL: Operator.AT_LEAST,
}

_Rows: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The files, row groups, rows and bytes that a reader of a condition's rows reads.

    Files and row groups are chosen by statistics, rows by pages. ``data_bytes`` are the compressed bytes of
    the pages of all columns that contain one of the rows. ``paged_row_groups`` is the number of row groups
    with a known page index; in the other row groups every row counts. ``dictionary_rows`` is the number of
    rows for a reader that also skips row groups whose dictionaries lack a value, as Spark does. It is None if
    dictionaries are not known or the condition compares no value.
    """

    files: int
    row_groups: int
    rows: int
    data_bytes: int
    paged_row_groups: int = 0
    dictionary_rows: int | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def fewest_rows(self) -> int:
        """The number of rows for a reader that uses all known facts."""
        return self.rows if self.dictionary_rows is None else self.dictionary_rows

    def __add__(self, other: Reads) -> Reads:
        """Add the figures of other files."""
        return Reads(
            files=self.files + other.files,
            row_groups=self.row_groups + other.row_groups,
            rows=self.rows + other.rows,
            data_bytes=self.data_bytes + other.data_bytes,
            paged_row_groups=self.paged_row_groups + other.paged_row_groups,
            dictionary_rows=None
            if self.dictionary_rows is other.dictionary_rows is None
            else self.fewest_rows + other.fewest_rows,
        )


NOTHING: Final = Reads(files=0, row_groups=0, rows=0, data_bytes=0)


def column_types(columns: Iterable[Column]) -> dict[str, str]:
    """Return the types of columns and of fields within structs, by dotted name, except lists and maps."""
    fields = (StructField(name=column.name, type=parse_type(column.type)) for column in columns)
    return dict(_leaves("", fields))


def parse_where(
    where: str, *, types: Types, time_zone: tzinfo | None = None, today: date | None = None
) -> Predicate:
    """Return the condition of a SQL text, as far as statistics can answer it; never raise an error.

    Names are compared case-insensitively, as in Spark. Parts that are not understood become Unknown.

    Args:
        where: The text of the condition.
        types: The Spark types of the columns.
        time_zone: The time zone of the session. Without it, local times skip nothing.
        today: The value of ``current_date``, unless a column has that name.

    """
    is_column = any(name.lower() == "current_date" for name in types)
    return _resolved(parse_condition(where, today=None if is_column else today), types, time_zone)


def is_decided_by_values(predicate: Predicate) -> bool:
    """Return whether :func:`may_hold` is exact if the two bounds of each column are equal."""
    match predicate:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return all(map(is_decided_by_values, parts))
    # For LIKE, only the text before the first wildcard is known.
    return not isinstance(predicate, Unknown | StartsWith)


def bounds_of(
    group: RowGroupStatistics, types: Types, columns: Iterable[str] | None = None
) -> dict[str, Bounds]:
    """Return the bounds of columns in a row group, by column: of all columns of the table, or those given.

    If the type of a column in a file of an older schema cannot be compared with its type in the table, the
    column is left out.
    """
    bounds = {}
    for name in group.columns if columns is None else columns:
        column, declared = group.columns.get(name), types.get(name)
        if column is not None and declared is not None and _comparable(column.type, declared):
            bounds[name] = _bounds(column, declared, group.rows)
    return bounds


def _bounds(column: ColumnStatistics, declared: str, rows: int) -> Bounds:
    return Bounds(
        type=declared,
        minimum=column.minimum,
        maximum=column.maximum,
        has_nulls=column.nulls != 0,
        has_values=column.nulls != rows,
        nan_free=column.nan_free,
    )


def files_to_read(
    files: Iterable[FileStatistics],
    predicate: Predicate,
    types: Types,
    *,
    partitions: BoundsByPath | None = None,
) -> list[FileStatistics]:
    """Return the files that may contain a row for which the condition is true, in their order.

    Args:
        files: The statistics of the files.
        predicate: The condition.
        types: The Spark types of the columns.
        partitions: Further bounds by path, such as partition values.

    """
    known = partitions or {}
    columns = columns_of(predicate)
    return [
        f
        for f in files
        if any(True for _ in _groups_to_read(f, predicate, types, columns, known.get(f.path, {})))
    ]


def row_groups_to_read(
    file: FileStatistics, predicate: Predicate, types: Types, known: Mapping[str, Bounds]
) -> list[int]:
    """Return the numbers of the row groups that may contain a row for which the condition is true.

    ``known`` has further bounds that hold for the whole file.
    """
    return [*_groups_to_read(file, predicate, types, columns_of(predicate), known)]


def reads_of(files: Iterable[FileStatistics], predicate: Predicate, types: Types) -> Reads:
    """Return what a reader of the condition's rows reads from these files."""
    total = NOTHING
    columns = columns_of(predicate)
    for file in files:
        groups = [file.row_groups[number] for number in _groups_to_read(file, predicate, types, columns, {})]
        if not groups:
            continue
        left = [rows_to_read(group, predicate, types) for group in groups]
        total += Reads(
            files=1,
            row_groups=len(groups),
            rows=sum(part.rows for part in left),
            data_bytes=sum(part.data_bytes for part in left),
            paged_row_groups=sum(group.pages is not None for group in groups),
            dictionary_rows=_dictionary_rows(predicate, groups, left),
        )
    return total


def _dictionary_rows(
    predicate: Predicate, groups: Sequence[RowGroupStatistics], left: Sequence[RowsLeft]
) -> int | None:
    """Return the number of rows after skipping by dictionaries, or None if no dictionary is known."""
    if all(group.lacking is None for group in groups) or not value_conditions(predicate):
        return None
    return sum(
        part.rows
        for group, part in zip(groups, left, strict=True)
        if may_hold_without(predicate, group.lacking or ())
    )


def may_match(group: RowGroupStatistics, predicates: Iterable[Predicate], types: Types) -> bool:
    """Return whether the bounds allow a row of the row group for which one of the conditions is true."""
    asked = tuple(predicates)
    bounds = bounds_of(group, types, frozenset[str]().union(*map(columns_of, asked)))
    return any(may_hold(predicate, bounds) for predicate in asked)


def rows_to_read(group: RowGroupStatistics, predicate: Predicate, types: Types) -> RowsLeft:
    """Return the rows of a row group that a read of the condition needs: all, or those of matching pages."""
    pages = group.pages
    if pages is None:
        return RowsLeft(ranges=(range(group.rows),), data_bytes=group.data_bytes)
    by_page = {}
    for name in columns_of(predicate):
        column = pages.columns.get(name)
        if column is not None and _comparable(column.bounds[0].type, types[name]):
            ends = (*column.firsts[1:], group.rows)
            by_page[name] = [
                _bounds(bounds, types[name], end - first)
                for first, end, bounds in zip(column.firsts, ends, column.bounds, strict=True)
            ]
    known = bounds_of(group, types)
    return rows_left(predicate, pages, rows=group.rows, known=known, by_page=by_page)


def all_of(files: Sequence[FileStatistics]) -> Reads:
    """Return the figures of a full read of the files."""
    return Reads(
        files=len(files),
        row_groups=sum(len(file.row_groups) for file in files),
        rows=sum(file.rows for file in files),
        data_bytes=sum(file.data_bytes for file in files),
    )


def columns_of(predicate: Predicate) -> frozenset[str]:
    """Return the columns of a condition, as far as statistics can answer it."""
    match predicate:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return frozenset[str]().union(*map(columns_of, parts))
        case Unknown():
            return frozenset()
    return frozenset({predicate.column})


def _groups_to_read(
    file: FileStatistics,
    predicate: Predicate,
    types: Types,
    columns: frozenset[str],
    known: Mapping[str, Bounds],
) -> Iterator[int]:
    """Yield the numbers of the row groups that may contain a row for which the condition is true.

    Args:
        file: The statistics of the file.
        predicate: The condition.
        types: The Spark types of the columns.
        columns: The columns of the condition.
        known: Further bounds that hold for the whole file.

    """
    for number, group in enumerate(file.row_groups):
        bounds = bounds_of(group, types, columns)
        if group.rows and may_hold(predicate, {**bounds, **known} if known else bounds):
            yield number


def _leaves(prefix: str, fields: Iterable[StructField]) -> Iterator[tuple[str, str]]:
    for each in fields:
        name = prefix + each.name
        if isinstance(each.type, Struct):
            yield from _leaves(f"{name}.", each.type.fields)
        elif isinstance(each.type, Primitive | Decimal):
            yield name, str(each.type)


def _comparable(stored: str, declared: str) -> bool:
    """Return whether bounds of the stored type are also bounds of the table's type."""
    return (
        stored == declared
        or {stored, declared} <= _INTEGERS
        or (stored, declared) == ("float", "double")
        or (stored.startswith("decimal") and declared.startswith("decimal"))
    )


def _resolved(condition: Condition, types: Types, time_zone: tzinfo | None) -> Predicate:
    """Return the condition with the table's column names, and with literals as values of the columns' types.

    A part for which this is not possible becomes Unknown.
    """
    match condition:
        case Conjunction():
            return AllOf(parts=tuple(_resolved(part, types, time_zone) for part in condition.parts))
        case Disjunction():
            return AnyOf(parts=tuple(_resolved(part, types, time_zone) for part in condition.parts))
        case Compared() | Like() | IsNull():
            names = [name for name in types if name.lower() == condition.column.lower()]
            return _on_column(names[0], condition, types, time_zone) if len(names) == 1 else Unknown()
    return Unknown()


def _on_column(  # noqa: PLR0911 - a case, an answer
    column: str, condition: Compared | Like | IsNull, types: Types, time_zone: tzinfo | None
) -> Predicate:
    """Return the condition on one column of the table, with the literal as a value of the column's type."""
    match condition:
        case IsNull():
            return Null(column=column, negated=condition.negated)
        case Like():
            return (
                StartsWith(column=column, prefix=condition.prefix) if types[column] == "string" else Unknown()
            )
    interval = interval_of(condition.literal, types[column], listed=condition.listed, time_zone=time_zone)
    if interval is None:
        return Unknown()
    low, high = interval.low, interval.high
    match condition.operator:
        case Comparator.NOT_EQUAL if isinstance(low, bool):
            return Comparison(column=column, operator=Operator.EQUAL, value=not low)
        case Comparator.NOT_EQUAL if low != high or condition.listed:
            return Unknown()
        case Comparator.EQUAL | Comparator.NULL_SAFE_EQUAL:
            at_least = Comparison(column=column, operator=Operator.AT_LEAST, value=low)
            at_most = Comparison(column=column, operator=Operator.AT_MOST, value=high)
            equal = Comparison(column=column, operator=Operator.EQUAL, value=low)
            return equal if low == high else AllOf(parts=(at_least, at_most))
    operator = _OPERATORS[condition.operator]
    value = high if operator in (Operator.LESS, Operator.AT_MOST) else low
    return Comparison(column=column, operator=operator, value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsLeft:
    """The rows of a row group that have to be read, and the bytes of all columns' pages with one of them."""

    ranges: tuple[range, ...]
    data_bytes: int

    @property
    def rows(self) -> int:
        """The number of these rows."""
        return sum(map(len, self.ranges))


def rows_left(
    predicate: Predicate,
    pages: RowGroupPages,
    *,
    rows: int,
    known: Mapping[str, Bounds],
    by_page: Mapping[str, Sequence[Bounds]],
) -> RowsLeft:
    """Return the rows of a row group to read; they include every row for which the condition is true.

    Args:
        predicate: The condition.
        pages: The page index of the row group.
        rows: The number of rows in the row group.
        known: Bounds of columns in the whole row group.
        by_page: Bounds of each page of a column.

    """
    grid = np.unique(np.concatenate([[0, rows], *(pages.columns[name].firsts for name in by_page)]))
    starts: _Rows = grid[:-1].astype(np.int64)

    def matching(part: Predicate) -> _Mask:
        match part:
            case AllOf(parts=parts):
                return np.asarray(np.all([np.ones(len(starts), bool), *map(matching, parts)], axis=0))
            case AnyOf(parts=parts):
                return np.asarray(np.any([np.zeros(len(starts), bool), *map(matching, parts)], axis=0))
            case Unknown():
                return np.ones(len(starts), bool)
        column = part.column
        if column not in by_page:
            return np.full(len(starts), may_hold(part, known))
        of_pages = np.array([may_hold(part, {column: bounds}) for bounds in by_page[column]], bool)
        firsts = np.asarray(pages.columns[column].firsts)
        return np.asarray(of_pages[np.searchsorted(firsts, starts, side="right") - 1])

    left = matching(predicate)
    changes = np.diff(np.concatenate([[False], left, [False]]).astype(np.int8))
    begins, ends = grid[np.flatnonzero(changes == 1)].tolist(), grid[np.flatnonzero(changes == -1)].tolist()
    counted = np.concatenate([[0], np.cumsum(left)])
    data_bytes = 0
    for chunk in pages.chunks:
        firsts = np.asarray(chunk.firsts)
        begin = np.searchsorted(grid, firsts, side="right") - 1
        end = np.searchsorted(grid, np.append(firsts[1:], rows), side="left")
        is_read = counted[end] > counted[begin]
        if is_read.any():
            data_bytes += chunk.other_bytes + int(np.asarray(chunk.sizes)[is_read].sum())
    return RowsLeft(ranges=tuple(map(range, begins, ends)), data_bytes=data_bytes)
