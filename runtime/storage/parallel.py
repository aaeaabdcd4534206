"""Storage requests side by side: their latency is the cost, not their work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Generic, Self, TypeVar, overload

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_WORKERS: Final = 8
_FEW: Final = 3


class OnceProperty(Generic[_Result]):
    """A property that may make requests, computed once for an object; two threads may both compute it.

    ``functools.cached_property`` of Python 3.11 computes it under one lock for all objects of the class, so
    that the requests of different tables wait for each other.
    """

    def __init__(self, compute: Callable[[Any], _Result]) -> None:
        """What ``compute`` gives for an object is kept under its own name."""
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _Result: ...

    def __get__(self, instance: object | None, owner: type) -> Self | _Result:
        if instance is None:
            return self
        value = self._compute(instance)
        # From now on the object's own entry is found, and not this property.
        vars(instance)[self._name] = value
        return value


class _AbandonedError(Exception):
    """Nobody waits for the answer of a request any more."""


class _Tasks(threading.local):
    """Which calls of :func:`map_each` the thread works for, the outermost first."""

    calls: tuple[threading.Event, ...] = ()


_TASKS: Final = _Tasks()


def map_each(items: Iterable[_Item], request: Callable[[_Item], _Result]) -> list[_Result]:
    """The answers in the order of the items; the first failure is raised when all have ended.

    After a failure, or Ctrl-C, no request is begun any more that is asked for by one of the others.
    """
    outer = _TASKS.calls
    if any(call.is_set() for call in outer):
        raise _AbandonedError
    listed = list(items)
    if len(listed) <= _FEW:
        return [request(item) for item in listed]
    abandoned = threading.Event()

    def task(item: _Item) -> _Result:
        _TASKS.calls = (*outer, abandoned)
        return request(item)

    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        try:
            return list(pool.map(task, listed))
        except BaseException:
            abandoned.set()
            raise


def growing_batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """The items in slices of one, two, four and so on, for who asks side by side until one has answered."""
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, min(2 * size, _WORKERS)


def for_each(items: Iterable[_Item], request: Callable[[_Item], object]) -> None:
    """Do the request for every item."""
    map_each(items, request)
