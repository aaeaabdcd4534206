"""Packing: items of known size into few bins, and bytes into files of equal size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

SMALLEST_SHARE: Final = 5 / 6
"""A file with at least this share of the target is not small, so files of equal size may shrink to it."""

FILL_SHARE: Final = 0.95
"""Writers fill a file up to this share of the maximum; the rest allows for errors of their estimates."""

EQUAL_FILES_SHARE: Final = 0.96
"""Files of equal size may have up to this share of the maximum, so that a few bytes need no extra file."""

LATER_FILES_SHARE: Final = 0.97
"""The share that replaces EQUAL_FILES_SHARE for files after the first one.

These files take what earlier files left over.
"""

LAST_ROWS_SHARE: Final = 0.98
"""The last rows go into the current file if it is estimated to stay below this share of the maximum."""

MOST_TARGETS: Final = 1.7
"""A file has at most this multiple of the target, however large the maximum is."""

OVERSIZE: Final = 1.8
"""A file above this multiple of the maximum is to be split. No writer makes one. The factor is Iceberg's."""

ESTIMATE_FACTOR: Final = 1.1
"""A rewrite, or the writer's estimate of it, may need up to this multiple of the predicted bytes."""

TARGET_TOLERANCE: Final = 0.1
"""A file size within this share of the target is near enough."""

_CLOSED: Final = -1
_ROUNDING: Final = 1e-9


def first_fit_decreasing(
    sizes: Sequence[int], *, capacity: int, most: int | None = None
) -> list[tuple[int, ...]]:
    """Pack items into bins, first fit decreasing, and return the positions of the items in each bin.

    No bin exceeds ``capacity``, except a bin with a single item that does. Items of equal size keep their
    order. The number of bins is at most 11/9 of the smallest possible number plus 6/9 (Dósa, The tight bound
    of first fit decreasing bin-packing algorithm, 2007), unless ``most`` closes bins earlier. It takes n log
    n steps.

    Args:
        sizes: The sizes of the items.
        capacity: The largest total size of a bin.
        most: The largest number of items in a bin, or None for no limit.

    """
    order = sorted(range(len(sizes)), key=lambda position: (-sizes[position], position))
    free_space = _FreeSpaceTree(len(sizes), capacity)
    bins: list[list[int]] = []
    for position in order:
        number = free_space.first_with(sizes[position])
        if number is None:
            # An item larger than the capacity gets a bin of its own.
            bins.append([position])
            free_space.close(len(bins) - 1)
            continue
        if number == len(bins):
            bins.append([])
        bins[number].append(position)
        free_space.take(number, sizes[position])
        if most is not None and len(bins[number]) >= most:
            free_space.close(number)
    return [tuple(positions) for positions in bins]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files that some bytes go into: ``files`` files of ``each_bytes``, except for the last one."""

    files: int
    each_bytes: float
    last_bytes: float

    @property
    def sizes(self) -> Iterator[float]:
        """The sizes of the files, in bytes."""
        yield from (self.each_bytes for _ in range(self.files - 1))
        yield self.last_bytes


def outputs_of(
    size_bytes: float, *, target_bytes: int, most_bytes: int, equal_files_share: float = EQUAL_FILES_SHARE
) -> Outputs:
    """Return the files that ``size_bytes`` go into.

    If files of equal size can be near the target without being small, all files have that size. Otherwise
    they have the target size, and the last file has the rest: one small file instead of several. Plans,
    forecasts and the writer all use this function.

    Args:
        size_bytes: The bytes to write.
        target_bytes: The wanted size of a file.
        most_bytes: The maximum size, which no file exceeds (see :data:`LAST_ROWS_SHARE`).
        equal_files_share: The share of the maximum that files of equal size may have.

    """
    most = min(most_bytes, MOST_TARGETS * target_bytes)
    target = min(target_bytes, FILL_SHARE * most)
    fewest = (
        1
        if size_bytes <= LAST_ROWS_SHARE * most
        else ceil(size_bytes / (equal_files_share * most) - _ROUNDING)
    )
    fewer = max(int(size_bytes // target), 1)
    nearest = min((fewer, fewer + 1), key=lambda count: abs(size_bytes / count - target))
    files = max(nearest if size_bytes / nearest >= SMALLEST_SHARE * target else fewer, fewest)
    each = size_bytes / files
    if files == 1 or each >= SMALLEST_SHARE * target:
        return Outputs(files=files, each_bytes=each, last_bytes=each)
    full = int(size_bytes // target)
    rest = size_bytes - full * target
    if target + rest <= LAST_ROWS_SHARE * most:
        return Outputs(files=full, each_bytes=target, last_bytes=target + rest)
    return Outputs(files=full + 1, each_bytes=target, last_bytes=rest)


class _FreeSpaceTree:
    """The free room of each bin, as a tournament tree: a parent holds the maximum of its children."""

    def __init__(self, bins: int, capacity: int) -> None:
        self._leaves = 1 << max(bins - 1, 0).bit_length()
        self._most = [capacity] * (2 * self._leaves)

    def first_with(self, size: int) -> int | None:
        """Return the first bin with at least that much room, or None if no bin has it."""
        if self._most[1] < size:
            return None
        node = 1
        while node < self._leaves:
            node *= 2
            if self._most[node] < size:
                node += 1
        return node - self._leaves

    def take(self, number: int, size: int) -> None:
        """Reduce the room of a bin by ``size``."""
        self._set(number, self._most[self._leaves + number] - size)

    def close(self, number: int) -> None:
        """Close a bin, so that not even an item of size 0 fits into it."""
        self._set(number, _CLOSED)

    def _set(self, number: int, room: int) -> None:
        node = self._leaves + number
        self._most[node] = room
        while node > 1:
            node //= 2
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])
