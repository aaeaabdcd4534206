"""Forecast of the next run's clustering, computed by the functions that plan runs.

Rows are read only for tables that declare queries: once for the choice of scopes, and once more for groups
without such a choice, both within :data:`~parquetry.runtime.clustering.forecast.sample.IN_REVIEW`. For plans
that are already on the timeline, the recorded forecast is shown and no rows are read.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from parquetry.compiler.evidence.model import ExcludedFiles, ExcludedPath, PendingPlan, RunForecast
from parquetry.compiler.workspace.observation import Observation
from parquetry.runtime.clustering.forecast.queries import read_prediction, sum_by_query
from parquetry.runtime.clustering.forecast.sample import IN_REVIEW
from parquetry.runtime.clustering.plan.due import ClusteringForecast, due_clustering, forecast_due, trigger_of
from parquetry.runtime.clustering.rewrite.strategies import are_allowed
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering.model import ExcludedFile
from parquetry.runtime.layout.clustering.run_budget import RunBudget
from parquetry.runtime.spec.clustering import Trigger
from parquetry.runtime.spec.masking import log_failure
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.rereading import retry_stale

MAX_LISTED_FILES: Final = 100
"""The most excluded files that are listed by path, per table."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextClustering:
    """The forecast of the next run's clustering, and the files that it leaves as they are."""

    forecast: RunForecast
    excluded: ExcludedFiles


@retry_stale
def next_clustering(observation: Observation, *, budget: RunBudget) -> NextClustering | None:
    """Return the forecast of the next clustering within the ``budget``.

    The result is None if no spec is applied, if clustering is off, or if the applied policy uses a plug-in
    strategy that is not declared.
    """
    handle, spec = observation.handle, observation.handle.spec
    if not observation.is_applied or spec is None or trigger_of(handle) is Trigger.OFF:
        return None
    if not are_allowed(spec.clustering, handle.store.allowed):
        return None
    due = due_clustering(handle, budget=budget, limits=IN_REVIEW)
    try:
        expected = forecast_due(handle, due, limits=IN_REVIEW)
    except InvalidDataError as failure:
        # A strategy or a step is not installed here, but it may be installed where the job runs.
        what = f"{handle.store.uri}: the clustering has no forecast"
        log_failure(_LOG, what, failure, handle.shown_by, location=handle.store.uri)
        expected = ClusteringForecast(debt=due.debt)
    forecast = RunForecast(
        files=due.debt.files_before,
        rewrite_bytes=due.debt.rewritten_bytes,
        queries=expected.queries,
        scopes=due.debt.choices,
        pending=_pending(handle),
        forecast_error=expected.forecast_error,
    )
    return NextClustering(forecast=forecast, excluded=_excluded(due.debt.excluded))


def _excluded(excluded: Sequence[ExcludedFile]) -> ExcludedFiles:
    """Return the excluded files with a bounded list of paths. `service cluster --plan-only` lists all."""
    named = nsmallest(MAX_LISTED_FILES, excluded, key=lambda excluded: excluded.file.path)
    return ExcludedFiles(
        total=len(excluded),
        reasons=dict(sorted(Counter(str(excluded.reason) for excluded in excluded).items())),
        files=tuple(
            ExcludedPath(
                path=excluded.file.path,
                reason=str(excluded.reason),
                detail=excluded.text,
            )
            for excluded in named
        ),
    )


def _pending(handle: TableHandle) -> tuple[PendingPlan, ...]:
    """Return the pending clustering plans that contain a forecast."""
    found = []
    for instant, request in sorted(handle.timeline().pending_clusterings.items()):
        groups = () if request.plan is None else request.plan.groups
        forecasts = sum_by_query(query for group in groups for query in read_prediction(group.extra))
        if forecasts:
            found.append(PendingPlan(instant=instant, queries=forecasts))
    return tuple(found)
