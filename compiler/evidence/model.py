"""What was seen of live tables, apart from what is to be done to them: values that a plan shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parquetry.compiler.evidence.money import TableCosts
from parquetry.compiler.replay.model import Replay
from parquetry.runtime.clustering.forecast.intervals import PredictionInterval
from parquetry.runtime.clustering.forecast.queries import QueryForecast
from parquetry.runtime.clustering.plan.history import ForecastErrorSummary
from parquetry.runtime.layout.clustering.model import ScopeChoice
from parquetry.runtime.sources.due import KnownFiles
from parquetry.runtime.spec.codec import UNLESS_NONE
from parquetry.runtime.spec.table_spec import RetentionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlan:
    """A clustering plan that waits to be executed; ``queries`` is what was predicted when it was made."""

    instant: str
    queries: tuple[QueryForecast, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForecast:
    """What the next clustering rewrites of a table, and what that is good for.

    ``queries`` are of the ``files`` it rewrites, from a bounded sample of their rows; ``scopes`` are what
    ``scope: auto`` chose, with personal partitions masked. ``forecast_error`` is that of earlier
    predictions, None when none was made.
    """

    files: int = 0
    rewrite_bytes: int = 0
    queries: tuple[QueryForecast, ...] = ()
    scopes: tuple[ScopeChoice, ...] = ()
    pending: tuple[PendingPlan, ...] = ()
    forecast_error: ForecastErrorSummary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFigures(QueryForecast):
    """What a declared query reads of a table, ``now`` and (``expected``) with the debt paid.

    ``total`` and ``total_after`` are the files of the table, ``rows`` its rows. ``sampled`` says that rows
    were looked at for what is expected; else it is by statistics alone.
    """

    total: int
    total_after: int
    rows: int
    sampled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DueFigures:
    """What is due for the live files under a policy.

    ``rewrite_bytes`` of ``rewrite_files`` are clustering's, in about ``runs`` runs of at most the policy's
    ``max_groups`` and of ``budget_bytes``, which the tables of the plan share, after which the table has
    ``files_after`` files; ``seconds`` is what they take at the pace of its clusterings, before the first of
    its writes. The clustering starts after ``commits_until_due`` commits beyond those of the next run. Small
    files are filled by the next writes, expired versions are deleted by the next clean.
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
        """Whether a run would find nothing to do for it."""
        return not self.rewrite_bytes and not self.expired_files


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSource:
    """What the next run would ingest of a source: new files and their bytes as they are stored.

    ``changed_files`` of them were ingested before they changed. ``known`` are files that are left out, as
    they were ingested from another path or by another source. ``problem`` is why the run would fail on the
    source, ``warning`` what it would warn of.
    """

    source: str
    operation: str
    files: int = 0
    size_bytes: int = 0
    changed_files: int = 0
    known: tuple[KnownFiles, ...] = ()
    problem: str | None = None
    warning: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether a run would do something for it."""
        return self.files > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedPath:
    """A file that clustering leaves as it is; ``detail`` says the reason in words."""

    path: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedFiles:
    """``total`` files that the next clustering leaves, counted by reason; the first of them by path."""

    total: int
    reasons: Mapping[str, int]
    files: tuple[ExcludedPath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """A live table in numbers; ``small_files_before`` and ``after`` by the applied and the declared limit.

    ``sizes_before`` counts files by tenths of the declared largest size, what is above it last;
    ``sizes_after`` is the prediction for when the debt is paid. ``size_bytes_after`` is the range that the
    bytes of all files then lie in, in 80 of 100 cases; None where nothing is due. ``retention`` is the policy
    that is in force, and ``costs`` are there where the target has prices.
    ``replay`` is there where limits on file sizes change: the newest writes by the limits before and after.
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
    size_bytes_after: PredictionInterval | None = field(default=None, metadata=UNLESS_NONE)
    retention: RetentionPolicy | None = field(default=None, metadata=UNLESS_NONE)
    costs: TableCosts | None = field(default=None, metadata=UNLESS_NONE)
    replay: Replay | None = field(default=None, metadata=UNLESS_NONE)
