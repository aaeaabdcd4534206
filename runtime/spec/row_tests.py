"""Tests of a table's rows in a job, and their results.

The launcher of a job knows from listings and statistics which files each test must still read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parquetry.message import Text
from parquetry.runtime.spec.codec import OMIT_EMPTY, Brief


class RowTestKind(StrEnum):
    """The condition that a test checks, named as in specs."""

    NOT_NULL = "not_null"
    UNIQUE = "unique"
    EXPRESSION = "expression"
    ACCEPTED_VALUES = "accepted_values"
    RELATIONSHIPS = "relationships"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedFile:
    """A base file from the listing. ``path`` is relative to the table."""

    __test__ = False

    partition: str
    file_id: str
    instant: str
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTable:
    """The table that must contain the keys of a `relationships` test.

    It is opened with the storage options of the tested table. ``encryption_keys`` are references to the keys
    with which its files may be encrypted.
    """

    location: str
    columns: tuple[str, ...]
    encryption_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTest:
    """A test with its name in the table. ``files`` are indexes of the job's files that it reads.

    Failures of `not_null` are counted for each of the ``columns``, those of other kinds in total. ``values``
    are the accepted ones: numbers, texts or flags.
    """

    name: str
    kind: RowTestKind
    files: tuple[int, ...]
    columns: tuple[str, ...] = ()
    expression: str | None = field(default=None, metadata=OMIT_EMPTY)
    values: tuple[Any, ...] = ()
    other: OtherTable | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowTests(Brief):
    """The tests of one job. ``keeps`` is the maximum number of failing keys in the result of each test."""

    files: tuple[TestedFile, ...]
    tests: tuple[RowTest, ...]
    keeps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FailingKeys(Brief):
    """Some of the rows or keys for which a test failed, as texts, with personal values masked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTestResult:
    """The result of one test: the number of ``failures``, or the ``problem`` that prevented the test.

    The failures of `not_null` are counted by column.
    """

    name: str
    failures: tuple[int, ...] = ()
    problem: Text | None = None
    keys: FailingKeys | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowTestsResult(Brief):
    """The result of a test job, in the order of its tests.

    ``scans`` is the number of passes over the files.
    """

    answers: tuple[RowTestResult, ...]
    files: int = 0
    rows: int = 0
    scans: int = 0
