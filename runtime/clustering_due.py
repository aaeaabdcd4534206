"""What clustering a table owes, and whether it is time to pay."""

from __future__ import annotations

from dataclasses import dataclass

from parquetry.runtime.layout.clustering import debt, within
from parquetry.runtime.layout.clustering_model import Debt
from parquetry.runtime.layout.clustering_policy import ClusteringSpec, Trigger
from parquetry.runtime.services.clustering_survey import commits_since_clustering, observe
from parquetry.runtime.table import TableHandle
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class DueClustering:
    """What one run would do: ``debt.groups``; every other file is among ``debt.excluded``, with a reason."""

    spec: ClusteringSpec
    debt: Debt


def due_clustering(
    table: TableHandle, *, budget_bytes: int | None = None, timing: Timing = DEFAULT_TIMING
) -> DueClustering:
    """What a run would rewrite now, within ``budget_bytes`` and the policy's ``max_groups``."""
    spec, files, situation = observe(table, table.timeline(), timing=timing)
    owed = debt(spec, files, situation, budget_bytes=budget_bytes)
    return DueClustering(
        spec=spec, debt=within(owed, budget_bytes=budget_bytes, max_groups=spec.plan.max_groups)
    )


def is_time(table: TableHandle, trigger: Trigger) -> bool:
    """Whether the table's policy wants clustering now, of that trigger.

    It does when ``every_commits`` writes have been completed since the last one, and also right after
    one: what that had to leave is then paid on.
    """
    spec = _applied(table)
    if spec.trigger is not trigger:
        return False
    commits = commits_since_clustering(table.timeline())
    return commits == 0 or commits >= spec.every_commits


def trigger_of(table: TableHandle) -> Trigger:
    """Who starts the table's clustering, by the applied spec; nobody without one."""
    return _applied(table).trigger


def _applied(table: TableHandle) -> ClusteringSpec:
    if table.spec is None:
        return ClusteringSpec()
    return ClusteringSpec.of_extra(table.spec.extra, table.spec.sizing)
