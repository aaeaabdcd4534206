"""Tests of rows: the part that statistics and earlier passes answer, and the files that are left to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from parquetry.compiler.testing.live_table import LiveTable, Scope, UnmeasurableError, is_lasting
from parquetry.compiler.testing.passes import Passes, digest_of_file, digest_of_texts
from parquetry.project.model.table_tests import (
    ACCEPTED_VALUES,
    EXPRESSION,
    ITSELF,
    NOT_NULL,
    RELATIONSHIPS,
)
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types, files_to_read
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics, FileStatistics
from parquetry.runtime.spec.row_tests import OtherTable, RowTest, RowTestKind, RowTests, TestedFile
from parquetry.runtime.spec.table_spec import Column, TableTest
from parquetry.runtime.spec.types import may_have_fields, parse_type
from parquetry.runtime.table.handle import TableHandle

_MOST_PAIRS: Final = 1_000_000
"""The most pairs of files that are compared to find those that share no key."""

_FLOATS: Final = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsToRead:
    """A test of rows with the ``files`` to read; none if everything is known.

    ``known`` are the failures in its other files, in the order of ``limits``. ``definition`` is the digest of
    the test for passes, or None if it cannot have passes. ``live`` has the digests of all its files.
    """

    name: str
    test: RowTest
    known: tuple[int, ...]
    limits: tuple[str, ...]
    files: tuple[FileSlice, ...]
    definition: str | None
    live: frozenset[str]


Others = Callable[[str], tuple[str, TableHandle]]
"""A function from the table name in `relationships` to that table's location and handle."""


def rows_to_read(
    scope: Scope,
    name: str,
    test: TableTest,
    *,
    passes: Passes,
    settings_digest: str,
    others: Others | None,
    keeps_keys: bool = False,
) -> RowsToRead:
    """Return a test with the files that still have to be read for it.

    Args:
        scope: the part of the table to test.
        name: the test's name.
        test: the test.
        passes: the earlier passes of the table's tests.
        settings_digest: a digest of Spark's settings, on which results may depend.
        others: opens the table of `relationships`.
        keeps_keys: True to also read files that are known to have failing keys.

    Raises:
        UnmeasurableError: if the test names a column or table that does not exist.

    """
    table = scope.table
    columns = _columns(test)
    _check_columns(table, columns)
    if test.kind == EXPRESSION and (unknown := table.unknown_columns(test.arguments, table.columns)):
        raise UnmeasurableError("the table has no column {column}", column=unknown[0])
    other, other_digest = None, ""
    if test.kind == RELATIONSHIPS:
        if others is None:
            raise UnmeasurableError("the other table is not known here")
        location, handle = others(test.arguments["to"])
        other = OtherTable(
            location=location,
            columns=tuple(test.arguments.get("to_columns") or columns),
            encryption_keys=tuple(sorted(handle.store.allowed.keys)),
        )
        timeline = handle.timeline()
        slices = handle.view(timeline).all_slices()
        theirs = _in_texts(handle.effective_spec(timeline).columns)
        other_digest = digest_of_texts([*theirs, *sorted(map(digest_of_file, slices))])
    definition = None
    if is_lasting(test, [column.name for column in table.columns]):
        definition = _definition(table, test, settings_digest, other_digest)
    instants = [write.time for write in table.timeline.completed_writes]
    passed = frozenset[str]() if definition is None else passes.of(name, definition, instants)
    live = {digest_of_file(part): part for part in scope.slices}
    fresh = [part for digest, part in live.items() if digest not in passed]
    old = [part for digest, part in live.items() if digest in passed]
    known: tuple[int, ...] = (0,) * (len(columns) if test.kind == NOT_NULL else 1)
    index = next(number for number, one in enumerate(table.tests) if one is test)
    match test.kind:
        case "not_null":
            known, fresh = _nulls(table, columns, fresh, reads_failing=keeps_keys)
        case "unique":
            fresh = _sharing_keys(table, columns, fresh, old)
        case "expression" | "accepted_values":
            predicate = table.violations[index]
            statistics = [table.statistics[part.path] for part in fresh]
            found = files_to_read(statistics, predicate, column_types(table.columns))
            wanted = {file.path for file in found}
            fresh = [part for part in fresh if part.path in wanted]
    return RowsToRead(
        name=name,
        test=RowTest(
            name=name,
            kind=RowTestKind(test.kind),
            files=(),
            columns=columns,
            expression=test.arguments if test.kind == EXPRESSION else None,
            values=tuple(test.arguments["values"]) if test.kind == ACCEPTED_VALUES else (),
            other=other,
        ),
        known=known,
        limits=columns if test.kind == NOT_NULL else (ITSELF,),
        files=tuple(sorted(fresh, key=lambda part: part.path)),
        definition=definition,
        live=frozenset(live),
    )


def job_of(tests: Sequence[RowsToRead], *, keeps: int) -> RowTests:
    """Return the work of a job for these tests, with each file listed once."""
    files = {part.path: part for one in tests for part in one.files}
    numbers = {path: number for number, path in enumerate(sorted(files))}
    return RowTests(
        files=tuple(
            TestedFile(
                partition=files[path].partition,
                file_id=files[path].file_id,
                instant=files[path].instant,
                path=path,
                size_bytes=files[path].size_bytes,
            )
            for path in numbers
        ),
        tests=tuple(
            replace(one.test, files=tuple(numbers[part.path] for part in one.files)) for one in tests
        ),
        keeps=keeps,
    )


def _columns(test: TableTest) -> tuple[str, ...]:
    """Return the columns that a test of rows reads; none for an expression."""
    match test.kind:
        case "not_null" | "unique":
            return tuple(test.arguments)
        case "accepted_values":
            return (test.arguments["column"],)
        case "relationships":
            return tuple(test.arguments["columns"])
    return ()


def _check_columns(table: LiveTable, names: Iterable[str]) -> None:
    """Raise UnmeasurableError if the table lacks one of the columns."""
    types = {column.name.lower(): parse_type(column.type) for column in table.columns}
    for name in names:
        top, *below = name.split(".")
        known = types.get(top.lower())
        if known is None or not may_have_fields(known, tuple(below)):
            raise UnmeasurableError("the table has no column {column}", column=name)


def _definition(table: LiveTable, test: TableTest, settings_digest: str, other_digest: str) -> str:
    """Return the digest of a test. It does not cover the partitions, as a pass is about single files."""
    what = json.dumps([test.kind, test.arguments], sort_keys=True)
    return digest_of_texts(
        [
            table.handle.store.uri,
            table.handle.table_id or "",
            what,
            settings_digest,
            other_digest,
            *_in_texts(table.columns),
        ]
    )


def _in_texts(columns: Iterable[Column]) -> list[str]:
    """Return each column as text: its name and its type."""
    return [f"{column.name} {column.type}" for column in columns]


def _nulls(
    table: LiveTable, columns: Sequence[str], files: Iterable[FileSlice], *, reads_failing: bool
) -> tuple[tuple[int, ...], list[FileSlice]]:
    """Return the nulls of each column that statistics count, and the files without complete statistics.

    If ``reads_failing`` is True, files with nulls are among the latter too.
    """
    counted = [0] * len(columns)
    rest = []
    for part in files:
        file = table.statistics[part.path]
        if not file.rows:
            continue
        nulls = [known.nulls if (known := _statistics(file, name)) else None for name in columns]
        found = [count for count in nulls if count is not None]
        if len(found) < len(nulls) or (reads_failing and any(found)):
            rest.append(part)
        else:
            counted = [one + more for one, more in zip(counted, found, strict=True)]
    return tuple(counted), rest


def _sharing_keys(
    table: LiveTable, columns: Sequence[str], fresh: list[FileSlice], old: list[FileSlice]
) -> list[FileSlice]:
    """Return the fresh files and the old files that may share a key with one; old ones share no keys."""
    if not fresh or len(fresh) * len(old) > _MOST_PAIRS:
        return fresh and [*fresh, *old]
    bounds = [[_statistics(table.statistics[part.path], name) for name in columns] for part in fresh]

    def may_share(part: FileSlice) -> bool:
        own = [_statistics(table.statistics[part.path], name) for name in columns]
        return any(all(map(_may_overlap, own, others)) for others in bounds)

    return [*fresh, *filter(may_share, old)]


def _may_overlap(one: ColumnStatistics | None, other: ColumnStatistics | None) -> bool:
    """Return whether two files can share a value of a column, as far as their bounds tell."""
    if one is None or other is None or one.type != other.type or one.type in _FLOATS:
        return True
    limits = (one.minimum, one.maximum, other.minimum, other.maximum)
    if None in limits:
        return True
    low, high, other_low, other_high = limits
    return not (high < other_low or other_high < low)  # type: ignore[operator]  # values of one type


def _statistics(file: FileStatistics, column: str) -> ColumnStatistics | None:
    """Return a file's statistics of a column, whose name may differ in case, or None."""
    return next((known for name, known in file.columns.items() if name.lower() == column.lower()), None)
