"""Where files lie among the values of their clustering columns, as ranks, by statistics alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.layout.clustering.model import ClusteringFile
from parquetry.runtime.layout.skipping.statistics import TEXT_LIMIT, ColumnStatistics, StatisticValue

_LEFT_OF_LAST_BYTE: Final = 0
_FIRST_SURROGATE, _AFTER_SURROGATES = 0xD800, 0xE000


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
    kinds = {_kind(low) for found in bounds if found is not None for low in found}
    if len(kinds) != 1:
        return [None] * len(files)
    values = sorted({value for found in bounds if found is not None for value in found})
    rank = {value: position for position, value in enumerate(values)}
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
    if _kind(low) == _kind(high) and low > high:  # type: ignore[operator]  # of one kind
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
