"""A timeline in text and JSON."""

from __future__ import annotations

import json
from typing import Any

from parquetry.cli.output import Paint
from parquetry.cli.views import columns
from parquetry.compiler.instants import InstantReport, TimelineReport

_HEADER = (
    "time",
    "action",
    "state",
    "operation",
    "inserted",
    "updated",
    "deleted",
    "added",
    "replaced",
    "removed",
)
_NUMBERS = frozenset(range(4, len(_HEADER)))


class TimelineView:
    """Instants, oldest first."""

    def text(self, outcome: TimelineReport, paint: Paint) -> str:
        """A line per instant; for a single one also its partitions and what its metadata says."""
        rows = [_row(instant) for instant in outcome.instants]
        table = columns(_HEADER, rows, paint=paint, right=_NUMBERS)
        if not outcome.is_single:
            return table
        return "\n".join([table, *_details(outcome.instants[0], paint)])

    def json(self, outcome: TimelineReport) -> Any:
        """The documented shape."""
        return {"instants": [_instant(instant) for instant in outcome.instants]}


def _row(instant: InstantReport) -> tuple[str, ...]:
    rows, files = instant.rows, instant.files
    numbers = (rows.inserted, rows.updated, rows.deleted, files.added, files.replaced, files.removed)
    return (
        instant.time,
        instant.action,
        instant.state,
        instant.operation or "",
        *(f"{number:,}" if number else "" for number in numbers),
    )


def _details(instant: InstantReport, paint: Paint) -> list[str]:
    lines = [f"\n{paint.bold('partitions')}", *(f"  {p or '(unpartitioned)'}" for p in instant.partitions)]
    lines += [f"{paint.bold(key)}\n  {_readable(value)}" for key, value in sorted(instant.extra.items())]
    return lines if instant.partitions or instant.extra else []


def _readable(value: str) -> str:
    try:
        return json.dumps(json.loads(value), indent=2, ensure_ascii=False).replace("\n", "\n  ")
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
    return document
