"""Layouts that were tried on a table, in text and JSON."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.queries import touched_cells
from parquetry.compiler.reports.simulate_clustering import Trial, Trials
from parquetry.compiler.reports.suggestion import Suggestion, in_words
from parquetry.runtime.spec.clustering import ClusteringScope, ExecutionPolicy

_HEADER = ("layout", "rewrites", "", "into", "time", "reads")
_QUERY_HEADER = ("layout", "files", "row groups", "rows", "bytes")
_LONGEST = 40
_WIDTH = 78


class TrialsView:
    """What each layout costs, and what each declared query would read under it."""

    def text(self, outcome: Trials, paint: Paint) -> str:
        """A table of costs, and a table for each query."""
        head = (
            f"{paint.bold(outcome.table)} at {outcome.instant or 'no write yet'}: "
            f"{count(outcome.files, 'file')} ({human_size(outcome.size_bytes)})"
        )
        are_read = any(now.data_bytes for now in outcome.now)
        costs = columns(
            _HEADER,
            [_cost(trial, are_read=are_read) for trial in outcome.trials],
            paint=paint,
            right=frozenset({1, 2, 3, 4, 5}),
        )
        queries = [_query(number, outcome, paint) for number in range(len(outcome.queries))]
        if outcome.encrypted:
            queries = ["Files are encrypted, so there is no forecast."]
        elif not outcome.queries:
            queries = ["The table declares no queries, so there is no forecast."]
        return "\n\n".join([head, costs, *queries])

    def json(self, outcome: Trials) -> Any:
        """The documented shape."""
        return _json(outcome) | {"suggestion": None, "reasons": []}


class SuggestionView:
    """The layouts with the best first, what is suggested, and why."""

    def text(self, outcome: Suggestion, paint: Paint) -> str:
        """What is suggested, in YAML, below the figures."""
        trials = TrialsView().text(outcome.trials, paint)
        if not outcome.trials.queries:
            head = paint.bold("Nothing can be suggested.")
        elif outcome.best is None:
            head = paint.bold("Clustering would not help.")
        else:
            layout = outcome.best.execution
            same = layout == outcome.trials.policy.execution
            head = f"{paint.bold('Keep it as it is declared:' if same else 'Suggested:')}\n{_yaml(layout)}"
        return "\n".join([f"{trials}\n\n{head}", *(_wrapped(reason) for reason in outcome.reasons)])

    def json(self, outcome: Suggestion) -> Any:
        """The documented shape."""
        best = None if outcome.best is None else _layout(outcome.best)
        return _json(outcome.trials) | {"suggestion": best, "reasons": list(outcome.reasons)}


def _yaml(layout: ExecutionPolicy) -> str:
    """The layout as it stands below ``clustering``: in one line where that is short enough."""
    lists = {"columns": layout.columns, "split_by": layout.split_by, "then": layout.then}
    named = {key: f"[{', '.join(names)}]" for key, names in lists.items() if names}
    scope = {} if layout.scope is ClusteringScope.AUTO else {"scope": layout.scope.value}
    said = [f"{key}: {value}" for key, value in ({"strategy": layout.strategy} | scope | named).items()]
    line = f"  execution: {{{', '.join(said)}}}"
    return line if len(line) <= _WIDTH else "\n    ".join(["  execution:", *said])


def _cost(trial: Trial, *, are_read: bool) -> tuple[str, ...]:
    return (
        _short(in_words(trial.execution)),
        count(trial.rewritten_files, "file") if trial.rewritten_files else "nothing",
        human_size(trial.rewritten_bytes) if trial.rewritten_files else "",
        f"{trial.files_after:,}",
        "" if trial.seconds is None or not trial.rewritten_files else _duration(trial.seconds),
        f"{trial.share:.0%}" if are_read else "",
    )


def _query(number: int, outcome: Trials, paint: Paint) -> str:
    query = outcome.queries[number]
    rows = [("as it is", *touched_cells(outcome.now[number]))]
    rows += [
        (_short(in_words(trial.execution)), *touched_cells(trial.queries[number].expected))
        for trial in outcome.trials
    ]
    table = columns(_QUERY_HEADER, rows, paint=paint, right=frozenset({1, 2, 3, 4}))
    return f"{paint.bold(query.name)}, weight {query.weight:g}\n{table}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes else f"{rest} s"


def _wrapped(reason: str) -> str:
    return textwrap.fill(reason, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _json(outcome: Trials) -> dict[str, Any]:
    return {
        "table": outcome.table,
        "instant": outcome.instant,
        "files": outcome.files,
        "size_bytes": outcome.size_bytes,
        "queries": [
            {"query": query.name, "weight": query.weight, "now": asdict(now)}
            for query, now in zip(outcome.queries, outcome.now, strict=True)
        ],
        "layouts": [_trial(trial) for trial in outcome.trials],
    }


def _layout(trial: Trial) -> dict[str, Any]:
    layout = trial.execution
    return {
        "strategy": layout.strategy,
        "columns": list(layout.columns),
        "scope": layout.scope.value,
        "split_by": list(layout.split_by),
        "then": list(layout.then),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return _layout(trial) | {
        "rewritten_files": trial.rewritten_files,
        "rewritten_bytes": trial.rewritten_bytes,
        "files_after": trial.files_after,
        "seconds": trial.seconds,
        "share": trial.share,
        "queries": [{"query": query.query, "expected": asdict(query.expected)} for query in trial.queries],
    }
