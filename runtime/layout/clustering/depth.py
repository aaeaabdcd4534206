"""Overlap depth: the number of sorted runs of files that cover the same point of the clustering columns.

A sorted run consists of the files that one clustering wrote under the applied policy, or of a single file of
any other writer. Files that only touch at their ends do not cover each other. Only statistics are used: the
bounds of each file are replaced by their ranks among the bounds of all files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from parquetry.runtime.layout.clustering.model import ClusteringFile
from parquetry.runtime.layout.skipping.statistics import TEXT_LIMIT, ColumnStatistics, StatisticValue
from parquetry.runtime.spec.clustering import ExecutionPolicy

_BEGIN, _END = 0, 1

_LEFT_OF_LAST_BYTE: Final = 0
_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000

DEEP: Final = 4
"""If more sorted runs than this cover a point, merging them pays."""

CURVES: Final = frozenset({"zorder", "hilbert"})
_SAMPLED: Final = 16
_PROBES: Final = 40
_LARGEST: Final = 2**16 - 1

_Key = tuple[int, ...]


def depths_of(files: Sequence[ClusteringFile], execution: ExecutionPolicy) -> dict[str, int]:
    """Return the largest depth within each file, by file id; files with unknown bounds are left out.

    For a sort by columns the depth is exact, computed by a sweep-line algorithm over the ends of the
    intervals in n log n steps. For curves it is counted at 40 points: the middles of files and of the parts
    that two share.
    """
    boxes = boxes_of(files, execution.columns)
    known = [position for position, box in enumerate(boxes) if box is not None]
    digest = execution.digest
    runs = [_run(files[position], digest) for position in known]
    known_boxes = [box for box in boxes if box is not None]
    depths = (
        _at_points(known_boxes, runs) if execution.strategy in CURVES else _along_order(known_boxes, runs)
    )
    return {files[position].file_id: depth for position, depth in zip(known, depths, strict=True)}


def value_order(files: Sequence[ClusteringFile], execution: ExecutionPolicy) -> list[ClusteringFile]:
    """Return the files in the order of their values. Files with unknown bounds come first, by instant."""
    boxes = boxes_of(files, execution.columns)
    known = [(file.file_id, box) for file, box in zip(files, boxes, strict=True) if box is not None]
    keys: dict[str, _Key] = {file_id: tuple(side.low for side in box) for file_id, box in known}
    if execution.strategy in CURVES:
        positions = _curve_keys([box for _, box in known])
        keys = {file_id: (position,) for (file_id, _), position in zip(known, positions, strict=True)}
    return sorted(files, key=lambda file: (keys.get(file.file_id, ()), file.instant, file.file_id))


def _run(file: ClusteringFile, digest: str) -> str:
    """Return the name of the sorted run of a file: the instant of its clustering, or the file itself."""
    return file.instant if file.digest == digest else f"file {file.file_id}"


def _along_order(boxes: Sequence[Box], runs: Sequence[str]) -> list[int]:
    """Return the exact depth of each box for a sort by columns, with a sweep over the ends of intervals."""
    intervals = [_interval(box) for box in boxes]
    ranks = _rank_of_keys(key for interval in intervals for key in interval)
    starts: list[list[int]] = [[] for _ in ranks]
    ends: list[list[int]] = [[] for _ in ranks]
    for number, (low, high) in enumerate(intervals):
        if low < high:
            starts[ranks[low]].append(number)
            ends[ranks[high]].append(number)
    active: Counter[str] = Counter()
    counts = []
    for begun, ended in zip(starts, ends, strict=True):
        for number in ended:
            active[runs[number]] -= 1
            if not active[runs[number]]:
                del active[runs[number]]
        for number in begun:
            active[runs[number]] += 1
        counts.append(len(active))
    largest = _RangeMaximum(counts)
    return [largest(ranks[low], ranks[high]) if low < high else 1 for low, high in intervals]


def _interval(box: Box) -> tuple[_Key, _Key]:
    """Return the smallest and the largest sort key between which rows of a file certainly lie.

    A later column counts only if all rows have one single value in each column before it.
    """
    low: list[int] = []
    for side in box:
        if side.low < side.high:
            # Rows with the smallest value may have any value in the later columns.
            return (*low, side.low, 1), (*low, side.high, -1)
        low += [side.low, 0]
    return tuple(low), tuple(low)


def _rank_of_keys(keys: Iterable[_Key]) -> Mapping[_Key, int]:
    """Return the rank of each distinct key."""
    return {key: rank for rank, key in enumerate(sorted(set(keys)))}


class _RangeMaximum:
    """The maximum of the counts in a range, looked up in a sparse table."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._levels = [list(counts)]
        width = 1
        while 2 * width <= len(counts):
            below = self._levels[-1]
            self._levels.append(list(map(max, below, below[width:])))
            width *= 2

    def __call__(self, begin: int, end: int) -> int:
        level = (end - begin).bit_length() - 1
        row = self._levels[level]
        return max(row[begin], row[end - (1 << level)])


def _at_points(boxes: Sequence[Box], runs: Sequence[str]) -> list[int]:
    """Return an estimate of the depth of each box: the largest depth at the sampled points that it covers.

    This is used for space-filling curves, where the exact depth is not known.
    """
    depths = [1] * len(boxes)
    for point in _probes(boxes):
        covering = [number for number, box in enumerate(boxes) if _covers(box, point)]
        depth = len({runs[number] for number in covering})
        for number in covering:
            depths[number] = max(depths[number], depth)
    return depths


def _probes(boxes: Sequence[Box]) -> list[list[int]]:
    """Return the points at which depths are counted, in half ranks.

    These are the middles of a sample of files along the curve, and the middles of the parts that two of these
    files share.
    """
    # Boxes at one position of the curve are ordered too, so that the order of files does not matter.
    by_curve = [box for _, box in sorted(zip(_curve_keys(boxes), boxes, strict=True))]
    step = max(1, len(by_curve) // _SAMPLED)
    sampled = by_curve[step // 2 :: step][:_SAMPLED]
    shared = (
        [Extent(max(a.low, b.low), min(a.high, b.high)) for a, b in zip(one, other, strict=True)]
        for distance in range(1, len(sampled))
        for one, other in zip(sampled, sampled[distance:], strict=False)
    )
    common = (sides for sides in shared if all(side.low <= side.high for side in sides))
    boxes_and_overlaps = chain(sampled, islice(common, _PROBES - len(sampled)))
    return [[side.low + side.high for side in sides] for sides in boxes_and_overlaps]


def _covers(box: Box, point: Sequence[int]) -> bool:
    """Return whether the point (in half ranks) lies inside the box and not on its edge.

    A box that is a single point covers nothing.
    """
    if all(side.low == side.high for side in box):
        return False
    for side, coordinate in zip(box, point, strict=True):
        low, high = 2 * side.low, 2 * side.high
        if not (low < coordinate < high or low == coordinate == high):
            return False
    return True


def _curve_keys(boxes: Sequence[Box]) -> list[int]:
    """Return the position of the middle of each box on a Z-order curve, with the columns scaled alike."""
    middles = [[side.low + side.high for side in box] for box in boxes]
    widest = [max(column) or 1 for column in zip(*middles, strict=True)]
    return [
        _interleaved([coordinate * _LARGEST // most for coordinate, most in zip(middle, widest, strict=True)])
        for middle in middles
    ]


def _interleaved(numbers: Sequence[int]) -> int:
    key = 0
    for bit in reversed(range(_LARGEST.bit_length())):
        for number in numbers:
            key = key << 1 | (number >> bit & 1)
    return key


def mean_depth(depths: Mapping[str, int], files: Sequence[ClusteringFile]) -> float:
    """Return the mean depth of the files.

    No depth counts more than the number of files, and an unknown depth counts as that number.
    """
    most = len(files)
    return sum(min(depths.get(file.file_id, most), most) for file in files) / max(most, 1)


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """Two ranks of a column's values between which some rows of a file certainly lie.

    Rows may also lie outside. If ``low == high``, all rows have that value or may have it.
    """

    low: int
    high: int


Box = tuple[Extent, ...]
"""The extents of a file, in the order of the columns."""


def boxes_of(files: Sequence[ClusteringFile], columns: Sequence[str]) -> list[Box | None]:
    """Return the box of each file, or None if the bounds of a column are unknown or of different kinds.

    Recorded text bounds are truncated. The values between two truncated bounds are left out, so that files
    that are only equal in the recorded part do not count as overlapping.
    """
    if not columns:
        return [None] * len(files)
    extents = [_extents(files, column.lower()) for column in columns]
    boxes: list[Box | None] = []
    for sides in zip(*extents, strict=True):
        known = tuple(side for side in sides if side is not None)
        boxes.append(known if len(known) == len(columns) else None)
    return boxes


def single_value(file: ClusteringFile, column: str) -> tuple[StatisticValue | None] | None:
    """Return the single value of a column in all rows of the file, in a tuple, or None if uncertain.

    The tuple ``(None,)`` means that the column is null in all rows.
    """
    statistics = file.columns.get(column.lower())
    if statistics is None or statistics.nulls is None or file.rows is None:
        return None
    if statistics.nulls == file.rows:
        return (None,)
    low, high = statistics.minimum, statistics.maximum
    is_cut = isinstance(low, str | bytes) and len(low) >= TEXT_LIMIT
    # The bounds of floating-point columns do not show whether there are NaN values.
    if statistics.nulls or low is None or low != high or is_cut or isinstance(low, float):
        return None
    return (low,)


def _extents(files: Sequence[ClusteringFile], column: str) -> list[Extent | None]:
    """Return the extent of each file in a column, or None if its bounds are unknown.

    The ranks are those among the bounds of all files.
    """
    bounds = [_bounds(file.columns.get(column)) for file in files]
    distinct = {value for ends in bounds if ends is not None for value in ends}
    if len({_kind(value) for value in distinct}) != 1:
        return [None] * len(files)
    rank = {value: position for position, value in enumerate(sorted(distinct))}
    return [None if ends is None else Extent(*sorted((rank[ends[0]], rank[ends[1]]))) for ends in bounds]


def _bounds(column: ColumnStatistics | None) -> tuple[StatisticValue, StatisticValue] | None:
    """Return two values between which rows of the file certainly lie, or None if they are unknown.

    At least one row is at or below the first value, and one at or above the second. Truncated texts are
    corrected for this.
    """
    if column is None or column.minimum is None or column.maximum is None:
        return None
    low, high = column.minimum, column.maximum
    if isinstance(low, str | bytes) and len(low) >= TEXT_LIMIT:
        low = _following(low)
    if isinstance(high, str | bytes) and len(high) >= TEXT_LIMIT:
        high = _preceding(high)
    if (type(low) is type(high) or _kind(low) == _kind(high)) and low > high:  # type: ignore[operator]  # of one kind
        # No value is certain, so the file counts as a point.
        return high, high
    return low, high


def _kind(value: StatisticValue) -> str:
    return type(value).__name__ if isinstance(value, str | bytes) else "number"


def _following(text: str | bytes) -> str | bytes:
    """Return a text above all texts with this prefix."""
    return text + "\U0010ffff" if isinstance(text, str) else text + b"\xff"


def _preceding(text: str | bytes) -> str | bytes:
    """Return the text with its last character decremented, because a truncated maximum had it incremented."""
    if isinstance(text, bytes):
        return text[:-1] + bytes([text[-1] - 1]) if text[-1] > _LEFT_OF_LAST_BYTE else text[:-1]
    last = ord(text[-1])
    if last == 0:
        return text[:-1]
    return text[:-1] + chr(_FIRST_SURROGATE - 1 if last == _AFTER_SURROGATES else last - 1)


def overlap_depth(bounds: Iterable[tuple[Any, Any] | None]) -> int:
    """Return the largest number of closed ranges ``(smallest, largest)`` that contain the same value.

    None stands for a file with unknown bounds, which may hold any value. The caller leaves out files without
    values. A sweep-line algorithm visits the sorted ends. Ranges that only share an end overlap.
    """
    unknown = 0
    ends: list[tuple[Any, int]] = []
    for bound in bounds:
        if bound is None:
            unknown += 1
        else:
            ends += [(bound[0], _BEGIN), (bound[1], _END)]
    ends.sort()
    depth = deepest = 0
    for _, kind in ends:
        depth += 1 if kind == _BEGIN else -1
        deepest = max(deepest, depth)
    return deepest + unknown
