"""The forecast of a clustering's benefit from a sample of the rows, as made for plans.

It does not need Spark. The sample is stored beside the plan, and the execution ranks its rows by it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil

import pyarrow as pa

from parquetry.errors import ParquetryError
from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.clustering.forecast.predicted_files import arranged_files, stitched_files
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, GroupForecast, QueryForecast
from parquetry.runtime.clustering.forecast.sample import GroupSample, SampleLimits, draw, regrouped
from parquetry.runtime.clustering.forecast.tried_encoding import CompressionRatio, TriedRows
from parquetry.runtime.clustering.rewrite.order import RowOrder, row_order
from parquetry.runtime.errors import NotFoundError, RetryWrite
from parquetry.runtime.layout.clustering.model import ClusteringFile, PlannedGroup
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.layout.skipping.files import Types, all_of
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.dictionaries import with_dictionaries
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spec.clustering import STITCH, ExecutionPolicy
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.statistics import look_up

_LOG = logging.getLogger(__name__)

PredictedGroups = Mapping[frozenset[FileKey], GroupForecast]
"""The forecasts of groups, by the set of their files."""


class Forecaster:
    """The statistics and a bounded row sample of groups of files, read once for any number of layouts.

    ``columns`` are those by which rows may be ordered; fields of structs have dotted names. Rows are read
    when they are first needed. If a file is gone, the constructor or a method raises NotFoundError or
    RetryWrite.
    """

    def __init__(
        self,
        store: ObjectStore,
        spec: TableSpec,
        groups: Sequence[Sequence[ClusteringFile]],
        *,
        columns: Sequence[str],
        queries: DeclaredQueries | None = None,
        limits: SampleLimits | None = None,
    ) -> None:
        self._store = store
        self._limits = limits or SampleLimits()
        self._spec = spec
        self._queries = DeclaredQueries.of(spec) if queries is None else queries
        asked = self._queries.columns
        self._asked: Types = {name: kind for name, kind in self._queries.types.items() if name in asked}
        known = look_up(store, [file for files in groups for file in files], columns={*asked, *columns})
        for read in (with_pages, with_dictionaries):
            known = read(
                store,
                known,
                self._queries.predicates,
                self._queries.types,
                most_files=self._limits.row_groups,
            )
        self._known = known
        self.groups = [[self._known[file.path] for file in files] for files in groups]
        wanted = {name.partition(".")[0] for name in (*columns, *asked)}
        self._schema = arrow_schema(spec.columns)
        self._wanted = pa.schema([column for column in self._schema if column.name in wanted])
        self._samples: list[GroupSample] | None = None
        self._tried: TriedRows | None = None

    def forecast(self, execution: ExecutionPolicy, *, target_bytes: int) -> list[GroupForecast]:
        """Return the forecast of each group under this execution policy, in the order of the groups."""
        order = row_order(execution)
        target_bytes = min(target_bytes, self._spec.sizing.max_file_size_bytes)
        compression_ratio = (
            self._compression_ratio(order, target_bytes=target_bytes) if self._queries else CompressionRatio()
        )
        return [
            self._of_group(
                number, execution, order, target_bytes=target_bytes, compression_ratio=compression_ratio
            )
            for number in range(len(self.groups))
        ]

    def whole(
        self, kept: Iterable[ClusteringFile], forecasts: Iterable[GroupForecast]
    ) -> tuple[QueryForecast, ...]:
        """Return the joint forecast of groups and of files that are not rewritten, for each query."""
        return self._queries.whole([self._known[file.path] for file in kept], forecasts)

    def regrouped(self, groups: Sequence[Sequence[ClusteringFile]]) -> Forecaster:
        """Return a forecaster for other groups of the same files.

        It reads no rows for its samples. If this forecaster has made a forecast, it reads none for the
        compression ratio either.
        """
        other = copy.copy(self)
        other.groups = [[self._known[file.path] for file in files] for files in groups]
        most_rows = self._limits.group_rows
        known = self._group_samples()
        other._samples = regrouped(known, self.groups, other.groups, most_rows=most_rows)  # noqa: SLF001 - its own
        return other

    def _of_group(
        self,
        number: int,
        execution: ExecutionPolicy,
        order: RowOrder | None,
        *,
        target_bytes: int,
        compression_ratio: CompressionRatio,
    ) -> GroupForecast:
        """Return the forecast of one group, empty if the limits left no sample for it."""
        files = self.groups[number]
        row_group_size_bytes = self._spec.files.row_group_size_bytes
        sample = None if order is None else self._group_samples()[number]
        if sample is not None and sample.is_missing:
            return GroupForecast()
        if not self._queries:
            made: tuple[FileStatistics, ...] = ()
        elif sample is None or order is None:
            made = stitched_files(
                files,
                target_bytes=target_bytes,
                most_bytes=self._spec.sizing.max_file_size_bytes,
                row_group_size_bytes=row_group_size_bytes,
                compression_ratio=compression_ratio,
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
                compression_ratio=compression_ratio,
                predicates=self._queries.predicates,
            )
        kept = (
            sample.ranks.select([name for name in sample.rows.column_names if name in order.top_level])
            if sample is not None and order is not None and _is_ranked(execution)
            else None
        )
        forecast = self._queries.forecast(files, made, kept)
        page_rows = None if compression_ratio.pages is None else compression_ratio.pages.usual_rows
        return replace(
            forecast,
            queries=tuple(
                _with_a_dictionary(_with_a_page(query, made, page_rows)) for query in forecast.queries
            ),
        )

    def _group_samples(self) -> list[GroupSample]:
        """Return the samples of the groups, drawn at the first call."""
        if self._samples is None:
            self._samples = draw(self._store, self.groups, self._wanted, self._limits)
        return self._samples

    def _compression_ratio(self, order: RowOrder | None, *, target_bytes: int) -> CompressionRatio:
        """Return the compression ratio, tried on the largest group with a sample.

        The rows of a table are much alike, so one group is enough.
        """
        sizes = [
            0 if order is not None and self._group_samples()[number].is_missing else _data_bytes(files)
            for number, files in enumerate(self.groups)
        ]
        if not any(sizes):
            return CompressionRatio()
        number = sizes.index(max(sizes))
        if self._tried is None:
            self._tried = TriedRows(self._store, self.groups[number], self._schema, self._limits)
        sample = self._wanted.empty_table() if order is None else self._group_samples()[number].ranks
        return self._tried.compression_ratio(
            order,
            sample,
            self._spec.files,
            target_bytes=target_bytes,
            of_rows=sum(file.rows for file in self.groups[number]),
        )


def predict(
    store: ObjectStore,
    spec: TableSpec,
    groups: Sequence[PlannedGroup],
    *,
    known: PredictedGroups | None = None,
    limits: SampleLimits | None,
) -> Mapping[FileKey, GroupForecast]:
    """Return the forecasts of a plan's groups under a spec, by their first file.

    There are no forecasts if no query is declared and rows are not ranked by a sample. There are none for
    encrypted files, because the sample would lie unencrypted beside the timeline. If a file is gone there are
    none either, because the plan is then made anew. Other failures are logged, because a plan works without a
    forecast.

    Args:
        store: The store of the table.
        spec: The spec of the table.
        groups: The groups of the plan.
        known: Forecasts that were already made. The rows of these groups are not read.
        limits: The limits of the sample, or None for the default.

    """
    if spec.files.encryption_key is not None:
        return {}
    order = row_order(spec.clustering.execution)
    forecasts = {
        group.files[0].key: known[files_of(group)] for group in groups if known and files_of(group) in known
    }
    others = [group for group in groups if group.files[0].key not in forecasts]
    is_ranked = order is not None and _is_ranked(spec.clustering.execution)
    if others and (spec.extra.queries or is_ranked):
        forecasts |= _predicted(store, spec, order, others, limits=limits)
    return forecasts


def files_of(group: PlannedGroup) -> frozenset[FileKey]:
    """Return the files of a group."""
    return frozenset(file.key for file in group.files)


def _predicted(
    store: ObjectStore,
    spec: TableSpec,
    order: RowOrder | None,
    groups: Sequence[PlannedGroup],
    *,
    limits: SampleLimits | None,
) -> dict[FileKey, GroupForecast]:
    """Return new forecasts of the groups, by their first file; empty if they fail."""
    policy = spec.clustering
    columns = () if order is None else (*order.split_by, *order.columns)
    try:
        forecaster = Forecaster(
            store, spec, [group.files for group in groups], columns=columns, limits=limits
        )
        forecasts = forecaster.forecast(policy.execution, target_bytes=policy.plan.target_file_size_bytes)
    except (NotFoundError, RetryWrite):
        return {}
    except (ParquetryError, pa.ArrowException) as failure:
        what = f"{store.uri}: the clustering has no forecast"
        log_failure(_LOG, what, failure, spec, location=store.uri)
        return {}
    return {
        group.files[0].key: forecast
        for group, forecast in zip(groups, forecasts, strict=True)
        if forecast.queries or forecast.sample is not None
    }


def _is_ranked(execution: ExecutionPolicy) -> bool:
    """Return whether the strategy ranks rows by a sample."""
    return execution.strategy not in (STITCH, "sort")


def _with_a_page(
    query: QueryForecast, made: Sequence[FileStatistics], page_rows: int | None
) -> QueryForecast:
    """Return the forecast with one page in each row group, if the sample has no row for the query.

    The missing rows lie between two rows of the sample, so a page of each row group may contain them.
    """
    expected = query.expected
    if expected.rows or not query.now.rows or not made:
        return query
    whole = all_of(made)
    rows = max(whole.rows // max(whole.row_groups, 1), 1)
    page = rows if page_rows is None else min(rows, page_rows)
    row_groups = max(expected.row_groups, 1)
    return replace(
        query,
        expected=replace(
            expected,
            files=max(expected.files, 1),
            row_groups=row_groups,
            rows=page * row_groups,
            data_bytes=whole.data_bytes * page * row_groups // max(whole.rows, 1),
            paged_row_groups=max(expected.paged_row_groups, int(page < rows)),
        ),
    )


def _with_a_dictionary(query: QueryForecast) -> QueryForecast:
    """Return the forecast with estimated dictionary rows, if the sample has no row with the value.

    It assumes that as many row groups have the value in a dictionary as now.
    """
    now, expected = query.now, query.expected
    if expected.dictionary_rows != 0 or not now.fewest_rows or not expected.row_groups:
        return query
    holding = min(ceil(now.row_groups * now.fewest_rows / now.rows), expected.row_groups)
    rows = expected.rows * holding // expected.row_groups
    return replace(query, expected=replace(expected, dictionary_rows=rows))


def _data_bytes(files: Sequence[FileStatistics]) -> int:
    return sum(file.data_bytes for file in files)
