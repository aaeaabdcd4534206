"""The timeline of a table, and its history of commits and applied specs, in text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from parquetry.cli.terminal.format import columns, human_size, short_count
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.queries import measured_cost_table, measured_table
from parquetry.compiler.reports.history import ApplyEntry, CommitEntry, HistoryEntry, HistoryReport
from parquetry.compiler.reports.timeline import InstantReport, TimelineReport
from parquetry.compiler.spec_words import human_duration
from parquetry.message import in_full
from parquetry.runtime.clustering.forecast.queries import MEASURED_KEY
from parquetry.runtime.commit.publish import PLAN_KEY
from parquetry.runtime.spec.codec import parsed_json, to_json_value
from parquetry.runtime.table.applied import AppliedRecord
from parquetry.runtime.timeline.instant import State

_HEADER = ("time", "operation", "inserted", "updated", "deleted", "files")
_NUMBERS = frozenset(range(2, len(_HEADER) - 1))
_HISTORY_HEADER = ("time", "operation", "inserted", "updated", "deleted", "bytes")
_HISTORY_NUMBERS = frozenset(range(2, len(_HISTORY_HEADER)))
_DIGEST = "sha256:"
_SHORT = 12
_IN_FULL = 1_000
_TENTH_OF_A_MILLION = 100_000
_MILLION = 1_000_000


class TimelineView:
    """The instants, oldest first; with ``verbose`` also what queries read before and after clusterings."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose

    def text(self, outcome: TimelineReport, paint: Paint) -> str:
        """Return a line per instant, within 80 columns; for a single one also its partitions and metadata."""
        return "\n\n".join(
            [
                self._instants(outcome, paint),
                *(f"{paint.bad('warning')}: {in_full(w)}" for w in outcome.warnings),
            ]
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
        """Return the document that the schema of ``timeline`` describes."""
        return {
            "instants": [_instant(instant) for instant in outcome.instants],
            "warnings": list(outcome.warnings),
        }


def _is_completed(instant: InstantReport) -> bool:
    return instant.state == State.COMPLETED


def _pending(instant: InstantReport) -> str:
    """Return the line of an unfinished instant, which has no figures but an age."""
    lasting = "" if instant.age_seconds is None else f", for {human_duration(instant.age_seconds)}"
    return f"{instant.time}  {instant.operation or instant.action} {instant.state}{lasting}"


def _row(instant: InstantReport) -> tuple[str, ...]:
    rows, files = instant.rows, instant.files
    counts = (("+", files.added), ("-", files.replaced + files.removed))
    changes = [(sign, number) for sign, number in counts if number]
    shown = _files if len(changes) == 1 else _few_characters
    return (
        instant.time,
        instant.operation or instant.action,
        *map(row_count, (rows.inserted, rows.updated, rows.deleted)),
        " ".join(f"{sign}{shown(number)}" for sign, number in changes),
    )


def row_count(number: int) -> str:
    """Return a number of rows in up to seven characters, or an empty text for 0."""
    if not number:
        return ""
    return f"{number:,}" if number < _MILLION else short_count(number)


def _files(number: int) -> str:
    return str(number) if number < _IN_FULL else short_count(number)


def _few_characters(number: int) -> str:
    """Return a number in up to three characters below 10^8, so that two fit beside the longest operation."""
    if number < _IN_FULL:
        return str(number)
    if number < _TENTH_OF_A_MILLION:
        return f"{number // _IN_FULL}K"
    return f".{number // _TENTH_OF_A_MILLION}M" if number < _MILLION else f"{number // _MILLION}M"


def _details(instant: InstantReport, paint: Paint) -> list[str]:
    lines = [f"\n{paint.bold('action')}\n  {instant.action}"]
    if instant.partitions:
        names = (f"  {partition or '(unpartitioned)'}" for partition in instant.partitions)
        lines += [paint.bold("partitions"), *names]
    # The table below shows the measurements, so the JSON is left out.
    shown = {key: value for key, value in instant.extra.items() if key != MEASURED_KEY or not instant.queries}
    lines += [f"{paint.bold(key)}\n  {_readable(value)}" for key, value in sorted(shown.items())]
    lines += [f"\n{table}" for table in _measured(instant, paint)]
    return lines if instant.partitions or instant.extra else []


def _measured(instant: InstantReport, paint: Paint) -> list[str]:
    """Return tables of what queries read before and after a clustering, and of its costs."""
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
        "bytes_written": instant.bytes_written,
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


class TableHistoryView:
    """Applied records and commits, the newest first."""

    def text(self, outcome: HistoryReport, paint: Paint) -> str:
        """Return a line per commit, and two per applied record: author and origin; within 80 columns."""
        commits = [entry for entry in outcome.entries if isinstance(entry, CommitEntry)]
        header, *rows = columns(
            _HISTORY_HEADER, map(_commit, commits), paint=paint, right=_HISTORY_NUMBERS
        ).splitlines()
        row = iter(rows)
        lines = [header] if commits else []
        for entry in outcome.entries:
            lines += [next(row)] if isinstance(entry, CommitEntry) else _apply(entry, paint)
        if not outcome.entries:
            lines = ["Nothing was applied or written yet."]
        if outcome.has_older:
            lines.append(f"There are older entries: -n {2 * len(outcome.entries)} shows more.")
        return "\n".join(
            [*lines, *(f"\n{paint.bad('warning')}: {in_full(warning)}" for warning in outcome.warnings)]
        )

    def json(self, outcome: HistoryReport) -> Any:
        """Return the document that the schema of ``history`` describes."""
        return {
            "table": outcome.table,
            "entries": [_entry(entry) for entry in outcome.entries],
            "has_older": outcome.has_older,
            "warnings": list(outcome.warnings),
        }


def _commit(entry: CommitEntry) -> tuple[str, ...]:
    instant = entry.instant
    rows = (instant.rows.inserted, instant.rows.updated, instant.rows.deleted)
    size = human_size(instant.bytes_written) if instant.bytes_written else ""
    return (entry.time, instant.operation or instant.action, *map(row_count, rows), size)


def _apply(entry: ApplyEntry, paint: Paint) -> list[str]:
    record = entry.record
    verb = "forgotten, record" if record.ref.forgotten else "applied, record"
    by = "" if record.applied_by is None else f", by {record.applied_by}"
    lines = [f"{entry.time}  {paint.bold(verb)} {record.ref.number}{by}"]
    origin = ", ".join(_origin(record))
    return [*lines, *([f"{' ' * len(entry.time)}  {paint.dim(origin)}"] if origin else [])]


def _origin(record: AppliedRecord) -> Iterator[str]:
    ref = record.ref
    if ref.plan_id is not None:
        yield f"plan {ref.plan_id[: len(_DIGEST) + _SHORT]}"
    if ref.git_commit is not None:
        yield f"commit {ref.git_commit[:_SHORT]}{' with uncommitted changes' if record.dirty else ''}"


def _entry(entry: HistoryEntry) -> dict[str, Any]:
    if isinstance(entry, ApplyEntry):
        record, ref = entry.record, entry.record.ref
        return {
            "kind": "apply",
            "time": entry.time,
            "record": ref.number,
            "applied_by": record.applied_by,
            "plan_id": ref.plan_id,
            "git_commit": ref.git_commit,
            "dirty": record.dirty,
            "target": ref.target,
            "forgotten": ref.forgotten,
            "fault": None if record.fault is None else record.fault.message,
        }
    instant = entry.instant
    return {
        "kind": "commit",
        "time": entry.time,
        "action": instant.action,
        "operation": instant.operation,
        "rows": {
            "inserted": instant.rows.inserted,
            "updated": instant.rows.updated,
            "deleted": instant.rows.deleted,
        },
        "bytes_written": instant.bytes_written,
        "plan_id": instant.extra.get(PLAN_KEY),
    }
