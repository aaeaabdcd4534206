"""Groups of files that are rewritten together: multiples of the target, under caps, where it gains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from parquetry.runtime.layout.clustering_bounds import single_value
from parquetry.runtime.layout.clustering_depth import mean_depth, value_order
from parquetry.runtime.layout.clustering_model import ClusteringFile, Due, PlanContext, PlannedGroup
from parquetry.runtime.layout.clustering_policy import Scope
from parquetry.runtime.layout.packing import files_near, first_fit_decreasing

MOST_FILES_OF_A_GROUP: Final = 2_000

_FEW_TARGETS: Final = 4
_NEAR_ENOUGH: Final = 0.1
_ORDER_WITHIN_A_FILE: Final = 0.5
_SIZES: Final = frozenset({Due.SMALL, Due.OVERSIZE})


def groups_of(
    files: Sequence[ClusteringFile],
    reasons: Mapping[str, str],
    context: PlanContext,
    *,
    capacity_bytes: int,
    most_files: int = MOST_FILES_OF_A_GROUP,
    scope: Scope = Scope.GROUP,
) -> list[PlannedGroup]:
    """Groups of the due files of one partition; the files that are in none are better left alone.

    ``scope`` is what they say about themselves. No group exceeds ``capacity_bytes`` but for a single file
    that does. Files whose values may not be mixed (``split_by``) are in different groups as far as
    statistics tell them apart.
    """
    found = []
    for bucket in _buckets(files, context):
        ordered = value_order(bucket, context.execution)
        target_bytes = context.limits.target_bytes
        for members in cut(
            ordered,
            target_bytes=target_bytes,
            capacity_bytes=capacity_bytes,
            most_files=most_files,
            smallest_bytes=context.limits.small_below_bytes,
        ):
            group = _group(members, reasons, context)
            if group is not None:
                found.append(replace(group, scope=scope))
    return found


def cut(
    files: Sequence[ClusteringFile],
    *,
    target_bytes: int,
    capacity_bytes: int,
    most_files: int = MOST_FILES_OF_A_GROUP,
    smallest_bytes: int = 0,
) -> list[list[ClusteringFile]]:
    """The files, in the order given as far as that goes, in bins of at most that many bytes and files.

    At most 11/9 of the smallest possible number of bins plus one, unless ``most_files`` gets in the
    way. A bin holds as many whole targets as the capacity does; where these are few, files are
    taken by size and not in order. No two of the bins fit into one.

    Where the bins would go into files more than a tenth off the target, none of which is to be below
    ``smallest_bytes``, and as many other ones are better at that, it is those.
    """
    capacity = max(capacity_bytes // target_bytes * target_bytes, min(capacity_bytes, target_bytes))
    bins = _consecutive(files, capacity, most_files)
    fewest = -(-sum(file.size_bytes for file in files) // max(capacity, 1))
    if capacity < _FEW_TARGETS * target_bytes or 9 * (len(bins) - 1) > 11 * fewest:
        sizes = [file.size_bytes for file in files]
        packed = first_fit_decreasing(sizes, capacity=capacity, most=most_files)
        bins = [[files[position] for position in sorted(positions)] for positions in packed]
    bins = _joined(bins, capacity, most_files)
    largest = max(capacity_bytes, capacity)
    total = sum(file.size_bytes for file in files)
    wanted = max(total // target_bytes, 1)
    for outputs in (wanted, wanted + 1):
        even = _even(files, total / outputs, outputs, largest)
        if len(even) == len(bins) and all(
            len(members) <= most_files and _size(members) <= largest for members in even
        ):
            bins = min((bins, even), key=lambda found: _farthest(found, target_bytes, smallest_bytes))
    return bins


def _even(
    files: Sequence[ClusteringFile], output_bytes: float, outputs: int, capacity: int
) -> list[list[ClusteringFile]]:
    """The files in their order in bins of about whole multiples of ``output_bytes``, each as many of them."""
    bins = -(-outputs // max(int(capacity // max(output_bytes, 1)), 1))
    ends = [output_bytes * (outputs * (number + 1) // bins) for number in range(bins)]
    found: list[list[ClusteringFile]] = [[] for _ in ends]
    number = 0
    seen = 0
    for file in files:
        while number + 1 < bins and seen + file.size_bytes / 2 > ends[number]:
            number += 1
        found[number].append(file)
        seen += file.size_bytes
    return [members for members in found if members]


def _farthest(bins: Iterable[Iterable[ClusteringFile]], target_bytes: int, smallest_bytes: int) -> float:
    """How far from the target, as a share of it, the files of a bin will be at most; 0.1 is near enough."""
    sizes = [_size(members) for members in bins]
    files = [files_near(size, target_bytes=target_bytes, smallest_bytes=smallest_bytes) for size in sizes]
    off = (abs(size / count / target_bytes - 1) for size, count in zip(sizes, files, strict=True))
    return max(_NEAR_ENOUGH, *off, 0.0)


def _size(files: Iterable[ClusteringFile]) -> int:
    return sum(file.size_bytes for file in files)


def _consecutive(
    files: Iterable[ClusteringFile], capacity: int, most_files: int
) -> list[list[ClusteringFile]]:
    bins: list[list[ClusteringFile]] = []
    room = -1
    for file in files:
        if file.size_bytes > room or len(bins[-1]) >= most_files:
            bins.append([])
            room = capacity
        bins[-1].append(file)
        room -= file.size_bytes
    return bins


def _joined(bins: list[list[ClusteringFile]], capacity: int, most_files: int) -> list[list[ClusteringFile]]:
    """The bins, with those in one that fit into one: what is left over is not left in many places."""
    sizes = [sum(file.size_bytes for file in members) for members in bins]
    joined: list[list[ClusteringFile]] = []
    for positions in first_fit_decreasing(sizes, capacity=capacity):
        joined.append([])
        for position in sorted(positions):
            if joined[-1] and len(joined[-1]) + len(bins[position]) > most_files:
                joined.append([])
            joined[-1] += bins[position]
    return joined


def _buckets(files: Sequence[ClusteringFile], context: PlanContext) -> list[list[ClusteringFile]]:
    """Files that may go into one file with each other, by the values of the ``split_by`` columns."""
    execution = context.execution
    if not execution.split_by:
        return [list(files)]
    buckets: dict[object, list[ClusteringFile]] = defaultdict(list)
    for file in files:
        values = [single_value(file, column) for column in execution.split_by]
        key: object = tuple(values)
        if None in values:
            # By the applied policy it has one value, only which one cannot be seen.
            key = file.file_id if file.digest == execution.digest else "mixed"
        buckets[key].append(file)
    return list(buckets.values())


def _group(
    files: Sequence[ClusteringFile], reasons: Mapping[str, str], context: PlanContext
) -> PlannedGroup | None:
    """The group, None when rewriting it would gain nothing."""
    size = sum(file.size_bytes for file in files)
    outputs = context.limits.output_files(size)
    ordered = _order_gain(files, reasons, context)
    resized = _size_gain(files, size / outputs, outputs, context)
    if not ordered and not resized:
        return None
    return PlannedGroup(
        partition=files[0].partition,
        files=tuple(files),
        output_files=outputs,
        benefit=ordered + resized,
        reasons={file.file_id: reasons[file.file_id] for file in files},
    )


def _size_gain(
    files: Sequence[ClusteringFile], size_after_bytes: float, outputs: int, context: PlanContext
) -> float:
    """How many files fewer there are, or more where they were too large; 0 unless fewer are ill-sized."""
    limits = context.limits
    before = sum(limits.is_ill(file.size_bytes) for file in files)
    if (outputs if limits.is_ill(int(size_after_bytes)) else 0) >= before:
        return 0.0
    return float(max(abs(len(files) - outputs), 1))


def _order_gain(files: Sequence[ClusteringFile], reasons: Mapping[str, str], context: PlanContext) -> float:
    """How many of the files that cover one point will not any more; 0 when they are ordered already.

    Files that one clustering wrote by the applied policy are, whatever a strategy thinks of them.
    """
    applied = context.execution.digest
    of_policy = all(file.digest == applied for file in files)
    if not context.execution.arranges_rows or (of_policy and len({file.instant for file in files}) == 1):
        return 0.0
    if of_policy and all(reasons[file.file_id] in _SIZES for file in files):
        return 0.0
    return max(mean_depth(context.depths, files) - 1, _ORDER_WITHIN_A_FILE)
