"""The index of a stage: the byte ranges of its batches in the files of tasks, by reference and by group.

A group is the set of rows of one table partition; each batch belongs to one group. A row is identified by its
reference: the number of its task, shifted left by 40 bits, plus its position among the rows of that task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IndexNumbers = npt.NDArray[np.int64]

REFERENCE_SHIFT: Final = 40
POSITION_MASK: Final = (1 << REFERENCE_SHIFT) - 1

BATCH_COLUMNS: Final = ("first", "rows", "offset", "size")
BATCHES: Final = pa.list_(pa.struct([(name, pa.int64()) for name in BATCH_COLUMNS]))
"""The batches of one group in one file: position of the first row, row count, offset and size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteRange:
    """The bytes from ``start`` to ``stop`` (exclusive) of a file of the stage."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class StageIndex:
    """The batches of a stage in order of their references; each array has one element per batch.

    ``files`` are the names of the files with rows, by task number. ``first`` is the reference of a batch's
    first row, and ``group`` the position of its group in ``groups``. The index takes about 40 bytes per
    batch.
    """

    files: Mapping[int, str]
    groups: Sequence[str]
    group: IndexNumbers
    first: IndexNumbers
    rows: IndexNumbers
    offset: IndexNumbers
    size: IndexNumbers

    def ranges(self, batches: Iterable[int]) -> Iterator[ByteRange]:
        """Yield the byte range of each of the batches."""
        for batch in batches:
            start = int(self.offset[batch])
            name = self.files[int(self.first[batch]) >> REFERENCE_SHIFT]
            yield ByteRange(name=name, start=start, stop=start + int(self.size[batch]))

    def of_group(self, group: str) -> IndexNumbers:
        """Return the batches of a group, in order of arrival."""
        number = self._number_by_group.get(group)
        if number is None:
            return np.empty(0, np.int64)
        low, high = np.searchsorted(self._sorted_groups, [number, number + 1])
        return self._by_group[low:high]

    def batches_of(self, references: IndexNumbers) -> IndexNumbers:
        """Return, for each reference, the batch that contains its row."""
        batches: IndexNumbers = np.searchsorted(self.first, references, side="right") - 1
        return batches

    def by_offset(self, batches: IndexNumbers) -> IndexNumbers:
        """Return the order of the batches by file and offset, as positions in ``batches``."""
        order: IndexNumbers = np.lexsort((self.offset[batches], self.first[batches] >> REFERENCE_SHIFT))
        return order

    @property
    def first_of_files(self) -> IndexNumbers:
        """The first batch of each file."""
        found: IndexNumbers = np.unique(self.first >> REFERENCE_SHIFT, return_index=True)[1]
        return found

    @cached_property
    def _number_by_group(self) -> Mapping[str, int]:
        return {group: number for number, group in enumerate(self.groups)}

    @cached_property
    def _by_group(self) -> IndexNumbers:
        """The numbers of the batches, sorted by their group."""
        order: IndexNumbers = np.argsort(self.group, kind="stable")
        return order

    @cached_property
    def _sorted_groups(self) -> IndexNumbers:
        """The group of each batch, ascending."""
        ordered: IndexNumbers = self.group[self._by_group]
        return ordered


class IndexBuilder:
    """A builder that adds the batches of one file after the other to an index."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._files: dict[int, str] = {}
        self._batches: list[IndexNumbers] = []

    def add(self, part: int, name: str, groups: Sequence[str], batches: pa.ListArray) -> None:
        """Add the batches of the file ``name``, which task ``part`` wrote.

        ``batches`` has one list of batches for each of ``groups``, in the same order.
        """
        values = batches.flatten()
        if not len(values):
            return
        numbers = np.array([self._groups.setdefault(group, len(self._groups)) for group in groups], np.int64)
        counts = np.diff(batches.offsets.to_numpy())
        columns = [values.field(column).to_numpy() for column in BATCH_COLUMNS]
        columns[0] = columns[0] + (part << REFERENCE_SHIFT)
        self._files[part] = name
        self._batches.append(np.array([np.repeat(numbers, counts), *columns]))

    def index(self) -> StageIndex:
        """Return the index of all files that were added."""
        batches = np.concatenate([np.empty((len(BATCH_COLUMNS) + 1, 0), np.int64), *self._batches], axis=1)
        group, first, rows, offset, size = batches[:, np.argsort(batches[1])]
        return StageIndex(
            files=self._files,
            groups=tuple(self._groups),
            group=group,
            first=first,
            rows=rows,
            offset=offset,
            size=size,
        )
