"""What a stage holds, as the driver knows it and as tasks read it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.meta_columns import RECORD_KEY
from parquetry.runtime.spark.stage import (
    HASH,
    REFERENCE_SHIFT,
    Fault,
    StagedPart,
    StageSpec,
    index_name,
    rows_name,
)

References = npt.NDArray[np.int64]
_PLACE_MASK = (1 << REFERENCE_SHIFT) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """What arrived for one table partition; ``hash_sum`` modulo 2**64, keys as UTF-8 bytes."""

    rows: int = 0
    deletes: int = 0
    hash_sum: int = 0
    size_bytes: int = 0
    min_key: str | None = None
    max_key: str | None = None

    def with_part(self, part: StagedPart) -> PartitionTotals:
        """The sum with one more task's rows."""
        keys = [k for k in (self.min_key, self.max_key, part.min_key, part.max_key) if k is not None]
        return PartitionTotals(
            rows=self.rows + part.rows,
            deletes=self.deletes + part.deletes,
            hash_sum=(self.hash_sum + part.hash_sum) % (1 << 64),
            size_bytes=self.size_bytes + part.size_bytes,
            min_key=min(keys, key=str.encode, default=None),
            max_key=max(keys, key=str.encode, default=None),
        )


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """A whole stage: one entry per task and table partition, in the order of arrival."""

    spec: StageSpec
    parts: tuple[StagedPart, ...]
    faults: tuple[Fault, ...] = ()

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The name of the attempt that counts, by number of task."""
        return {part.part: part.name for part in self.parts}

    @cached_property
    def totals(self) -> Mapping[str, PartitionTotals]:
        """What arrived, by table partition."""
        totals: dict[str, PartitionTotals] = {}
        for part in self.parts:
            totals[part.partition] = totals.get(part.partition, PartitionTotals()).with_part(part)
        return totals

    @cached_property
    def parts_by_partition(self) -> Mapping[str, Sequence[StagedPart]]:
        """The parts of each table partition, in the order of arrival."""
        grouped: dict[str, list[StagedPart]] = {}
        for part in self.parts:
            grouped.setdefault(part.partition, []).append(part)
        return grouped

    @property
    def rows(self) -> int:
        """All rows, deletes too."""
        return sum(part.rows for part in self.parts)

    @property
    def row_bytes(self) -> float | None:
        """The mean size of a row in memory; None without rows."""
        return sum(part.size_bytes for part in self.parts) / self.rows if self.rows else None

    def check(self, what: str) -> None:
        """InvalidDataError with count and example when rows are not what the table declares."""
        by_kind: dict[str, Fault] = {}
        for fault in self.faults:
            seen = by_kind.get(fault.description)
            by_kind[fault.description] = replace(seen, rows=seen.rows + fault.rows) if seen else fault
        if by_kind:
            found = "; ".join(
                f"{f.description} in {f.rows} of {self.rows} rows, first in {f.example}"
                for f in by_kind.values()
            )
            raise InvalidDataError(f"{what}: {found}; nothing was written: fill or filter these rows")


def staged_rows(spec: StageSpec, summary: Iterable[Mapping[str, Any]]) -> StagedRows:
    """The stage that the tasks' summary rows describe."""
    parts, faults = [], []
    for row in summary:
        if row["fault"] is not None:
            faults.append(Fault(description=row["fault"], rows=row["rows"], example=row["partition"]))
            continue
        parts.append(
            StagedPart(
                part=row["part"],
                name=row["name"],
                partition=row["partition"],
                rows=row["rows"],
                deletes=row["deletes"],
                hash_sum=row["hash_sum"] % (1 << 64),
                size_bytes=row["size_bytes"],
                min_key=row["min_key"],
                max_key=row["max_key"],
            )
        )
    return StagedRows(
        spec=spec, parts=tuple(sorted(parts, key=lambda p: (p.part, p.partition))), faults=tuple(faults)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSlice:
    """Rows ``start`` to ``stop`` among those that one task has for one table partition."""

    part: int
    start: int
    stop: int


def slices_of(parts: Sequence[StagedPart], start: int, stop: int) -> tuple[StageSlice, ...]:
    """Where rows ``start`` to ``stop`` of a table partition's ``parts`` lie, counted in order of arrival."""
    found = []
    first = 0
    for part in parts:
        low, high = max(start - first, 0), min(stop - first, part.rows)
        if low < high:
            found.append(StageSlice(part=part.part, start=low, stop=high))
        first += part.rows
    return tuple(found)


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

    def slices(self, partition: str, slices: Iterable[StageSlice]) -> Iterator[pa.RecordBatch]:
        """The rows of the slices, in order, without copying them."""
        for piece in slices:
            file = self._file(piece.part)
            first = 0
            for batch in file.batches_of(partition):
                low, high = max(piece.start - first, 0), min(piece.stop - first, file.rows_in(batch))
                if low < high:
                    rows = file.read(batch).slice(low, high - low)
                    yield self._with_key(rows, file.first_reference(batch) + np.arange(low, high))
                first += file.rows_in(batch)
                if first >= piece.stop:
                    break

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
        with spec.place.open(index_name(name)) as source, pa.ipc.open_file(source) as index:
            table = index.get_batch(0)
            partitions, counts = table.column("partition"), table.column("rows")
            self._partitions: Sequence[str] = partitions.dictionary.to_pylist()
            self._codes = partitions.indices.to_numpy().copy()
            self._counts = counts.to_numpy().copy()
        self._ends = np.cumsum(self._counts)
        self._base = part << REFERENCE_SHIFT
        source = stack.enter_context(spec.place.open(rows_name(name)))
        self._reader = stack.enter_context(pa.ipc.open_file(source))

    def batches_of(self, partition: str) -> list[int]:
        code = self._partitions.index(partition)
        found: list[int] = np.flatnonzero(self._codes == code).tolist()
        return found

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


__all__ = [
    "HASH",
    "PartitionTotals",
    "StageReader",
    "StageSlice",
    "StagedRows",
    "generated_keys",
    "slices_of",
    "staged_rows",
]
