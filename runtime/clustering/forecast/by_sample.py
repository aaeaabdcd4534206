"""What clustering will be good for: the sample of a plan, and what declared queries read after it.

Nothing of it needs Spark. The sample stays beside the plan, and execution ranks its rows by it.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC
from typing import Final

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.clustering.forecast.compression_ratio import Shrinkage, TriedRows
from parquetry.runtime.clustering.forecast.predicted_files import arranged_files, stitched_files
from parquetry.runtime.clustering.forecast.sample import GroupSample, SampleLimits, draw, regrouped
from parquetry.runtime.clustering.rewrite.order import RowOrder
from parquetry.runtime.errors import InvalidDataError, NotFoundError, RetryWrite
from parquetry.runtime.layout.clustering.model import ClusteringFile, FileKey, PlannedGroup
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import (
    Touched,
    Types,
    all_of,
    column_types,
    columns_of,
    parse_where,
    touched,
)
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spec.clustering import STITCH, ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.codec import from_json_value, parsed_json
from parquetry.runtime.spec.masking import masked_message
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.statistics import look_up

_LOG = logging.getLogger(__name__)

PREDICTION_KEY: Final = "parquetry.prediction"
"""Where a group of a plan says what declared queries read of its files now, and are expected to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredQuery:
    """A query of the spec; ``predicate`` is what statistics can answer of ``where``."""

    name: str
    where: str
    predicate: Predicate
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryForecast:
    """What a query reads of some files, and what it is expected to read when they are clustered."""

    query: str
    where: str
    before: Touched
    expected: Touched

    def __add__(self, other: QueryForecast) -> QueryForecast:
        """Of the files of both."""
        return QueryForecast(
            query=self.query,
            where=self.where,
            before=self.before + other.before,
            expected=self.expected + other.expected,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForecast:
    """What is foreseen for one group of a plan: the sample of its rows, what queries read, what it makes.

    ``sample`` has the columns that the rows are put in order by; None where no rows are looked at. A
    group for whose sample the limits did not suffice has neither queries nor files: nothing is foreseen.
    """

    queries: tuple[QueryForecast, ...]
    files: tuple[FileStatistics, ...]
    sample: pa.Table | None = None


def declared_queries(spec: TableSpec) -> tuple[DeclaredQuery, ...]:
    """The queries of a spec. Times without zone in them are in UTC, as in ``inspect``."""
    types = column_types(spec.columns)
    return tuple(
        DeclaredQuery(
            name=query.name,
            where=query.where,
            predicate=parse_where(query.where, types=types, time_zone=UTC),
            weight=query.weight,
        )
        for query in spec.extra.queries
    )


class Forecaster:
    """Knows the files of groups, and a bounded sample of their rows, read once for any number of trials.

    ``columns`` are those that rows may be put in order by, dotted within structs. Files are read when
    they are first needed. NotFoundError or RetryWrite when one is gone.
    """

    def __init__(
        self,
        store: ObjectStore,
        spec: TableSpec,
        groups: Sequence[Sequence[ClusteringFile]],
        *,
        columns: Sequence[str],
        queries: Sequence[DeclaredQuery] | None = None,
        limits: SampleLimits | None = None,
    ) -> None:
        self._store = store
        self._limits = limits or SampleLimits()
        self._spec = spec
        self._queries = declared_queries(spec) if queries is None else tuple(queries)
        asked = frozenset[str]().union(*(columns_of(query.predicate) for query in self._queries))
        self._types: Types = column_types(spec.columns)
        self._asked: Types = {name: kind for name, kind in self._types.items() if name in asked}
        known = look_up(
            store, [slice_of(file) for files in groups for file in files], columns={*asked, *columns}
        )
        self._known = with_pages(
            store,
            known,
            (query.predicate for query in self._queries),
            self._types,
            most_files=self._limits.row_groups,
        )
        self.groups = [[self._known[file.path] for file in files] for files in groups]
        wanted = {name.partition(".")[0] for name in (*columns, *asked)}
        self._schema = arrow_schema(spec.columns)
        self._wanted = pa.schema([column for column in self._schema if column.name in wanted])
        self._samples: list[GroupSample] | None = None
        self._tried: TriedRows | None = None

    def forecast(
        self, execution: ExecutionPolicy, order: RowOrder | None, *, target_bytes: int
    ) -> list[GroupForecast]:
        """What is foreseen for each group when it is written like that, in their order."""
        target_bytes = min(target_bytes, self._spec.sizing.max_file_size_bytes)
        shrinkage = self._shrinkage(order, target_bytes=target_bytes) if self._queries else Shrinkage()
        return [
            self._of_group(number, execution, order, target_bytes=target_bytes, shrinkage=shrinkage)
            for number in range(len(self.groups))
        ]

    def now(self, files: Iterable[ClusteringFile]) -> tuple[Touched, ...]:
        """What each query reads of some of the files as they are."""
        known = [self._known[file.path] for file in files]
        return tuple(touched(known, query.predicate, self._types) for query in self._queries)

    def regrouped(self, groups: Sequence[Sequence[ClusteringFile]]) -> Forecaster:
        """One for other groups of the same files.

        It reads no row for its samples, nor, when this one has made a forecast, to learn how rows shrink.
        """
        other = copy.copy(self)
        other.groups = [[self._known[file.path] for file in files] for files in groups]
        most_rows = self._limits.group_rows
        known = self._drawn()
        other._samples = regrouped(known, self.groups, other.groups, most_rows=most_rows)  # noqa: SLF001 - its own
        return other

    def _of_group(
        self,
        number: int,
        execution: ExecutionPolicy,
        order: RowOrder | None,
        *,
        target_bytes: int,
        shrinkage: Shrinkage,
    ) -> GroupForecast:
        files = self.groups[number]
        row_group_size_bytes = self._spec.files.row_group_size_bytes
        sample = None if order is None else self._drawn()[number]
        if sample is not None and sample.is_missing:
            return GroupForecast(queries=(), files=())
        if not self._queries:
            made: tuple[FileStatistics, ...] = ()
        elif sample is None or order is None:
            made = stitched_files(
                files,
                target_bytes=target_bytes,
                most_bytes=self._spec.sizing.max_file_size_bytes,
                row_group_size_bytes=row_group_size_bytes,
                shrinkage=shrinkage,
            )
        else:
            made = arranged_files(
                files,
                sample,
                order,
                types=self._asked,
                target_bytes=target_bytes,
                most_bytes=self._spec.sizing.max_file_size_bytes,
                row_group_size_bytes=row_group_size_bytes,
                shrinkage=shrinkage,
                predicates=[query.predicate for query in self._queries],
            )
        is_ranked = sample is not None and order is not None and execution.strategy not in (STITCH, "sort")
        kept = (
            sample.ranks.select([name for name in sample.rows.column_names if name in order.top_level])
            if is_ranked and sample is not None and order is not None
            else None
        )
        return GroupForecast(
            queries=tuple(self._query(query, files, made, shrinkage) for query in self._queries),
            files=made,
            sample=kept,
        )

    def _query(
        self,
        query: DeclaredQuery,
        files: Sequence[FileStatistics],
        made: Sequence[FileStatistics],
        shrinkage: Shrinkage,
    ) -> QueryForecast:
        before = touched(files, query.predicate, self._types)
        expected = touched(made, query.predicate, self._types)
        if not expected.rows and before.rows and made:
            # What the sample has no row of lies between two of its rows, in a page of each row group.
            whole = all_of(made)
            rows = max(whole.rows // max(whole.row_groups, 1), 1)
            page = rows if shrinkage.pages is None else min(rows, shrinkage.pages.usual_rows)
            row_groups = max(expected.row_groups, 1)
            expected = replace(
                expected,
                files=max(expected.files, 1),
                row_groups=row_groups,
                rows=page * row_groups,
                data_bytes=whole.data_bytes * page * row_groups // max(whole.rows, 1),
                paged_row_groups=max(expected.paged_row_groups, int(page < rows)),
            )
        return QueryForecast(query=query.name, where=query.where, before=before, expected=expected)

    def _drawn(self) -> list[GroupSample]:
        if self._samples is None:
            self._samples = draw(self._store, self.groups, self._wanted, self._limits)
        return self._samples

    def _shrinkage(self, order: RowOrder | None, *, target_bytes: int) -> Shrinkage:
        """Tried on the largest group that has a sample: the rows of a table are much alike."""
        sizes = [
            0 if order is not None and self._drawn()[number].is_missing else _data_bytes(files)
            for number, files in enumerate(self.groups)
        ]
        if not any(sizes):
            return Shrinkage()
        number = sizes.index(max(sizes))
        if self._tried is None:
            self._tried = TriedRows(self._store, self.groups[number], self._schema, self._limits)
        sample = self._wanted.empty_table() if order is None else self._drawn()[number].ranks
        return self._tried.shrinkage(
            order,
            sample,
            self._spec.files,
            target_bytes=target_bytes,
            of_rows=sum(file.rows for file in self.groups[number]),
        )


def foresee(
    store: ObjectStore,
    spec: TableSpec,
    policy: ClusteringSpec,
    order: RowOrder | None,
    groups: Sequence[PlannedGroup],
    *,
    limits: SampleLimits | None,
) -> dict[FileKey, GroupForecast]:
    """What is foreseen for the groups of a plan, by their first file; nothing where none is asked for.

    That is so when no query is declared and rows are not ranked by a sample. Nothing either when a file
    is gone meanwhile: such a plan is made anew. What else fails is logged: a plan can do without.
    """
    is_ranked = order is not None and policy.execution.strategy not in (STITCH, "sort")
    if not groups or not (spec.extra.queries or is_ranked):
        return {}
    columns = () if order is None else (*order.split_by, *order.columns)
    try:
        forecaster = Forecaster(
            store, spec, [group.files for group in groups], columns=columns, limits=limits
        )
        found = forecaster.forecast(policy.execution, order, target_bytes=policy.plan.target_file_size_bytes)
    except (NotFoundError, RetryWrite):
        return {}
    except (ParquetryError, pa.ArrowException) as failure:
        reason = masked_message(str(failure), spec, location=store.uri)
        _LOG.warning("%s: nothing is foreseen of its clustering: %s", store.uri, reason)
        return {}
    return {
        group.files[0].key: forecast
        for group, forecast in zip(groups, found, strict=True)
        if forecast.queries or forecast.sample is not None
    }


def prediction_of(forecast: GroupForecast) -> Mapping[str, str]:
    """What a group of a plan says of itself."""
    if not forecast.queries:
        return {}
    said = [
        {
            "query": query.query,
            "where": query.where,
            "before": asdict(query.before),
            "expected": asdict(query.expected),
        }
        for query in forecast.queries
    ]
    return {PREDICTION_KEY: json.dumps(said, separators=(",", ":"))}


def read_prediction(extra: Mapping[str, str]) -> tuple[QueryForecast, ...]:
    """What :func:`prediction_of` said; nothing where it is not understood."""
    try:
        return tuple(
            QueryForecast(
                query=str(said["query"]),
                where=str(said["where"]),
                before=from_json_value(Touched, said["before"], place=PREDICTION_KEY),
                expected=from_json_value(Touched, said["expected"], place=PREDICTION_KEY),
            )
            for said in parsed_json(extra.get(PREDICTION_KEY, "[]"))
        )
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def _data_bytes(files: Sequence[FileStatistics]) -> int:
    return sum(file.data_bytes for file in files)


def slice_of(file: ClusteringFile) -> FileSlice:
    """The file as those know it who read it."""
    return FileSlice(
        partition=file.partition,
        file_id=file.file_id,
        instant=file.instant,
        path=file.path,
        size_bytes=file.size_bytes,
        rows=file.rows,
    )
