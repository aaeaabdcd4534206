"""The results of a replay: figures of the recorded files, and of the files that given limits produce."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from parquetry.runtime.spec.codec import OMIT_EMPTY
from parquetry.runtime.spec.sizing import SizingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedFigures:
    """The files at the end of a day or of the whole period, and the bytes written in it.

    ``small_files`` counts by the limit in question. ``superseded_bytes`` are the bytes of earlier versions
    that the period made and that no clean has deleted yet; None if cleans were not read. ``written_bytes``
    are the bytes that writes of rows wrote, ``clustered_bytes`` those that clusterings wrote.
    """

    files: int
    small_files: int
    size_bytes: int
    superseded_bytes: int | None = field(default=None, metadata=OMIT_EMPTY)
    written_bytes: int
    clustered_bytes: int

    @property
    def all_written_bytes(self) -> int:
        """The bytes that writes and clusterings wrote."""
        return self.written_bytes + self.clustered_bytes

    def amplification(self, arrived_bytes: int) -> float | None:
        """Return the bytes written per byte of arrived rows, or None if no rows arrived."""
        return self.all_written_bytes / arrived_bytes if arrived_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedDay:
    """A day (``2026-11-24``, in the time zone of the table's instants) with at least one write.

    ``arrived_bytes`` is the approximate size of the rows that were inserted, updated or deleted. ``recorded``
    comes from the commits. ``applied`` and ``declared`` are what the writer produces under these limits.
    """

    day: str
    commits: int
    arrived_bytes: int
    recorded: ReplayedFigures
    applied: ReplayedFigures
    declared: ReplayedFigures | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The writes of a period under the applied limits and, if given, under other limits.

    ``since`` and ``until`` are the instants of the first and the last write. ``gaps`` are texts about missing
    records and what replaces them. ``declared`` is None if only the applied limits were replayed.
    """

    since: str
    until: str
    commits: int
    clusterings: int
    arrived_bytes: int
    applied_limits: SizingPolicy
    declared_limits: SizingPolicy | None = field(default=None, metadata=OMIT_EMPTY)
    recorded: ReplayedFigures
    applied: ReplayedFigures
    declared: ReplayedFigures | None = field(default=None, metadata=OMIT_EMPTY)
    days: tuple[ReplayedDay, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def error(self) -> tuple[float, float]:
        """The relative errors of the applied limits' result: in the number of files, and in bytes written."""
        return (
            _off(self.applied.files, self.recorded.files),
            _off(self.applied.all_written_bytes, self.recorded.all_written_bytes),
        )


def _off(found: int, recorded: int) -> float:
    """Return the relative difference of a simulated number from the recorded one."""
    return found / recorded - 1 if recorded else float(found > 0)


def summed(days: Iterable[ReplayedFigures]) -> ReplayedFigures:
    """Return the figures of one or more days: the sum of their bytes, and the files of the last day."""
    figures = tuple(days)
    last = figures[-1]
    return ReplayedFigures(
        files=last.files,
        small_files=last.small_files,
        size_bytes=last.size_bytes,
        superseded_bytes=last.superseded_bytes,
        written_bytes=sum(day.written_bytes for day in figures),
        clustered_bytes=sum(day.clustered_bytes for day in figures),
    )
