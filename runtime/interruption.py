"""The interruption of work in threads.

The thread that is interrupted asks the others to end. They check it before they begin something, and the
processes that they wait for are ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock


class Interruption:
    """A request to the threads whose work runs by :meth:`run`: to begin nothing more."""

    def __init__(self) -> None:
        """Start without a request."""
        self._requested = Event()
        self._turn = Lock()
        self._ends: list[Callable[[], None]] = []

    @property
    def is_requested(self) -> bool:
        """True from the first request on."""
        return self._requested.is_set()

    def request(self) -> None:
        """Ask the threads to end, and end the processes that they wait for now.

        A thread may just start a process. Repeat the request until the threads have ended.
        """
        self._requested.set()
        with self._turn:
            for end in self._ends:
                end()

    def run(self, body: Callable[[], None]) -> None:
        """Run work in the present thread that observes the request."""
        token = _CURRENT.set(self)
        try:
            body()
        finally:
            _CURRENT.reset(token)

    @contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """Let requests call ``end`` while the block runs."""
        with self._turn:
            self._ends.append(end)
        try:
            yield
        finally:
            with self._turn:
                self._ends.remove(end)


_CURRENT: ContextVar[Interruption | None] = ContextVar("interruption", default=None)


def is_interrupted() -> bool:
    """Return whether the work of this thread has to end."""
    current = _CURRENT.get()
    return current is not None and current.is_requested


@contextmanager
def ended_by_interruption(end: Callable[[], None]) -> Iterator[None]:
    """Let an interruption of this thread's work call ``end`` while the block runs."""
    current = _CURRENT.get()
    if current is None:
        yield
    else:
        with current.ending(end):
            yield
