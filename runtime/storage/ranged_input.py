"""An object of a bucket as a seekable file, whose bytes come by few and large requests.

A request takes as long as about a megabyte more of an answer. So the end of an object, which contains the
footer of a parquet file, comes with the request that opens it. Readers announce which bytes they will read:
these are fetched in large requests, and some before they are read.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import pairwise
from typing import Final

import pyarrow as pa

TAIL_BYTES: Final = 256 * 1024
"""The bytes at the end of an object that come with the request that opens it."""

GAP_BYTES: Final = 1024 * 1024
"""The most bytes between two announced ranges that are fetched to save a request."""

REQUEST_BYTES: Final = 8 * 1024 * 1024
"""The largest request for announced bytes. If adjacent bytes take several, each has at least half of it."""

KEPT_BYTES: Final = 16 * 1024 * 1024
"""The announced bytes that stay in memory after they were read: a merge reads some row groups twice.

A larger read is a request of its own, whose bytes are not kept. It should not be announced.
"""

_AHEAD_BYTES: Final = 8 * 1024 * 1024
_AHEAD_REQUESTS: Final = 8

_LEAST_BYTES: Final = 128 * 1024
"""The smallest request for bytes that were not announced."""

FetchRange = Callable[[int, int], Future[bytes]]
"""A function that requests the bytes from one position to another (exclusive) of an object."""


class RangedFile:
    """An object as a Python file: its last bytes are known, and others are fetched.

    Beside the bytes of one read it holds its tail and, of all others, at most about 40 MiB.
    """

    mode = "rb"

    def __init__(self, tail: bytes, size_bytes: int, fetch: FetchRange) -> None:
        self._tail = tail
        self._size = size_bytes
        self._tail_start = size_bytes - len(tail)
        self._fetch = fetch
        self._at = 0
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._requested: dict[int, Future[bytes]] = {}
        self._unannounced = (0, b"")
        self.closed = False

    def announce(self, ranges: Iterable[range]) -> None:
        """Announce the bytes that will be read, and request the first of them."""
        self._drop(self._requested)
        requests = list(_requests(ranges, self._tail_start))
        self._starts = [request.start for request in requests]
        self._stops = [request.stop for request in requests]
        self._request(0, -1)

    def read(self, count: int = -1) -> bytes:
        """Return the next ``count`` bytes, or those before the end."""
        stop = self._size if count < 0 else min(self._at + count, self._size)
        content = self._between(self._at, stop) if self._at < stop else b""
        self._at += len(content)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def flush(self) -> None:
        """Do nothing, as files that are only read do."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Cancel requests and free the memory."""
        self._drop(self._requested)
        self._unannounced = (0, b"")
        self.closed = True

    def _between(self, start: int, stop: int) -> bytes:
        if start >= self._tail_start:
            return self._tail[start - self._tail_start : stop - self._tail_start]
        numbers = self._announced(start, stop)
        if numbers is not None:
            return self._joined(numbers, start, stop)
        first, block = self._unannounced
        if not first <= start < stop <= first + len(block):
            first = start
            block = self._fetch(start, min(max(stop, start + _LEAST_BYTES), self._size)).result()
            self._unannounced = (first, block) if len(block) <= REQUEST_BYTES else (0, b"")
        return block[start - first : stop - first]

    def _announced(self, start: int, stop: int) -> range | None:
        """Return the numbers of the requests that cover the bytes up to the tail, or None."""
        first = bisect_right(self._starts, start) - 1
        if first < 0 or self._stops[first] <= start or stop - start > KEPT_BYTES:
            return None
        last = first
        end = min(stop, self._tail_start)
        while self._stops[last] < end:
            if last + 1 == len(self._starts) or self._starts[last + 1] > self._stops[last]:
                return None
            last += 1
        return range(first, last + 1)

    def _joined(self, numbers: range, start: int, stop: int) -> bytes:
        self._request(numbers.start, numbers.stop - 1)
        parts = []
        for number in numbers:
            first = self._starts[number]
            content = self._requested[number].result()
            parts.append(content[max(start - first, 0) : stop - first])
        if stop > self._tail_start:
            parts.append(self._tail[: stop - self._tail_start])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _request(self, first: int, last: int) -> None:
        """Send the requests ``first`` to ``last`` and some after them, and drop those long before them."""
        until, behind = last, first
        size = kept = 0
        while until + 1 < len(self._starts) and until - last < _AHEAD_REQUESTS:
            size += self._stops[until + 1] - self._starts[until + 1]
            if size > _AHEAD_BYTES:
                break
            until += 1
        while behind > 0:
            kept += self._stops[behind - 1] - self._starts[behind - 1]
            if kept > KEPT_BYTES:
                break
            behind -= 1
        self._drop([number for number in self._requested if not behind <= number <= until])
        for number in range(first, until + 1):
            known = self._requested.get(number)
            if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
                self._requested[number] = self._fetch(self._starts[number], self._stops[number])

    def _drop(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self._requested.pop(number).cancel()


class RangedInput(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types
    """A :class:`RangedFile` as a pyarrow file, for one thread."""

    def __init__(self, file: RangedFile) -> None:
        self._ranged = file

    def announce(self, ranges: Iterable[range]) -> None:
        """Announce the bytes that will be read, and request the first of them."""
        self._ranged.announce(ranges)


def _requests(ranges: Iterable[range], end: int) -> Iterator[range]:
    """Yield the requests for the ranges before ``end``, in the order of the file.

    Ranges that are adjacent, or nearly so, are merged.
    """
    inside = (range(max(one.start, 0), min(one.stop, end)) for one in ranges)
    wanted = sorted((one.start, one.stop) for one in inside if one.start < one.stop)
    merged: list[tuple[int, int]] = []
    for start, stop in wanted:
        if merged and start - merged[-1][1] <= GAP_BYTES:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    for start, stop in merged:
        size = stop - start
        count = -(-size // REQUEST_BYTES)
        yield from (range(*pair) for pair in pairwise(start + size * n // count for n in range(count + 1)))
