"""Simulated clustering of a live table: what declared queries would read under each candidate layout.

The functions that make plans choose and group the files. A forecast from one bounded sample, with the
functions that execution uses, predicts the result. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from parquetry.compiler.evidence.figures import emptied_columns
from parquetry.compiler.evidence.model import MetaColumnFigures
from parquetry.compiler.evidence.money import PlanPrices
from parquetry.project.diagnostics.model import did_you_mean
from parquetry.runtime.clustering.forecast.by_sample import Forecaster
from parquetry.runtime.clustering.forecast.dry_run import DryRun
from parquetry.runtime.clustering.forecast.queries import (
    DeclaredQueries,
    DeclaredQuery,
    GroupForecast,
    QueryForecast,
    sum_by_query,
)
from parquetry.runtime.clustering.forecast.sample import IN_REVIEW, SampleLimits
from parquetry.runtime.clustering.forecast.scope import ScopeBySample
from parquetry.runtime.clustering.plan.history import throughput
from parquetry.runtime.clustering.plan.survey import survey
from parquetry.runtime.clustering.rewrite.order import row_order
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import ClusteringFile, Debt, PlannedGroup
from parquetry.runtime.layout.skipping.files import NOTHING, Reads
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.statistics import look_up

MOST_GROUPS: Final = 256
"""The largest number of groups whose rows are sampled for a forecast.

As each group needs some thousand rows to be forecast, this bounds the sample of a table of any size.
"""

MOST_FORECASTERS: Final = 8
"""The largest number of samples in memory; layouts that divide the files differently have different ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateLayout:
    """One candidate layout. ``queries`` are the forecasts for the whole table.

    ``share`` is the bytes that the queries would read, divided by the bytes that they read now, weighted; 1
    without queries. ``seconds`` is based on the table's own throughput, None before its first write.
    """

    execution: ExecutionPolicy
    rewritten_files: int
    rewritten_bytes: int
    files_after: int
    seconds: float | None
    queries: tuple[QueryForecast, ...]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateLayouts:
    """The candidate layouts of a table as of its newest completed write.

    ``now`` is what each of the declared ``queries`` reads at present. If the table is ``encrypted``, there
    are no forecasts, as if it had no queries.
    """

    table: str
    instant: str | None
    files: int
    size_bytes: int
    policy: ClusteringSpec
    spec: TableSpec
    queries: tuple[DeclaredQuery, ...]
    now: tuple[Reads, ...]
    candidates: tuple[CandidateLayout, ...]
    encrypted: bool


class SimulatedTable:
    """A table for simulated layouts; its files are listed and its statistics read once."""

    def __init__(self, handle: TableHandle) -> None:
        timeline = handle.timeline()
        self._handle = handle
        self._instant = timeline.completed_writes[-1].time if timeline.completed_writes else None
        self.spec = handle.effective_spec(timeline)
        self.policy: ClusteringSpec
        self._files: tuple[ClusteringFile, ...]
        self.policy, self._files, situation = survey(handle, timeline)
        # Reserved and kept files count too: the comparison is about the layout of the whole table.
        self._situation = replace(situation, reserved={}, kept_until=None)
        self._encrypted = self.spec.files.encryption_key is not None
        self.queries = DeclaredQueries.of(self.spec)
        self._slices = handle.view(timeline).all_slices()
        self._statistics: Mapping[str, FileStatistics] = with_pages(
            handle.store,
            look_up(handle.store, self._slices),
            self.queries.predicates,
            self.queries.types,
        )
        self._now = self.queries.reads(self._statistics.values())
        self._rate = throughput(handle, timeline)
        self._reads_by_file: dict[str, tuple[Reads, ...]] = {}
        self._forecasters: dict[tuple[SampleLimits, tuple[tuple[str, ...], ...]], Forecaster] = {}
        self._dry_run = DryRun(handle.store, self.spec, self.queries)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._handle.name

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(file.size_bytes for file in self._files)

    def emptied_meta_columns(self, prices: PlanPrices | None) -> MetaColumnFigures | None:
        """Return what the files would save with commit times as their only meta columns, if anything.

        Without a record key, the rows need the others.
        """
        if not self.spec.record_key:
            return None
        files = self.spec.files
        fewer = replace(files, meta_columns=MetaColumns.COMMIT_TIME)
        return emptied_columns(self._handle.store, self._slices, files, fewer, prices)

    def simulate(
        self,
        layouts: Iterable[ExecutionPolicy],
        *,
        limits: SampleLimits | None = None,
        dry_run: bool = False,
    ) -> CandidateLayouts:
        """Return the forecast of each layout.

        Args:
            layouts: the layouts; equal ones are simulated once.
            limits: the limits of the sample; None for those of a plan.
            dry_run: True to write the whole table in memory by each layout, instead of using a sample.

        Raises:
            InvalidDataError: if a strategy or a column is unknown.
            StaleTimelineError: if a file is missing.

        """
        listed = list(dict.fromkeys(layouts))
        columns = sorted({name for layout in listed for name in (*layout.columns, *layout.split_by)})
        self._check(columns)
        return CandidateLayouts(
            table=self.name,
            instant=self._instant,
            files=len(self._files),
            size_bytes=self.size_bytes,
            policy=self.policy,
            spec=self.spec,
            queries=() if self._encrypted else self.queries.queries,
            now=() if self._encrypted else self._now,
            candidates=tuple(
                self._candidate(layout, columns, limits or SampleLimits(), dry_run=dry_run)
                for layout in listed
            ),
            encrypted=self._encrypted,
        )

    def _check(self, columns: Iterable[str]) -> None:
        """Raise InvalidDataError if the table lacks one of the columns."""
        names = list(dict.fromkeys([*self.queries.types, *(column.name for column in self.spec.columns)]))
        for name in columns:
            if name not in names:
                hint = did_you_mean(name, names) or f"it has {', '.join(names)}"
                raise InvalidDataError(
                    "table {table} has no column '{column}': {hint}", table=self.name, column=name, hint=hint
                )

    def _division(self, layout: ExecutionPolicy) -> tuple[Sequence[PlannedGroup], Sequence[FileStatistics]]:
        """Return the groups of files that a layout rewrites, and the statistics of the files that stay."""
        # Files without a layout digest are due in full, regardless of their earlier clustering.
        files = [self._with_bounds(file) for file in self._files]
        policy = replace(self.policy, execution=layout)
        choose = ScopeBySample(self._handle.store, self.spec, policy, limits=IN_REVIEW)
        groups = compute_debt(policy, files, self._situation, choose=choose).groups
        rewritten = {file.path for group in groups for file in group.files}
        return groups, [known for path, known in self._statistics.items() if path not in rewritten]

    def _candidate(
        self, layout: ExecutionPolicy, columns: Sequence[str], limits: SampleLimits, *, dry_run: bool
    ) -> CandidateLayout:
        """Return a layout with the files that it rewrites and, if possible, what queries would then read."""
        row_order(layout)  # Refuse an unknown strategy even if nothing can be predicted.
        groups, kept = self._division(layout)
        rewritten = Debt(groups=tuple(groups))
        candidate = CandidateLayout(
            execution=layout,
            rewritten_files=rewritten.files_before,
            rewritten_bytes=rewritten.rewritten_bytes,
            files_after=len(kept) + rewritten.files_after,
            seconds=rewritten.rewritten_bytes / self._rate if self._rate else None,
            queries=(),
            share=1.0,
        )
        if self._encrypted or not self.queries:
            return candidate
        sampled = groups if dry_run else self._sampled(groups)
        forecasts = self._forecasts(layout, sampled, columns, limits, dry_run=dry_run) if sampled else []
        known = {id(group) for group in sampled}
        others = [group for group in groups if id(group) not in known]
        files_after = (
            sum(len(forecast.files) for forecast in forecasts) + Debt(groups=tuple(others)).files_after
        )
        whole = self.queries.whole(kept, [*forecasts, self._in_proportion(others, forecasts)])
        expected = [one.expected for one in whole]
        figures = zip(self.queries, self._now, expected, strict=True)
        return replace(
            candidate,
            files_after=len(kept) + files_after,
            queries=tuple(
                QueryForecast(query=query.name, now=now, expected=left) for query, now, left in figures
            ),
            share=self._share(expected),
        )

    def _forecasts(
        self,
        layout: ExecutionPolicy,
        groups: Sequence[PlannedGroup],
        columns: Sequence[str],
        limits: SampleLimits,
        *,
        dry_run: bool,
    ) -> list[GroupForecast]:
        """Return the forecast of each group: from a rewrite in memory for a dry run, else from a sample."""
        target_bytes = self.policy.plan.target_file_size_bytes
        if dry_run:
            files = [group.files for group in groups]
            return self._dry_run.forecast(files, self._statistics, layout, target_bytes=target_bytes)
        return self._forecaster(groups, columns, limits).forecast(layout, target_bytes=target_bytes)

    def _sampled(self, groups: Sequence[PlannedGroup]) -> Sequence[PlannedGroup]:
        """Return the groups to sample: all, or if there are many, the same number for each query, evenly.

        Groups from which no query reads anything are left out, and count as if none will.
        """
        if len(groups) <= MOST_GROUPS:
            return groups
        each = max(MOST_GROUPS // max(len(self.queries), 1), 1)
        reads = [self._reads(group) for group in groups]
        chosen: set[int] = set()
        for query in range(len(self.queries)):
            met = [number for number, of_group in enumerate(reads) if of_group[query].data_bytes]
            count = min(each, len(met))
            chosen |= {met[(2 * place + 1) * len(met) // (2 * count)] for place in range(count)}
        return [groups[number] for number in sorted(chosen)]

    def _in_proportion(
        self, groups: Sequence[PlannedGroup], forecasts: Sequence[GroupForecast]
    ) -> GroupForecast:
        """Return the forecast of groups without a sample, whose reads change as those of the other groups."""
        if not groups:
            return GroupForecast()
        none = tuple(QueryForecast(query=query.name, now=NOTHING, expected=NOTHING) for query in self.queries)
        known = sum_by_query([*none, *(query for forecast in forecasts for query in forecast.queries)])
        reads = [self._reads(group) for group in groups]
        now = [sum((of_group[query] for of_group in reads), NOTHING) for query in range(len(known))]
        return GroupForecast(
            queries=tuple(
                QueryForecast(query=of.query, now=here, expected=_in_proportion(here, of))
                for of, here in zip(known, now, strict=True)
            )
        )

    def _reads(self, group: PlannedGroup) -> tuple[Reads, ...]:
        """Return what each query reads of a group now."""
        for file in group.files:
            if file.path not in self._reads_by_file:
                self._reads_by_file[file.path] = self.queries.reads([self._statistics[file.path]])
        of_files = [self._reads_by_file[file.path] for file in group.files]
        return tuple(sum(reads, NOTHING) for reads in zip(*of_files, strict=True))

    def _share(self, expected: Iterable[Reads]) -> float:
        """Return the weighted bytes that queries are expected to read, divided by those they read now."""
        (_, now), (_, left) = self.queries.weighted(self._now), self.queries.weighted(expected)
        return left / now if now else 1.0

    def _with_bounds(self, file: ClusteringFile) -> ClusteringFile:
        """Return a file with the bounds of its columns, and as not yet clustered by any layout."""
        columns = {name.lower(): column for name, column in self._statistics[file.path].columns.items()}
        return replace(file, digest=None, columns=columns)

    def _forecaster(
        self, groups: Sequence[PlannedGroup], columns: Sequence[str], limits: SampleLimits
    ) -> Forecaster:
        """Return the forecaster of these groups; layouts with equal groups share its sample."""
        arrived = [sorted(group.files, key=lambda file: (file.instant, file.path)) for group in groups]
        parts = sorted(arrived, key=lambda files: files[0].path)
        key = limits, tuple(tuple(file.path for file in files) for files in parts)
        if key not in self._forecasters:
            while len(self._forecasters) >= MOST_FORECASTERS:
                del self._forecasters[next(iter(self._forecasters))]
            # Layouts are compared on the whole table, so each group needs a sample.
            self._forecasters[key] = Forecaster(
                self._handle.store,
                self.spec,
                parts,
                columns=columns,
                limits=limits.for_each_of(len(parts)),
            )
        return self._forecasters[key]


def _in_proportion(now: Reads, known: QueryForecast) -> Reads:
    """Return the expected reads of files from their present ones, by the change of others that are known."""

    def changed(figure: str) -> int:
        before, after, here = (int(getattr(of, figure)) for of in (known.now, known.expected, now))
        return round(here * after / before) if before else here

    return Reads(
        files=changed("files"),
        row_groups=changed("row_groups"),
        rows=changed("rows"),
        data_bytes=changed("data_bytes"),
        paged_row_groups=changed("paged_row_groups"),
    )
