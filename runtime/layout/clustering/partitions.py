"""The choice of partitions for clustering, by their values: dates as dates, numbers as numbers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import unquote

from parquetry.errors import message_of
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.clustering.model import Partitioning
from parquetry.runtime.spec.clustering import PartitionFilter
from parquetry.text.linear_regex import LinearRegex, RegexError

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_NUMBERS: Final = re.compile(r"([0-9]+)")
_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint", "timestamp"})
_DATE: Final = re.compile(r"([+-]?[0-9]{4,})-([0-9]{1,2})-([0-9]{1,2})")

_IS_NULL, _IS_UNREAD, _IS_VALUE = range(3)


def chosen_partitions(
    partitions: Collection[str], policy: PartitionFilter, partitioning: Partitioning
) -> frozenset[str]:
    """Return the partition paths that the filter chooses.

    ``selected`` and ``regex`` (which has to match the whole path) apply first. From the rest, the
    ``skip_newest`` newest partitions are removed, and then only the ``recent`` newest remain.

    Args:
        partitions: The paths of all partitions.
        policy: The filter.
        partitioning: The spelling of values in the paths.

    Raises:
        InvalidDataError: If ``regex`` is not a regular expression.

    """
    chosen = set(partitions)
    if policy.selected:
        chosen &= set(policy.selected)
    if policy.regex is not None:
        chosen &= _compiled(policy.regex).matching(chosen)
    if policy.recent is None and not policy.skip_newest:
        return frozenset(chosen)
    newest_first = sorted(chosen, key=lambda path: _order(path, partitioning), reverse=True)
    end = None if policy.recent is None else policy.skip_newest + policy.recent
    return frozenset(newest_first[policy.skip_newest : end])


def _compiled(regex: str) -> LinearRegex:
    try:
        return LinearRegex(regex)
    except RegexError as error:
        raise InvalidDataError(
            "clustering.plan.partitions.regex: {regex!r} is not a regular expression ({error}); correct it",
            regex=regex,
            error=message_of(error),
        ) from error


def _order(path: str, partitioning: Partitioning) -> tuple[Any, ...]:
    """Return the sort key of a partition: the values of its columns, then the path."""
    columns = partitioning.columns
    levels = path.split("/")
    if not columns or len(levels) != len(columns):
        # A value contains '/', such as 2013/6/1 in one column.
        return tuple((_IS_UNREAD, _natural(level)) for level in levels), path
    values = (
        _value(level.removeprefix(f"{name}=") if partitioning.hive_style else level, kind, partitioning)
        for level, (name, kind) in zip(levels, columns, strict=True)
    )
    return tuple(values), path


def _value(level: str, kind: str, partitioning: Partitioning) -> tuple[int, Any]:
    """Return the sort key of one value in a partition path: a rank, then the value among those of this rank.

    Null is the smallest value, as in Spark's order. Values that are not of the type ``kind`` have a rank of
    their own.
    """
    text = unquote(level) if partitioning.url_encode else level
    if text == _NULL:
        return _IS_NULL, ()
    try:
        return _IS_VALUE, _read(text, kind)
    except (ValueError, InvalidOperation):
        return _IS_UNREAD, _natural(text)


def _read(text: str, kind: str) -> Any:
    """Return the value of a partition column in a form that sorts like the column's type.

    Dates become tuples of year, month and day. Raise ValueError or InvalidOperation if the text is not of the
    type ``kind``.
    """
    if kind in _WHOLE:
        return int(text)
    if kind in {"float", "double"} or kind.startswith("decimal"):
        value = Decimal(text)
        if value.is_nan():
            raise ValueError(text)
        return value
    if kind == "date":
        match = _DATE.fullmatch(text)
        if match is None:
            return dt.datetime.strptime(text, "%Y%m%d").replace(tzinfo=dt.UTC).date().timetuple()[:3]
        return tuple(int(part) for part in match.groups())
    if kind == "boolean":
        return text == "true"
    return _natural(text)


def _natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return the sort key of a text in which numbers sort as numbers, so 9 sorts before 10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _NUMBERS.split(text) if part)
