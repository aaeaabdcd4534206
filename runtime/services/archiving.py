"""Which instants may leave the active timeline: pure rules.

Readers trust every file that is older than the active timeline. So an instant may leave only when
no file of a write that did not complete, and none of a group it replaced, is older than what stays.
Source: HoodieTimelineArchiver and ClusteringUtils.getOldestInstantToRetainForClustering of Hudi 0.15.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from parquetry.runtime.timeline.versions import FileGroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """What archiving must not pass.

    ``unsettled`` are instants of writes that are pending, were undone lately, or still have files:
    a completed write older than each of them has to stay. ``savepoint`` is the first one.
    ``replaced`` are the groups that each replacecommit did away with, ``on_disk`` the groups that
    have files, ``cleaned_before`` the limit of the last clean, before which replaced groups are gone;
    None when there was no such clean.
    """

    unsettled: Collection[str] = ()
    savepoint: str | None = None
    replaced: Mapping[str, frozenset[FileGroupId]] = field(default_factory=dict)
    on_disk: frozenset[FileGroupId] = frozenset()
    cleaned_before: str | None = None


def leaving_writes(completed: Sequence[str], *, keep: int, obstacles: Obstacles) -> Sequence[str]:
    """The oldest of the completed writes (times, ascending) that may leave, at least ``keep`` stay."""
    last = max(len(completed) - keep, 0)
    for unsettled in obstacles.unsettled:
        last = min(last, max(bisect_left(completed, unsettled) - 1, 0))
    if obstacles.savepoint is not None:
        last = min(last, bisect_left(completed, obstacles.savepoint))
    for position, time in enumerate(completed[:last]):
        groups = obstacles.replaced.get(time)
        if groups is None:
            continue
        if obstacles.cleaned_before is None or time >= obstacles.cleaned_before or groups & obstacles.on_disk:
            return completed[:position]
    return completed[:last]


def writes_to_keep(completed: Sequence[str], *, configured: int, earliest_retained: str | None) -> int:
    """How many writes stay: the configured number, and two more than the clean retains."""
    if earliest_retained is None:
        return max(configured, 1)
    retained = len(completed) - bisect_left(completed, earliest_retained)
    return max(configured, retained + 2)
