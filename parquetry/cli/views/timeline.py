"""A timeline in text and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from parquetry.cli.terminal.format import columns, short_count
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.queries import measured_cost_table, measured_table
from parquetry.compiler.reports.timeline import InstantReport, TimelineReport
from parquetry.compiler.workspace.spec_words import elapsed
from parquetry.runtime.clustering.forecast.records import MEASURED_KEY
from parquetry.runtime.spec.codec import parsed_json, to_json_value
from parquetry.runtime.timeline.instant import State

_HEADER = ("time", "operation", "inserted", "updated", "deleted", "files")
_NUMBERS = frozenset(range(2, len(_HEADER) - 1))
_IN_FULL = 1_000
_TENTH_OF_A_MILLION = 100_000
_MILLION = 1_000_000


class TimelineView:
    """Instants, oldest first; with ``verbose`` also what clusterings were good for."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose

    def text(self, outcome: TimelineReport, paint: Paint) -> str:
        """A line per instant, within 80 columns; for a single one also its partitions and metadata."""
        return "\n\n".join(
            [self._instants(outcome, paint), *(f"{paint.bad('warning')}: {w}" for w in outcome.warnings)]
        )

    def _instants(self, outcome: TimelineReport, paint: Paint) -> str:
        done = [instant for instant in outcome.instants if _is_completed(instant)]
        header, *lines = columns(_HEADER, map(_row, done), paint=paint, right=_NUMBERS).splitlines()
        completed = iter(lines)
        table = "\n".join(
            [header, *(next(completed) if _is_completed(i) else _pending(i) for i in outcome.instants)]
        )
        if not outcome.is_single:
            measured = [i for i in outcome.instants if self._verbose and (i.queries or i.costs)]
            shown = ("\n".join([i.time, *_measured(i, paint)]) for i in measured)
            return "\n\n".join([table, *shown])
        return "\n".join([table, *_details(outcome.instants[0], paint)])

    def json(self, outcome: TimelineReport) -> Any:
        """The documented shape."""
        return {
            "instants": [_instant(instant) for instant in outcome.instants],
            "warnings": list(outcome.warnings),
        }


def _is_completed(instant: InstantReport) -> bool:
    return instant.state == State.COMPLETED


def _pending(instant: InstantReport) -> str:
    """A line without figures, which what is not completed lacks, and for how long it has been so."""
    lasting = "" if instant.age_seconds is None else f", for {elapsed(instant.age_seconds)}"
    return f"{instant.time}  {instant.action} {instant.state}{lasting}"


def _row(instant: InstantReport) -> tuple[str, ...]:
    rows, files = instant.rows, instant.files
    counts = (("+", files.added), ("-", files.replaced + files.removed))
    changes = [(sign, number) for sign, number in counts if number]
    shown = _files if len(changes) == 1 else _few_characters
    return (
        instant.time,
        instant.operation or instant.action,
        *(_rows(number) for number in (rows.inserted, rows.updated, rows.deleted)),
        " ".join(f"{sign}{shown(number)}" for sign, number in changes),
    )


def _rows(number: int) -> str:
    """Up to seven characters, and nothing for none."""
    if not number:
        return ""
    return f"{number:,}" if number < _MILLION else short_count(number)


def _files(number: int) -> str:
    return str(number) if number < _IN_FULL else short_count(number)


def _few_characters(number: int) -> str:
    """Up to three characters below 10^8, so that two of them fit beside the longest operation."""
    if number < _IN_FULL:
        return str(number)
    if number < _TENTH_OF_A_MILLION:
        return f"{number // _IN_FULL}K"
    return f".{number // _TENTH_OF_A_MILLION}M" if number < _MILLION else f"{number // _MILLION}M"


def _details(instant: InstantReport, paint: Paint) -> list[str]:
    lines = [f"\n{paint.bold('action')}\n  {instant.action}", paint.bold("partitions")]
    lines += [f"  {partition or '(unpartitioned)'}" for partition in instant.partitions]
    # What the table below says need not be said in JSON too.
    shown = {key: value for key, value in instant.extra.items() if key != MEASURED_KEY or not instant.queries}
    lines += [f"{paint.bold(key)}\n  {_readable(value)}" for key, value in sorted(shown.items())]
    lines += [f"\n{table}" for table in _measured(instant, paint)]
    return lines if instant.partitions or instant.extra else []


def _measured(instant: InstantReport, paint: Paint) -> list[str]:
    """What a clustering was good for, and what it cost."""
    queries = [measured_table(instant.queries, paint)] if instant.queries else []
    return queries if instant.costs is None else [*queries, measured_cost_table(instant.costs, paint)]


def _readable(value: str) -> str:
    try:
        return json.dumps(parsed_json(value), indent=2, ensure_ascii=False).replace("\n", "\n  ")
    except ValueError:
        return value


def _instant(instant: InstantReport) -> dict[str, Any]:
    rows, files = instant.rows, instant.files
    document: dict[str, Any] = {
        "time": instant.time,
        "action": instant.action,
        "state": instant.state,
        "operation": instant.operation,
        "rows": {"inserted": rows.inserted, "updated": rows.updated, "deleted": rows.deleted},
        "files": {"added": files.added, "replaced": files.replaced},
        "extra": dict(instant.extra),
    }
    if files.removed:
        document["files"]["removed"] = files.removed
    if instant.age_seconds is not None:
        document["age_seconds"] = instant.age_seconds
    if instant.queries:
        document["queries"] = [asdict(query) for query in instant.queries]
    if instant.costs is not None:
        document["costs"] = to_json_value(instant.costs)
    return document
