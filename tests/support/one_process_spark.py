"""As much of a Spark session as clustering needs, without a JVM: tasks run here, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PythonException

from parquetry.runtime.task_failures import TaskFailureError

Task = Callable[[Iterable[int]], Iterator[dict[str, Any]]]


@dataclass(frozen=True)
class _Numbers:
    numbers: range
    task: Task | None = None

    def mapPartitions(self, task: Task) -> _Numbers:  # noqa: N802 - Spark's name
        return _Numbers(self.numbers, task)

    def id(self) -> int:
        return 0

    def collect(self) -> list[dict[str, Any]]:
        assert self.task is not None
        try:
            return [row for number in self.numbers for row in self.task([number])]
        except TaskFailureError as failure:
            raise PythonException(f"Traceback ...\n{type(failure).__name__}: {failure}") from failure


class OneProcessSpark:
    """``sparkContext.parallelize(...).mapPartitions(...)``, to be collected, and how much memory a task has."""

    conf = SimpleNamespace(get=lambda _, default: default)

    def __init__(self) -> None:
        self.sparkContext = SimpleNamespace(
            master="local[1]",
            defaultParallelism=1,
            getConf=dict,
            environment={},
            parallelize=lambda numbers, _: _Numbers(numbers),
        )
