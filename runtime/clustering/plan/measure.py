"""The measures of a clustering: the reads of declared queries before and after it, and the work it takes.

Each is recorded beside the value that was expected.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from parquetry.runtime.clustering.forecast.queries import DeclaredQueries, MeasuredQuery, read_prediction
from parquetry.runtime.clustering.forecast.work import ClusteringWork, forecast_work, read_expected_bytes
from parquetry.runtime.clustering.plan.execution import PlannedWork, RewrittenGroup
from parquetry.runtime.clustering.plan.history import past_work
from parquetry.runtime.errors import NotFoundError
from parquetry.runtime.layout.model import FileKey, FileSlice
from parquetry.runtime.layout.skipping.files import NOTHING, Reads
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spec.clustering import STITCH
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.timeline.active import Timeline
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


class WorkMeasure:
    """Measures the groups of one plan: cores and seconds, and the bytes of the groups that are published.

    ``attempted_bytes`` are those of all groups that were rewritten, also of those that are not published.
    """

    def __init__(
        self,
        table: TableHandle,
        timeline: Timeline,
        plan: ClusteringPlan,
        *,
        planned: PlannedWork,
        cores: int,
    ) -> None:
        self._past = past_work(table, timeline)
        self._layout = planned.digest
        self._copies = planned.execution.strategy == STITCH
        self._cores = cores
        self._milliseconds = 0
        self.attempted_bytes = 0
        self._sampled: dict[FileKey, int | None] = {
            group.slices[0].key: read_expected_bytes(group.extra) for group in plan.groups if group.slices
        }

    @contextmanager
    def rewriting(self) -> Iterator[None]:
        """Yield while groups are rewritten, and add up the time."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._milliseconds += round((time.monotonic() - begun) * 1000)

    def measured(self, groups: Sequence[RewrittenGroup]) -> ClusteringWork:
        """Return the measured and the expected work of these groups."""
        slices = [part for group in groups for part in group.work.slices]
        files = [file for group in groups for file in group.files]
        read_bytes = sum(part.size_bytes for part in slices)
        sampled_bytes = self._sampled_bytes(groups)
        forecast = forecast_work(
            self._past,
            files=len(slices),
            read_bytes=read_bytes,
            written_files=len(files),
            sampled_bytes=sampled_bytes,
            layout=self._layout,
            copies=self._copies,
        )
        attempt = forecast_work(self._past, files=0, read_bytes=self.attempted_bytes, written_files=0)
        return ClusteringWork(
            files=len(slices),
            read_bytes=read_bytes,
            written_files=len(files),
            written_bytes=sum(file.stat.file_size_bytes for file in files),
            attempted_bytes=self.attempted_bytes,
            core_milliseconds=self._milliseconds * self._cores,
            expected_bytes=forecast.written_bytes,
            expected_core_milliseconds=attempt.core_milliseconds,
            layout=self._layout,
            sampled_bytes=sampled_bytes,
        )

    def _sampled_bytes(self, groups: Sequence[RewrittenGroup]) -> int | None:
        """Return the bytes that samples predict for all the groups, or None if a group has no sample."""
        firsts = [group.work.slices[0] for group in groups]
        predicted = [self._sampled.get(part.key) for part in firsts]
        known = [size for size in predicted if size is not None]
        return sum(known) if known and len(known) == len(predicted) else None
