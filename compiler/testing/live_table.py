"""A live table for its tests: each part is read once, when a test first needs it.

For tests of rows, it has predicates over statistics that are true for rows that fail.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Final

from parquetry.compiler.evidence.figures import clustering_due
from parquetry.errors import ParquetryError
from parquetry.project.model.table_tests import EXPRESSION, NOT_NULL, UNIQUE
from parquetry.project.sql.checked import unknown_columns
from parquetry.project.sql.guard import SqlProblem, check_expression
from parquetry.runtime.layout.clustering.model import Debt
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import (
    Types,
    column_types,
    columns_of,
    is_decided_by_values,
    parse_where,
)
from parquetry.runtime.layout.skipping.predicate import Bounds, Predicate, may_hold
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.services.orphans import find_orphans
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column, TableSpec, TableTest
from parquetry.runtime.spec.types import may_have_fields, parse_type
from parquetry.runtime.storage.parallel import OnceProperty
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_bounds import PartitionBounds
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.text.sql_tokens import TokenKind, lexed

_PLAIN: Final = re.compile(r"[^'\\]*")
_KEYWORDS: Final = frozenset(
    """
    and as between bigint binary boolean case cast date decimal div double else end escape false float ilike
    in int integer is like not null or regexp rlike smallint string then timestamp tinyint true when
    """.split()  # noqa: SIM905 - dozens of words read better as a text
)
_PURE: Final = frozenset(
    """
    abs and array_contains as ascii between bigint bin boolean btrim cardinality case cast ceil ceiling
    char_length character_length coalesce concat concat_ws contains date date_add date_diff date_sub
    date_trunc datediff day dayofmonth dayofweek dayofyear decimal double element_at else endswith float
    floor greatest hour if ifnull in initcap instr int is isnan isnotnull isnull last_day lcase least left
    length levenshtein like locate lower lpad ltrim make_date map_keys map_values md5 minute mod month
    negative not nullif nvl nvl2 octet_length or pmod power quarter regexp regexp_extract regexp_like
    regexp_replace repeat replace reverse right rlike round rpad rtrim second sha1 sha2 sign size smallint
    split sqrt startswith string substr substring then tinyint translate trim trunc try_add try_cast
    try_divide try_multiply try_subtract ucase upper weekday weekofyear when year
    """.split()  # noqa: SIM905 - dozens of words read better as a text
)
"""Words before a parenthesis: operators, and Spark functions whose result depends only on their arguments."""

_MOVING: Final = re.compile("now|today|tomorrow|yesterday", re.IGNORECASE)
"""Texts that Spark reads as changing times in literals."""

_READ: Final = frozenset({TokenKind.WORD, TokenKind.QUOTED, TokenKind.SYMBOL})
_UNCERTAIN: Final = frozenset({TokenKind.VERSION_DEPENDENT, TokenKind.OPEN, TokenKind.HINT})


class UnmeasurableError(ParquetryError):
    """A test needs a value that cannot be determined from the table."""


class LiveTable:
    """A table with the spec that its tests are declared with; values are read once and kept."""

    def __init__(
        self,
        handle: TableHandle,
        spec: TableSpec,
        tests: Sequence[TableTest],
        *,
        timeline: Timeline | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            handle: The table.
            spec: The spec that the tests are declared with.
            tests: The tests that will be measured.
            timeline: The timeline, or None to read it at the first test.

        """
        self.handle = handle
        self.spec = spec
        self.now_ms = handle.store.now_ms()
        self.types: Types = column_types(spec.columns)
        self.tests = tests
        self._timeline = timeline

    @OnceProperty
    def timeline(self) -> Timeline:
        """Return the timeline at the time of the first test."""
        return self._timeline or self.handle.timeline()

    @OnceProperty
    def view(self) -> FileSystemView:
        """Return the files at that timeline."""
        return self.handle.view(self.timeline)

    @OnceProperty
    def slices(self) -> Sequence[FileSlice]:
        """Return the live files."""
        return self.view.all_slices()

    @OnceProperty
    def statistics(self) -> Mapping[str, FileStatistics]:
        """Return the statistics of the live files by path, for the columns that any of the tests needs."""
        return look_up(self.handle.store, self.slices, columns=self._columns())

    @OnceProperty
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the table itself, which may differ from the declared ones."""
        return self.handle.effective_spec(self.timeline).columns

    @OnceProperty
    def violations(self) -> Mapping[int, Predicate]:
        """Return predicates that are true for each failing row, by the index of the test of rows."""
        types = column_types(self.columns)
        found = ((index, violation_of(test, types)) for index, test in enumerate(self.tests))
        return {index: predicate for index, predicate in found if predicate is not None}

    @OnceProperty
    def queries(self) -> Mapping[str, Predicate]:
        """Return the conditions of the declared queries by name.

        Times without a zone are in UTC, as in the sessions of jobs.
        """
        return {
            query.name: parse_where(query.where, types=self.types, time_zone=UTC, today=self._today)
            for query in self.spec.extra.queries
        }

    def unknown_columns(self, where: str, columns: Sequence[Column] | None = None) -> Sequence[str]:
        """Return the columns of a condition that ``columns`` (by default, the declared ones) lack.

        Raises:
            UnmeasurableError: if the condition is not an SQL expression.

        """
        known_columns = self.spec.columns if columns is None else columns
        types = {column.name.lower(): parse_type(column.type) for column in known_columns}
        own = self.spec.name.lower()

        def known(chain: tuple[str, ...]) -> bool:
            if chain[0] == own and chain[1:]:
                chain = chain[1:]
            if chain[0] in META_COLUMNS:
                return True
            return chain[0] in types and may_have_fields(types[chain[0]], chain[1:])

        try:
            sql = check_expression(where)
        except SqlProblem as problem:
            raise UnmeasurableError("a condition under queries is not an SQL expression") from problem
        return [".".join(chain) for chain in unknown_columns(sql, known)]

    @OnceProperty
    def debt(self) -> Debt:
        """Return the files that clustering would rewrite."""
        return clustering_due(self.handle, self.timeline, self.slices, self.statistics, self.spec)

    @OnceProperty
    def orphans(self) -> Mapping[str, Sequence[str]]:
        """Return the data files that no commit names, by partition.

        A write that began after the timeline was read may have added files, so the timeline is read again.
        """
        listed = {partition: self.view.listing(partition) for partition in self.view.partitions()}
        now = self.timeline.reload()
        found = frozenset(find_orphans([info for infos in listed.values() for info in infos], now))
        return {
            partition: [info.path for info in infos if info.path in found]
            for partition, infos in listed.items()
        }

    def scope(self, where: str | None) -> Scope:
        """Return the part of the table that a test with the condition ``where`` measures.

        Raises:
            UnmeasurableError: if partition paths cannot answer the condition, or no partition matches.

        """
        if where is None:
            return Scope(table=self, partitions=None)
        predicate = parse_where(where, types=self.types, time_zone=UTC, today=self._today)
        needed = columns_of(predicate)
        if not is_decided_by_values(predicate) or not needed <= set(self.handle.config.partition_by):
            raise UnmeasurableError(
                "partition paths cannot answer the condition in where: compare partition columns with "
                "literals of their type or with current_date, as in day >= current_date - 7"
            )
        bounds, chosen = PartitionBounds(self.handle, self.types), set()
        for partition in self.view.partitions():
            known = bounds.of(partition)
            if not needed <= known.keys():
                raise UnmeasurableError(
                    "the values of the columns in where cannot be read from the paths of the "
                    "partitions; remove where"
                )
            if may_hold(predicate, {column: _single_value_bounds(bound) for column, bound in known.items()}):
                chosen.add(partition)
        if not chosen:
            raise UnmeasurableError("no partition matches where")
        return Scope(table=self, partitions=frozenset(chosen))

    @property
    def _today(self) -> date:
        """The date in UTC, for conditions that read the current date."""
        return datetime.fromtimestamp(self.now_ms / 1000, UTC).date()

    def _columns(self) -> frozenset[str]:
        """Return the columns whose statistics the tests need."""
        kinds = {test.kind for test in self.tests}
        names: set[str] = {
            test.arguments["column"] for test in self.tests if test.kind == "max_overlap_depth"
        }
        names.update(*(test.arguments for test in self.tests if test.kind in (NOT_NULL, UNIQUE)))
        names.update(*map(columns_of, self.violations.values()))
        needed = {test.arguments["name"] for test in self.tests if test.kind == "query"}
        clusters = "clustering_debt" in kinds and self.spec.clustering.trigger is not Trigger.OFF
        for name, predicate in self.queries.items():
            if clusters or name in needed:
                names |= columns_of(predicate)
        if clusters:
            execution = self.spec.clustering.execution
            names.update(execution.columns, execution.split_by)
        return frozenset(names)


def _single_value_bounds(bounds: Bounds) -> Bounds:
    """Return the bounds of a partition column, whose files all have one value.

    A path that stands for null has unequal bounds; the result then says that all values are null.
    """
    return bounds if bounds.minimum == bounds.maximum else replace(bounds, has_values=False, has_nulls=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Some partitions of a table; None means all of them."""

    table: LiveTable
    partitions: frozenset[str] | None

    def holds(self, partition: str) -> bool:
        """Return whether a partition belongs to the scope."""
        return self.partitions is None or partition in self.partitions

    @property
    def slices(self) -> Sequence[FileSlice]:
        """The live files in the scope."""
        return [part for part in self.table.slices if self.holds(part.partition)]

    def rows(self, slices: Sequence[FileSlice]) -> int:
        """Return the number of rows in these files, which need not be live."""
        known = self.table.statistics
        others = [part for part in slices if part.path not in known]
        found = {**known, **look_up(self.table.handle.store, others, columns=())}
        return sum(found[part.path].rows for part in slices)


def violation_of(test: TableTest, types: Types) -> Predicate | None:
    """Return a predicate that is true for each row that fails the test, and perhaps for other rows.

    The result is None for tests that have no such predicate, such as ``unique``.
    """
    match test.kind:
        case "expression":
            return parse_where(f"NOT (\n{test.arguments}\n)", types=types)
        case "accepted_values":
            column = _quoted(test.arguments["column"])
            # A value without a literal is left out, which only makes more rows suspicious.
            known = [text for value in test.arguments["values"] if (text := _literal(value))]
            return parse_where(" AND ".join(f"{column} <> {text}" for text in known) or "?", types=types)
    return None


def is_lasting(test: TableTest, columns: Collection[str]) -> bool:
    """Return whether a row that passed a test always passes it.

    This holds unless the test's expression may depend on the time or on chance. Each name in it must be a
    column in ``columns`` or one of the functions and keywords that depend on neither.
    """
    if test.kind != EXPRESSION:
        return True
    found = list(lexed(test.arguments))
    names = {name.lower() for name in columns}
    if any(
        token.kind in _UNCERTAIN or (token.kind is TokenKind.STRING and _MOVING.search(token.text))
        for token in found
    ):
        return False
    words = [token for token in found if token.kind in _READ]
    for token, before, behind in zip(words, [None, *words], [*words[1:], None], strict=False):
        if not token.is_name:
            continue
        is_called = behind is not None and behind.text == "("
        is_field = before is not None and before.text == "." and not is_called
        known = _PURE if is_called else names | _KEYWORDS
        if not is_field and token.text.lower() not in known:
            return False
    return True


def _literal(value: Any) -> str | None:
    """Return the value as an SQL literal that can be read in only one way, or None."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.isprintable():
        return f"'{value}'"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _quoted(column: str) -> str:
    """Return a column's dotted name with each part in backticks, for SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in column.split("."))
