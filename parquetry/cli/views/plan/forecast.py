"""The forecast for the next clustering of a table, as lines below the due work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from parquetry.cli.terminal.format import count, human_size
from parquetry.cli.views.deletions import file_lines
from parquetry.cli.views.plan.commands import typed_options_of
from parquetry.cli.views.plan.words import dictionary_text, due_lines, excluded_lines
from parquetry.cli.views.queries import forecast_error_lines
from parquetry.cli.views.scope import scope_sentences
from parquetry.compiler.evidence.model import RunForecast
from parquetry.compiler.plan.model import PlanDocument
from parquetry.runtime.clustering.forecast.queries import QueryForecast


def has_figures_after_apply(table: str, plan: PlanDocument) -> bool:
    """Return whether the plan has figures of the work that is due after it is applied."""
    figures = plan.evidence.figures.get(table)
    return figures is not None and bool(figures.queries)


def forecast_lines(forecast: RunForecast, *, changes: bool = False) -> list[str]:
    """Return what queries read now, and the forecast for the files of the next run and of pending plans.

    With ``changes``, a line explains that the figures are those of the spec that is applied until now. The
    last line is the forecast error of past clusterings.
    """
    lines: list[str] = []
    if forecast.queries:
        until = ", by the spec that is applied until now" if changes else ""
        lines.append(f"of the {count(forecast.files, 'file')} that the next clustering rewrites{until}:")
        lines += _query_lines(forecast.queries)
    for plan in forecast.pending:
        lines.append(f"of the files of the pending plan {plan.instant}:")
        lines += _query_lines(plan.queries)
    if forecast.forecast_error is not None:
        lines.append(" ".join(forecast_error_lines(forecast.forecast_error).split()))
    return lines


def due_entries(plan: PlanDocument) -> list[tuple[str, str]]:
    """Return pairs of table and text: the next run's work, its forecast, and the files that it leaves.

    The first files that its services delete are named.
    """
    lines = due_lines(plan)
    forecasts, excluded = plan.evidence.forecasts or {}, plan.evidence.excluded or {}
    deletions = plan.evidence.deletions or {}
    entries: list[tuple[str, str]] = []
    for table in dict.fromkeys(name for name, _ in lines):
        entries += [line for line in lines if line[0] == table]
        if table in deletions:
            entries += [(table, text) for text in file_lines(deletions[table])]
        if (forecast := forecasts.get(table)) is not None:
            lines_of = forecast_lines(forecast, changes=has_figures_after_apply(table, plan))
            entries += [(table, text) for text in lines_of]
            entries += [(table, text) for text in scope_sentences(forecast.scopes)]
        if (left := excluded.get(table)) is not None and left.total:
            lines_left = map(typed_options_of(plan).with_options, excluded_lines(table, left))
            entries += [(table, f"left as it is: {text}") for text in lines_left]
    return entries


def _query_lines(queries: Iterable[QueryForecast]) -> Iterator[str]:
    for query in queries:
        now, expected = query.now, query.expected
        yield (
            f"query {query.query}: {now.files:,} -> {expected.files:,} files, "
            f"{now.row_groups:,} -> {expected.row_groups:,} row groups, "
            f"{now.rows:,} -> {expected.rows:,} rows{dictionary_text(query)}, "
            f"{human_size(now.data_bytes)} -> {human_size(expected.data_bytes)}"
        )
