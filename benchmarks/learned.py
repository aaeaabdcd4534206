"""The part of public logs that `parquetry learn` understands: ``python -m benchmarks.learned FOLDER``.

FOLDER has the event logs of NVIDIA's spark-rapids-tools (Apache-2.0), which are in its repository below
`core/src/test/resources` in `spark-events-profiling` and `spark-events-qualification`. Writes
benchmarks/LEARNED.md.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from parquetry.compiler.learning.conditions import filtering, has_term, joined_shape
from parquetry.compiler.learning.log_files import LineCounts, Log, lines_of, logs_at
from parquetry.compiler.learning.spark_filters import Unread, filters_of, types_of_schema
from parquetry.compiler.learning.spark_log import EventCounts, scans_of
from parquetry.runtime.layout.skipping.condition import IsNull
from parquetry.runtime.storage.open import open_store
from tools.wrap_markdown import wrapped

HERE = Path(__file__).resolve().parent

PAGE = """# Filters of public logs that `learn` understands

The logs are those of [spark-rapids-tools](https://github.com/NVIDIA/spark-rapids-tools) (Apache-2.0) below
`core/src/test/resources`, of Spark 2.2 to 3.5, Databricks, Dataproc and EMR; three are queries of TPC-DS at 3 and
10 TB. Types are those of `ReadSchema`. `python -m benchmarks.learned FOLDER` writes this page.

Of {filters:,} filters of {scans:,} scans, **{conditions:,} are conditions ({alone:.1%})**. {runtime:,} more compare
with values that another part of the query found, which are in no log, so {understood:.1%} are understood. Of the
conditions, {null_checks:,} are `IS NOT NULL`, which Spark adds and no query gets, and {terms:,} are functions of
columns, which statistics cannot answer: all of these come from Spark's own reader of CSV files. The logs have {events:,} events of {queries:,}
executions, and {lost:,} lines that are no events. Reading them takes {seconds:.1f} CPU s.

| not understood | filters |
|---|---|
{reasons}

| log with filters | executions | scans | filters | understood | shapes of conditions |
|---|---|---|---|---|---|
{logs}
"""


@dataclass
class Understood:
    """The counts of one log or of all."""

    scans: int = 0
    conditions: int = 0
    null_checks: int = 0
    terms: int = 0
    unread: Counter[Unread] = field(default_factory=Counter)
    shapes: set[str] = field(default_factory=set)
    events: EventCounts = field(default_factory=EventCounts)

    @property
    def filters(self) -> int:
        """The number of all filters."""
        return self.conditions + self.unread.total()

    @property
    def share(self) -> float:
        """The share of the filters that are conditions or compare with values found at run time."""
        return (self.conditions + self.unread[Unread.RUNTIME]) / self.filters

    def add(self, other: Understood) -> None:
        """Add the counts of another log."""
        self.scans += other.scans
        self.conditions += other.conditions
        self.null_checks += other.null_checks
        self.terms += other.terms
        self.unread.update(other.unread)
        for name in ("events", "queries", "not_understood"):
            setattr(self.events, name, getattr(self.events, name) + getattr(other.events, name))


def understood(log: Log, lines: LineCounts) -> Understood:
    """Return the counts of a log."""
    found = Understood()
    for scan in scans_of(lines_of(log, lines), found.events, log=log.name):
        found.scans += 1
        filters = filters_of(scan.filters, types_of_schema(scan.read_schema), scan.session)
        conditions = [each for each in filters if not isinstance(each, Unread)]
        found.conditions += len(conditions)
        found.null_checks += sum(isinstance(each, IsNull) and each.negated for each in conditions)
        found.terms += sum(map(has_term, conditions))
        found.unread.update(each for each in filters if isinstance(each, Unread))
        if parts := filtering(conditions):
            found.shapes.add(joined_shape(parts))
    return found


def main(folder: Path) -> None:
    """Read the logs in the folder and write the page."""
    began = time.process_time()
    total, rows = Understood(), []
    for log in logs_at([str(folder)], open_store):
        found = understood(log, LineCounts())
        total.add(found)
        if found.filters:
            shapes = "; ".join(f"`{shape}`" for shape in sorted(found.shapes))
            rows.append(
                f"| {Path(log.name).name} | {found.events.queries:,} | {found.scans:,} | {found.filters:,} "
                f"| {found.share:.0%} | {shapes} |"
            )
    reasons = [
        f"| {reason} | {number:,} |"
        for reason, number in total.unread.most_common()
        if reason is not Unread.RUNTIME
    ]
    page = PAGE.format(
        filters=total.filters,
        scans=total.scans,
        conditions=total.conditions,
        alone=total.conditions / total.filters,
        null_checks=total.null_checks,
        terms=total.terms,
        runtime=total.unread[Unread.RUNTIME],
        understood=total.share,
        events=total.events.events,
        queries=total.events.queries,
        lost=total.events.not_understood,
        seconds=time.process_time() - began,
        reasons="\n".join(reasons),
        logs="\n".join(rows),
    )
    (HERE / "LEARNED.md").write_text(wrapped(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
