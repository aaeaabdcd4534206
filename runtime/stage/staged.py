"""What a stage holds, as the driver knows it and as tasks read it back."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.errors import failures_declared
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.stage.part import (
    REFERENCE_SHIFT,
    RowFault,
    StageSpec,
    index_name,
    rows_name,
    totals_name,
)
from parquetry.runtime.stage.place import LocalPlace
from parquetry.runtime.storage.parallel import map_each

References = npt.NDArray[np.int64]
_TOTALS_AT_ONCE = 256
_PLACE_MASK = (1 << REFERENCE_SHIFT) - 1

MAPPED_BYTES = 256 * 1024 * 1024
"""What a task may keep mapped of a stage: what it looked at counts as its memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """What arrived for one table partition; ``hash_sum`` modulo 2**64, keys as UTF-8 bytes."""

    rows: int = 0
    deletes: int = 0
    hash_sum: int = 0
    size_bytes: int = 0
    min_key: str | None = None
    max_key: str | None = None

    def __add__(self, other: PartitionTotals) -> PartitionTotals:
        """Both together."""
        keys = [k for k in (self.min_key, self.max_key, other.min_key, other.max_key) if k is not None]
        return PartitionTotals(
            rows=self.rows + other.rows,
            deletes=self.deletes + other.deletes,
            hash_sum=(self.hash_sum + other.hash_sum) % (1 << 64),
            size_bytes=self.size_bytes + other.size_bytes,
            min_key=min(keys, key=str.encode, default=None),
            max_key=max(keys, key=str.encode, default=None),
        )


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """A whole stage: the name of the attempt that counts, by number of task, and totals by partition."""

    spec: StageSpec
    names: Mapping[int, str]
    totals: Mapping[str, PartitionTotals]
    faults: tuple[RowFault, ...]

    @cached_property
    def rows(self) -> int:
        """All rows, deletes too."""
        return sum(total.rows for total in self.totals.values())

    @property
    def row_bytes(self) -> float | None:
        """The mean size of a row in memory; None without rows."""
        return sum(total.size_bytes for total in self.totals.values()) / self.rows if self.rows else None

    def check(self, what: str) -> None:
        """InvalidDataError with count and example when rows are not what the table declares."""
        by_kind: dict[str, RowFault] = {}
        for fault in self.faults:
            seen = by_kind.get(fault.description)
            by_kind[fault.description] = replace(seen, rows=seen.rows + fault.rows) if seen else fault
        if by_kind:
            found = "; ".join(
                f"{f.description} in {f.rows} of {self.rows} rows, first in {f.example}"
                for f in by_kind.values()
            )
            declared = (self.spec.declared.get(description) for description in by_kind)
            with failures_declared(next(filter(None, declared), None)):
                raise InvalidDataError(f"{what}: {found}; nothing was written: fill or filter these rows")


def staged_rows(spec: StageSpec, summary: Iterable[Mapping[str, Any]]) -> StagedRows:
    """The stage that the tasks' summary rows describe; totals are read task by task."""
    names: dict[int, str] = {}
    faults = []
    for row in summary:
        if row["fault"] is not None:
            faults.append(RowFault(description=row["fault"], rows=row["rows"], example=row["example"]))
        else:
            names[row["part"]] = row["name"]
    names = dict(sorted(names.items()))
    totals: dict[str, PartitionTotals] = {}
    written = list(names.values())
    for first in range(0, len(written), _TOTALS_AT_ONCE):
        for rows in map_each(
            written[first : first + _TOTALS_AT_ONCE], lambda name: _read(spec, totals_name(name))
        ):
            for row in rows.to_pylist():
                partition, hashes = row.pop("partition"), row.pop("hash_sum") % (1 << 64)
                total = PartitionTotals(hash_sum=hashes, **row)
                totals[partition] = totals.get(partition, PartitionTotals()) + total
    return StagedRows(spec=spec, names=names, totals=totals, faults=tuple(faults))


def _read(spec: StageSpec, name: str) -> pa.RecordBatch:
    """The only batch of a small file of the stage."""
    with spec.place.open(name) as source, pa.ipc.open_file(source) as file:
        batch: pa.RecordBatch = file.get_batch(0)
    return batch


class StageReader:
    """Reads a local stage from within a task; a context manager.

    Batches have the stage's columns, the row hash and ``_hoodie_record_key``. Where keys are
    generated they are ``<instant>_<task>_<number>``.
    """

    def __init__(self, spec: StageSpec, names: Mapping[int, str], *, instant: str) -> None:
        self._spec = spec
        self._names = names
        self._instant = instant
        self._stack = ExitStack()
        self._files: dict[int, _PartFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.clear()
        self._stack.__exit__(kind, error, trace)

    def rows(self, partition: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Rows ``start`` to ``stop`` of a partition, in order of arrival, without copying them."""
        first = 0
        for part in self._names:
            file = self._file(part)
            for batch in file.batches_of(partition):
                if first >= stop:
                    return
                low, high = max(start - first, 0), min(stop - first, file.rows_in(batch))
                if low < high:
                    rows = file.read(batch).slice(low, high - low)
                    yield self._with_key(rows, file.first_reference(batch) + np.arange(low, high))
                    file.forget()
                first += file.rows_in(batch)

    def take(self, references: References) -> pa.RecordBatch:
        """The rows of these references, in their order."""
        order = np.argsort(references, kind="stable")
        ascending = references[order]
        pieces: list[pa.RecordBatch] = []
        for part in np.unique(ascending >> REFERENCE_SHIFT).tolist():
            file = self._file(part)
            low, high = np.searchsorted(ascending >> REFERENCE_SHIFT, [part, part + 1])
            pieces.extend(file.take(ascending[low:high] & _PLACE_MASK))
        rows = pa.concat_batches(pieces)
        if not (order[1:] > order[:-1]).all():
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            rows = rows.take(pa.array(back))
        return self._with_key(rows, references)

    def _file(self, part: int) -> _PartFile:
        if part not in self._files:
            self._files[part] = _PartFile(self._spec, self._names[part], part, self._stack)
        return self._files[part]

    def _with_key(self, rows: pa.RecordBatch, references: References) -> pa.RecordBatch:
        if RECORD_KEY in rows.schema.names:
            return rows
        if self._spec.key_column:
            key = rows.column(self._spec.key_column)
        else:
            key = generated_keys(self._instant, references)
        return pa.RecordBatch.from_arrays([*rows.columns, key], names=[*rows.schema.names, RECORD_KEY])


def generated_keys(instant: str, references: References) -> pa.Array:
    """Keys for a table without record key: unique, as they carry the instant and the row's place."""
    tasks = pc.cast(pa.array(references >> REFERENCE_SHIFT), pa.string())
    places = pc.cast(pa.array(references & _PLACE_MASK), pa.string())
    return pc.binary_join_element_wise(instant, tasks, places, "_")


class _PartFile:
    """One task's wide file, mapped into memory."""

    def __init__(self, spec: StageSpec, name: str, part: int, stack: ExitStack) -> None:
        index = _read(spec, index_name(name))
        self._batches: dict[str, list[int]] = {}
        for number, partition in enumerate(index.column("partition").to_pylist()):
            self._batches.setdefault(partition, []).append(number)
        self._counts = index.column("rows").to_numpy()
        self._ends = np.cumsum(self._counts)
        self._base = part << REFERENCE_SHIFT
        assert isinstance(spec.place, LocalPlace), "only the files of a local stage can be mapped"
        self._map = partial(spec.place.map, rows_name(name))
        self._stack = stack

    @cached_property
    def _pages(self) -> mmap.mmap:
        return self._map()

    @cached_property
    def _reader(self) -> pa.RecordBatchFileReader:
        return self._stack.enter_context(pa.ipc.open_file(pa.py_buffer(self._pages)))

    def batches_of(self, partition: str) -> Sequence[int]:
        return self._batches.get(partition, ())

    def rows_in(self, batch: int) -> int:
        return int(self._counts[batch])

    def first_reference(self, batch: int) -> int:
        return self._base + int(self._ends[batch] - self._counts[batch])

    def read(self, batch: int) -> pa.RecordBatch:
        rows: pa.RecordBatch = self._reader.get_batch(batch)
        return rows

    def take(self, places: References) -> Iterator[pa.RecordBatch]:
        """The rows at these ascending places."""
        batches = np.searchsorted(self._ends, places, side="right")
        for batch in np.unique(batches).tolist():
            low, high = np.searchsorted(batches, [batch, batch + 1])
            inside = places[low:high] - (self._ends[batch] - self._counts[batch])
            yield self.read(batch).take(pa.array(inside))
            self.forget()

    def forget(self) -> None:
        """Let go of the pages looked at when there are many: they stay in the system's cache."""
        if mapped_bytes() > MAPPED_BYTES:
            self._pages.madvise(mmap.MADV_DONTNEED)


def mapped_bytes() -> int:
    """How much of mapped files counts as this process's memory; 0 where the system does not tell."""
    try:
        text = Path("/proc/self/statm").read_bytes()
    except OSError:
        return 0
    return int(text.split()[2]) * mmap.PAGESIZE
