"""The conditions that scans asked of a table, by their shape, in memory that does not grow with the scans."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from parquetry.compiler.learning.conditions import (
    UndeclarableError,
    columns_in,
    filtering,
    joined_shape,
    joined_sql,
    renamed,
)
from parquetry.project.sql.guard import SqlProblem, check_expression
from parquetry.runtime.layout.skipping.condition import Condition

LONGEST_CONDITION: Final = 2_000
"""The most characters of a condition that is proposed. A list of a thousand values helps no reader."""

_MOST_SHAPES: Final = 1_000
_SAMPLE: Final = 100


class LeftOut(StrEnum):
    """The reason why a condition that is understood is not proposed."""

    PERSONAL = "it names only personal columns, whose values stay in the logs"
    UNDECLARED = "it names a column that the spec does not declare"
    LONG = "it is longer than 2,000 characters"
    UNWRITABLE = "a spec cannot have it"
    MANY = "the table has more than 1,000 shapes"
    RARE = "others are read more"
    SEVERAL = "several declared queries have this shape, so their weights stay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectivity:
    """The share of the scanned rows that passed: the 10 %, 50 % and 90 % quantiles of ``runs`` scans."""

    low: float
    median: float
    high: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A scan of a table: its conditions, its size, and the share of its rows that passed; None if unknown.

    ``query`` is a text that only this scan has.
    """

    query: str
    conditions: Sequence[Condition]
    read_bytes: int | None
    passed: float | None


@dataclass(slots=True)
class Shape:
    """The scans with conditions of one shape: their number, their bytes and a sample of them.

    ``masked`` are the personal columns whose parts are not in the condition.
    """

    runs: int = 0
    read_bytes: int = 0
    masked: set[str] = field(default_factory=set)
    # Those with the smallest hashes: a random sample that does not depend on the order of the logs.
    sample: list[tuple[int, str, float | None]] = field(default_factory=list)

    def add(self, asked: Asked, where: str) -> None:
        """Add a scan."""
        self.runs += 1
        self.read_bytes += asked.read_bytes or 0
        digest = int.from_bytes(hashlib.blake2b(asked.query.encode(errors="replace"), digest_size=8).digest())
        entry = (-digest, where, asked.passed)
        if len(self.sample) < _SAMPLE:
            heapq.heappush(self.sample, entry)
        elif entry[0] > self.sample[0][0]:
            heapq.heapreplace(self.sample, entry)

    @property
    def example(self) -> str:
        """The condition of median selectivity; if none is known, the most frequent one."""
        known = sorted((passed, where) for _, where, passed in self.sample if passed is not None)
        if known:
            return known[(len(known) - 1) // 2][1]
        counts = Counter(where for _, where, _ in self.sample)
        return min(counts, key=lambda where: (-counts[where], where))

    @property
    def selectivity(self) -> Selectivity | None:
        """The quantiles of the selectivity; None if the logs do not have it."""
        known = sorted(passed for _, _, passed in self.sample if passed is not None)
        if not known:
            return None
        low, median, high = (known[round((len(known) - 1) * share)] for share in (0.1, 0.5, 0.9))
        return Selectivity(low=low, median=median, high=high, runs=len(known))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecColumns:
    """The columns of a spec: their names by lower-case name, and those with personal data, in lower case."""

    names: Mapping[str, str]
    personal: Collection[str]

    def are_personal(self, condition: Condition) -> bool:
        """Return whether a condition names a personal column or a field of one."""
        return bool(self.personal_in([condition]))

    def personal_in(self, conditions: Iterable[Condition]) -> set[str]:
        """Return the personal columns that conditions name, or fields of which they name."""
        names = {name.partition(".")[0] for each in conditions for name in columns_in(each)}
        return names & {*self.personal}


@dataclass(slots=True)
class Workload:
    """The scans of one table; ``shapes`` are those with a condition that can be declared."""

    columns: SpecColumns
    scans: int = 0
    read_bytes: int = 0
    unsized_scans: int = 0
    unconditional_scans: int = 0
    unconditional_bytes: int = 0
    shapes: dict[str, Shape] = field(default_factory=dict)
    left_out: dict[tuple[str, LeftOut], Shape] = field(default_factory=dict)

    def add(self, asked: Asked) -> None:
        """Add a scan of the table."""
        self.scans += 1
        self.read_bytes += asked.read_bytes or 0
        self.unsized_scans += asked.read_bytes is None
        parts = filtering(asked.conditions)
        if not parts:
            self.unconditional_scans += 1
            self.unconditional_bytes += asked.read_bytes or 0
            return
        kept = [part for part in parts if not self.columns.are_personal(part)]
        reason, shape, where = self._declared(kept) if kept else (LeftOut.PERSONAL, "", "")
        if reason is not None:
            # A shape has no values, so it may name personal columns.
            self._leave_out(joined_shape(parts), reason, asked)
            return
        if shape not in self.shapes and len(self.shapes) >= _MOST_SHAPES:
            self._leave_out("", LeftOut.MANY, asked)
            return
        found = self.shapes.setdefault(shape, Shape())
        found.add(asked, where)
        found.masked |= self.columns.personal_in(part for part in parts if part not in kept)

    def _declared(self, parts: Sequence[Condition]) -> tuple[LeftOut | None, str, str]:
        """Return the reason why a condition cannot be declared, its shape, and its SQL."""
        try:
            named = [renamed(part, self.columns.names) for part in parts]
            where = joined_sql(named)
            check_expression(where)
        except KeyError:
            return LeftOut.UNDECLARED, "", ""
        except (UndeclarableError, SqlProblem):
            return LeftOut.UNWRITABLE, "", ""
        return (LeftOut.LONG if len(where) > LONGEST_CONDITION else None), joined_shape(named), where

    def _leave_out(self, shape: str, reason: LeftOut, asked: Asked) -> None:
        key = (shape if len(shape) <= LONGEST_CONDITION else "", reason)
        if key not in self.left_out and len(self.left_out) >= _MOST_SHAPES:
            key = ("", LeftOut.MANY)
        found = self.left_out.setdefault(key, Shape())
        found.runs += 1
        found.read_bytes += asked.read_bytes or 0
