"""What a replay found, as values: figures of the files that were recorded, and of those that limits make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from parquetry.runtime.spec.codec import UNLESS_NONE
from parquetry.runtime.spec.sizing import SizingPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedFigures:
    """The files at the end of a day, or of the period, and the bytes that were written until then.

    ``small_files`` are by the limit in question. ``superseded_bytes`` are of earlier versions that no clean
    has deleted yet, as far as the period made them; None where cleans were not read. ``written_bytes`` are
    those of writes of rows, ``clustered_bytes`` those of clusterings; both are of that day, or of the whole
    period.
    """

    files: int
    small_files: int
    size_bytes: int
    superseded_bytes: int | None = field(default=None, metadata=UNLESS_NONE)
    written_bytes: int
    clustered_bytes: int

    @property
    def all_written_bytes(self) -> int:
        """What writes and clusterings wrote."""
        return self.written_bytes + self.clustered_bytes

    def amplification(self, arrived_bytes: int) -> float | None:
        """Bytes written for each byte of rows that arrived; None where none arrived."""
        return self.all_written_bytes / arrived_bytes if arrived_bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedDay:
    """A day (``2026-11-24``, in the time zone of the table's instants) with at least one write.

    ``arrived_bytes`` are about those of rows that were inserted, updated or deleted. ``recorded`` is what
    commits say, ``applied`` and ``declared`` what the writer does by these limits.
    """

    day: str
    commits: int
    arrived_bytes: int
    recorded: ReplayedFigures
    applied: ReplayedFigures
    declared: ReplayedFigures | None = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The writes of a period under the applied limits, and beside them under others.

    ``since`` and ``until`` are the instants of the first and the last write. ``gaps`` say what was not
    recorded, and what was taken in its place. ``declared`` is None where only the applied limits were asked
    for.
    """

    since: str
    until: str
    commits: int
    clusterings: int
    arrived_bytes: int
    applied_limits: SizingPolicy
    declared_limits: SizingPolicy | None = field(default=None, metadata=UNLESS_NONE)
    recorded: ReplayedFigures
    applied: ReplayedFigures
    declared: ReplayedFigures | None = field(default=None, metadata=UNLESS_NONE)
    days: tuple[ReplayedDay, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def error(self) -> tuple[float, float]:
        """How far the applied limits end from what is recorded, as shares: in files, and in bytes written."""
        return (
            _off(self.applied.files, self.recorded.files),
            _off(self.applied.all_written_bytes, self.recorded.all_written_bytes),
        )


def _off(found: int, recorded: int) -> float:
    return found / recorded - 1 if recorded else float(found > 0)


def summed(days: Iterable[ReplayedFigures]) -> ReplayedFigures:
    """The figures of several days, of which there is at least one: files as they are at the end."""
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
