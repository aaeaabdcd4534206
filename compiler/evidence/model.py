"""Figures of live tables that a plan shows. They do not decide what the plan does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parquetry.compiler.evidence.money import AmountRange, TableCosts
from parquetry.compiler.replay.model import Replay
from parquetry.message import FILE_FIELD, Text
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.queries import QueryForecast
from parquetry.runtime.clustering.plan.history import ForecastErrorSummary
from parquetry.runtime.layout.clustering.model import ScopeChoice
from parquetry.runtime.sources.due import KnownFiles
from parquetry.runtime.spec.codec import OMIT_EMPTY
from parquetry.runtime.spec.table_spec import RetentionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlan:
    """A pending clustering plan. ``queries`` is the forecast that was made with it."""

    instant: str
    queries: tuple[QueryForecast, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForecast:
    """The work of the next clustering of a table, and its effect on queries.

    ``queries`` is the forecast for the ``files`` that it rewrites, from a bounded sample of their rows.
    ``scopes`` are the choices of ``scope: auto``, with personal partitions masked. ``forecast_error`` is the
    error of earlier forecasts, None if there are none.
    """

    files: int = 0
    rewrite_bytes: int = 0
    queries: tuple[QueryForecast, ...] = ()
    scopes: tuple[ScopeChoice, ...] = ()
    pending: tuple[PendingPlan, ...] = ()
    forecast_error: ForecastErrorSummary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures(QueryForecast):
    """The reads of a declared query on a table: ``now``, and ``expected`` once the debt is paid.

    ``total`` and ``total_after`` count the files of the table, ``rows`` counts its rows. ``sampled`` is True
    if the forecast uses a sample of rows, and False if it uses statistics alone.
    """

    total: int
    total_after: int
    rows: int
    sampled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DueFigures:
    """The work that is due for the live files under a policy.

    Attributes:
        rewrite_bytes: The bytes that clustering rewrites.
        rewrite_files: The files that clustering rewrites.
        files_after: The files of the table after all runs.
        small_files: Small files, which the next writes fill.
        small_bytes: The bytes of the small files.
        expired_files: Expired file versions, which the next clean deletes.
        expired_bytes: The bytes of the expired versions.
        budget_bytes: The limit of a run, which the tables of the plan share.
        runs: About how many runs the clustering takes, with at most the policy's ``max_groups`` groups each.
        seconds: The time for all bytes at the throughput of the table's clusterings or, before the first of
            them, of its writes; None if there are neither.
        commits_until_due: The number of commits after those of the next run until the clustering starts.
    """

    rewrite_bytes: int
    rewrite_files: int
    files_after: int
    small_files: int
    small_bytes: int
    expired_files: int
    expired_bytes: int
    budget_bytes: int
    runs: int
    seconds: int | None = None
    commits_until_due: int = 0

    @property
    def is_paid(self) -> bool:
        """True if a run has nothing to cluster or to clean."""
        return not self.rewrite_bytes and not self.expired_files


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSource:
    """The files of a source that the next run would ingest.

    Attributes:
        source: The name of the source.
        operation: The write operation of the source.
        files: The number of files to ingest.
        size_bytes: Their size as stored.
        changed_files: The number of these files that were ingested before and changed since.
        known: Files that are left out because another path or another source already ingested them.
        problem: The reason why the run would fail on the source.
        warning: The warning that the run would give.
    """

    source: str
    operation: str
    files: int = 0
    size_bytes: int = 0
    changed_files: int = 0
    known: tuple[KnownFiles, ...] = ()
    problem: Text | None = None
    warning: Text | None = None

    @property
    def is_due(self) -> bool:
        """True if a run would ingest files of the source."""
        return self.files > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedPath:
    """A file that clustering leaves as it is. ``detail`` is the text for the reason."""

    path: str = field(metadata=FILE_FIELD)
    reason: Text
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedFiles:
    """Files that the next clustering leaves as they are: counts by reason, and the first files by path."""

    total: int
    reasons: Mapping[str, int]
    files: tuple[ExcludedPath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaColumnFigures:
    """The meta columns that files leave empty, or would leave empty, by a change.

    Attributes:
        size_bytes: About the bytes that they take in the live files, until these are rewritten.
        monthly: The price of storing these bytes for a month, None without prices.
    """

    size_bytes: int
    monthly: AmountRange | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """The figures of a live table.

    Attributes:
        instant: The newest commit, None if there is none.
        files: The number of live files.
        size_bytes: Their size.
        small_files_before: The number of small files by the applied limit.
        small_files_after: The number of small files by the declared limit.
        sizes_before: The number of files by tenths of the declared maximum size; the last entry counts larger
            files.
        sizes_after: The predicted counts once the debt is paid.
        queries: The reads of each declared query.
        debt: The debt under the declared policy.
        size_bytes_after: The 80 % prediction interval of the size of all files once the debt is paid, None if
            nothing is due.
        retention: The applied retention policy.
        costs: The costs of the change, if the target has prices.
        replay: The newest writes under the applied and the declared limits, if limits on file sizes change.
        meta_columns: The meta columns that the change leaves empty, if it does.
    """

    instant: str | None
    files: int
    size_bytes: int
    small_files_before: int
    small_files_after: int
    sizes_before: tuple[int, ...] = ()
    sizes_after: tuple[int, ...] = ()
    queries: tuple[QueryFigures, ...] = ()
    debt: DueFigures | None = None
    size_bytes_after: PredictionInterval | None = field(default=None, metadata=OMIT_EMPTY)
    retention: RetentionPolicy | None = field(default=None, metadata=OMIT_EMPTY)
    costs: TableCosts | None = field(default=None, metadata=OMIT_EMPTY)
    replay: Replay | None = field(default=None, metadata=OMIT_EMPTY)
    meta_columns: MetaColumnFigures | None = field(default=None, metadata=OMIT_EMPTY)
