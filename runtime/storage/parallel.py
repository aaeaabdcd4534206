"""Concurrent storage requests, which hide the latency of single requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, Final, Generic, Self, TypeVar, overload

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

MOST_AT_ONCE: Final = 8
"""The number of requests that run at the same time."""

_MOST_SEQUENTIAL: Final = 3


class OnceProperty(Generic[_Result]):
    """A property that may send requests and is computed once for each object.

    Two threads may both compute it.

    ``functools.cached_property`` of Python 3.11 uses one lock for all objects of the class, so requests for
    different tables would wait for each other.
    """

    def __init__(self, compute: Callable[[Any], _Result]) -> None:
        """Create a property whose value for an object is the result of ``compute``."""
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _Result: ...

    def __get__(self, instance: object | None, owner: type) -> Self | _Result:
        """Return the value for an object, computed at the first access, or the property for the class."""
        if instance is None:
            return self
        value = self._compute(instance)
        # From now on, attribute lookup finds the entry of the object before this property.
        vars(instance)[self._name] = value
        return value


class _AbandonedError(Exception):
    """A request was not sent, because an outer call of map_each has already failed."""


class _OuterCalls(threading.local):
    """The calls of :func:`map_each` that the current thread works for, the outermost first."""

    calls: tuple[threading.Event, ...] = ()


_CALLS: Final = _OuterCalls()


def map_each(items: Iterable[_Item], request: Callable[[_Item], _Result]) -> list[_Result]:
    """Return the results of ``request`` in the order of the items, with up to eight requests at a time.

    After a failure or Ctrl-C, no further request starts. This includes the requests that a running request
    would start with this function. The first failure is raised after all running requests have ended.
    """
    outer = _CALLS.calls
    if any(call.is_set() for call in outer):
        raise _AbandonedError
    listed = list(items)
    if len(listed) <= _MOST_SEQUENTIAL:
        return [request(item) for item in listed]
    abandoned = threading.Event()

    def task(item: _Item) -> _Result:
        _CALLS.calls = (*outer, abandoned)
        return request(item)

    with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
        try:
            return list(pool.map(task, listed))
        except BaseException:
            abandoned.set()
            raise


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    """Yield the items in lists of at most ``size``."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def growing_batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield the items in slices of one, two, four and then eight items.

    Callers send the requests of a slice concurrently, and stop at the first slice with a match.
    """
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, min(2 * size, MOST_AT_ONCE)


def for_each(items: Iterable[_Item], request: Callable[[_Item], object]) -> None:
    """Call ``request`` for every item, like :func:`map_each`, and drop the results."""
    map_each(items, request)
