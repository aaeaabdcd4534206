"""Readers that are not ours, asked the same questions and compared with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from parquetry.runtime.storage.open import open_store
from tests.support.effort import in_full
from tests.support.hudi_spark import HudiSpark, table_version_of
from tests.support.model import TableModel, differences, frozen_table
from tests.support.timelines import timeline_of

_TURNS = 3
_Question = TypeVar("_Question")


class Judge(Protocol):
    """Answers with rows and meta columns.

    `empty_is_null`: partition values are taken from the path, where empty and null look alike.
    `needs_jvm`: a read is a Spark job, which takes a hundred times as long as one without.
    """

    name: str
    empty_is_null: bool
    needs_jvm: bool

    def read(
        self, path: str, *, as_of: str | None = None, since: str | None = None, until: str | None = None
    ) -> pa.Table: ...


class HudiRs:
    """hudi-rs from PyPI."""

    name = "hudi-rs"
    empty_is_null = False
    needs_jvm = False

    def read(
        self, path: str, *, as_of: str | None = None, since: str | None = None, until: str | None = None
    ) -> pa.Table:
        from tests.support import hudi_rs  # not where only our own reader judges

        return hudi_rs.read(path, as_of=as_of, since=since, until=until)


class RealHudi:
    """A real Hudi; `metadata_table` None reads with its default setting."""

    empty_is_null = True
    needs_jvm = True

    def __init__(self, spark: HudiSpark, *, metadata_table: bool | None = False) -> None:
        self.name = f"Hudi {spark.version}"
        self._spark = spark
        self._metadata_table = metadata_table

    def read(
        self, path: str, *, as_of: str | None = None, since: str | None = None, until: str | None = None
    ) -> pa.Table:
        return self._spark.read(
            path, as_of=as_of, since=since, until=until, metadata_table=self._metadata_table
        )


def assert_latest(judges: Iterable[Judge], path: str, model: TableModel) -> None:
    """Every judge reads what the model holds now; of several real Hudis one in the short suites."""
    _each(_asked(judges, model), lambda judge: _check_latest(judge, path, model))


def assert_history(
    judges: Iterable[Judge], path: str, model: TableModel, *, from_instant: str = "", thorough: bool = False
) -> None:
    """Every judge reads what the model holds now, and as of instants from `from_instant` on, and since some.

    Judges that need no JVM read as of each instant, and since three of them. `thorough` asks as of each instant, since
    each of them, and between each two neighbours. Those that need a JVM share the questions in the short suites. Of a
    `thorough` history each takes its turn, with every third question at most. Of another history one real Hudi answers,
    every second judge reads as of an instant, and the others since one; where there is one alone, it does both. In the
    long suites every judge takes all of them.
    """
    judges = list(judges) if thorough else _asked(judges, model)
    slow = [] if in_full() else [judge for judge in judges if judge.needs_jvm]
    instants = [instant for instant in model.instants() if instant >= from_instant]
    pairs = [*pairwise(instants)] if thorough else []
    begins = (
        instants[:-1]
        if thorough
        else sorted({*instants[:1], *instants[len(instants) // 2 :][:1], *instants[-2:-1]})
    )

    def asked(judge: Judge, kind: int, questions: Sequence[_Question]) -> Sequence[_Question]:
        if judge not in slow:
            return questions
        number = slow.index(judge)
        if thorough:
            return questions[number :: max(len(slow), _TURNS)]
        if len(slow) > 1 and (number + kind + len(instants)) % 2:
            return ()
        at = (number + 1) * len(questions) // (len(slow) + 1)
        return questions[at : at + 1]

    position = _position_of(path)

    def check(judge: Judge) -> None:
        _check_latest(judge, path, model)
        for time in asked(judge, 0, instants):
            _agree(judge, model, f"as of {time}", model.as_of(time), judge.read(path, as_of=time))
        for time in asked(judge, 1, begins):
            _agree(judge, model, f"since {time}", model.between(time), judge.read(path, since=position(time)))
        for begin, end in asked(judge, 2, pairs):
            found = judge.read(path, since=position(begin), until=position(end))
            _agree(judge, model, f"from {begin} to {end}", model.between(begin, end), found)

    _each(judges, check)


def _position_of(path: str) -> Callable[[str], str]:
    """Return what readers of increments ask for instead of an instant: on version 9 the time of its completion."""
    if table_version_of(path) in (None, 6):
        return str
    return timeline_of(open_store(path)).position_of


def _asked(judges: Iterable[Judge], model: TableModel) -> list[Judge]:
    """Return those that answer: all, but in the short suites one version of real Hudi, another from commit to commit."""
    judges = list(judges)
    versions = sorted({judge.name for judge in judges if isinstance(judge, RealHudi)})
    if in_full() or not versions:
        return judges
    answering = versions[len(model.instants()) % len(versions)]
    return [judge for judge in judges if not isinstance(judge, RealHudi) or judge.name == answering]


def _each(judges: Iterable[Judge], check: Callable[[Judge], None]) -> None:
    """Judges answer side by side; those that share a JVM take turns at it."""
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(check, judge) for judge in judges]:
            done.result()


def _check_latest(judge: Judge, path: str, model: TableModel) -> None:
    _agree(judge, model, "latest", model.latest(), judge.read(path))


def _agree(
    judge: Judge, model: TableModel, what: str, expected: Counter[tuple[Any, ...]], rows: pa.Table
) -> None:
    found = frozen_table(rows, model.columns)
    if judge.empty_is_null:
        places = {3 + model.columns.index(name) for name in model.partition_by if name in model.columns}
        expected = _emptied(expected, places)
        found = _emptied(found, places)
    told = differences(expected, found)
    assert not told, f"{judge.name}, {what}: {told}"


def _emptied(rows: Counter[tuple[Any, ...]], places: set[int]) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(None if place in places and value == "" else value for place, value in enumerate(row))
        for row in rows.elements()
    )
