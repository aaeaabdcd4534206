"""Storage requests side by side: their latency is the cost, not their work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_WORKERS: Final = 8
_FEW: Final = 3


def map_each(items: Iterable[_Item], request: Callable[[_Item], _Result]) -> list[_Result]:
    """The answers in the order of the items; the first failure is raised when all have ended."""
    listed = list(items)
    if len(listed) <= _FEW:
        return [request(item) for item in listed]
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        return list(pool.map(request, listed))


def growing_batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """The items in slices of one, two, four and so on, for who asks side by side until one has answered."""
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, min(2 * size, _WORKERS)


def for_each(items: Iterable[_Item], request: Callable[[_Item], object]) -> None:
    """Do the request for every item."""
    map_each(items, request)
