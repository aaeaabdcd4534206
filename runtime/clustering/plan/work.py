"""The work of a clustering, measured while it runs, and the work that was expected."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from parquetry.runtime.clustering.forecast.work import ClusteringWork, forecast_work, read_expected_bytes
from parquetry.runtime.clustering.plan.execution import PlannedWork, RewrittenGroup
from parquetry.runtime.clustering.plan.history import past_work
from parquetry.runtime.clustering.rewrite.task import GroupWork
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.spec.clustering import STITCH
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import ClusteringPlan


class WorkMeasure:
    """Measures the groups of one plan: cores and seconds, and the bytes of the groups that are published."""

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
        self._attempted_bytes = 0
        self._sampled: dict[FileKey, int | None] = {
            group.slices[0].key: read_expected_bytes(group.extra) for group in plan.groups if group.slices
        }

    @contextmanager
    def rewriting(self, works: Sequence[GroupWork]) -> Iterator[None]:
        """Yield while these groups are rewritten, and add up the time."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._milliseconds += round((time.monotonic() - begun) * 1000)
            self._attempted_bytes += sum(work.size_bytes for work in works)

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
        attempt = forecast_work(self._past, files=0, read_bytes=self._attempted_bytes, written_files=0)
        return ClusteringWork(
            files=len(slices),
            read_bytes=read_bytes,
            written_files=len(files),
            written_bytes=sum(file.stat.file_size_bytes for file in files),
            attempted_bytes=self._attempted_bytes,
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
