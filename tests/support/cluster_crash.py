"""Work on a real Spark cluster, the phases in which something of it dies, and what must hold afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parquetry.runtime.services.clean import clean
from parquetry.runtime.spec.clustering import (
    ClusteringScope,
    ClusteringSpec,
    ExecutionPolicy,
    PlanPolicy,
)
from parquetry.runtime.spec.table_spec import Operation
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.support.fault_store import Deed, Fault
from tests.support.orphans import leftovers
from tests.support.planned_clustering import apply_clustering
from tests.support.small_table import Rows, SmallTable, make_table, rows_of, view_rows
from tests.support.soundness import unsound
from tests.support.spark_crash import AT_ONCE, DATA_FILE
from tests.support.spark_writes import SparkWrite, Way

STAGED = r"/stage/.*\.(rows|keys)$"
OLD: Rows = {f"k{n}": (n, "abc"[n % 3]) for n in range(120)}
"""What the table of every trial holds."""

_WRITES_OF_OLD = 2

_CHANGED: Rows = {f"k{n}": (1000 + n, "abc"[n % 3]) for n in range(0, 60, 2)}
_NEW: Rows = {f"n{n}": (2000 + n, "abd"[n % 3]) for n in range(30)}
_GONE: Rows = {f"k{n}": (0, "abc"[n % 3]) for n in range(0, 90, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A moment of some work: before or after the storage operation of this kind and path, ``skip`` of them later."""

    kind: str
    path: str
    when: str = "before"
    skip: int = 0
    in_driver: bool = False

    def fault(self, deed: Deed, *, times: int = 1) -> Fault:
        """What happens then."""
        return Fault(deed=deed, kind=self.kind, path=self.path, when=self.when, skip=self.skip, times=times)


STAGING = {
    "staging": Phase(kind="create_file", path=STAGED),
    "staged by one": Phase(kind="create_file", path=r"/stage/.*\.totals$", when="after"),
    "staged by all": Phase(kind="read", path=r"/stage/.*\.totals$", in_driver=True),
}
WRITING = {
    "writing": Phase(kind="create_file", path=DATA_FILE, skip=1),
    "written": Phase(kind="create_file", path=DATA_FILE, when="after"),
}
COMMIT = {
    "validation": Phase(kind="put_if_absent", path=r"\.aux/lock$", when="after", in_driver=True),
    "commit": Phase(kind="put_if_absent", path=r"/[0-9]+\.(replace)?commit$", in_driver=True),
    "committed": Phase(
        kind="put_if_absent", path=r"/[0-9]+\.(replace)?commit$", when="after", in_driver=True
    ),
}
FETCHING = {"fetching": Phase(kind="read_range", path=r"/stage/.*\.rows$")}
LISTS = {
    "lists": Phase(kind="create_file", path=r"/stage/.*\.list$"),
    "listed": Phase(kind="create_file", path=r"/stage/.*\.list$", when="after", skip=1),
}
LOOKUP = {"lookup": Phase(kind="open_input", path=DATA_FILE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is done to the table: a write, or else a clustering with this scope; and its phases by name."""

    phases: Mapping[str, Phase]
    write: SparkWrite | None = None
    scope: ClusteringScope | None = None

    @property
    def new(self) -> Rows:
        """What the table holds when it has taken effect."""
        return OLD if self.write is None else self.write.after(OLD)


_UPSERT = SparkWrite(operation=Operation.UPSERT, rows={**_CHANGED, **_NEW})
_DELETE = SparkWrite(operation=Operation.DELETE, rows=_GONE)


def _by(write: SparkWrite, way: Way) -> SparkWrite:
    return SparkWrite(operation=write.operation, rows=write.rows, way=way)


WORKS: Mapping[str, Work] = {
    "insert": Work(
        write=SparkWrite(operation=Operation.INSERT, rows=_NEW),
        phases={**STAGING, **FETCHING, **WRITING, **COMMIT},
    ),
    "overwrite": Work(
        write=SparkWrite(operation=Operation.INSERT_OVERWRITE, rows=_NEW),
        phases={**FETCHING, **WRITING},
    ),
    "upsert": Work(write=_UPSERT, phases={**STAGING, **LOOKUP, **LISTS, **FETCHING, **WRITING, **COMMIT}),
    "upsert, matched keys joined": Work(
        write=_by(_UPSERT, Way.MATCHED), phases={**LOOKUP, **LISTS, **FETCHING, **WRITING}
    ),
    "upsert, all keys joined": Work(
        write=_by(_UPSERT, Way.JOINED), phases={**STAGING, **LISTS, **FETCHING, **WRITING}
    ),
    "upsert, regrouped": Work(
        write=_by(_UPSERT, Way.REGROUPED),
        phases={
            "regrouping": Phase(kind="read_range", path=r"/stage/.*\.rows$"),
            "regrouped by one": Phase(kind="create_file", path=STAGED, when="after", skip=4),
            "regrouped by all": Phase(kind="read", path=r"/stage/.*\.totals$", skip=2, in_driver=True),
            **WRITING,
        },
    ),
    "delete": Work(write=_DELETE, phases={**STAGING, **LOOKUP, **LISTS, **WRITING, **COMMIT}),
    "delete, all keys joined": Work(write=_by(_DELETE, Way.JOINED), phases={**LISTS, **WRITING}),
    "cluster groups": Work(scope=ClusteringScope.GROUP, phases={**LOOKUP, **WRITING, **COMMIT}),
    "cluster partitions": Work(
        scope=ClusteringScope.PARTITION,
        phases={
            "sampling": Phase(kind="open_input", path=DATA_FILE),
            "scattering": Phase(kind="open_input", path=DATA_FILE, skip=9),
            **WRITING,
            **COMMIT,
        },
    ),
}


def make_old(path: Path) -> SmallTable:
    """A table that holds ``OLD``: three partitions of two files each; clustering has something to do."""
    table = make_table(path, keep_commits=50)
    each = len(OLD) // _WRITES_OF_OLD
    for number in range(_WRITES_OF_OLD):
        table.insert({key: OLD[key] for key in [*OLD][number * each : (number + 1) * each]})
    return table


def owe_clustering(path: Path, scope: ClusteringScope) -> None:
    """Let every partition be due; of one in one order two tasks write the files."""
    execution = ExecutionPolicy(strategy="sort", columns=("v",), scope=scope)
    several = PlanPolicy(target_file_size_bytes=500, small_file_limit_bytes=400)
    policy = (
        ClusteringSpec(plan=several, execution=execution)
        if scope is ClusteringScope.PARTITION
        else ClusteringSpec(execution=execution)
    )
    apply_clustering(SmallTable(store=open_store(path)), policy)


@dataclass(slots=True)
class Found:
    """What a crash left: the rows, and what clean took that the work had left behind."""

    rows: Rows
    swept: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        """Which table it is."""
        return "old" if self.rows == OLD else "new"


def judged(path: Path, *, patience_seconds: float = 30.0) -> Found:
    """What two readers find, once everything was found to be well; whoever outlived the crash may end first.

    The next write succeeds, a clean leaves nothing that no commit names, and the rows stay.
    """
    rows = rows_of(path)
    assert view_rows(path) == rows, "hudi-rs and our view disagree"
    store = open_store(path)
    # What is left over is the next clean's.
    assert [fault for fault in unsound(path, since=_since(path)) if not fault.endswith(": left over")] == []
    next_rows: Rows = {"k1": (5555, "b"), "next": (1, "e")}
    assert SmallTable(store=store).upsert(next_rows).retries == 0
    expected = {**rows, **next_rows}
    assert rows_of(path) == view_rows(path) == expected, "after the next write"
    behind = leftovers(path)
    deadline = time.monotonic() + patience_seconds
    while True:
        clean(open_table(store), timing=AT_ONCE)
        left = leftovers(path)
        if not left:
            break
        assert time.monotonic() < deadline, f"a clean leaves {left}"
        time.sleep(0.5)
    assert rows_of(path) == view_rows(path) == expected, "after the clean"
    return Found(rows=rows, swept=behind)


def _since(path: Path) -> str:
    """The last of the writes that made the table, which needs no Spark and leaves out what others leave."""
    commits = sorted((path / ".hoodie").glob("*.commit"))
    return commits[_WRITES_OF_OLD].name.partition(".")[0]
