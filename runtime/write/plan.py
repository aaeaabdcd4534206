"""The plan of a write: sizing decisions as buckets, one for each task.

Pure functions: the existing files and the incoming row counts go in, buckets with exact quotas come out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from parquetry.runtime.base_file.model import Bucket, new_file_id
from parquetry.runtime.commit.workload_profile import PartitionProfile, PlannedFile
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.sizing import Assignment, SizingPlan, plan_inserts
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.timeline.markers import MarkerKind

DECISIONS_KEY: Final = "parquetry.decisions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCounts:
    """The numbers of rows of an existing file that a write replaces and deletes."""

    updates: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanges:
    """The work of a write in one partition.

    ``slices`` are the files that may be filled. ``changes`` is by file id, and ``slices`` must contain each
    of these files. If ``record_size_bytes`` is only a guess, ``is_record_size_known`` is False. Consecutive
    new files then share a task, which cuts them by the measured size, unless the policy sets the number of
    rows per file.
    """

    partition: str
    inserts: int
    slices: Sequence[FileSlice] = ()
    changes: Mapping[str, ChangeCounts] = field(default_factory=dict)
    record_size_bytes: float
    is_record_size_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """The buckets of a write, numbered from 0.

    ``inserts`` are the quotas of each partition as (bucket, new rows), in the order in which its rows are
    assigned. ``sizing`` are the decisions behind them, by partition.
    """

    buckets: tuple[Bucket, ...]
    inserts: Mapping[str, tuple[tuple[int, int], ...]]
    sizing: Mapping[str, SizingPlan]
    profile: Mapping[str, PartitionProfile]

    @property
    def filled(self) -> frozenset[str]:
        """The file ids of existing files that get new rows."""
        return frozenset(b.file_id for b in self.buckets if b.base is not None and b.expected_inserts)

    def files(self) -> Mapping[str, int]:
        """Return the bucket number of each base file that is rewritten, by file name."""
        return {b.base.path.rpartition("/")[2]: b.index for b in self.buckets if b.base is not None}

    def markers(self, instant: str) -> Mapping[MarkerKind, list[str]]:
        """Return the paths of the first file of each bucket, by the kind of marker that it needs."""
        paths_by_kind: dict[MarkerKind, list[str]] = {MarkerKind.CREATE: [], MarkerKind.MERGE: []}
        for bucket in self.buckets:
            kind = MarkerKind.CREATE if bucket.base is None else MarkerKind.MERGE
            name = BaseFileName(partition=bucket.partition, file_id=bucket.file_id, instant=instant)
            paths_by_kind[kind].append(name.path)
        return {kind: paths for kind, paths in paths_by_kind.items() if paths}


def plan_buckets(
    instant: str,
    works: Sequence[PartitionChanges],
    *,
    policy: SizingPolicy,
    excluded: Mapping[str, str] | None = None,
    tasks: int,
) -> WritePlan:
    """Return the buckets for all partitions.

    Args:
        instant: The instant of the write.
        works: The work in each partition.
        policy: The sizing policy of the table.
        excluded: Reasons why files are not filled, by file id.
        tasks: The number of tasks that run at the same time. If there are more new files than this in
            partitions whose record size is only a guess, several of them share a bucket.

    """
    sizing = {
        work.partition: plan_inserts(
            slices=work.slices,
            inserts=work.inserts,
            record_size_bytes=work.record_size_bytes,
            policy=policy,
            updates={f: c.updates + c.deletes for f, c in work.changes.items()},
            excluded=excluded,
        )
        for work in works
    }
    guessed_sizes = {
        work.partition
        for work in works
        if not work.is_record_size_known and not _is_limited_by_rows(sizing[work.partition], policy)
    }
    guessed = sum(len(sizing[partition].new_files) for partition in guessed_sizes)
    share = max(1, -(-guessed // max(tasks, 1)))
    buckets: list[Bucket] = []
    inserts: dict[str, tuple[tuple[int, int], ...]] = {}
    profile: dict[str, PartitionProfile] = {}
    for work in works:
        plan = sizing[work.partition]
        partition_buckets = list(
            _buckets(
                work, plan, instant, first=len(buckets), share=share if work.partition in guessed_sizes else 1
            )
        )
        buckets += partition_buckets
        inserts[work.partition] = tuple(
            (b.index, b.expected_inserts) for b in partition_buckets if b.expected_inserts
        )
        profile[work.partition] = _profile(work, partition_buckets)
    return WritePlan(
        buckets=tuple(buckets),
        inserts={partition: quotas for partition, quotas in inserts.items() if quotas},
        sizing=sizing,
        profile=profile,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlanner:
    """The arguments of :func:`plan_buckets`, to plan again without the files that other writes need."""

    instant: str
    works: Sequence[PartitionChanges]
    policy: SizingPolicy
    tasks: int

    def plan(self, *, excluded: Mapping[str, str] | None = None) -> WritePlan:
        """Return the plan. ``excluded`` contains the reason for each file that is not filled, by file id."""
        return plan_buckets(self.instant, self.works, policy=self.policy, excluded=excluded, tasks=self.tasks)


def _buckets(
    work: PartitionChanges, plan: SizingPlan, instant: str, *, first: int, share: int
) -> Iterator[Bucket]:
    """Yield the buckets of a partition.

    Filled files come first, in the order of assignment. Files that only change follow, and then new files.
    """
    slices = {s.file_id: s for s in work.slices}
    fills = [(a.slice.file_id, a.inserts) for a in plan.assignments if a.slice is not None]
    only_changed = work.changes.keys() - dict(fills).keys()
    index = first
    for file_id, rows in (*fills, *((f, 0) for f in sorted(only_changed))):
        changes = work.changes.get(file_id, ChangeCounts())
        yield Bucket(
            index=index,
            partition=work.partition,
            file_id=file_id,
            base=slices[file_id],
            expected_updates=changes.updates,
            expected_deletes=changes.deletes,
            expected_inserts=rows,
        )
        index += 1
    for group in _grouped(plan.new_files, share):
        yield Bucket(
            index=index,
            partition=work.partition,
            file_id=new_file_id(instant, index),
            expected_inserts=sum(a.inserts for a in group),
        )
        index += 1


def _is_limited_by_rows(plan: SizingPlan, policy: SizingPolicy) -> bool:
    """Return whether the configured number of rows limits new files, and not the maximum file size."""
    return plan.split_size_rows == policy.insert_split_size


def _grouped(files: Sequence[Assignment], share: int) -> Iterator[Sequence[Assignment]]:
    """Yield the new files in groups of at most ``share`` files, each for one bucket."""
    for start in range(0, len(files), share):
        yield files[start : start + share]


def _profile(work: PartitionChanges, buckets: Sequence[Bucket]) -> PartitionProfile:
    """Return the part of the workload profile for one partition."""
    return PartitionProfile(
        inserts=work.inserts,
        files={
            b.file_id: PlannedFile(
                base_instant=b.base.instant,
                updates=b.expected_updates + b.expected_deletes,
                inserts=b.expected_inserts,
            )
            for b in buckets
            if b.base is not None
        },
    )


def decisions_json(plan: WritePlan) -> str:
    """Return the sizing decisions as JSON: for each partition, the row count of each file and its reason.

    The text goes into the commit metadata.
    """
    document: dict[str, Any] = {}
    for partition, sizing in plan.sizing.items():
        kept = [
            {"file": d.slice.file_id, "inserts": d.inserts, "updates": d.updates, "reason": d.reason}
            for d in sizing.decisions
            if d.small or d.inserts or d.updates
        ]
        new = [{"file": None, "inserts": a.inserts, "reason": a.reason} for a in sizing.new_files]
        document[partition] = {"record_size_bytes": round(sizing.record_size_bytes, 2), "files": kept + new}
    return json.dumps(document, separators=(",", ":"))
