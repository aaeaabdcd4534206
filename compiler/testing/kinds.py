"""The kinds of tests on layout and timeline, and the measurement of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Final, TypeAlias

from parquetry.compiler.evidence.figures import overlap_depths
from parquetry.compiler.plan.drift import table_drift
from parquetry.compiler.testing.live_table import LiveTable, Scope, UnmeasurableError
from parquetry.project.model.table_tests import ITSELF
from parquetry.runtime.errors import CorruptTableError, InvalidDataError
from parquetry.runtime.layout.clustering.model import ExclusionReason
from parquetry.runtime.layout.sizing import is_small
from parquetry.runtime.layout.skipping.files import reads_of
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.publish.publishing import formats_of, publish_lag
from parquetry.runtime.spec.table_spec import TableTest
from parquetry.runtime.storage.parallel import growing_batches, map_each
from parquetry.runtime.timeline.clustering_plan import CLUSTER
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat
from parquetry.runtime.timeline.instant import parse_instant_ms


@dataclass(frozen=True, slots=True)
class Measure:
    """A measured value for the limit with this key; None if there is nothing to measure.

    ``partition`` is the partition with the value, if the value is that of a single one.
    """

    value: float | None
    limit: str = ITSELF
    partition: str | None = None


LayoutMeasure: TypeAlias = Callable[[Scope, TableTest], Iterator[Measure]]
"""A function that measures a part of a table; it raises UnmeasurableError if the value cannot be known."""


def _small_files(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Count the small files in the scope."""
    sizing = scope.table.spec.sizing
    yield Measure(sum(is_small(part.size_bytes, sizing) for part in scope.slices))


def _partition_files(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Count the files of the partition that has most of them."""
    yield _largest(Counter(part.partition for part in scope.slices))


def _skew(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Divide the size of the largest partition by the median size; no value for a single partition."""
    sizes: Counter[str] = Counter()
    for part in scope.slices:
        sizes[part.partition] += part.size_bytes
    middle = median(sizes.values()) if len(sizes) > 1 else 0
    if not middle:
        yield Measure(None)
        return
    partition = max(sorted(sizes), key=sizes.__getitem__)
    yield Measure(sizes[partition] / middle, partition=partition)


def _file_size(scope: Scope, test: TableTest) -> Iterator[Measure]:
    """Return the file size at the test's percentile, to compare with a minimum and a maximum."""
    sizes = sorted(part.size_bytes for part in scope.slices)
    place = max(ceil(test.arguments["percentile"] / 100 * len(sizes)) - 1, 0)
    for limit in ("min", "max"):
        yield Measure(sizes[place] if sizes else None, limit)


def _overlap_depth(scope: Scope, test: TableTest) -> Iterator[Measure]:
    """Measure the largest overlap depth of the test's column in a partition."""
    column = test.arguments["column"]
    if column.lower() not in {name.lower() for name in scope.table.types}:
        raise UnmeasurableError("the table has no column {column} to compare values of", column=column)
    depths = overlap_depths(column, scope.slices, scope.table.statistics)
    largest = _largest(depths)
    yield Measure(largest.value or 0, "value", largest.partition)


def _query(scope: Scope, test: TableTest) -> Iterator[Measure]:
    """Measure the files, row groups, rows and bytes that a declared query reads."""
    table, name = scope.table, test.arguments["name"]
    condition = table.queries.get(name)
    if condition is None:
        raise UnmeasurableError("no query {query} is declared; declare it under queries", query=name)
    where = next(query.where for query in table.spec.extra.queries if query.name == name)
    if unknown := table.unknown_columns(where):
        raise UnmeasurableError(
            "the table has no column {column}, which the query {query} reads", column=unknown[0], query=name
        )
    files = {part.path: table.statistics[part.path] for part in scope.slices}
    if {"max_rows", "max_bytes"} & test.arguments.keys():
        files = with_pages(table.handle.store, files, [condition], table.types)
    read = reads_of(files.values(), condition, table.types)
    yield Measure(read.files, "max_files")
    yield Measure(read.row_groups, "max_row_groups")
    yield Measure(read.rows, "max_rows")
    yield Measure(read.data_bytes, "max_bytes")


def _clustering_debt(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Measure the bytes that are due for clustering, and the age of the oldest due file."""
    debt, planned = scope.table.debt, scope.table.timeline.groups_in_pending_clustering
    # A plan does not reduce debt: its files count until the clustering completes.
    pending = [
        left.file
        for left in debt.excluded
        if left.reason is ExclusionReason.RESERVED and left.file.key in planned
    ]
    due = [file for group in debt.groups for file in group.files]
    files = [file for file in (*due, *pending) if scope.holds(file.partition)]
    yield Measure(sum(file.size_bytes for file in files), "max_bytes")
    oldest = min((file.instant for file in files), default=None)
    yield Measure(0 if oldest is None else _age_seconds(scope.table, oldest), "max_age")


def _commit_age(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Return the seconds since the newest commit that wrote to the scope, not counting clusterings."""
    timeline = scope.table.timeline
    newest_first = [write.time for write in reversed(timeline.completed_writes)]
    for times in growing_batches(newest_first):
        for time, metadata in zip(times, map_each(times, timeline.commit_metadata), strict=True):
            is_inside = any(scope.holds(partition) for partition in metadata.partitions)
            if is_inside and metadata.operation != CLUSTER:
                yield Measure(_age_seconds(scope.table, time))
                return
    raise UnmeasurableError(
        "no commit of the active timeline wrote to these partitions, so the age is unknown"
    )


def _write_amplification(scope: Scope, test: TableTest) -> Iterator[Measure]:
    """Divide the bytes that the newest commits wrote by the bytes of rows that arrived in them."""
    timeline = scope.table.timeline
    times = [write.time for write in timeline.completed_writes[-test.arguments["commits"] :]]
    commits = timeline.commits(times)
    written = sum(stat.file_size_bytes for commit in commits for stat in commit.all_stats())
    arrived = sum(map(_arrived_bytes, commits))
    if written and not arrived:
        raise UnmeasurableError(
            "the newest commits only rewrote rows, such as clusterings: count more commits"
        )
    yield Measure(written / arrived if arrived else None, "max")


def _arrived_bytes(commit: CommitMetadata) -> float:
    """Return the approximate bytes of a commit that are rows it inserted, updated or deleted."""
    if commit.operation == CLUSTER:
        return 0
    return sum(
        stat.file_size_bytes * min(_changed_rows(stat) / max(stat.num_writes, 1), 1)
        for stat in commit.all_stats()
    )


def _changed_rows(stat: WriteStat) -> int:
    """Return the number of rows of a file that its write inserted, updated or deleted."""
    return stat.num_inserts + stat.num_update_writes + stat.num_deletes


def _file_versions(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Return the largest number of versions of a file in any partition of the scope."""
    view = scope.table.view
    versions: dict[str, int] = {}
    for partition in view.partitions():
        if scope.holds(partition):
            groups = view.file_groups(partition)
            versions[partition] = max((len(group.slices) for group in groups), default=0)
    yield _largest(versions)


def _orphans(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Count the orphan files, and name the partition with most of them."""
    found = {path: len(files) for path, files in scope.table.orphans.items() if scope.holds(path)}
    yield Measure(sum(found.values()), partition=_largest(found).partition if any(found.values()) else None)


def _publish_lag(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Return the seconds since the oldest write that a published format does not show."""
    table = scope.table
    formats = formats_of(table.handle)
    if not formats:
        raise UnmeasurableError("the applied spec does not publish the table")
    since = [
        lag.since for lag in (publish_lag(table.handle, one) for one in formats) if lag.since is not None
    ]
    yield Measure(_age_seconds(table, min(since)) if since else 0)


def _drift(scope: Scope, _: TableTest) -> Iterator[Measure]:
    """Count the drifts of the table."""
    handle = scope.table.handle
    found = table_drift(
        handle.store,
        table=handle.name,
        location=handle.store.uri,
        owner=handle.owner,
        declared=handle.declared,
    )
    if not found.is_applied:
        raise UnmeasurableError("no spec is applied to the table, so nothing can drift from it")
    yield Measure(len(found.drifts))


def _row_count(scope: Scope, test: TableTest) -> Iterator[Measure]:
    """Count the rows and, if the test has such limits, their decrease and increase by the newest commit."""
    rows = scope.rows(scope.slices)
    yield Measure(rows, "min")
    yield Measure(rows, "max")
    if not {"max_decrease", "max_increase"} & test.arguments.keys():
        return
    before = _rows_before(scope)
    change = (rows - before) / before if before else None
    yield Measure(None if change is None else max(0, -change), "max_decrease")
    yield Measure(None if change is None else max(0, change), "max_increase")


def _rows_before(scope: Scope) -> int:
    """Return the rows before the newest commit that changed the scope, not counting clusterings.

    Raises:
        UnmeasurableError: if the files from before that commit are cleaned, or there is no such commit.

    """
    table = scope.table
    times = [write.time for write in table.timeline.completed_writes]
    for before, time in zip(reversed(["", *times[:-1]]), reversed(times), strict=True):
        metadata = table.timeline.commit_metadata(time)
        if metadata.operation == CLUSTER or not any(map(scope.holds, metadata.partitions)):
            continue
        try:
            table.view.check_time_travel(before)
            return scope.rows([part for part in table.view.all_slices(before) if scope.holds(part.partition)])
        except (CorruptTableError, InvalidDataError) as error:
            raise UnmeasurableError(
                "the files from before the newest commit were cleaned, so the change is unknown; keep "
                "more versions"
            ) from error
    raise UnmeasurableError(
        "no commit of the active timeline wrote to these partitions, so the change is unknown"
    )


def _age_seconds(table: LiveTable, instant: str) -> float:
    """Return the seconds since an instant; raise UnmeasurableError if its name is not a time."""
    try:
        begun_ms = parse_instant_ms(instant, table.handle.config.timezone)
    except CorruptTableError as error:
        raise UnmeasurableError("the instant {instant} is not a time", instant=instant) from error
    return max(0, (table.now_ms - begun_ms) / 1000)


def _largest(by_partition: Mapping[str, float]) -> Measure:
    """Return the largest value with the first partition that has it; 0 without partitions."""
    if not by_partition:
        return Measure(0)
    partition = max(sorted(by_partition), key=lambda path: by_partition[path])
    return Measure(by_partition[partition], partition=partition)


KINDS: Final[Mapping[str, LayoutMeasure]] = {
    "max_small_files": _small_files,
    "max_partition_files": _partition_files,
    "max_skew": _skew,
    "file_size": _file_size,
    "max_overlap_depth": _overlap_depth,
    "query": _query,
    "clustering_debt": _clustering_debt,
    "max_commit_age": _commit_age,
    "write_amplification": _write_amplification,
    "max_file_versions": _file_versions,
    "max_orphans": _orphans,
    "max_drift": _drift,
    "max_publish_lag": _publish_lag,
    "row_count": _row_count,
}
"""The measurement of each kind; ``project/model/table_tests.py`` has the limits of each kind."""
