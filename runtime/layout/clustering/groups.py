"""Groups of files that are rewritten together: multiples of the target, under caps, where it gains."""

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
from parquetry.runtime.layout.packing import FITS, NEAR, UNCERTAIN, first_fit_decreasing, outputs_of
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
    """Groups of the due files of one partition; the files that are in none are better left alone.

    ``scope`` is what they say about themselves. No group exceeds ``capacity_bytes`` but for a single file
    that does. Files whose values may not be mixed (``split_by``) are in different groups as far as
    statistics tell them apart. Those that are in order, and are due to be merged with others that are, are
    apart from all others: they are not rewritten for the sake of what arrives.
    """
    found = []
    ordered_files = [file for file in files if _is_to_be_merged(file, reasons, context)]
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
                found.append(replace(group, scope=scope))
    return found


def divide_into_bins(
    files: Sequence[ClusteringFile],
    *,
    target_bytes: int,
    most_bytes: int,
    capacity_bytes: int,
    most_files: int = MOST_FILES_OF_A_GROUP,
) -> list[list[ClusteringFile]]:
    """The files, in the order given as far as that goes, in bins of at most that many bytes and files.

    At most 11/9 of the smallest possible number of bins plus one, unless ``most_files`` gets in the
    way. A bin holds as many whole targets as the capacity does; where these are few, files are
    taken by size and not in order. No two of the bins fit into one.

    Where the bins would go into files more than a tenth off the target, and as many other ones are better
    at that, it is those.
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
            bins = min((bins, even), key=lambda found: _farthest(found, target_bytes, most_bytes))
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


def _farthest(bins: Iterable[Iterable[ClusteringFile]], target_bytes: int, most_bytes: int) -> float:
    """How far from the target, as a share of it, the files of a bin will be at most; 0.1 is near enough."""
    made = [outputs_of(_size(members), target_bytes=target_bytes, most_bytes=most_bytes) for members in bins]
    off = (abs(size / target_bytes - 1) for one in made for size in (one.each_bytes, one.last_bytes))
    return max(NEAR, *off, 0.0)


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


def _is_to_be_merged(file: ClusteringFile, reasons: Mapping[str, str], context: PlanContext) -> bool:
    """Whether the file is in order by the applied policy and of good size, and due all the same."""
    execution = context.execution
    is_in_order = file.digest is not None and execution.arranges_rows and file.digest == execution.digest
    is_for_its_size = reasons[file.file_id] in _SIZES or context.limits.is_off_size(file.size_bytes)
    return is_in_order and not is_for_its_size


def _group(
    files: Sequence[ClusteringFile], reasons: Mapping[str, str], context: PlanContext
) -> PlannedGroup | None:
    """The group, None when rewriting it would gain nothing."""
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
    """How many files fewer there are, or more where they were too large; 0 unless fewer are ill-sized.

    That has to hold, too, if the writer takes the bytes to be more than they are. Single rows that are
    oversize stay what they are. Files that the applied policy made are as full as their rows allowed: those
    alone become fewer only where whole files fit into one.
    """
    limits = context.limits
    files = [file for file in files if file.rows != 1 or not limits.is_oversize(file.size_bytes)]
    if not any(limits.is_oversize(file.size_bytes) for file in files) and all(
        file.digest == context.execution.digest for file in files
    ):
        wholes = _consecutive(files, int(FITS * limits.most_bytes), len(files))
        return float(len(files) - len(wholes))
    size_bytes, rows = _size(files), rows_of(files)
    before = sum(limits.is_off_size(file.size_bytes) for file in files)
    made = {factor: limits.outputs(factor * size_bytes, rows=rows) for factor in (1.0, UNCERTAIN)}
    after = max(
        sum(limits.is_off_size(int(size / factor)) for size in outputs.sizes)
        for factor, outputs in made.items()
    )
    return 0.0 if after >= before else float(max(abs(len(files) - made[1.0].files), 1))


def _order_gain(files: Sequence[ClusteringFile], reasons: Mapping[str, str], context: PlanContext) -> float:
    """How many of the files that cover one point will not any more; 0 when they are ordered already.

    Files that are in order are, whatever a strategy thinks of them, unless so many runs among them lie over
    each other that one lies where more than ``DEEP`` did: a file that was rewritten for nothing but its
    place covers a fraction of what it covered, so that it happens to it a logarithm of times.
    """
    if not context.execution.arranges_rows:
        return 0.0
    if all(_is_to_be_merged(file, reasons, context) for file in files):
        depths = depths_of(files, context.execution)
        runs = sum(depths.get(file.file_id, 1) for file in files) / len(files)
        return runs - 1 if runs > DEEP else 0.0
    if all(file.digest == context.execution.digest for file in files):
        return 0.0
    return max(mean_depth(context.depths, files) - 1, _ORDER_WITHIN_A_FILE)
