"""What clustering was good for: what declared queries had to read of the files, and have to read now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parquetry.runtime.clustering.forecast.by_sample import (
    DeclaredQuery,
    QueryForecast,
    declared_queries,
    read_prediction,
)
from parquetry.runtime.clustering.forecast.queries import MeasuredQuery
from parquetry.runtime.clustering.plan.execution import RewrittenGroup
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.clustering.model import FileKey
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import NOTHING, Touched, Types, column_types, columns_of, touched
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.timeline.clustering_plan import ClusteringPlan


class QueryMeasure:
    """Measures the queries of a spec on the files of groups, by statistics and page indexes, without rows.

    Times without zone in queries are in UTC, as in ``inspect``. ``plan`` says what was foreseen.
    """

    def __init__(self, spec: TableSpec, plan: ClusteringPlan) -> None:
        self._queries: Sequence[DeclaredQuery] = declared_queries(spec)
        self._types: Types = column_types(spec.columns)
        self._store: ObjectStore | None = None
        self._before: Mapping[str, FileStatistics] = {}
        self._foreseen: Mapping[FileKey, Sequence[QueryForecast]] = {
            (group.slices[0].partition, group.slices[0].file_id): read_prediction(group.extra)
            for group in plan.groups
            if group.slices
        }

    def look_up(self, store: ObjectStore, slices: Sequence[FileSlice]) -> None:
        """Read what is known of the files before they are rewritten, if there is a query.

        Nothing is measured when a file is gone: that is no reason not to rewrite the others.
        """
        asked = frozenset[str]().union(*(columns_of(query.predicate) for query in self._queries))
        try:
            known = look_up(store, slices, columns=asked) if self._queries else {}
        except NotFoundError:
            self._queries, known = (), {}
        self._store = store
        self._before = self._with_pages(known)

    def measured(self, groups: Sequence[RewrittenGroup]) -> tuple[MeasuredQuery, ...]:
        """By query the files, row groups, rows and bytes to read of these groups."""
        if not self._queries:
            return ()
        before = [self._before[part.path] for group in groups for part in group.work.slices]
        written = {file.statistics.path: file.statistics for group in groups for file in group.files}
        after = self._with_pages(written).values()
        return tuple(
            MeasuredQuery.of(
                query.name,
                before=touched(before, query.predicate, self._types),
                expected=self._expected(query, groups),
                after=touched(after, query.predicate, self._types),
            )
            for query in self._queries
        )

    def _with_pages(self, files: Mapping[str, FileStatistics]) -> Mapping[str, FileStatistics]:
        if self._store is None:
            return files
        return with_pages(self._store, files, (query.predicate for query in self._queries), self._types)

    def _expected(self, query: DeclaredQuery, groups: Iterable[RewrittenGroup]) -> Touched | None:
        """None unless it was foreseen of every group, for the query as it is declared now."""
        total = NOTHING
        for group in groups:
            part = group.work.slices[0]
            foreseen = self._foreseen.get((part.partition, part.file_id), ())
            found = [f for f in foreseen if (f.query, f.where) == (query.name, query.where)]
            if not found:
                return None
            total += found[0].expected
        return total
