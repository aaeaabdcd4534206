"""The known facts about the values in a file, without a read of its rows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeAlias

StatisticValue: TypeAlias = bool | int | float | str | bytes | Decimal

TEXT_LIMIT = 32
"""The number of characters or bytes of a column's minimum or maximum that are recorded."""

KEY_LIMIT = 256
"""The number of characters that are recorded of record keys, which often share a long prefix."""

_LAST_BEFORE_SURROGATES = "\ud7ff"
_FIRST_AFTER_SURROGATES = "\ue000"
_LAST_CHARACTER = "\U0010ffff"
_LAST_BYTE = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """The bounds of one column's values; None always means unknown.

    ``type`` is the Spark type of the stored values. Dates are days and timestamps are microseconds since
    1970, both as int. Strings compare by code point, which is the order of their UTF-8 bytes. Bounds need not
    be attained. NaN lies outside of them: only ``nan_free`` floating-point columns certainly contain none.
    ``nulls`` is the number of rows in which the column, or a struct around it, is null.
    """

    type: str
    minimum: StatisticValue | None = None
    maximum: StatisticValue | None = None
    nulls: int | None = None
    nan_free: bool = False


Columns: TypeAlias = Mapping[str, ColumnStatistics]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPages:
    """The pages of a column in a row group: the number of the first row of each page, and its bounds."""

    firsts: Sequence[int]
    bounds: Sequence[ColumnStatistics]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSizes:
    """The compressed bytes of pages that begin at rows ``firsts``, of one column or of several alike."""

    firsts: Sequence[int]
    sizes: Sequence[int]
    other_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupPages:
    """The page index of a row group: bounds of the requested ``columns``, and page sizes of all chunks."""

    columns: Mapping[str, ColumnPages]
    chunks: tuple[PageSizes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupStatistics:
    """The statistics of a row group; ``data_bytes`` are compressed. Columns within structs have dotted names.

    If ``pages`` or ``lacking`` is None, it is not known. Recorded statistics do not contain them; they are
    read from the file or predicted. ``lacking`` has the conditions that no value in the dictionary of their
    column fulfils.
    """

    rows: int
    data_bytes: int
    columns: Columns = field(default_factory=dict)
    pages: RowGroupPages | None = field(default=None, compare=False, repr=False)
    lacking: Collection[Hashable] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """The statistics of a base file, derived from its footer; ``path`` is relative to the table.

    ``min_key`` and ``max_key`` bound the record keys in the order of their UTF-8 bytes, or are None if
    unknown. ``clustering`` is the digest of the clustering spec under which the file was written. For an
    ``encrypted`` file no bounds are known.
    """

    path: str
    size_bytes: int
    row_groups: tuple[RowGroupStatistics, ...]
    min_key: str | None = None
    max_key: str | None = None
    clustering: str | None = None
    encrypted: bool = False

    @property
    def rows(self) -> int:
        """The number of rows in all row groups."""
        return sum(group.rows for group in self.row_groups)

    @property
    def data_bytes(self) -> int:
        """The compressed bytes of all row groups, without the footer."""
        return sum(group.data_bytes for group in self.row_groups)

    @property
    def columns(self) -> Columns:
        """The bounds over all row groups."""
        return merge_columns(self.row_groups)


def merge_columns(row_groups: Iterable[RowGroupStatistics]) -> Columns:
    """Return the bounds over the rows of all groups; columns that are missing in any group are left out."""
    groups = [group for group in row_groups if group.rows > 0]
    if not groups:
        return {}
    if len(groups) == 1:
        return {name: _alone(column, groups[0].rows) for name, column in groups[0].columns.items()}
    names = set(groups[0].columns).intersection(*(group.columns for group in groups))
    return {
        name: _merged([(group.columns[name], group.rows) for group in groups])
        for name in groups[0].columns
        if name in names
    }


def truncated(statistics: ColumnStatistics, *, limit: int = TEXT_LIMIT) -> ColumnStatistics:
    """Return the statistics with long texts shortened: the minimum downwards, the maximum upwards.

    A maximum that cannot be shortened upwards becomes unknown.
    """
    minimum, maximum = statistics.minimum, statistics.maximum
    if isinstance(minimum, str | bytes):
        minimum = minimum[:limit]
    if isinstance(maximum, str | bytes) and len(maximum) > limit:
        begin = maximum[:limit]
        maximum = _next_text(begin) if isinstance(begin, str) else _next_bytes(begin)
    return replace(statistics, minimum=minimum, maximum=maximum)


def _next_text(begin: str) -> str | None:
    """Return the smallest text above all texts with this prefix, or None if there is none."""
    kept = begin.rstrip(_LAST_CHARACTER)
    if not kept:
        return None
    last = kept[-1]
    following = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else chr(ord(last) + 1)
    return kept[:-1] + following


def _next_bytes(begin: bytes) -> bytes | None:
    kept = begin.rstrip(bytes([_LAST_BYTE]))
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _alone(column: ColumnStatistics, rows: int) -> ColumnStatistics:
    """Return the result of :func:`_merged` for a single row group, which is the most frequent case."""
    if column.nulls is None or column.nulls < rows:
        return column
    return replace(column, minimum=None, maximum=None, nan_free=False)


def _merged(parts: list[tuple[ColumnStatistics, int]]) -> ColumnStatistics:
    """Return the bounds of a column over several row groups, each given with its number of rows."""
    types = {part.type for part, _ in parts}
    # A group without values has no bounds and does not widen the others.
    valued = [part for part, rows in parts if part.nulls is None or part.nulls < rows]
    lows = [part.minimum for part in valued]
    highs = [part.maximum for part in valued]
    nulls = [part.nulls for part, _ in parts]
    known = len(types) == 1
    return ColumnStatistics(
        type=parts[0][0].type,
        minimum=_lowest(lows) if known else None,
        maximum=_highest(highs) if known else None,
        nulls=sum(n for n in nulls if n is not None) if None not in nulls else None,
        nan_free=bool(valued) and all(part.nan_free for part in valued),
    )


def _lowest(bounds: list[StatisticValue | None]) -> StatisticValue | None:
    """Return the smallest of the bounds, or None if one of them is unknown."""
    known = [bound for bound in bounds if bound is not None]
    return min(known) if known and len(known) == len(bounds) else None


def _highest(bounds: list[StatisticValue | None]) -> StatisticValue | None:
    """Return the largest of the bounds, or None if one of them is unknown."""
    known = [bound for bound in bounds if bound is not None]
    return max(known) if known and len(known) == len(bounds) else None
