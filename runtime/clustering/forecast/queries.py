"""The model of a forecast: the reads of declared queries from the current files and from the future ones.

There are three estimators: by statistics (:mod:`.by_statistics`), from a sample (:mod:`.by_sample`), and by a
rewrite in memory (:mod:`.dry_run`). Each returns a :class:`GroupForecast` for each group. The same function
counts the reads of predicted and of written files, so the forecast error compares like with like.

Clustering plans contain predictions as JSON, and replacecommits contain measurements. A record may come from
another version. If it cannot be understood, it is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC
from typing import Any, Final, Protocol, Self, TypeVar

import pyarrow as pa

from parquetry.runtime.clustering.forecast.work import EXPECTED_BYTES_KEY
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.files import (
    Reads,
    Types,
    column_types,
    columns_of,
    parse_where,
    reads_of,
)
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.spec.codec import from_json_value, parsed_json, to_json_value
from parquetry.runtime.spec.table_spec import TableSpec

_DIGITS: Final = 4

PREDICTION_KEY: Final = "parquetry.prediction"
"""The key in a plan's group with the current and the expected reads of declared queries."""

MEASURED_KEY: Final = "parquetry.measured"
"""The key in a replacecommit with the reads of declared queries before, as expected, and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQuery:
    """A query of the spec; ``predicate`` is the part of ``where`` that statistics can answer."""

    name: str
    where: str
    predicate: Predicate
    weight: float = 1.0

    @property
    def columns(self) -> frozenset[str]:
        """The columns whose statistics answer the query."""
        return columns_of(self.predicate)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryForecast:
    """The reads of a query from some files ``now``, and the ``expected`` reads after they are clustered."""

    query: str
    now: Reads
    expected: Reads

    def __add__(self, other: QueryForecast) -> QueryForecast:
        """Return the forecast for the files of both forecasts."""
        return QueryForecast(
            query=self.query, now=self.now + other.now, expected=self.expected + other.expected
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForecast:
    """The forecast of one group of a plan: the reads of queries, the files, and the sample to rank rows by.

    ``conditions`` are those of the queries, by name. ``sample`` has the columns of the order, or is None if
    the rewrite ranks no rows by it. A group without a sample, because the limits were spent, has neither
    queries nor files: nothing is predicted.
    """

    queries: tuple[QueryForecast, ...] = ()
    files: tuple[FileStatistics, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    sample: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQueries:
    """The queries of a spec, on columns of ``types``; every count of reads is made here."""

    queries: tuple[DeclaredQuery, ...]
    types: Types

    @classmethod
    def of(cls, spec: TableSpec) -> Self:
        """Return the queries of a spec.

        Times without a zone in them are in UTC, as in the sessions that jobs start.
        """
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
        """The parts of the queries that statistics can answer, in their order."""
        return [query.predicate for query in self.queries]

    @property
    def columns(self) -> frozenset[str]:
        """The columns whose statistics answer any of the queries."""
        return frozenset[str]().union(*(query.columns for query in self.queries))

    def reads(self, files: Iterable[FileStatistics]) -> tuple[Reads, ...]:
        """Return the reads of each query from the files, which may be existing or predicted."""
        known = list(files)
        return tuple(reads_of(known, query.predicate, self.types) for query in self.queries)

    def forecast(
        self,
        now: Iterable[FileStatistics],
        files_after: Sequence[FileStatistics],
        sample: pa.Table | None = None,
    ) -> GroupForecast:
        """Return the forecast for the current files, which become those in ``files_after``."""
        figures = zip(self.queries, self.reads(now), self.reads(files_after), strict=True)
        return GroupForecast(
            queries=tuple(
                QueryForecast(query=query.name, now=reads_before, expected=reads_after)
                for query, reads_before, reads_after in figures
            ),
            files=tuple(files_after),
            conditions={query.name: query.where for query in self.queries},
            sample=sample,
        )

    def whole(
        self, kept: Iterable[FileStatistics], forecasts: Iterable[GroupForecast]
    ) -> tuple[QueryForecast, ...]:
        """Return the joint forecast of groups and of files that are not rewritten, one for each query."""
        stay = (
            QueryForecast(query=query.name, now=reads, expected=reads)
            for query, reads in zip(self.queries, self.reads(kept), strict=True)
        )
        return sum_by_query([*stay, *(query for forecast in forecasts for query in forecast.queries)])

    def weighted(self, figures: Iterable[Reads]) -> tuple[float, float]:
        """Return the total rows and bytes to read, with the reads of each query multiplied by its weight."""
        read = list(zip(self.queries, figures, strict=True))
        return (
            sum(query.weight * one.rows for query, one in read),
            sum(query.weight * one.data_bytes for query, one in read),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """The difference between expected and measured reads, as shares of the measured ones.

    A share is None if something was expected but nothing is read.
    """

    files: float | None
    row_groups: float | None
    rows: float | None
    data_bytes: float | None

    @classmethod
    def of(cls, expected: Reads, after: Reads) -> Self:
        """Return the deviation of the expected reads from those after the clustering."""
        return cls(
            files=_share(expected.files, after.files),
            row_groups=_share(expected.row_groups, after.row_groups),
            rows=_share(expected.rows, after.rows),
            data_bytes=_share(expected.data_bytes, after.data_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQuery:
    """The reads of a query from the clustered files: before, expected and after.

    ``expected`` and ``error`` are None if nothing was predicted, as for a plan by Hudi.
    """

    query: str
    before: Reads
    after: Reads
    expected: Reads | None = None
    error: Deviation | None = None

    @classmethod
    def of(cls, query: str, *, before: Reads, expected: Reads | None, after: Reads) -> Self:
        """Return the measured query with its error."""
        error = None if expected is None else Deviation.of(expected, after)
        return cls(query=query, before=before, expected=expected, after=after, error=error)

    def __add__(self, other: MeasuredQuery) -> MeasuredQuery:
        """Return the measured query for the files of both clusterings."""
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


def sum_by_query(figures: Iterable[_Q]) -> tuple[_Q, ...]:
    """Return the sums over several groups or clusterings, each query once, in order of first appearance."""
    sums: dict[str, _Q] = {}
    for query in figures:
        sums[query.query] = sums[query.query] + query if query.query in sums else query
    return tuple(sums.values())


def _share(expected: int, after: int) -> float | None:
    if expected == after:
        return 0.0
    return round((expected - after) / after, _DIGITS) if after else None


def prediction_metadata(forecast: GroupForecast) -> dict[str, str]:
    """Return the metadata of a plan's group with its forecast, empty without queries."""
    size_bytes = sum(file.size_bytes for file in forecast.files)
    expected_bytes = {EXPECTED_BYTES_KEY: str(size_bytes)} if size_bytes else {}
    return expected_bytes | _json_entry(
        PREDICTION_KEY,
        [
            {
                "query": one.query,
                "where": forecast.conditions[one.query],
                "before": to_json_value(one.now),
                "expected": to_json_value(one.expected),
            }
            for one in forecast.queries
        ],
    )


def read_prediction(
    extra: Mapping[str, str], *, asked: Iterable[DeclaredQuery] | None = None
) -> tuple[QueryForecast, ...]:
    """Return the forecasts that :func:`prediction_metadata` recorded, or nothing if they are invalid.

    If ``asked`` is given, only those with the name and condition of one of these queries are returned.
    """
    conditions = None if asked is None else {(query.name, query.where) for query in asked}
    try:
        return tuple(
            QueryForecast(
                query=str(record["query"]),
                now=_parsed_reads(record["before"], PREDICTION_KEY),
                expected=_parsed_reads(record["expected"], PREDICTION_KEY),
            )
            for record in parsed_json(extra.get(PREDICTION_KEY, "[]"))
            if conditions is None or (record["query"], record["where"]) in conditions
        )
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def measured_metadata(measured: Sequence[MeasuredQuery]) -> dict[str, str]:
    """Return the metadata of a replacecommit with the measured queries, empty without queries."""
    return _json_entry(
        MEASURED_KEY,
        [{key: value for key, value in to_json_value(one).items() if value is not None} for one in measured],
    )


def read_measured(extra: Mapping[str, str]) -> tuple[MeasuredQuery, ...]:
    """Return the measured queries that :func:`measured_metadata` recorded, or nothing if they are invalid."""
    try:
        return tuple(
            MeasuredQuery.of(
                record["query"],
                before=_parsed_reads(record["before"], MEASURED_KEY),
                expected=_parsed_reads(record["expected"], MEASURED_KEY) if "expected" in record else None,
                after=_parsed_reads(record["after"], MEASURED_KEY),
            )
            for record in parsed_json(extra.get(MEASURED_KEY, "[]"))
        )
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def _json_entry(key: str, figures: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return a metadata entry with the figures as JSON, or no entry without figures."""
    return {key: json.dumps(figures, separators=(",", ":"))} if figures else {}


def _parsed_reads(record: Mapping[str, int], place: str) -> Reads:
    """Return the figures in a JSON object, or raise ValueError if one is negative."""
    reads = from_json_value(Reads, record, place=place)
    if min(value for value in asdict(reads).values() if value is not None) < 0:
        raise ValueError(f"{place}: a count is negative")
    return reads
