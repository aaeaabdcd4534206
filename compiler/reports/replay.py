"""A table's last days replayed by the limits that are applied, and by declared or given ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parquetry.compiler.replay.history import Reach, read_history
from parquetry.compiler.replay.layout import LayoutLimits, following
from parquetry.compiler.replay.model import Replay
from parquetry.compiler.replay.replaying import replay
from parquetry.compiler.reports.simulate_sizing import Limits
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.applied import applied_history
from parquetry.runtime.table.open import TableHandle, open_table
from parquetry.runtime.timeline.instant import format_instant
from parquetry.runtime.timeline.rereading import read_again


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The replay of a table's last ``seconds``; ``replay`` None where nothing was written."""

    table: str
    seconds: int
    replay: Replay | None


@read_again
def replay_table(
    store: ObjectStore, *, seconds: int, limits: Limits, declared: TableSpec | None
) -> ReplayReport:
    """The replay by the applied limits, and by those of ``declared`` with the given ``limits`` instead.

    Where nothing is applied, the writer's defaults count as applied. Reads the timeline, its archive as far
    as the period reaches, and the listings of the table; no data file.
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
        gaps = (*found.gaps, *_about_limits(handle, spec, begun_ms))
        found = replace(found, gaps=gaps)
    return ReplayReport(table=handle.name, seconds=seconds, replay=found)


def _other(limits: Limits, spec: TableSpec) -> LayoutLimits:
    """The limits to try; sizes of clustering that follow those of writes go on doing so."""
    return following(limits.over(spec.sizing), LayoutLimits(sizing=spec.sizing, clustering=spec.clustering))


def _about_limits(handle: TableHandle, spec: TableSpec, begun_ms: int) -> tuple[str, ...]:
    """That the period was not written by the limits that are applied now."""
    if handle.spec is None:
        return ("nothing is applied to the table: the writer's default limits are taken for applied",)
    later_ms: int | None = None
    for record in applied_history(handle.store):
        before = record.spec
        if (before.sizing, before.clustering.plan) != (spec.sizing, spec.clustering.plan):
            if later_ms is not None and later_ms > begun_ms:
                instant = format_instant(later_ms, handle.config.timezone)
                return (f"the limits were applied at {instant}: what was written before followed others",)
            return ()
        later_ms = record.applied_at_ms
        if later_ms <= begun_ms:
            return ()
    return ()
