"""Which instants count: sidecars name the write they belong to, and count while it is in effect."""

from __future__ import annotations

from dataclasses import dataclass

from parquetry.runtime.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveWrites:
    """What the active timeline alone says of instants, by the rule that readers judge files by.

    A write that is undone loses its sidecars with its files, and what a sleeper puts there afterwards
    is swept before the timeline leaves it behind. So what is older than the timeline took effect; the
    archive log, which grows for ever and may be pruned, is never asked.
    """

    timeline: Timeline

    def counts(self, instant: str) -> bool:
        """Whether the write is completed, be it archived."""
        return self.timeline.is_completed(instant) or self.is_settled(instant)

    def is_settled(self, instant: str) -> bool:
        """Whether the write took effect and has left the active timeline, so that nothing undoes it."""
        return self.timeline.is_left_behind(instant) and not self.timeline.is_completed(instant)
