"""Tables of real Hudi with its default settings, metadata table included, and what that Hudi reads from them.

`RECIPES` makes five tables of version 9, one of version 8 and two of version 6. Together they have every operation,
service and kind of partitioning that a copy-on-write table of Hudi can have. The judge of a table is the Hudi that
made it: `answers` asks it for the latest rows, the rows as of each commit, and the rows since each commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.hudi_history import NO_ROW_WRITER
from tests.support.hudi_spark import NO_METADATA_TABLE, HudiError, HudiSpark, HudiTable

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("day", pa.string()),
        ("version", pa.int64()),
        ("amount", pa.float64()),
        ("price", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("note", pa.string()),
    ]
)
REGIONS = ("eu", "us", "Ωmega", "a b")
UTC = {"hoodie.table.timeline.timezone": "UTC"}
CLEANS_EARLY = {"hoodie.clean.commits.retained": "3", "hoodie.cleaner.commits.retained": "3"}
ARCHIVES_EARLY = CLEANS_EARLY | {
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
SMALL_GROUPS = {"hoodie.clustering.plan.strategy.small.file.limit": "1073741824"}
CLUSTERS = SMALL_GROUPS | {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
# Hudi's procedure clusters such a table into its root: see the test of that trap.
WITHOUT_META_COLUMNS = NO_METADATA_TABLE | NO_ROW_WRITER | {"hoodie.populate.meta.fields": "false"}
STATE_FILE = re.compile(r"(\d{17})(?:_(\d{17}))?\.(\w+)(?:\.(\w+))?")


@dataclass(slots=True)
class DefaultTable:
    """A table and the Hudi that writes it, without the settings that keep a table writable for version 6."""

    hudi: HudiSpark
    table: HudiTable
    options: Mapping[str, str] = field(default_factory=dict)
    batches: int = 0

    @property
    def path(self) -> Path:
        """The folder of the table."""
        return Path(self.table.path)

    def write(self, operation: str, ids: Sequence[int], **settings: str) -> None:
        """Write a row for each id."""
        mode = "append" if self.batches else "overwrite"
        rows = self.rows(ids)
        self.hudi.write(
            self.table, rows, operation, mode=mode, guarded=False, options=dict(self.options) | settings
        )

    def rows(self, ids: Sequence[int]) -> pa.Table:
        """Return a row for each id. An id stays in its partition; each batch has a larger version."""
        self.batches += 1
        return pa.Table.from_pylist([self._row(number) for number in ids], SCHEMA)

    def call(self, procedure: str, /, **arguments: Any) -> list[dict[str, Any]]:
        """Call a procedure of Hudi."""
        return self.hudi.call_with(self.options, procedure, self.table.path, **arguments)

    def cluster(self, op: str = "scheduleAndExecute") -> None:
        """Cluster by the procedure; `op` `schedule` leaves the clustering pending."""
        settings = SMALL_GROUPS | {key: self.options[key] for key in NO_ROW_WRITER if key in self.options}
        options = ",".join(f"{key}={value}" for key, value in settings.items())
        self.call("run_clustering", op=op, options=options)

    def newest(self) -> str:
        """Return the requested time of the newest write that completed."""
        return completions(self.path)[-1][0]

    def _row(self, number: int) -> dict[str, Any]:
        version = self.batches
        return {
            "id": f"k{number:03}",
            "region": REGIONS[number % 4],
            "day": f"2026-11-0{1 + number % 3}",
            "version": version,
            "amount": number * 0.25 + version,
            "price": Decimal(f"{number}.{version:02}"),
            "at": 1_700_000_000_000_000 + number * 1_000_003 + version,
            "tags": [f"t{i}" for i in range(number % 4)],
            "note": None if number % 5 == 0 else f"n{number}-{version}",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A table: the Hudi that makes it, the table version that results, and the steps."""

    name: str
    hudi: str = "1.2.0"
    version: int = 9
    key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ()
    ordering: str | None = "version"
    keygen: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    steps: Callable[[DefaultTable], None]

    def make(self, hudi: HudiSpark, folder: Path) -> DefaultTable:
        """Make the table in a folder named after the recipe."""
        table = HudiTable(
            path=str(folder / self.name), name=self.name, key=self.key, ordering=self.ordering,
            partition_by=self.partition_by, keygen=self.keygen,
        )  # fmt: skip
        made = DefaultTable(hudi, table, self.options)
        self.steps(made)
        return made


def _all_writes(made: DefaultTable) -> None:
    """Write by every operation, cluster, then write on."""
    made.write("insert", range(40))
    made.write("upsert", range(20, 60))
    made.write("delete", range(5, 9))
    made.write("bulk_insert", range(60, 70))
    made.write("insert_overwrite", range(0, 8, 4))
    made.cluster()
    made.write("upsert", range(25, 35))
    made.write(
        "delete_partition", range(1, 2), **{"hoodie.datasource.write.partitions.to.delete": "region=us"}
    )
    made.write("upsert", range(30, 45))


def _pending_clustering(made: DefaultTable) -> None:
    """Leave a clustering that is planned and not executed, with writes behind it to new groups alone."""
    made.write("insert", range(24))
    made.write("upsert", range(12, 36))
    made.write("bulk_insert", range(36, 48))
    made.cluster("schedule")
    made.write("bulk_insert", range(100, 112))


def _archived_twice(made: DefaultTable) -> None:
    """Let the cleaner and the archiver run after each write, with a clustering among the archived instants."""
    made.write("insert", range(12))
    made.write("upsert", range(6, 18))
    made.cluster()
    for number in range(9):
        made.write("upsert", range(number, number + 4))


def _restored(made: DefaultTable) -> None:
    """Restore to a savepoint, write on, and restore to another one over a clustering."""
    made.write("insert", range(16))
    made.write("upsert", range(8, 24))
    first = made.newest()
    made.call("create_savepoint", commit_time=first)
    made.write("upsert", range(12))
    made.write("delete", range(20, 24))
    made.call("rollback_to_savepoint", instant_time=first)
    made.call("delete_savepoint", instant_time=first)
    made.write("upsert", range(20, 30))
    second = made.newest()
    made.call("create_savepoint", commit_time=second)
    made.write("upsert", range(5))
    made.cluster()
    made.call("rollback_to_savepoint", instant_time=second)


def _cleaned(made: DefaultTable) -> None:
    """Clean by the writes themselves and by the procedure, and roll a failed write back."""
    made.write("insert", range(20))
    made.write("upsert", range(6))
    made.write("upsert", range(3, 9))
    fail_write(made.path)
    made.write("upsert", range(6, 12))
    made.write("upsert", range(9, 15))
    made.write("delete", range(3))
    made.call("run_clean", retain_commits=2)
    made.write("upsert", range(4, 9))


def _old_lake(made: DefaultTable) -> None:
    """Upsert, cluster, delete, clean and archive."""
    made.write("insert", range(20))
    made.write("upsert", range(10, 30))
    made.cluster()
    made.write("delete", range(4))
    for number in range(6):
        made.write("upsert", range(number * 2, number * 2 + 5))


def _few_writes(made: DefaultTable) -> None:
    """Leave files of each writer: insert, upsert, delete, clustering, and bulk insert.

    The merge of Hudi 0.15 would corrupt rows of its own row writer.
    """
    made.write("insert", range(24))
    made.write("upsert", range(12, 36))
    made.write("delete", range(5, 9), **CLUSTERS)
    made.write(
        "bulk_insert",
        range(60, 66),
        **({} if made.hudi.version == "0.15.0" else dict.fromkeys(NO_ROW_WRITER, "true")),
    )
    made.write("upsert", range(30, 40, 2))


def small(hudi: HudiSpark, path: Path, options: Mapping[str, str]) -> DefaultTable:
    """Make a table of two writes, with these options."""
    table = HudiTable(path=str(path), name="made", key=("id",), ordering="version", options=options)
    made = DefaultTable(hudi, table)
    made.write("insert", range(6))
    made.write("upsert", range(3))
    return made


RECIPES = (
    Recipe(name="all_writes", partition_by=("region",), options=UTC, steps=_all_writes),
    Recipe(
        name="pending_clustering",
        partition_by=("region", "day"),
        ordering=None,
        keygen="ComplexKeyGenerator",
        steps=_pending_clustering,
    ),
    Recipe(name="archived", options=ARCHIVES_EARLY | UTC, steps=_archived_twice),
    Recipe(name="restored", partition_by=("region",), steps=_restored),
    Recipe(
        name="cleaned",
        partition_by=("region", "day"),
        keygen="CustomKeyGenerator",
        options=CLEANS_EARLY,
        steps=_cleaned,
    ),
    Recipe(
        name="eight",
        version=8,
        partition_by=("region",),
        options={"hoodie.write.table.version": "8"} | ARCHIVES_EARLY | UTC,
        steps=_old_lake,
    ),
    Recipe(
        name="old_partitioned",
        hudi="0.15.0",
        version=6,
        partition_by=("region",),
        options=ARCHIVES_EARLY,
        steps=_old_lake,
    ),
    Recipe(name="old_restored", hudi="0.15.0", version=6, options=UTC, steps=_restored),
)
"""Tables with all meta columns."""

RECIPES_WITHOUT_META_COLUMNS = (
    Recipe(
        name="no_meta",
        partition_by=("region",),
        options=WITHOUT_META_COLUMNS | UTC,
        steps=_few_writes,
    ),
    Recipe(
        name="no_meta_six",
        version=6,
        key=("id", "day"),
        partition_by=("region", "day"),
        keygen="ComplexKeyGenerator",
        options=WITHOUT_META_COLUMNS | {"hoodie.write.table.version": "6"},
        steps=_few_writes,
    ),
    Recipe(
        name="no_meta_old",
        hudi="0.15.0",
        version=6,
        partition_by=("region",),
        options=WITHOUT_META_COLUMNS | ARCHIVES_EARLY,
        steps=_few_writes,
    ),
)
"""Tables without meta columns in their rows."""


def fail_write(path: Path) -> None:
    """Announce a commit of version 8 or 9 in the past that no program finishes."""
    instant = str(int(completions(path)[-1][1]) + 1)
    for name in (f"{instant}.commit.requested", f"{instant}.inflight"):
        (path / ".hoodie" / "timeline" / name).touch()


def completions(path: Path) -> list[tuple[str, str]]:
    """Return (requested time, incremental position) of the completed writes on the timeline, ascending by time.

    The position is the completion time in layout 2, and the requested time in layout 1.
    """
    folder = path / ".hoodie" / "timeline"
    files = (folder if folder.is_dir() else path / ".hoodie").iterdir()
    found = (named for file in files if (named := STATE_FILE.fullmatch(file.name)))
    writes = [named for named in found if named[3] in ("commit", "replacecommit") and not named[4]]
    return sorted((named[1], named[2] or named[1]) for named in writes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The reads of the Hudi that made a table: rows with meta columns, None where it refuses."""

    latest: pa.Table
    as_of: Mapping[str, pa.Table | None]
    since: Mapping[str, pa.Table | None]


def answers(made: DefaultTable, *, changes: bool = True) -> Answers:
    """Ask for the latest rows, the rows as of each requested time and those since each incremental position.

    Without `changes` the last question is not asked.
    """

    def asked(**question: str) -> pa.Table | None:
        try:
            return made.hudi.read(made.table.path, metadata_table=None, **question)
        except HudiError as refused:
            print(made.path.name, question, str(refused)[:300])
            return None

    latest = asked()
    assert latest is not None
    times = completions(made.path)
    return Answers(
        latest=latest,
        as_of={time: asked(as_of=time) for time, _ in times},
        since={position: asked(since=position) for _, position in times} if changes else {},
    )
