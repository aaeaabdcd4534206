"""Candidate layouts of a table, in text and JSON."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.meta_columns import share_text
from parquetry.cli.views.queries import touched_cells
from parquetry.compiler.reports.simulate_clustering import CandidateLayout, CandidateLayouts
from parquetry.compiler.reports.suggestion import Suggestion, in_words
from parquetry.compiler.spec_words import human_duration
from parquetry.runtime.spec.clustering import ClusteringScope, ExecutionPolicy
from parquetry.runtime.spec.codec import to_json_value

_HEADER = ("layout", "rewrites", "", "into", "time", "reads")
_QUERY_HEADER = ("layout", "files", "row groups", "rows", "bytes")
_LONGEST = 40
_WIDTH = 78


class CandidatesView:
    """The costs of each candidate layout, and what each declared query would read under it."""

    def text(self, outcome: CandidateLayouts, paint: Paint) -> str:
        """Return a table of costs, and a table for each query."""
        head = (
            f"{paint.bold(outcome.table)} at {outcome.instant or 'no write yet'}: "
            f"{count(outcome.files, 'file')} ({human_size(outcome.size_bytes)})"
        )
        are_read = any(now.data_bytes for now in outcome.now)
        costs = columns(
            _HEADER,
            [_cost(candidate, are_read=are_read) for candidate in outcome.candidates],
            paint=paint,
            right=frozenset({1, 2, 3, 4, 5}),
        )
        queries = [_query(number, outcome, paint) for number in range(len(outcome.queries))]
        if outcome.encrypted:
            queries = ["Files are encrypted, so there is no forecast."]
        elif not outcome.queries:
            queries = ["The table declares no queries, so there is no forecast."]
        return "\n\n".join([head, costs, *queries])

    def json(self, outcome: CandidateLayouts) -> Any:
        """Return the document that the schema of ``simulate-clustering`` describes, without a suggestion."""
        return _json(outcome) | {"suggestion": None, "reasons": []}


class SuggestionView:
    """The candidate layouts with the best first, the suggestion, and its reasons.

    ``currency`` is that of the prices, or None without prices.
    """

    def __init__(self, *, currency: str | None = None) -> None:
        self._currency = currency

    def text(self, outcome: Suggestion, paint: Paint) -> str:
        """Return the figures, then the suggested layout in YAML and the reasons."""
        candidates = CandidatesView().text(outcome.candidates, paint)
        if not outcome.candidates.queries:
            head = paint.bold("Nothing can be suggested.")
        elif outcome.best is None:
            head = paint.bold("Clustering would not help.")
        else:
            layout = outcome.best.execution
            same = layout == outcome.candidates.policy.execution
            head = f"{paint.bold('Keep the declared layout:' if same else 'Suggested:')}\n{_yaml(layout)}"
        lines = [f"{candidates}\n\n{head}", *map(_wrapped, outcome.reasons)]
        if outcome.meta_columns is not None:
            share = share_text(outcome.meta_columns, outcome.candidates.size_bytes, self._currency)
            lines.append(
                _wrapped(
                    f"Hudi's meta columns take {share} of the files; new files leave them empty, but for the "
                    f"commit time, with files: {{meta_columns: commit_time}}"
                )
            )
        return "\n".join(lines)

    def json(self, outcome: Suggestion) -> Any:
        """Return the document that the schema of ``simulate-clustering`` describes."""
        best = None if outcome.best is None else _layout(outcome.best)
        found = {"suggestion": best, "reasons": list(outcome.reasons)}
        if outcome.meta_columns is not None:
            found["meta_columns"] = to_json_value(outcome.meta_columns)
        return _json(outcome.candidates) | found


def _yaml(layout: ExecutionPolicy) -> str:
    """Return the layout in YAML as below ``clustering``, on one line if it is short enough."""
    lists = {"columns": layout.columns, "split_by": layout.split_by, "then": layout.then}
    named = {key: f"[{', '.join(names)}]" for key, names in lists.items() if names}
    scope = {} if layout.scope is ClusteringScope.AUTO else {"scope": layout.scope.value}
    settings = [f"{key}: {value}" for key, value in ({"strategy": layout.strategy} | scope | named).items()]
    line = f"  execution: {{{', '.join(settings)}}}"
    return line if len(line) <= _WIDTH else "\n    ".join(["  execution:", *settings])


def _cost(candidate: CandidateLayout, *, are_read: bool) -> tuple[str, ...]:
    return (
        _short(in_words(candidate.execution)),
        count(candidate.rewritten_files, "file") if candidate.rewritten_files else "nothing",
        human_size(candidate.rewritten_bytes) if candidate.rewritten_files else "",
        f"{candidate.files_after:,}",
        ""
        if candidate.seconds is None or not candidate.rewritten_files
        else human_duration(candidate.seconds),
        f"{candidate.share:.0%}" if are_read else "",
    )


def _query(number: int, outcome: CandidateLayouts, paint: Paint) -> str:
    query = outcome.queries[number]
    rows = [("as it is", *touched_cells(outcome.now[number]))]
    rows += [
        (_short(in_words(candidate.execution)), *touched_cells(candidate.queries[number].expected))
        for candidate in outcome.candidates
    ]
    table = columns(_QUERY_HEADER, rows, paint=paint, right=frozenset({1, 2, 3, 4}))
    return f"{paint.bold(query.name)}, weight {query.weight:g}\n{table}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."


def _wrapped(reason: str) -> str:
    return textwrap.fill(reason, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _json(outcome: CandidateLayouts) -> dict[str, Any]:
    return {
        "table": outcome.table,
        "instant": outcome.instant,
        "files": outcome.files,
        "size_bytes": outcome.size_bytes,
        "queries": [
            {"query": query.name, "weight": query.weight, "now": asdict(now)}
            for query, now in zip(outcome.queries, outcome.now, strict=True)
        ],
        "layouts": [_candidate(candidate) for candidate in outcome.candidates],
    }


def _layout(candidate: CandidateLayout) -> dict[str, Any]:
    layout = candidate.execution
    return {
        "strategy": layout.strategy,
        "columns": list(layout.columns),
        "scope": layout.scope.value,
        "split_by": list(layout.split_by),
        "then": list(layout.then),
    }


def _candidate(candidate: CandidateLayout) -> dict[str, Any]:
    return _layout(candidate) | {
        "rewritten_files": candidate.rewritten_files,
        "rewritten_bytes": candidate.rewritten_bytes,
        "files_after": candidate.files_after,
        "seconds": candidate.seconds,
        "share": candidate.share,
        "queries": [
            {"query": query.query, "expected": asdict(query.expected)} for query in candidate.queries
        ],
    }
