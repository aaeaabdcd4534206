"""A bounded sample of the rows that clustering will rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parquetry.message import Value
from parquetry.runtime.arrow.systematic_sample import SystematicSample
from parquetry.runtime.base_file.reader import reading
from parquetry.runtime.clustering.rewrite.order import SAMPLE_BYTES, SAMPLE_ROWS
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.column_reader import ColumnReader
from parquetry.runtime.parquet.encryption import open_footer
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import for_each

_FEWEST_ROWS: Final = 4096
_FEWEST_ROW_GROUPS: Final = 4
_FEWEST_BYTES: Final = 256 * 1024
_MIB: Final = 1024 * 1024
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLimits:
    """The limits on the cost of a sample of all groups of a plan.

    ``rows`` are kept, at most ``group_rows`` of a group, and no more than ``kept_bytes`` in memory. They are
    taken from at most ``row_groups`` row groups, so no more files are opened, and about ``read_bytes`` of
    column chunks are read for them. Each group gets at least 4096 rows, 256 KiB and 4 row groups: if earlier
    groups have spent ``rows``, ``kept_bytes`` or ``row_groups``, it has no sample at all.

    For the compression ratio, about ``tried_bytes`` of one group are read with all columns, from at most
    ``row_groups`` further row groups. At most ``row_groups`` files are opened again for their page indexes,
    and for their dictionaries.
    """

    rows: int = 4 * SAMPLE_ROWS
    group_rows: int = 4 * SAMPLE_ROWS
    kept_bytes: int = 4 * SAMPLE_BYTES
    row_groups: int = 512
    read_bytes: int = 128 * _MIB
    tried_bytes: int = 48 * _MIB

    @property
    def openings(self) -> int:
        """The largest number of file opens: indexes, dictionaries, a footer, the sample, tried rows."""
        return 2 * self.row_groups + 1 + (self.row_groups + _FEWEST_ROW_GROUPS - 1) + self.row_groups

    def for_each_of(self, groups: int) -> SampleLimits:
        """Return limits under which each of so many groups gets a sample."""
        return replace(
            self,
            rows=max(self.rows, groups * _FEWEST_ROWS),
            kept_bytes=max(self.kept_bytes, groups * _FEWEST_BYTES),
            row_groups=max(self.row_groups, groups * _FEWEST_ROW_GROUPS),
        )


IN_REVIEW: Final = SampleLimits(
    rows=SAMPLE_ROWS, kept_bytes=SAMPLE_BYTES, row_groups=64, read_bytes=32 * _MIB, tried_bytes=12 * _MIB
)
"""The limits for reviewed plans, which cover many tables at once: a fraction of a table's own plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSample:
    """Rows drawn evenly from all rows of a group, in the order of its files.

    ``of_rows`` is the number of rows in the group; each sampled row represents equally many. ``by_path`` is
    the number of sampled rows from each file, without files that gave none.
    """

    rows: pa.Table
    of_rows: int
    by_path: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_missing(self) -> bool:
        """True if the limits were spent before a row of the group was drawn."""
        return bool(self.of_rows) and not self.rows.num_rows

    @property
    def ranks(self) -> pa.Table:
        """A systematic part of the rows, by which the forecast and the rewrite rank rows along a curve."""
        step = -(-self.rows.num_rows // SAMPLE_ROWS)
        if step <= 1:
            return self.rows
        return self.rows.take(pa.array(np.arange(0, self.rows.num_rows, step)))

    @property
    def weight(self) -> float:
        """The number of rows that each sampled row represents; 1 if all rows were drawn."""
        return float(self.of_rows / max(self.rows.num_rows, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """A row group to draw from: the rows at ``start`` and each ``step`` after it, out of ``rows``."""

    number: int
    start: float
    step: float
    rows: int

    @property
    def row_numbers(self) -> npt.NDArray[np.int64]:
        """The numbers of the drawn rows within the row group."""
        row_numbers = np.arange(self.start, self.rows, self.step).astype(np.int64)
        return row_numbers[row_numbers < self.rows]


def draw(
    store: ObjectStore,
    groups: Sequence[Sequence[FileStatistics]],
    wanted: pa.Schema,
    limits: SampleLimits,
) -> list[GroupSample]:
    """Return a sample of each group, with the columns of ``wanted``.

    The groups are sampled in their order. Once the limits are spent, later groups have no rows. Row groups
    are chosen evenly by rows, and rows evenly within them, so large groups of many files cost no more than
    the limits, and the memory is that of the kept rows and a few MiB of each file that is being read. If the
    rows exceed the bytes, only every second row is kept, or every fourth and so on.

    Args:
        store: The store of the table.
        groups: The statistics of the files of each group.
        wanted: The top-level columns to read.
        limits: The limits of the sample.

    Raises:
        NotFoundError: If a file is gone.

    """
    share = max(len(groups), 1)
    rows = min(limits.group_rows, max(limits.rows // share, _FEWEST_ROWS))
    most_bytes = max(limits.kept_bytes // share, _FEWEST_BYTES)
    row_groups = max(limits.row_groups // share, _FEWEST_ROW_GROUPS)
    part = _part_read(store, groups, wanted)

    def affordable(files: Sequence[FileStatistics]) -> int:
        """Return the number of row groups of these files that the byte limit allows."""
        sizes = [group.data_bytes for file in files for group in file.row_groups]
        mean_bytes = part * sum(sizes) / max(len(sizes), 1)
        count = int(limits.read_bytes / share / max(mean_bytes, 1))
        return max(min(row_groups, count), _FEWEST_ROW_GROUPS)

    samples: list[GroupSample] = []
    spent_rows = spent_bytes = spent_row_groups = 0
    for files in groups:
        total = _rows(files)
        if (
            spent_rows >= limits.rows
            or spent_bytes >= limits.kept_bytes
            or spent_row_groups >= limits.row_groups
        ):
            samples.append(GroupSample(rows=wanted.empty_table(), of_rows=total))
            continue
        chosen = _chosen(files, rows=min(rows, total), row_groups=affordable(files))
        sample = _draw_group(store, files, wanted, chosen, most_bytes=most_bytes)
        samples.append(sample)
        spent_rows += sample.rows.num_rows
        spent_bytes += sample.rows.nbytes
        spent_row_groups += sum(len(chunks) for chunks in chosen.values())
    return samples


def regrouped(
    samples: Sequence[GroupSample],
    groups: Sequence[Sequence[FileStatistics]],
    wanted: Sequence[Sequence[FileStatistics]],
    *,
    most_rows: int,
) -> list[GroupSample]:
    """Return samples of other groups of the same files, without reading anything.

    A group that contains a file of a group without a sample has none either.

    Args:
        samples: The samples of ``groups``.
        groups: The groups that were sampled.
        wanted: The groups that need samples.
        most_rows: The largest number of rows in a sample.

    """
    drawn: dict[str, tuple[pa.Table, float]] = {}
    for sample, files in zip(samples, groups, strict=True):
        at = 0
        for file in files:
            count = sample.by_path.get(file.path, 0)
            drawn[file.path] = sample.rows.slice(at, count), inf if sample.is_missing else sample.weight
            at += count
    return [_joined(files, [drawn[file.path] for file in files], most_rows) for files in wanted]


def _joined(
    files: Sequence[FileStatistics], parts: Sequence[tuple[pa.Table, float]], most_rows: int
) -> GroupSample:
    """Return the sample of the parts, thinned so that each row represents equally many rows."""
    rows = pa.concat_tables([part for part, _ in parts])
    coarsest = max(weight for _, weight in parts)
    if coarsest == inf:
        return GroupSample(rows=rows.slice(0, 0), of_rows=_rows(files))
    counts = [part.num_rows for part, _ in parts]
    stood_for = np.cumsum(np.repeat([weight for _, weight in parts], counts))
    step = max(coarsest, stood_for[-1] / most_rows) if len(stood_for) else 1.0
    kept = np.flatnonzero(np.diff(np.floor(stood_for / step * (1 + _ROUNDING)), prepend=0.0))
    of_part = np.diff(np.searchsorted(kept, np.cumsum(counts)), prepend=0)
    return GroupSample(
        rows=rows.take(pa.array(kept)).combine_chunks(),
        of_rows=_rows(files),
        by_path={file.path: count for file, count in zip(files, of_part.tolist(), strict=True) if count},
    )


def _rows(files: Sequence[FileStatistics]) -> int:
    return sum(file.rows for file in files)


def _part_read(store: ObjectStore, groups: Sequence[Sequence[FileStatistics]], wanted: pa.Schema) -> float:
    """Return which share of a file's bytes the wanted columns take, according to the first file."""
    first = next((file for files in groups for file in files), None)
    if first is None:
        return 1.0
    place = Value.uri(f"{store.uri}/{first.path}")
    with reading(place), store.open_input(first.path) as content:
        metadata, _ = open_footer(content, store.allowed, place=place)
    chunks = [
        (chunk.path_in_schema.partition(".")[0], chunk.total_compressed_size)
        for number in range(metadata.num_row_groups)
        for chunk in map(metadata.row_group(number).column, range(metadata.num_columns))
    ]
    names = frozenset(wanted.names)
    read = sum(size for name, size in chunks if name in names)
    return float(read / max(sum(size for _, size in chunks), 1))


def _draw_group(
    store: ObjectStore,
    files: Sequence[FileStatistics],
    wanted: pa.Schema,
    chosen: Mapping[str, Sequence[_Chunk]],
    *,
    most_bytes: int,
) -> GroupSample:
    """Return the sample of the chosen row groups of a group."""
    paths = [file.path for file in files if file.path in chosen]
    counts = [sum(len(chunk.row_numbers) for chunk in chosen[path]) for path in paths]
    firsts = list(accumulate(counts, initial=0))
    sample = SystematicSample(wanted, most_bytes=most_bytes)
    for_each(
        zip(paths, firsts, strict=False),
        lambda file: _draw_file(store, file[0], chosen[file[0]], wanted, sample, first=file[1]),
    )
    numbers, rows = sample.rows_by_number()
    kept = np.diff(np.searchsorted(numbers, firsts)).tolist()
    by_path = {path: count for path, count in zip(paths, kept, strict=True) if count}
    return GroupSample(rows=rows, of_rows=_rows(files), by_path=by_path)


def _chosen(files: Sequence[FileStatistics], *, rows: int, row_groups: int) -> Mapping[str, list[_Chunk]]:
    """Return the row groups to draw from, by path, so that each row of the group is equally likely."""
    listed = [(file.path, n, group.rows) for file in files for n, group in enumerate(file.row_groups)]
    total = sum(count for _, _, count in listed)
    chunks: dict[str, list[_Chunk]] = {}
    if not total:
        return chunks
    if len(listed) <= row_groups:
        step = total / max(rows, 1)
        seen = 0
        for path, number, count in listed:
            start = -(-seen // step) * step - seen
            chunks.setdefault(path, []).append(_Chunk(number=number, start=start, step=step, rows=count))
            seen += count
        return chunks
    # Even steps hit large row groups more often, and each hit gives the same number of rows.
    ends = np.cumsum([count for _, _, count in listed])
    positions = (np.arange(row_groups) + 0.5) * total / row_groups
    met, times = np.unique(np.searchsorted(ends, positions, side="right"), return_counts=True)
    for index, hits in zip(met.tolist(), times.tolist(), strict=True):
        path, number, count = listed[index]
        step = max(count * row_groups / (rows * hits), 1.0)
        chunks.setdefault(path, []).append(_Chunk(number=number, start=0.0, step=step, rows=count))
    return chunks


def _draw_file(
    store: ObjectStore,
    path: str,
    chunks: Sequence[_Chunk],
    wanted: pa.Schema,
    sample: SystematicSample,
    *,
    first: int,
) -> None:
    """Offer the drawn rows of a file to the sample, numbered from ``first``."""
    place = Value.uri(f"{store.uri}/{path}")
    with reading(place), store.open_input(path) as content:
        reader = ColumnReader(content, wanted, allowed=store.allowed, place=place)
        reader.announce(chunk.number for chunk in chunks)
        for chunk in chunks:
            row_numbers = chunk.row_numbers
            seen = 0
            for batch in reader.batches(chunk.number):
                here = row_numbers[(row_numbers >= seen) & (row_numbers < seen + batch.num_rows)] - seen
                reader.add_to_sample(batch.take(pa.array(here)), np.arange(first, first + len(here)), sample)
                first += len(here)
                seen += batch.num_rows
