"""The measured benefit of a clustering: the reads of declared queries from the files before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, MeasuredQuery
from parquetry.runtime.clustering.forecast.records import read_prediction
from parquetry.runtime.clustering.plan.execution import RewrittenGroup
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.model import FileKey, FileSlice
from parquetry.runtime.layout.skipping.files import NOTHING, Reads
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.timeline.clustering_plan import ClusteringPlan


class QueryMeasure:
    """Measures the queries of a spec on the files of groups, with statistics and page indexes, without rows.

    ``plan`` contains the predictions.
    """

    def __init__(self, spec: TableSpec, plan: ClusteringPlan) -> None:
        self._queries = DeclaredQueries.of(spec)
        self._store: ObjectStore | None = None
        self._before: Mapping[str, FileStatistics] = {}
        self._expected: Mapping[FileKey, Mapping[str, Reads]] = {
            group.slices[0].key: {
                one.query: one.expected for one in read_prediction(group.extra, asked=self._queries)
            }
            for group in plan.groups
            if group.slices
        }

    def read_statistics_before(self, store: ObjectStore, slices: Sequence[FileSlice]) -> None:
        """Read the statistics of the files before they are rewritten, if there are queries.

        If a file is gone, nothing is measured, because the other files can still be rewritten.
        """
        try:
            known = look_up(store, slices, columns=self._queries.columns) if self._queries else {}
        except NotFoundError:
            self._queries, known = replace(self._queries, queries=()), {}
        self._store = store
        self._before = self._with_pages(known)

    def measured(self, groups: Sequence[RewrittenGroup]) -> tuple[MeasuredQuery, ...]:
        """Return, for each query, the files, row groups, rows and bytes to read before and after."""
        if not self._queries:
            return ()
        before = [self._before[part.path] for group in groups for part in group.work.slices]
        written = {file.statistics.path: file.statistics for group in groups for file in group.files}
        reads_before, reads_after = (
            self._queries.reads(before),
            self._queries.reads(self._with_pages(written).values()),
        )
        return tuple(
            MeasuredQuery.of(
                query.name, before=before_query, expected=self._expected_of(query.name, groups), after=after
            )
            for query, before_query, after in zip(self._queries, reads_before, reads_after, strict=True)
        )

    def _with_pages(self, files: Mapping[str, FileStatistics]) -> Mapping[str, FileStatistics]:
        if self._store is None:
            return files
        return with_pages(self._store, files, self._queries.predicates, self._queries.types)

    def _expected_of(self, query: str, groups: Iterable[RewrittenGroup]) -> Reads | None:
        """Return the predicted reads of a query, or None unless all groups predict the current query."""
        total = NOTHING
        for group in groups:
            part = group.work.slices[0]
            expected = self._expected.get(part.key, {}).get(query)
            if expected is None:
                return None
            total += expected
        return total
