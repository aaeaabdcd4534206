"""A replay of a table's last days under the applied limits and under declared or given ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parquetry.compiler.replay.history import Reach, read_history
from parquetry.compiler.replay.layout import LayoutLimits, following
from parquetry.compiler.replay.model import Replay
from parquetry.compiler.replay.replaying import replay
from parquetry.compiler.reports.simulate_sizing import Limits
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import applied_history
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.instant import format_instant
from parquetry.runtime.timeline.rereading import retry_stale


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The replay of a table's last ``seconds``; ``replay`` is None if nothing was written."""

    table: str
    seconds: int
    replay: Replay | None


@retry_stale
def replay_table(
    store: ObjectStore, *, seconds: int, limits: Limits, declared: TableSpec | None
) -> ReplayReport:
    """Replay a table's last ``seconds`` under the applied limits, and under other limits if they differ.

    The other limits are those of ``declared`` (or else the applied ones), replaced by the given ``limits``.
    If no spec is applied, the writer's defaults count as applied. The function reads the timeline, the
    archive as far as the period reaches, and the listings of the table; it reads no data file.
    """
    handle = open_table(store)
    timeline = handle.timeline()
    spec = handle.effective_spec(timeline)
    applied = LayoutLimits(sizing=spec.sizing, clustering=spec.clustering)
    begun_ms = store.now_ms() - 1000 * seconds
    since = format_instant(max(begun_ms, 0), handle.config.timezone)
    history = read_history(handle, handle.view(timeline), Reach(since=since))
    other = _other(limits, spec if declared is None else declared)
    found = replay(history, applied, None if other == applied else other)
    if found is not None:
        gaps = (*found.gaps, *_limits_gap(handle, spec, begun_ms))
        found = replace(found, gaps=gaps)
    return ReplayReport(table=handle.name, seconds=seconds, replay=found)


def _other(limits: Limits, spec: TableSpec) -> LayoutLimits:
    """Return the limits to compare with; clustering sizes that follow the write sizes keep doing so."""
    return following(limits.over(spec.sizing), LayoutLimits(sizing=spec.sizing, clustering=spec.clustering))


def _limits_gap(handle: TableHandle, spec: TableSpec, begun_ms: int) -> tuple[str, ...]:
    """Return a note on how the limits of the period differ from the applied ones, or nothing.

    There is a note if no spec is applied, or if the limits were changed after the period began.
    """
    if handle.spec is None:
        return ("no spec is applied to the table: the replay uses the writer's default limits instead",)
    later_ms: int | None = None
    for record in applied_history(handle.store):
        before = record.spec
        if (before.sizing, before.clustering.plan) != (spec.sizing, spec.clustering.plan):
            if later_ms is not None and later_ms > begun_ms:
                instant = format_instant(later_ms, handle.config.timezone)
                return (f"the limits were applied at {instant}: earlier writes followed other limits",)
            return ()
        later_ms = record.applied_at_ms
        if later_ms <= begun_ms:
            return ()
    return ()
