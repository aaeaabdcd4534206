"""Tables that are rewritten at the same time, and the interruption of their threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Final, Self

from parquetry.compiler.evidence.run_order import RankedRewrite
from parquetry.runtime.interruption import Interruption
from parquetry.runtime.main import cancel_spark_jobs

_SECONDS_BETWEEN_CANCELS: Final = 0.5


class SideBySide:
    """The tables that are rewritten at the same time, each in a thread; a single one needs no thread.

    If the block ends by an error or an interruption, the threads begin nothing more. Their Spark jobs are
    cancelled until the threads have ended, because a thread between two jobs may just begin the next.
    """

    def __init__(self, tables: int) -> None:
        """Allow a number of tables at the same time."""
        self._tables = tables
        self._pool = ThreadPoolExecutor(tables, thread_name_prefix="table")
        self._futures: dict[Future[None], RankedRewrite] = {}
        self._interruption = Interruption()

    @property
    def running(self) -> tuple[RankedRewrite, ...]:
        """The tables that have started, and that no wait has seen ending."""
        return tuple(self._futures.values())

    @property
    def is_full(self) -> bool:
        """True if no other table may start."""
        return len(self._futures) >= self._tables

    def start(self, table: RankedRewrite, body: Callable[[], None]) -> None:
        """Start the work on a table; if only one is allowed, do it."""
        if self._tables == 1:
            body()
        else:
            self._futures[self._pool.submit(self._interruption.run, body)] = table

    def wait(self) -> None:
        """Wait until a table ends, and raise what its thread raised."""
        ended, _ = wait(self._futures, return_when=FIRST_COMPLETED)
        for future in ended:
            del self._futures[future]
            future.result()

    def _interrupt(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        while True:
            self._interruption.request()
            cancel_spark_jobs()
            running = [future for future in self._futures if not future.done()]
            if not running:
                return
            wait(running, timeout=_SECONDS_BETWEEN_CANCELS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._interrupt()
        self._pool.shutdown(wait=True)
