"""As much of a Spark session as clustering needs, without a JVM: tasks run here, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _Row(dict[str, Any]):
    def asDict(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return dict(self)


@dataclass(frozen=True)
class _Frame:
    numbers: int
    task: Task | None = None

    def mapInArrow(self, task: Task, _: str) -> _Frame:  # noqa: N802 - Spark's name
        return _Frame(self.numbers, task)

    def collect(self) -> list[_Row]:
        assert self.task is not None
        partitions = (pa.RecordBatch.from_pydict({"id": [number]}) for number in range(self.numbers))
        return [_Row(row) for part in partitions for batch in self.task([part]) for row in batch.to_pylist()]


class OneProcessSpark:
    """``range(...).mapInArrow(...).collect()``, and what says how much memory a task has."""

    sparkContext = SimpleNamespace(master="local[1]", defaultParallelism=1, getConf=dict)  # noqa: N815

    def range(self, _start: int, end: int, _step: int, _partitions: int) -> _Frame:
        """A frame of numbers, each a partition."""
        return _Frame(end)
