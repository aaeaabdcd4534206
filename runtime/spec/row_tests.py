"""Tests of a table's rows, as a job carries them, and their answers.

The launcher of a job knows from listings and statistics which files each test still has to read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parquetry.runtime.spec.codec import UNLESS_NONE, Brief


class RowTestKind(StrEnum):
    """What a test asks of rows; the words are those of specs."""

    NOT_NULL = "not_null"
    UNIQUE = "unique"
    EXPRESSION = "expression"
    ACCEPTED_VALUES = "accepted_values"
    RELATIONSHIPS = "relationships"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedFile:
    """A base file as it was listed: ``path`` is relative to the table."""

    __test__ = False

    partition: str
    file_id: str
    instant: str
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTable:
    """The table that rows of `relationships` have to be in, reached as the tested one is.

    ``encryption_keys`` refer to the keys that its files may be encrypted by.
    """

    location: str
    columns: tuple[str, ...]
    encryption_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTest:
    """A test by its name in the table. ``files`` are the numbers of those of the job that it reads.

    Failures of `not_null` are counted for each of the ``columns``, else together. ``values`` are the accepted
    ones, numbers, texts or flags.
    """

    name: str
    kind: RowTestKind
    files: tuple[int, ...]
    columns: tuple[str, ...] = ()
    expression: str | None = field(default=None, metadata=UNLESS_NONE)
    values: tuple[Any, ...] = ()
    other: OtherTable | None = field(default=None, metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowTests(Brief):
    """The tests of one job. ``keeps`` is how many failing keys of each test the answer may hold."""

    files: tuple[TestedFile, ...]
    tests: tuple[RowTest, ...]
    keeps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FailingKeys(Brief):
    """Some of the rows or keys that a test failed for, as texts, personal values masked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowAnswer:
    """The ``failures`` of a test, for `not_null` by column. ``problem`` is why there are none."""

    name: str
    failures: tuple[int, ...] = ()
    problem: str | None = None
    keys: FailingKeys | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowsTested(Brief):
    """What a job answers, in the order of its tests. ``scans`` is how often it went over the files."""

    answers: tuple[RowAnswer, ...]
    files: int = 0
    rows: int = 0
    scans: int = 0
