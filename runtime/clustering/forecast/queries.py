"""What declared queries read before clustering, were expected to read after it, and read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, Self, TypeVar

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.files import Touched
from parquetry.runtime.spec.codec import from_json_value, parsed_json

MEASURED_KEY: Final = "parquetry.measured"
"""Where a replacecommit says it, in JSON."""

_DIGITS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """By how much more was expected than there is to read, as a share of what there is.

    None where nothing is to be read though something was expected.
    """

    files: float | None
    row_groups: float | None
    rows: float | None
    data_bytes: float | None

    @classmethod
    def of(cls, expected: Touched, after: Touched) -> Self:
        """Of one from the other."""
        return cls(
            files=_share(expected.files, after.files),
            row_groups=_share(expected.row_groups, after.row_groups),
            rows=_share(expected.rows, after.rows),
            data_bytes=_share(expected.data_bytes, after.data_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredQuery:
    """What a query read of the files that were clustered, was expected to read, and reads now.

    ``expected`` and ``error`` are None when nothing was foreseen, as by a plan of Hudi.
    """

    query: str
    before: Touched
    after: Touched
    expected: Touched | None = None
    error: Deviation | None = None

    @classmethod
    def of(cls, query: str, *, before: Touched, expected: Touched | None, after: Touched) -> Self:
        """With the error that follows."""
        error = None if expected is None else Deviation.of(expected, after)
        return cls(query=query, before=before, expected=expected, after=after, error=error)

    def __add__(self, other: MeasuredQuery) -> MeasuredQuery:
        """Of the files of both clusterings."""
        known = self.expected is not None and other.expected is not None
        return MeasuredQuery.of(
            self.query,
            before=self.before + other.before,
            expected=self.expected + other.expected if known else None,  # type: ignore[operator]  # both known
            after=self.after + other.after,
        )


class _OfQuery(Protocol):
    @property
    def query(self) -> str: ...

    def __add__(self, other: Any, /) -> Any: ...


_Q = TypeVar("_Q", bound=_OfQuery)


def added_up(figures: Iterable[_Q]) -> tuple[_Q, ...]:
    """The figures of several groups or clusterings, each query once, in the order they come first."""
    found: dict[str, _Q] = {}
    for query in figures:
        found[query.query] = found[query.query] + query if query.query in found else query
    return tuple(found.values())


def in_commit(measured: Sequence[MeasuredQuery]) -> dict[str, str]:
    """What a replacecommit says of what was measured; nothing without queries."""
    if not measured:
        return {}
    said = [{key: value for key, value in asdict(query).items() if value is not None} for query in measured]
    return {MEASURED_KEY: json.dumps(said, separators=(",", ":"))}


def read_measured(extra: Mapping[str, str]) -> tuple[MeasuredQuery, ...]:
    """What :func:`in_commit` said, earlier versions too; nothing where it is not understood."""
    try:
        return tuple(_query(said) for said in parsed_json(extra.get(MEASURED_KEY, "[]")))
    except (ValueError, KeyError, TypeError, InvalidDataError):
        return ()


def _query(said: Mapping[str, Any]) -> MeasuredQuery:
    return MeasuredQuery.of(
        said["query"],
        before=_touched(said["before"]),
        expected=_touched(said["expected"]) if "expected" in said else None,
        after=_touched(said["after"]),
    )


def _touched(said: Mapping[str, int]) -> Touched:
    # The first replacecommits that say so count no bytes, those after them no pages.
    return from_json_value(Touched, {"data_bytes": 0, **said}, place=MEASURED_KEY)


def _share(expected: int, after: int) -> float | None:
    if expected == after:
        return 0.0
    return round((expected - after) / after, _DIGITS) if after else None
