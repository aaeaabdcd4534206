"""How many sorted runs of files cover the same point of the clustering columns.

A run is what was ordered together: the files that one clustering wrote by the applied policy, or a
single file of any other writer. Files that only touch at their ends do not cover each other.
Files lie where their bounds rank among the bounds of all files: statistics alone decide.
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
"""More sorted runs than this on one point are worth merging."""

CURVES: Final = frozenset({"zorder", "hilbert"})
_SAMPLED: Final = 16
_PROBES: Final = 40
_LARGEST: Final = 2**16 - 1

_Key = tuple[int, ...]


def depths_of(files: Sequence[ClusteringFile], execution: ExecutionPolicy) -> dict[str, int]:
    """By file id the largest depth at a point within the file; files without known bounds are left out.

    Exact for files in the order of columns one after the other (a sweep over the ends of intervals,
    n log n); along curves it is counted at 40 points, the middles of files and of what two share.
    """
    boxes = boxes_of(files, execution.columns)
    known = [position for position, box in enumerate(boxes) if box is not None]
    digest = execution.digest
    runs = [_run(files[position], digest) for position in known]
    found = [box for box in boxes if box is not None]
    depths = _at_points(found, runs) if execution.strategy in CURVES else _along_order(found, runs)
    return {files[position].file_id: depth for position, depth in zip(known, depths, strict=True)}


def value_order(files: Sequence[ClusteringFile], execution: ExecutionPolicy) -> list[ClusteringFile]:
    """The files so that those with like values lie together, else as they were written."""
    boxes = boxes_of(files, execution.columns)
    known = [(file.file_id, box) for file, box in zip(files, boxes, strict=True) if box is not None]
    keys: dict[str, _Key] = {file_id: tuple(side.low for side in box) for file_id, box in known}
    if execution.strategy in CURVES:
        places = _curve_keys([box for _, box in known])
        keys = {file_id: (place,) for (file_id, _), place in zip(known, places, strict=True)}
    return sorted(files, key=lambda file: (keys.get(file.file_id, ()), file.instant, file.file_id))


def _run(file: ClusteringFile, digest: str) -> str:
    return file.instant if file.digest == digest else f"file {file.file_id}"


def _along_order(boxes: Sequence[Box], runs: Sequence[str]) -> list[int]:
    intervals = [_interval(box) for box in boxes]
    places = _places(key for interval in intervals for key in interval)
    starts: list[list[int]] = [[] for _ in places]
    ends: list[list[int]] = [[] for _ in places]
    for number, (low, high) in enumerate(intervals):
        if low < high:
            starts[places[low]].append(number)
            ends[places[high]].append(number)
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
    return [largest(places[low], places[high]) if low < high else 1 for low, high in intervals]


def _interval(box: Box) -> tuple[_Key, _Key]:
    """The certain interval in the order of the columns one after the other.

    A further column counts only while all rows have one value in those before it.
    """
    low: list[int] = []
    for side in box:
        if side.low < side.high:
            # Rows with the smallest value may have any value in the columns that follow.
            return (*low, side.low, 1), (*low, side.high, -1)
        low += [side.low, 0]
    return tuple(low), tuple(low)


def _places(keys: Iterable[_Key]) -> Mapping[_Key, int]:
    return {key: place for place, key in enumerate(sorted(set(keys)))}


class _RangeMaximum:
    """The largest of some counts in a range, by a sparse table."""

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
    depths = [1] * len(boxes)
    for point in _probes(boxes):
        covering = [number for number, box in enumerate(boxes) if _covers(box, point)]
        depth = len({runs[number] for number in covering})
        for number in covering:
            depths[number] = max(depths[number], depth)
    return depths


def _probes(boxes: Sequence[Box]) -> list[list[int]]:
    """Points in half ranks: the middles of files all along the curve, and of what neighbours share."""
    by_curve = [number for _, number in sorted(zip(_curve_keys(boxes), range(len(boxes)), strict=True))]
    step = max(1, len(by_curve) // _SAMPLED)
    sampled = [boxes[number] for number in by_curve[step // 2 :: step][:_SAMPLED]]
    shared = (
        [Extent(max(a.low, b.low), min(a.high, b.high)) for a, b in zip(one, other, strict=True)]
        for distance in range(1, len(sampled))
        for one, other in zip(sampled, sampled[distance:], strict=False)
    )
    common = (sides for sides in shared if all(side.low <= side.high for side in sides))
    found = chain(sampled, islice(common, _PROBES - len(sampled)))
    return [[side.low + side.high for side in sides] for sides in found]


def _covers(box: Box, point: Sequence[int]) -> bool:
    """Whether the box has the point (in half ranks) within it, not on its edge; a single point has none."""
    if all(side.low == side.high for side in box):
        return False
    for side, place in zip(box, point, strict=True):
        low, high = 2 * side.low, 2 * side.high
        if not (low < place < high or low == place == high):
            return False
    return True


def _curve_keys(boxes: Sequence[Box]) -> list[int]:
    """The places of the boxes' middles on a Z-order curve over ranks, each column to the same scale."""
    middles = [[side.low + side.high for side in box] for box in boxes]
    widest = [max(column) or 1 for column in zip(*middles, strict=True)]
    return [
        _interleaved([middle * _LARGEST // most for middle, most in zip(place, widest, strict=True)])
        for place in middles
    ]


def _interleaved(numbers: Sequence[int]) -> int:
    key = 0
    for bit in reversed(range(_LARGEST.bit_length())):
        for number in numbers:
            key = key << 1 | (number >> bit & 1)
    return key


def mean_depth(depths: Mapping[str, int], files: Sequence[ClusteringFile]) -> float:
    """The mean depth of some files, at most their number; a file of unknown depth counts as that."""
    most = len(files)
    return sum(min(depths.get(file.file_id, most), most) for file in files) / max(most, 1)


@dataclass(frozen=True, slots=True)
class Extent:
    """Between which ranks of a column's values some rows of a file certainly lie.

    Rows may lie outside of it; with ``low == high`` all of them have that one value or may have it.
    """

    low: int
    high: int


Box = tuple[Extent, ...]
"""The extents of a file in the order of the columns."""


def boxes_of(files: Sequence[ClusteringFile], columns: Sequence[str]) -> list[Box | None]:
    """For every file its box, None where a column's bounds are unknown or of another kind.

    Texts are recorded up to a length: what lies between two bounds that were cut is left out, so
    that files which only look alike in the recorded part do not count as overlapping.
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
    """The one value that all rows of the file have in a column, in a tuple; None when not certain."""
    statistics = file.columns.get(column.lower())
    if statistics is None or statistics.nulls is None or file.rows is None:
        return None
    if statistics.nulls == file.rows:
        return (None,)
    low, high = statistics.minimum, statistics.maximum
    is_cut = isinstance(low, str | bytes) and len(low) >= TEXT_LIMIT
    # The bounds of floating point numbers do not tell of NaN.
    if statistics.nulls or low is None or low != high or is_cut or isinstance(low, float):
        return None
    return (low,)


def _extents(files: Sequence[ClusteringFile], column: str) -> list[Extent | None]:
    bounds = [_bounds(file.columns.get(column)) for file in files]
    distinct = {value for found in bounds if found is not None for value in found}
    if len({_kind(value) for value in distinct}) != 1:
        return [None] * len(files)
    rank = {value: position for position, value in enumerate(sorted(distinct))}
    return [None if found is None else Extent(*sorted((rank[found[0]], rank[found[1]]))) for found in bounds]


def _bounds(column: ColumnStatistics | None) -> tuple[StatisticValue, StatisticValue] | None:
    """Bounds that certainly have rows below and above what lies between them."""
    if column is None or column.minimum is None or column.maximum is None:
        return None
    low, high = column.minimum, column.maximum
    if isinstance(low, str | bytes) and len(low) >= TEXT_LIMIT:
        low = _following(low)
    if isinstance(high, str | bytes) and len(high) >= TEXT_LIMIT:
        high = _preceding(high)
    if (type(low) is type(high) or _kind(low) == _kind(high)) and low > high:  # type: ignore[operator]  # of one kind
        # Nothing certain lies between: the file counts as a point.
        return high, high
    return low, high


def _kind(value: StatisticValue) -> str:
    return type(value).__name__ if isinstance(value, str | bytes) else "number"


def _following(text: str | bytes) -> str | bytes:
    """A text above all that begin like that."""
    return text + "\U0010ffff" if isinstance(text, str) else text + b"\xff"


def _preceding(text: str | bytes) -> str | bytes:
    """The text whose last character is the one before: a longer maximum was cut off and counted up."""
    if isinstance(text, bytes):
        return text[:-1] + bytes([text[-1] - 1]) if text[-1] > _LEFT_OF_LAST_BYTE else text[:-1]
    last = ord(text[-1])
    if last == 0:
        return text[:-1]
    return text[:-1] + chr(_FIRST_SURROGATE - 1 if last == _AFTER_SURROGATES else last - 1)


def overlap_depth(bounds: Iterable[tuple[Any, Any] | None]) -> int:
    """The largest number of closed ranges ``(smallest, largest)`` that share a value.

    None is a file whose bounds are not known: it may hold every value. Files without a value are
    left out by the caller. A sweep over the sorted ends: a range that begins where another one ends
    overlaps it.
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
