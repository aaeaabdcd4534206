"""How much goes together: things of known size into few bins, bytes into files of one size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

SMALLEST_SHARE: Final = 5 / 6
"""No file of this share of the target, or more, is small; rows that go into such files leave no remainder."""

AIM: Final = 0.95
"""Writers fill a file up to its maximum times this; the rest is for the error of their estimates."""

NEARLY: Final = 0.96
"""Files of one size may have the maximum times this: a few bytes more do not make one more file."""

NEARLY_BEHIND: Final = 0.97
"""So much may those have that come behind others: what these fell short of falls to them."""

FITS: Final = 0.98
"""The rows that are left are taken to fit when they are estimated to end below the maximum times this."""

ALONE: Final = 1.7
"""A file has at most the target times this, however far the ceiling is."""

OVERSIZE: Final = 1.8
"""A file above the maximum times this is to be split; the factor is Iceberg's. No writer makes one."""

UNCERTAIN: Final = 1.1
"""Bytes that a rewrite makes may be so much more than predicted, or the writer may take them to be."""

NEAR: Final = 0.1
"""A file whose size is off the target by this share of it is near enough."""

_CLOSED: Final = -1
_ROUNDING: Final = 1e-9


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """So many bytes as ``files`` files: each of ``each_bytes``, but for the last one."""

    files: int
    each_bytes: float
    last_bytes: float

    @property
    def sizes(self) -> Iterator[float]:
        """The sizes of the files, in bytes."""
        yield from (self.each_bytes for _ in range(self.files - 1))
        yield self.last_bytes


def outputs_of(size_bytes: float, *, target_bytes: int, most_bytes: int, nearly: float = NEARLY) -> Outputs:
    """The files that so many bytes go into; none has more than ``most_bytes`` (see :data:`FITS`).

    Files of one size, as near to the target as they can be, where none of them is small. Else they have
    the target, and the last one what is left: one small file, not several.
    Plans, forecasts and the writer all ask here.
    """
    most = min(most_bytes, ALONE * target_bytes)
    target = min(target_bytes, AIM * most)
    fewest = 1 if size_bytes <= FITS * most else ceil(size_bytes / (nearly * most) - _ROUNDING)
    fewer = max(int(size_bytes // target), 1)
    nearest = min((fewer, fewer + 1), key=lambda count: abs(size_bytes / count - target))
    files = max(nearest if size_bytes / nearest >= SMALLEST_SHARE * target else fewer, fewest)
    each = size_bytes / files
    if files == 1 or each >= SMALLEST_SHARE * target:
        return Outputs(files=files, each_bytes=each, last_bytes=each)
    full = int(size_bytes // target)
    rest = size_bytes - full * target
    if target + rest <= FITS * most:
        return Outputs(files=full, each_bytes=target, last_bytes=target + rest)
    return Outputs(files=full + 1, each_bytes=target, last_bytes=rest)


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
