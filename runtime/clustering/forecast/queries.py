"""The model of a prediction: what declared queries read of files as they are, and of what these become.

There are three estimators: by statistics (:mod:`.by_statistics`), from a sample (:mod:`.by_sample`), and by a
rewrite in memory (:mod:`.dry_run`). Each gives a :class:`GroupForecast` for each group. What was written is
counted by the same function as what is predicted: the forecast error is a difference of figures of one kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final, Protocol, Self, TypeVar

import pyarrow as pa

from parquetry.runtime.layout.skipping.files import (
    Touched,
    Types,
    column_types,
    columns_of,
    parse_where,
    touched,
)
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.spec.table_spec import TableSpec

_DIGITS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQuery:
    """A query of the spec; ``predicate`` is what statistics can answer of ``where``."""

    name: str
    where: str
    predicate: Predicate
    weight: float = 1.0

    @property
    def columns(self) -> frozenset[str]:
        """The columns that statistics answer it by."""
        return columns_of(self.predicate)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryForecast:
    """What a query reads of some files ``now``, and what it is expected to read when they are clustered."""

    query: str
    now: Touched
    expected: Touched

    def __add__(self, other: QueryForecast) -> QueryForecast:
        """Of the files of both."""
        return QueryForecast(
            query=self.query, now=self.now + other.now, expected=self.expected + other.expected
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForecast:
    """What is predicted for one group of a plan: what queries read, the files, the sample to rank rows by.

    ``conditions`` are those of the queries, by name. ``sample`` has the columns that the rows are put in
    order by; None where no rows are looked at. A group for whose sample the limits did not suffice has
    neither queries nor files: nothing is predicted.
    """

    queries: tuple[QueryForecast, ...] = ()
    files: tuple[FileStatistics, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    sample: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQueries:
    """The queries of a spec, on columns of ``types``; all that is counted of files is counted here."""

    queries: tuple[DeclaredQuery, ...]
    types: Types

    @classmethod
    def of(cls, spec: TableSpec) -> Self:
        """Those of a spec. Times without zone in them are in UTC, as in the sessions that jobs start."""
        types = column_types(spec.columns)
        return cls(
            queries=tuple(
                DeclaredQuery(
                    name=query.name,
                    where=query.where,
                    predicate=parse_where(query.where, types=types, time_zone=UTC),
                    weight=query.weight,
                )
                for query in {query.name: query for query in spec.extra.queries}.values()
            ),
            types=types,
        )

    def __iter__(self) -> Iterator[DeclaredQuery]:
        return iter(self.queries)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def predicates(self) -> list[Predicate]:
        """What statistics can answer, in their order."""
        return [query.predicate for query in self.queries]

    @property
    def columns(self) -> frozenset[str]:
        """The columns that statistics answer any of them by."""
        return frozenset[str]().union(*(query.columns for query in self.queries))

    def reads(self, files: Iterable[FileStatistics]) -> tuple[Touched, ...]:
        """What each reads of the files, which may be there, predicted, or written just now."""
        known = list(files)
        return tuple(touched(known, query.predicate, self.types) for query in self.queries)

    def forecast(
        self, now: Iterable[FileStatistics], made: Sequence[FileStatistics], sample: pa.Table | None = None
    ) -> GroupForecast:
        """The forecast for files that become those that are ``made``."""
        figures = zip(self.queries, self.reads(now), self.reads(made), strict=True)
        return GroupForecast(
            queries=tuple(
                QueryForecast(query=query.name, now=read, expected=left) for query, read, left in figures
            ),
            files=tuple(made),
            conditions={query.name: query.where for query in self.queries},
            sample=sample,
        )

    def whole(
        self, kept: Iterable[FileStatistics], forecasts: Iterable[GroupForecast]
    ) -> tuple[QueryForecast, ...]:
        """The forecast for groups and for files that stay as they are, together; one for each query."""
        stay = (
            QueryForecast(query=query.name, now=read, expected=read)
            for query, read in zip(self.queries, self.reads(kept), strict=True)
        )
        return added_up([*stay, *(query for forecast in forecasts for query in forecast.queries)])

    def weighted(self, figures: Iterable[Touched]) -> tuple[float, float]:
        """The rows and the bytes to read in all, each query as often as its weight says."""
        read = list(zip(self.queries, figures, strict=True))
        return (
            sum(query.weight * one.rows for query, one in read),
            sum(query.weight * one.data_bytes for query, one in read),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """By how much more was expected than there is to read, as a share of what there is.

    None where nothing is to be read though something was expected.
    """

    files: float | None
    row_groups: float | None
    rows: float | None
    data_bytes: float | None

    @classmethod
    def of(cls, expected: Touched, after: Touched) -> Self:
        """Of one from the other."""
        return cls(
            files=_share(expected.files, after.files),
            row_groups=_share(expected.row_groups, after.row_groups),
            rows=_share(expected.rows, after.rows),
            data_bytes=_share(expected.data_bytes, after.data_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQuery:
    """What a query read of the files that were clustered, was expected to read, and reads now.

    ``expected`` and ``error`` are None when nothing was predicted, as by a plan of Hudi.
    """

    query: str
    before: Touched
    after: Touched
    expected: Touched | None = None
    error: Deviation | None = None

    @classmethod
    def of(cls, query: str, *, before: Touched, expected: Touched | None, after: Touched) -> Self:
        """With the error that follows."""
        error = None if expected is None else Deviation.of(expected, after)
        return cls(query=query, before=before, expected=expected, after=after, error=error)

    def __add__(self, other: MeasuredQuery) -> MeasuredQuery:
        """Of the files of both clusterings."""
        known = self.expected is not None and other.expected is not None
        return MeasuredQuery.of(
            self.query,
            before=self.before + other.before,
            expected=self.expected + other.expected if known else None,  # type: ignore[operator]  # both known
            after=self.after + other.after,
        )


class _OfQuery(Protocol):
    @property
    def query(self) -> str: ...

    def __add__(self, other: Any, /) -> Any: ...


_Q = TypeVar("_Q", bound=_OfQuery)


def added_up(figures: Iterable[_Q]) -> tuple[_Q, ...]:
    """The figures of several groups or clusterings, each query once, in the order they come first."""
    found: dict[str, _Q] = {}
    for query in figures:
        found[query.query] = found[query.query] + query if query.query in found else query
    return tuple(found.values())


def _share(expected: int, after: int) -> float | None:
    if expected == after:
        return 0.0
    return round((expected - after) / after, _DIGITS) if after else None
