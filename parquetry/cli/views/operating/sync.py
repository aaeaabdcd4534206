"""Entries of tables in catalogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parquetry.cli.terminal.format import count
from parquetry.cli.terminal.output import Paint
from parquetry.runtime.spec.codec import to_json_value

if TYPE_CHECKING:
    from parquetry.runtime.catalog.sync import SyncResult


class SyncView:
    """The changes of a sync to each table, as text or JSON; ``failed`` is True if others failed."""

    def __init__(self, *, failed: bool = False) -> None:
        self._failed = failed

    def text(self, outcome: Sequence[SyncResult], paint: Paint) -> str:
        """Return one line for each table."""
        lines = [f"{paint.bold(one.place)}  {sync_text(one)}" for one in outcome]
        return "\n".join(lines) or ("" if self._failed else "no applied spec names a catalog")

    def json(self, outcome: Sequence[SyncResult]) -> Any:
        """Return the result of each table."""
        return {"tables": to_json_value(tuple(outcome))}


def sync_text(result: SyncResult) -> str:
    """Return what a sync wrote, in one line."""
    parts = (
        "registered" if result.created else "",
        f"changed {', '.join(result.changes)}" if result.changes else "",
        f"{count(result.partitions_added, 'partition')} added" if result.partitions_added else "",
        f"{result.partitions_updated:,} updated" if result.partitions_updated else "",
        f"{result.partitions_dropped:,} dropped" if result.partitions_dropped else "",
    )
    return ", ".join(filter(None, parts)) or "nothing to change"
