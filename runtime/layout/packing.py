"""How much goes together: things of known size into few bins, bytes into files of one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SMALLEST_SHARE: Final = 5 / 6
"""No file that is written beside others is below this share of the target, and none above it is small.

Twice that, 1.67 targets, still fits into :data:`ALONE`, which with what a file may grow beyond its limit
(1.05) stays below :data:`OVERSIZE`: whatever is written is neither small nor oversize, but for a lone
small file and a single row that is as large.
"""

ALONE: Final = 1.7
"""A file that no other one is written beside may have the target times this."""

OVERSIZE: Final = 1.8
"""A file above its ceiling times this is to be split; the factor is Iceberg's."""

UNCERTAIN: Final = 1.1
"""Bytes that a rewrite makes may be so much more than foreseen, or the writer may take them to be."""

NEAR: Final = 0.1
"""A file whose size is off the target by this share of it is near enough."""

_CLOSED: Final = -1


def first_fit_decreasing(
    sizes: Sequence[int], *, capacity: int, most: int | None = None
) -> list[tuple[int, ...]]:
    """The positions of ``sizes`` by bin; no bin exceeds ``capacity`` but for a thing that alone does.

    At most 11/9 of the smallest possible number of bins plus 6/9 (first fit decreasing; Dósa, The
    tight bound of first fit decreasing bin-packing algorithm, 2007), unless ``most``, the number of
    things in a bin, gets in the way. In n log n steps; equal sizes keep their order.
    """
    order = sorted(range(len(sizes)), key=lambda position: (-sizes[position], position))
    room = _Room(len(sizes), capacity)
    bins: list[list[int]] = []
    for position in order:
        number = room.first_with(sizes[position])
        if number is None:
            # Larger than any bin: one of its own, which nothing else joins.
            bins.append([position])
            room.close(len(bins) - 1)
            continue
        if number == len(bins):
            bins.append([])
        bins[number].append(position)
        room.take(number, sizes[position])
        if most is not None and len(bins[number]) >= most:
            room.close(number)
    return [tuple(positions) for positions in bins]


def files_near(size_bytes: float, *, target_bytes: int) -> int:
    """Into how many files of one size that many bytes go: as near to the target as it can be.

    One, or none of them below five sixths of the target. Plans, forecasts and the writer all ask here.
    """
    fewer = max(int(size_bytes // target_bytes), 1)
    files = min((fewer, fewer + 1), key=lambda count: abs(size_bytes / count - target_bytes))
    return fewer if size_bytes / files < SMALLEST_SHARE * target_bytes else files


class _Room:
    """The room left in each of so many bins, as a tournament: a parent has the most of its children."""

    def __init__(self, bins: int, capacity: int) -> None:
        self._leaves = 1 << max(bins - 1, 0).bit_length()
        self._most = [capacity] * (2 * self._leaves)

    def first_with(self, size: int) -> int | None:
        """The first bin with that much room; None when there is none."""
        if self._most[1] < size:
            return None
        node = 1
        while node < self._leaves:
            node *= 2
            if self._most[node] < size:
                node += 1
        return node - self._leaves

    def take(self, number: int, size: int) -> None:
        """Use room in a bin."""
        self._set(number, self._most[self._leaves + number] - size)

    def close(self, number: int) -> None:
        """Let nothing more into a bin, not even a thing without size."""
        self._set(number, _CLOSED)

    def _set(self, number: int, room: int) -> None:
        node = self._leaves + number
        self._most[node] = room
        while node > 1:
            node //= 2
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])
