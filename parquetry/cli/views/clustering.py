"""Clusterings that were executed, scheduled or are due, in text and JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.queries import forecast_json, forecast_lines, measured_table
from parquetry.cli.views.scope import scope_lines, scopes_json
from parquetry.message import in_full
from parquetry.runtime.clustering.plan.due import ClusteringForecast, ScheduledClustering
from parquetry.runtime.clustering.plan.execution import ClusteringResult
from parquetry.runtime.layout.clustering.model import Debt, ExcludedFile, PlannedGroup
from parquetry.runtime.layout.clustering.run_budget import left_for_later
from parquetry.runtime.spec.clustering import ClusteringScope


class ClusteringView:
    """One line, and one for each group that was left to a writer."""

    def text(self, outcome: ClusteringResult, paint: Paint) -> str:
        """Return the result in a line, the groups left out, and what queries read before and after."""
        head = paint.warn("left out")
        lost = [
            f"  {head} {_partition_name(group.partition)}: {count(group.files, 'file')}, "
            f"{in_full(group.reason)}"
            for group in outcome.left_out
        ]
        lines = [clustering_line(outcome), *lost]
        if outcome.queries:
            lines.append(f"\n{measured_table(outcome.queries, paint)}")
        return "\n".join(lines)

    def json(self, outcome: ClusteringResult) -> Any:
        """Return every number of the result."""
        from parquetry.runtime.spec.codec import to_json_value

        return to_json_value(outcome)


class ScheduledView:
    """A scheduled clustering plan: its files, the forecast of what queries read, and the chosen scopes."""

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    def text(self, outcome: ScheduledClustering, paint: Paint) -> str:
        """Return the plan's instant and files, the choices of scope, and the forecast."""
        if outcome.instant is None:
            return paint.bold(
                "Nothing was scheduled: nothing is due within the budget, or other writers hold all of it."
            )
        debt = outcome.forecast.debt
        scopes = scope_lines(debt.choices, paint, verbose=self._verbose)
        lines = [*scopes, *forecast_lines(outcome.forecast, paint)]
        return "\n".join([f"{paint.bold(outcome.instant)}: {_rewritten(debt)}", *lines])

    def json(self, outcome: ScheduledClustering) -> Any:
        """Return every number of the plan."""
        debt = outcome.forecast.debt
        return {
            "instant": outcome.instant,
            "groups": len(debt.groups),
            "files_before": debt.files_before,
            "files_after": debt.files_after,
            "rewritten_bytes": debt.rewritten_bytes,
            "scopes": scopes_json(debt.choices),
            **forecast_json(outcome.forecast),
        }


class DueClusteringView:
    """The groups that a run would rewrite, and why other files are left as they are.

    Without ``verbose`` the other files are counted by reason.
    """

    def __init__(self, *, verbose: bool) -> None:
        self._verbose = verbose

    def text(self, outcome: ClusteringForecast, paint: Paint) -> str:
        """Return a headline, a line per group, the other files, the choices of scope, and the forecast."""
        debt = outcome.debt
        head = _rewritten(debt) if debt.groups else "Nothing is due."
        if not debt.groups and (left := left_for_later(debt.excluded)):
            head = f"Nothing is rewritten: {left}."
        groups = [_group(group) for group in debt.groups]
        scopes = scope_lines(debt.choices, paint, verbose=self._verbose)
        excluded = self._excluded(debt.excluded, paint)
        lines = [*groups, *excluded, *scopes, *forecast_lines(outcome, paint)]
        return "\n".join([paint.bold(head), *lines])

    def json(self, outcome: ClusteringForecast) -> Any:
        """Return the groups with their files, and every excluded file with its reason."""
        return {
            "groups": [
                {
                    "partition": group.partition,
                    "size_bytes": group.size_bytes,
                    "output_files": group.output_files,
                    "benefit": group.benefit,
                    "scope": group.scope.value,
                    "files": [
                        {
                            "path": file.path,
                            "size_bytes": file.size_bytes,
                            "reason": str(group.reasons.get(file.file_id, "")),
                        }
                        for file in group.files
                    ],
                }
                for group in outcome.debt.groups
            ],
            "excluded": [
                {"path": left.file.path, "reason": str(left.reason), "detail": left.text}
                for left in outcome.debt.excluded
            ],
            "files": {"before": outcome.debt.files_before, "after": outcome.debt.files_after},
            "rewritten_bytes": outcome.debt.rewritten_bytes,
            "scopes": scopes_json(outcome.debt.choices),
            **forecast_json(outcome),
        }

    def _excluded(self, excluded: tuple[ExcludedFile, ...], paint: Paint) -> list[str]:
        if self._verbose:
            # Each path is alone on a line, so that it is not wrapped; its reason is below.
            lines = [line for left in excluded for line in (left.file.path, f"  {left.text}")]
            head = f"  {paint.dim('left as they are:')}"
            return [head, *(f"    {line}" for line in lines)] if lines else []
        reasons = Counter(left.text for left in excluded)
        return [f"  {paint.dim('left')} {count(n, 'file')}: {words}" for words, n in sorted(reasons.items())]


def clustering_line(result: ClusteringResult) -> str:
    """Return the result of a clustering in one line."""
    if not result.instants:
        lost = f", {count(len(result.left_out), 'group')} left out" if result.left_out else ""
        return "; ".join([f"nothing clustered{lost}", *map(in_full, result.warnings)])
    before = f"{count(result.files_before, 'file')} ({human_size(result.bytes_before)})"
    parts = [
        f"{before} clustered into {result.files_after} ({human_size(result.bytes_after)})",
        f"{result.rows:,} rows",
        f"replacecommit {', '.join(result.instants)}",
    ]
    if result.left_out:
        parts.append(f"{count(len(result.left_out), 'group')} left out")
    return "; ".join([*parts, *map(in_full, result.warnings)])


def _rewritten(debt: Debt) -> str:
    return (
        f"{count(len(debt.groups), 'group')}, {count(debt.files_before, 'file')} "
        f"({human_size(debt.rewritten_bytes)}) into {debt.files_after}"
    )


def _group(group: PlannedGroup) -> str:
    reasons = Counter(str(reason) for reason in group.reasons.values())
    why = ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items()))
    scope = " in one order" if group.scope is ClusteringScope.PARTITION else ""
    return (
        f"  {_partition_name(group.partition)}: {count(len(group.files), 'file')} "
        f"({human_size(group.size_bytes)}) into {group.output_files}{scope}: {why}"
    )


def _partition_name(partition: str) -> str:
    return partition or "the table"
