"""Groups of files that are rewritten together: multiples of the target size, within limits, with a gain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from parquetry.runtime.layout.clustering.depth import DEEP, depths_of, mean_depth, single_value, value_order
from parquetry.runtime.layout.clustering.model import (
    ClusteringFile,
    DueReason,
    PlanContext,
    PlannedGroup,
    rows_of,
)
from parquetry.runtime.layout.packing import (
    ESTIMATE_FACTOR,
    LAST_ROWS_SHARE,
    TARGET_TOLERANCE,
    first_fit_decreasing,
    outputs_of,
)
from parquetry.runtime.spec.clustering import ClusteringScope

MOST_FILES_OF_A_GROUP: Final = 2_000

_FEW_TARGETS: Final = 4
_ORDER_WITHIN_A_FILE: Final = 0.5
_SIZES: Final = frozenset({DueReason.SMALL, DueReason.OVERSIZE})


def groups_of(
    files: Sequence[ClusteringFile],
    reasons: Mapping[str, str],
    context: PlanContext,
    *,
    capacity_bytes: int,
    most_files: int = MOST_FILES_OF_A_GROUP,
    scope: ClusteringScope = ClusteringScope.GROUP,
) -> list[PlannedGroup]:
    """Return the groups of the due files of one partition; files in no group gain nothing from a rewrite.

    Files that ``split_by`` keeps apart are in different groups, as far as statistics can distinguish them.
    Ordered files of good size that are only due to be merged with each other are kept apart from all other
    files, so that newly arrived files do not cause their rewrite.

    Args:
        files: The due files.
        reasons: Their due reasons, by file id.
        context: The policies, size limits and depths.
        capacity_bytes: The largest size of a group; only a group of a single file may exceed it.
        most_files: The largest number of files in a group.
        scope: The scope that is recorded in the groups.

    """
    groups = []
    ordered_files = [file for file in files if _is_ordered(file, reasons, context)]
    merged = {file.file_id for file in ordered_files}
    others = [file for file in files if file.file_id not in merged]
    for bucket in [*_buckets(others, context), *_buckets(ordered_files, context)]:
        ordered = value_order(bucket, context.execution)
        target_bytes = context.limits.target_bytes
        for members in divide_into_bins(
            ordered,
            target_bytes=target_bytes,
            most_bytes=context.limits.most_bytes,
            capacity_bytes=capacity_bytes,
            most_files=most_files,
        ):
            group = _group(members, reasons, context)
            if group is not None:
                groups.append(replace(group, scope=scope))
    return groups


def divide_into_bins(
    files: Sequence[ClusteringFile],
    *,
    target_bytes: int,
    most_bytes: int,
    capacity_bytes: int,
    most_files: int = MOST_FILES_OF_A_GROUP,
) -> list[list[ClusteringFile]]:
    """Divide the files into bins of limited bytes and files, in the given order where possible.

    The number of bins is at most 11/9 of the smallest possible number plus one, unless ``most_files``
    requires more. The capacity of a bin is a whole multiple of the target. If it is only a few targets, files
    are packed by size instead of order. No two bins fit into one.

    If this would make output files that differ from the target by more than a tenth, bins of equal size are
    tried. They are used if they are as many and their output files come closer to the target.

    Args:
        files: The files to divide.
        target_bytes: The target size of output files.
        most_bytes: The maximum size of output files.
        capacity_bytes: The largest size of a bin.
        most_files: The largest number of files in a bin.

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
        equal_bins = _equal_bins(files, total / outputs, outputs, largest)
        if len(equal_bins) == len(bins) and all(
            len(members) <= most_files and _size(members) <= largest for members in equal_bins
        ):
            bins = min(
                (bins, equal_bins),
                key=lambda candidate: _largest_deviation(candidate, target_bytes, most_bytes),
            )
    return bins


def _equal_bins(
    files: Sequence[ClusteringFile], output_bytes: float, outputs: int, capacity: int
) -> list[list[ClusteringFile]]:
    """Divide the files, in their order, into bins of about equal multiples of ``output_bytes``."""
    bins = -(-outputs // max(int(capacity // max(output_bytes, 1)), 1))
    ends = [output_bytes * (outputs * (number + 1) // bins) for number in range(bins)]
    filled: list[list[ClusteringFile]] = [[] for _ in ends]
    number = 0
    seen = 0
    for file in files:
        while number + 1 < bins and seen + file.size_bytes / 2 > ends[number]:
            number += 1
        filled[number].append(file)
        seen += file.size_bytes
    return [members for members in filled if members]


def _largest_deviation(bins: Iterable[Iterable[ClusteringFile]], target_bytes: int, most_bytes: int) -> float:
    """Return the largest relative deviation of an output file from the target size, but at least 0.1."""
    made = [outputs_of(_size(members), target_bytes=target_bytes, most_bytes=most_bytes) for members in bins]
    off = (abs(size / target_bytes - 1) for one in made for size in (one.each_bytes, one.last_bytes))
    return max(TARGET_TOLERANCE, *off, 0.0)


def _size(files: Iterable[ClusteringFile]) -> int:
    """Return the total bytes of the files."""
    return sum(file.size_bytes for file in files)


def _consecutive(
    files: Iterable[ClusteringFile], capacity: int, most_files: int
) -> list[list[ClusteringFile]]:
    """Divide the files, in their order, into bins. A bin ends before the next file would exceed a limit."""
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
    """Return the bins after merging those that fit into one, so that leftovers do not fill many bins."""
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
    """Return the files by the values of their ``split_by`` columns; only files of one bucket may merge."""
    execution = context.execution
    if not execution.split_by:
        return [list(files)]
    buckets: dict[object, list[ClusteringFile]] = defaultdict(list)
    for file in files:
        values = [single_value(file, column) for column in execution.split_by]
        key: object = tuple(values)
        if None in values:
            # A file written under the applied policy has a single value, but statistics do not show which.
            key = file.file_id if file.digest == execution.digest else "mixed"
        buckets[key].append(file)
    return list(buckets.values())


def _is_ordered(file: ClusteringFile, reasons: Mapping[str, str], context: PlanContext) -> bool:
    """Return whether a due file is already in the applied order and of good size."""
    execution = context.execution
    is_in_order = file.digest is not None and execution.arranges_rows and file.digest == execution.digest
    is_for_its_size = reasons[file.file_id] in _SIZES or context.limits.is_off_size(file.size_bytes)
    return is_in_order and not is_for_its_size


def _group(
    files: Sequence[ClusteringFile], reasons: Mapping[str, str], context: PlanContext
) -> PlannedGroup | None:
    """Return the group, or None if rewriting it would gain nothing."""
    ordered = _order_gain(files, reasons, context)
    resized = _size_gain(files, context)
    if not ordered and not resized:
        return None
    return PlannedGroup(
        partition=files[0].partition,
        files=tuple(files),
        output_files=context.limits.output_files(_size(files), rows=rows_of(files)),
        benefit=ordered + resized,
        reasons={file.file_id: reasons[file.file_id] for file in files},
    )


def _size_gain(files: Sequence[ClusteringFile], context: PlanContext) -> float:
    """Return how many files a rewrite adds or removes, or 0 if as many files of wrong size would remain.

    Fewer files of wrong size must also remain if the writer overestimates the bytes. Oversize files of a
    single row cannot change. Files that all have the applied digest are as full as their rows allowed, so
    they gain only if whole files fit into one.
    """
    limits = context.limits
    files = [file for file in files if file.rows != 1 or not limits.is_oversize(file.size_bytes)]
    if not any(limits.is_oversize(file.size_bytes) for file in files) and all(
        file.digest == context.execution.digest for file in files
    ):
        refilled = _consecutive(files, int(LAST_ROWS_SHARE * limits.most_bytes), len(files))
        return float(len(files) - len(refilled))
    size_bytes, rows = _size(files), rows_of(files)
    before = sum(limits.is_off_size(file.size_bytes) for file in files)
    made = {factor: limits.outputs(factor * size_bytes, rows=rows) for factor in (1.0, ESTIMATE_FACTOR)}
    after = max(
        sum(limits.is_off_size(int(size / factor)) for size in outputs.sizes)
        for factor, outputs in made.items()
    )
    return 0.0 if after >= before else float(max(abs(len(files) - made[1.0].files), 1))


def _order_gain(files: Sequence[ClusteringFile], reasons: Mapping[str, str], context: PlanContext) -> float:
    """Return by how much a rewrite reduces the overlap depth of the files, or 0 if they are in order already.

    Ordered files of good size count as in order, whatever the strategy returns, unless their mean depth among
    each other exceeds ``DEEP``. After a rewrite for this reason alone, a file covers only a fraction of its
    former range, so it is rewritten only a logarithmic number of times.
    """
    if not context.execution.arranges_rows:
        return 0.0
    if all(_is_ordered(file, reasons, context) for file in files):
        depths = depths_of(files, context.execution)
        runs = sum(depths.get(file.file_id, 1) for file in files) / len(files)
        return runs - 1 if runs > DEEP else 0.0
    if all(file.digest == context.execution.digest for file in files):
        return 0.0
    return max(mean_depth(context.depths, files) - 1, _ORDER_WITHIN_A_FILE)
