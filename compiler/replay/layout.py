"""The files of a table as the writer lays them out under given limits, write by write.

The decisions are those of the writer itself: the rows for each file
(:func:`~parquetry.runtime.write.plan.plan_buckets`), by the record size that it learns from its newest files;
the end of a full file (:class:`~parquetry.runtime.base_file.sizing.FileSizer`); and the files that clustering
rewrites (:func:`~parquetry.runtime.layout.clustering.debt.debt`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from parquetry.compiler.replay.arrivals import Arrivals, Regrouping, RowsOfGroup
from parquetry.compiler.replay.history import StartingFile
from parquetry.runtime.base_file.model import Bucket
from parquetry.runtime.base_file.sizing import FileSizer, default_row_group_bytes
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.layout.clustering.model import ClusteringFile, Situation
from parquetry.runtime.layout.clustering.sizes import SizeLimits
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.record_size import FileSample, estimate_record_size
from parquetry.runtime.layout.sizing import full_file_bytes, is_small, split_size
from parquetry.runtime.spec.clustering import ClusteringSpec, PartitionFilter
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.write.plan import ChangeCounts, PartitionChanges, plan_buckets

MAX_FILES: Final = 1_000_000
"""The largest number of files in a layout. Limits of a few bytes would make a file for every row."""

_NEWEST_FILES: Final = 16
_NEWEST_COMMITS: Final = 8
_TASKS: Final = 8
_SAME: Final = 0.1
"""Row counts of a file and a recorded group count as equal if they differ by at most this share."""

_FILLING: Final = ("INSERT", "UPSERT")


class TooManyFilesError(InvalidDataError):
    """The limits make more files of the recorded writes than a replay lays out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutLimits:
    """The limits of a replay: the sizing policy for writes, and the clustering policy."""

    sizing: SizingPolicy
    clustering: ClusteringSpec

    @property
    def sizes(self) -> SizeLimits:
        """The file sizes of clustering."""
        return SizeLimits.of(self.clustering.plan, max_file_size_bytes=self.sizing.max_file_size_bytes)


def following(sizing: SizingPolicy, before: LayoutLimits) -> LayoutLimits:
    """Return limits with another sizing policy and the clustering policy of ``before``.

    Clustering sizes that followed from the old sizing policy follow from the new one.
    """
    policy = before.clustering
    old, new = (ClusteringSpec.defaults_for(limits).plan for limits in (before.sizing, sizing))
    plan = policy.plan
    if plan.target_file_size_bytes == old.target_file_size_bytes:
        plan = replace(plan, target_file_size_bytes=new.target_file_size_bytes)
    if plan.small_file_limit_bytes == old.small_file_limit_bytes:
        plan = replace(plan, small_file_limit_bytes=new.small_file_limit_bytes)
    return LayoutLimits(sizing=sizing, clustering=replace(policy, plan=plan))


@dataclass(slots=True, kw_only=True, eq=False)
class _File:
    """A file of the layout. ``parts`` are its rows by recorded group.

    If ``parts`` is None, the file has all rows of the recorded group with its own id.
    """

    file_id: str
    instant: str
    size_bytes: int
    rows: int
    parts: tuple[RowsOfGroup, ...] | None = None

    @property
    def all_parts(self) -> tuple[RowsOfGroup, ...]:
        return ((self.file_id, self.rows),) if self.parts is None else self.parts


@dataclass(slots=True)
class _Change:
    """The changes of a write to one file of the layout."""

    updates: int = 0
    deletes: int = 0
    grown_bytes: float = 0.0
    deleted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartitionWrite:
    """A write in one partition: its recorded rows, the work of the writer, and the changes by file."""

    arrivals: Arrivals
    work: PartitionChanges
    changes: Mapping[str, _Change]
    insert_row_bytes: float

    @property
    def partition(self) -> str:
        """The partition of the write."""
        return self.arrivals.partition


class _Partition:
    """The files of one partition in write order, the small ones by size, and the files of each group."""

    __slots__ = ("file_ids_by_group", "files", "small")

    def __init__(self) -> None:
        self.files: dict[str, _File] = {}
        self.small: list[tuple[int, str]] = []
        self.file_ids_by_group: dict[str, dict[str, None]] = {}

    def files_with(self, group: str) -> list[_File]:
        """Return the files that contain rows of a recorded group."""
        if group in self.file_ids_by_group:
            return [self.files[file_id] for file_id in self.file_ids_by_group[group]]
        own = self.files.get(group)
        return [own] if own is not None and own.parts is None else []

    def add_to_lookup(self, file: _File) -> None:
        """Add a file to the lookup by recorded groups."""
        for group, _ in file.parts or ():
            self.file_ids_by_group.setdefault(group, {})[file.file_id] = None

    def remove_from_lookup(self, file: _File) -> None:
        """Remove a file from the lookup by recorded groups."""
        for group, _ in file.parts or ():
            ids = self.file_ids_by_group.get(group)
            if ids is not None:
                ids.pop(file.file_id, None)
                if not ids:
                    del self.file_ids_by_group[group]


class LaidOutTable:
    """All files of a layout under given limits, from the beginning of the period on."""

    def __init__(self, limits: LayoutLimits, *, recorded_sizes: SizeLimits | None = None) -> None:
        """Start without files. By ``recorded_sizes``, recorded clusterings chose their files."""
        self._limits = limits
        self._recorded_sizes = limits.sizes if recorded_sizes is None else recorded_sizes
        self._partitions: dict[str, _Partition] = defaultdict(_Partition)
        self._recent: deque[tuple[FileSample, ...]] = deque(maxlen=_NEWEST_COMMITS)
        self._samples: list[FileSample] = []
        self._superseded: deque[tuple[str, int]] = deque()
        self._made_files = 0
        self.files = 0
        self.small_files = 0
        self.size_bytes = 0
        self.superseded_bytes = 0

    def start(self, files: Iterable[StartingFile]) -> None:
        """Add the files at the beginning of the period, in the order of their instants."""
        samples: deque[FileSample] = deque(maxlen=_NEWEST_FILES)
        for file in files:
            rows = file.rows or 0
            made = _File(file_id=file.file_id, instant=file.instant, size_bytes=file.size_bytes, rows=rows)
            samples.append(self._put(file.partition, made))
        self._recent.append(tuple(samples))

    def clean(self, *, earliest: str, last: str) -> None:
        """Delete versions that were superseded before ``earliest``, or not after ``last``.

        ``earliest`` is the earliest commit whose snapshot stays complete. As in Hudi, versions that this
        commit itself superseded are kept.
        """
        while self._superseded and (self._superseded[0][0] < earliest or self._superseded[0][0] <= last):
            self.superseded_bytes -= self._superseded.popleft()[1]

    def write(self, time: str, operation: str, arrivals: Iterable[Arrivals]) -> int:
        """Lay out the rows that a write brought, and return the bytes written for it."""
        fills_small_files = operation.startswith(_FILLING) and "OVERWRITE" not in operation
        writes = [
            self._partition_write(partition_arrivals, time, fills_small_files=fills_small_files)
            for partition_arrivals in arrivals
            if partition_arrivals.inserts or partition_arrivals.changes or partition_arrivals.replaced
        ]
        written = self._write_buckets(writes, time, fills_small_files=fills_small_files)
        for write in writes:
            if moved := write.arrivals.moved:
                _reassign_groups(self._partitions[write.partition], [group for group, _ in moved], moved)
        self._end_commit()
        return written

    def _partition_write(self, arrivals: Arrivals, time: str, *, fills_small_files: bool) -> _PartitionWrite:
        """Drop the files that the write replaces, and return its work in the partition."""
        partition = self._partitions[arrivals.partition]
        replaced = (
            partition.files.values() if arrivals.replaces_all else _mostly_of(partition, arrivals.replaced)
        )
        for file in tuple(replaced):
            self._drop(arrivals.partition, file, time)
        changes = _changes_by_file(partition, arrivals)
        learned = None if arrivals.replaced else self._learned(partition)
        declared = self._limits.sizing.record_size_bytes
        default = estimate_record_size(self._newest_samples()) or arrivals.record_size_bytes
        inserts = arrivals.inserted_rows
        insert_row_bytes = arrivals.insert_bytes / inserts if inserts else 0.0
        record_size = float(declared or learned or default or max(insert_row_bytes, 1.0))
        slices = [_slice(arrivals.partition, partition.files[file_id]) for file_id in changes]
        if fills_small_files and inserts:
            small = self._fillable(partition, inserts, record_size)
            slices += [_slice(arrivals.partition, file) for file in small if file.file_id not in changes]
        work = PartitionChanges(
            partition=arrivals.partition,
            inserts=inserts,
            slices=slices,
            changes={
                file_id: ChangeCounts(updates=change.updates, deletes=change.deletes)
                for file_id, change in changes.items()
            },
            record_size_bytes=record_size,
            is_record_size_known=bool(declared or learned),
        )
        return _PartitionWrite(
            arrivals=arrivals, work=work, changes=changes, insert_row_bytes=insert_row_bytes
        )

    def _write_buckets(self, writes: Sequence[_PartitionWrite], time: str, *, fills_small_files: bool) -> int:
        """Write the buckets into which the writer divides this work, and return their bytes."""
        policy = self._limits.sizing
        if not fills_small_files:
            policy = replace(policy, small_file_limit_bytes=0)
        works = [write.work for write in writes]
        for work in works:
            self._check_files(work.inserts / split_size(policy, work.record_size_bytes))
        buckets: dict[str, list[Bucket]] = defaultdict(list)
        for bucket in plan_buckets(time, works, policy=policy, tasks=_TASKS).buckets:
            buckets[bucket.partition].append(bucket)
        by_partition = {write.partition: write for write in writes}
        written = 0
        for name, of_partition in buckets.items():
            write = by_partition[name]
            inserts = self._inserts_by_bucket(of_partition, dict(write.arrivals.inserts))
            for bucket, inserted in zip(of_partition, inserts, strict=True):
                written += self._bucket(
                    bucket,
                    inserted,
                    change=write.changes.get(bucket.file_id) or _Change(),
                    row_bytes=write.insert_row_bytes,
                    time=time,
                )
        return written

    def cluster(self, time: str, regroupings: Iterable[Regrouping]) -> int:
        """Lay out a recorded clustering, and return the bytes written for it.

        It rewrites the rows that the recorded one rewrote, and files that only these limits make small. If
        the recorded clustering left small files, other small files remain here too.
        """
        written = 0
        for regrouping in regroupings:
            partition = self._partitions[regrouping.partition]
            written += self._rewritten(regrouping, partition, time)
            _reassign_groups(partition, regrouping.replaced, regrouping.made)
        self._end_commit()
        return written

    def _rewritten(self, regrouping: Regrouping, partition: _Partition, time: str) -> int:
        """Simulate the clustering of one partition, and return the bytes of the new files."""
        policy = self._limits.clustering
        limits = self._limits.sizes
        execution = policy.execution
        chosen = {file.file_id: file for file in _mostly_of(partition, regrouping.replaced)}
        recorded_ids = frozenset(chosen)
        if regrouping.is_whole or limits != self._recorded_sizes:
            for file in partition.files.values():
                was_left = not regrouping.is_whole and self._recorded_sizes.is_off_size(file.size_bytes)
                if limits.is_off_size(file.size_bytes) and not was_left:
                    chosen[file.file_id] = file
        files = [
            ClusteringFile(
                partition=regrouping.partition,
                file_id=file.file_id,
                instant=file.instant,
                path=file.file_id,
                size_bytes=file.size_bytes,
                rows=file.rows,
                digest=None if file.file_id in recorded_ids else execution.digest,
            )
            for file in chosen.values()
        ]
        by_size = replace(policy.plan, strategy="size", partitions=PartitionFilter())
        due = compute_debt(
            replace(policy, plan=by_size),
            files,
            Situation(max_file_size_bytes=self._limits.sizing.max_file_size_bytes),
        )
        written = 0
        for group in due.groups:
            members = [chosen[file.file_id] for file in group.files]
            rows = sum(file.rows for file in members)
            made = limits.outputs(group.size_bytes * regrouping.ratio, rows=rows)
            self._check_files(made.files)
            parts = [part for file in members for part in file.all_parts]
            for file in members:
                self._drop(regrouping.partition, file, time)
            written += self._add_files(regrouping.partition, parts, [*made.sizes], rows, time, first=None)
        return written

    def _bucket(
        self, bucket: Bucket, inserted: Sequence[RowsOfGroup], *, change: _Change, row_bytes: float, time: str
    ) -> int:
        """Write the file of a bucket and the files that it rolls over to, and return their bytes."""
        name = bucket.partition
        rows = bucket.expected_inserts
        size = rows * row_bytes
        parts: list[RowsOfGroup] = []
        replaced_bytes = 0
        if bucket.base is not None:
            base = self._partitions[name].files[bucket.file_id]
            replaced_bytes = base.size_bytes
            left = max(base.rows - change.deletes, 0)
            size += max(base.size_bytes * left / max(base.rows, 1) + change.grown_bytes, 0.0)
            rows += left
            parts = [(group, count - change.deleted.get(group, 0)) for group, count in base.all_parts]
            self._drop(name, base, time)
        sizes = self._sizes(size, replaced_bytes, rows)
        return self._add_files(name, [*parts, *inserted], sizes, rows, time, first=bucket.file_id)

    def _inserts_by_bucket(
        self, buckets: Sequence[Bucket], inserts: dict[str, int]
    ) -> list[list[RowsOfGroup]]:
        """Return the recorded groups of the inserts of each bucket.

        A bucket first gets rows of the groups that its file already contains. The rest is distributed in
        order. ``inserts`` are the rows by group, and are used up.
        """
        needed = [bucket.expected_inserts for bucket in buckets]
        taken: list[list[RowsOfGroup]] = [[] for _ in buckets]
        for index, bucket in enumerate(buckets):
            if bucket.base is None:
                continue
            base = self._partitions[bucket.partition].files[bucket.file_id]
            for group, _ in base.all_parts:
                available = inserts.get(group, 0)
                if available and needed[index]:
                    is_same = _are_same(available, needed[index])
                    rows = needed[index] if is_same else min(available, needed[index])
                    taken[index].append((group, rows))
                    inserts[group] = 0 if is_same else available - rows
                    needed[index] -= rows
        rest = deque((group, rows) for group, rows in inserts.items() if rows)
        for index, rows in enumerate(needed):
            taken[index] += _take(rest, rows)
        # Parts only locate later changes. Rounding above can leave rows over, which the last bucket takes.
        taken[-1] += rest
        return taken

    def _sizer(self, replaced_bytes: int) -> FileSizer:
        """Return the writer's rule for when a file is full."""
        limit = self._limits.sizing.max_file_size_bytes
        return FileSizer(
            max_bytes=limit,
            row_group_bytes=default_row_group_bytes(limit),
            row_group_arrow_bytes=limit,
            replaced_bytes=replaced_bytes,
        )

    def _sizes(self, size: float, replaced_bytes: int, rows: int) -> list[float]:
        """Return the sizes of the files into which a bucket of this size rolls over."""
        self._check_files(min(size / max(self._limits.sizing.max_file_size_bytes, 1), rows))
        sizes: list[float] = []
        while len(sizes) + 1 < rows:
            goal = self._sizer(0 if sizes else replaced_bytes).goal_bytes(0, size)
            if size <= goal:
                break
            sizes.append(goal)
            size -= goal
        return [*sizes, size]

    def _check_files(self, more: float) -> None:
        """Raise TooManyFilesError if ``more`` files would exceed the limit of a replay."""
        if self.files + more > MAX_FILES:
            raise TooManyFilesError(
                "these limits make more than {limit:,} files from the recorded writes",
                limit=MAX_FILES,
            )

    def _add_files(
        self,
        name: str,
        parts: Sequence[RowsOfGroup],
        sizes: Sequence[float],
        rows: int,
        time: str,
        *,
        first: str | None,
    ) -> int:
        """Add files of these sizes, which share the rows of the parts in order, and return their bytes."""
        total = sum(sizes)
        left = deque(_merged(parts))
        last = (*left,)[-1:]
        written = seen = 0
        ended = 0.0
        for number, size in enumerate(sizes):
            ended += size
            end = rows if number + 1 == len(sizes) or not total else round(rows * ended / total)
            file_id = first
            if file_id is None or number:
                self._made_files += 1
                file_id = f"{time}-{self._made_files}"
            file = _File(
                file_id=file_id,
                instant=time,
                size_bytes=round(size),
                rows=end - seen,
                parts=tuple(_merged(left)) if number + 1 == len(sizes) else _take(left, end - seen),
            )
            file.parts = last = file.parts or last
            sample = self._put(name, file)
            if len(self._samples) < _NEWEST_FILES:
                self._samples.append(sample)
            written += file.size_bytes
            seen = end
        return written

    def _put(self, name: str, file: _File) -> FileSample:
        """Add a file to a partition and to the totals, and return its size as a sample."""
        partition = self._partitions[name]
        partition.files[file.file_id] = file
        partition.add_to_lookup(file)
        if is_small(file.size_bytes, self._limits.sizing):
            insort(partition.small, (file.size_bytes, file.file_id))
            self.small_files += 1
        self.files += 1
        self.size_bytes += file.size_bytes
        return FileSample(instant=file.instant, rows=file.rows, data_bytes=file.size_bytes)

    def _drop(self, name: str, file: _File, time: str) -> None:
        """Remove a file from its partition; its bytes count as superseded until a clean deletes them."""
        partition = self._partitions[name]
        del partition.files[file.file_id]
        partition.remove_from_lookup(file)
        if is_small(file.size_bytes, self._limits.sizing):
            del partition.small[bisect_left(partition.small, (file.size_bytes, file.file_id))]
            self.small_files -= 1
        self.files -= 1
        self.size_bytes -= file.size_bytes
        self.superseded_bytes += file.size_bytes
        self._superseded.append((time, file.size_bytes))

    def _end_commit(self) -> None:
        """Keep the samples of the files that the commit wrote."""
        if self._samples:
            self._recent.append(tuple(self._samples))
            self._samples = []

    def _newest_samples(self) -> Iterator[FileSample]:
        """Yield sizes of newly written files, which give the record size of a partition that has no files."""
        return islice((sample for samples in reversed(self._recent) for sample in samples), _NEWEST_FILES)

    def _learned(self, partition: _Partition) -> float | None:
        """Return the record size that the newest files of a partition have, or None if they tell nothing."""
        newest = islice(reversed(partition.files.values()), _NEWEST_FILES)
        return estimate_record_size(
            FileSample(instant=f.instant, rows=f.rows, data_bytes=f.size_bytes) for f in newest
        )

    def _fillable(self, partition: _Partition, inserts: int, record: float) -> list[_File]:
        """Return the small files that may get inserts.

        These are all small files, or only the smallest ones if they certainly have enough room.
        """
        policy = self._limits.sizing
        found: list[_File] = []
        room = most = 0.0
        for size, file_id in partition.small:
            found.append(partition.files[file_id])
            fits = (full_file_bytes(policy) - size) // record
            room, most = room + fits, max(most, fits)
            if policy.min_fill == 0 and room > inserts + most:
                break
        return found


def _slice(partition: str, file: _File) -> FileSlice:
    """Return a simulated file in the form that the writer's sizing takes."""
    return FileSlice(
        partition=partition,
        file_id=file.file_id,
        instant=file.instant,
        path=file.file_id,
        size_bytes=file.size_bytes,
        rows=file.rows,
    )


def _mostly_of(partition: _Partition, groups: Sequence[str]) -> list[_File]:
    """Return the files at least half of whose rows belong to these recorded groups."""
    wanted = frozenset(groups)
    found = {file.file_id: file for group in groups for file in partition.files_with(group)}
    return [
        file
        for file in found.values()
        if 2 * sum(rows for group, rows in file.all_parts if group in wanted) >= file.rows
    ]


def _changes_by_file(partition: _Partition, arrivals: Arrivals) -> dict[str, _Change]:
    """Return the changes of a write by file, in proportion to the rows of the changed groups in each file."""
    changes: dict[str, _Change] = {}
    for change in arrivals.changes:
        files = partition.files_with(change.group)
        counts = [sum(rows for group, rows in file.all_parts if group == change.group) for file in files]
        # Ignore files with few rows of the group. They come from rounding and would be rewritten for nothing.
        least = _SAME * max(counts, default=0)
        weights = [count if count >= least else 0 for count in counts]
        updates = _shares(change.updates, weights)
        deletes = _shares(change.deletes, weights)
        for file, updated, deleted in zip(files, updates, deletes, strict=True):
            if updated or deleted:
                file_change = changes.setdefault(file.file_id, _Change())
                file_change.updates += updated
                file_change.deletes += deleted
                share = (updated + deleted) / (change.updates + change.deletes)
                file_change.grown_bytes += change.grown_bytes * share
                if deleted:
                    file_change.deleted[change.group] = file_change.deleted.get(change.group, 0) + deleted
    return changes


def _shares(number: int, weights: Sequence[int]) -> list[int]:
    """Return whole shares of a number in proportion to weights, by the largest remainder method."""
    total = sum(weights)
    if not number or not total:
        return [0] * len(weights)
    if len(weights) == 1:
        return [number]
    shares = [number * weight // total for weight in weights]
    remaining = number - sum(shares)
    missing = sorted(range(len(weights)), key=lambda index: (-(number * weights[index] % total), index))
    for index in missing[:remaining]:
        shares[index] += 1
    return shares


def _reassign_groups(partition: _Partition, groups: Sequence[str], new_groups: Sequence[RowsOfGroup]) -> None:
    """Assign the rows of some recorded groups to the groups that took them, the largest files first."""
    if not new_groups:
        return
    wanted = frozenset(groups)
    files = {file.file_id: file for group in groups for file in partition.files_with(group)}
    moved_rows = {
        file_id: sum(rows for group, rows in file.all_parts if group in wanted)
        for file_id, file in files.items()
    }
    rest = deque(new_groups)
    last = new_groups[-1][0]
    for file_id in sorted(files, key=lambda file_id: -moved_rows[file_id]):
        file = files[file_id]
        kept = [(group, rows) for group, rows in file.all_parts if group not in wanted]
        taken = _take(rest, moved_rows[file_id]) or ((last, moved_rows[file_id]),)
        partition.remove_from_lookup(file)
        file.parts = (*_merged((*kept, *taken)),)
        partition.add_to_lookup(file)


def _merged(parts: Iterable[RowsOfGroup]) -> list[RowsOfGroup]:
    """Return the parts with one entry per group."""
    sums: dict[str, int] = {}
    for group, rows in parts:
        if rows > 0:
            sums[group] = sums.get(group, 0) + rows
    return [*sums.items()]


def _take(parts: deque[RowsOfGroup], rows: int) -> tuple[RowsOfGroup, ...]:
    """Take this many rows from the front; a part with nearly as many rows is taken whole."""
    taken: list[RowsOfGroup] = []
    while rows > 0 and parts:
        group, count = parts.popleft()
        if _are_same(count, rows):
            count = rows
        if count > rows:
            parts.appendleft((group, count - rows))
            count = rows
        taken.append((group, count))
        rows -= count
    return tuple(taken)


def _are_same(one: int, other: int) -> bool:
    """Return whether two numbers of rows differ so little that rounding can explain it."""
    return abs(one - other) <= _SAME * max(one, other)
