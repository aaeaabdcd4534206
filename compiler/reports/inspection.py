"""The live layout of a table: files, sizes and rows, and what each declared query has to read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from parquetry.compiler.evidence.figures import due_figures, overlap_depths
from parquetry.compiler.evidence.model import DueFigures
from parquetry.compiler.workspace.named_file import read_named
from parquetry.errors import UsageError
from parquetry.message import PARTITION_FIELD, Text, command
from parquetry.runtime.apply.properties import property_warnings
from parquetry.runtime.clustering.plan.history import (
    CompletedClustering,
    ForecastErrorSummary,
    completed_clusterings,
    forecast_error,
)
from parquetry.runtime.clustering.rewrite.strategies import are_allowed
from parquetry.runtime.commit.damaged_files import damage_warnings, damaged_files, raise_if_damaged
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.sizing import is_small
from parquetry.runtime.layout.skipping.files import (
    Reads,
    Types,
    all_of,
    column_types,
    parse_where,
    reads_of,
)
from parquetry.runtime.layout.skipping.predicate import Predicate
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.page_index import with_pages
from parquetry.runtime.publish.publishing import lag_warnings
from parquetry.runtime.spec.codec import Brief, parsed_json
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.consistent_read import read_consistently
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.table.statistics import look_up
from parquetry.runtime.table.view import FileSystemView, IncrementalSlices
from parquetry.runtime.timeline.rereading import retry_stale


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition; tuples by file are in the order of the file ids.

    ``file_instants`` are the commits that wrote the files. ``file_layouts`` are the layout digests of the
    clustering that wrote each file, or None.
    """

    path: str = field(metadata=PARTITION_FIELD)
    small_files: int
    rows: int
    file_sizes_bytes: tuple[int, ...]
    file_instants: tuple[str, ...] = ()
    file_layouts: tuple[str | None, ...] = ()

    @property
    def files(self) -> int:
        """The number of files."""
        return len(self.file_sizes_bytes)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files."""
        return sum(self.file_sizes_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The number that a query reads, out of all."""

    read: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """The files, row groups and rows that a declared query reads after pruning.

    Statistics prune files and row groups, and the page index prunes rows.
    """

    name: str
    files: Share
    row_groups: Share
    rows: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapReport:
    """The largest number of files of one partition that share a value of a clustering column."""

    column: str
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LayoutReport(Brief):
    """A table as of its newest completed write; ``warnings`` describe lost rows and risks of losing rows.

    ``overlap`` has the columns of the applied clustering policy. ``debt`` is what the applied policies make
    due, or None if none is applied. ``clustering`` is the newest one that measured queries,
    ``forecast_error`` that of the newest ones. ``damaged_files`` is the number of committed files that are
    missing.
    """

    table: str
    instant: str | None
    partitions: tuple[PartitionReport, ...]
    queries: tuple[QueryReport, ...]
    overlap: tuple[OverlapReport, ...] = ()
    debt: DueFigures | None = None
    clustering: CompletedClustering | None = None
    forecast_error: ForecastErrorSummary | None = None
    warnings: tuple[Text, ...] = ()
    damaged_files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """One file that readers of the newest rows open, as an absolute path or the URI of an object."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """The files of a table as of its newest completed write, sorted by path."""

    table: str
    instant: str | None
    files: tuple[LiveFile, ...]


@retry_stale
def live_files(store: ObjectStore) -> LiveFiles:
    """Return the files that hold the table's current rows, without reading any footer.

    Paths are in the form that query engines take. Partition values in them are not masked.

    Raises:
        CorruptTableError: if a file is missing or cut, as the list would lack rows.

    """
    handle = open_table(store)
    with handle.failures_masked():
        raise_if_damaged(handle, damaged_files(handle))

    def read_slices(view: FileSystemView) -> tuple[IncrementalSlices, str | None]:
        return IncrementalSlices(
            begin="", end=view.newest, slices=tuple(view.all_slices()), as_of=view.newest
        ), view.newest or None

    changes, instant = read_consistently(handle, read_slices)
    files = (
        LiveFile(path=path_for_engines(store, part), size_bytes=part.size_bytes) for part in changes.slices
    )
    return LiveFiles(
        table=handle.name, instant=instant, files=tuple(sorted(files, key=lambda file: file.path))
    )


def path_for_engines(store: ObjectStore, file: FileSlice) -> str:
    """Return the absolute path of a file, or the URI of an object, as query engines take it."""
    return f"{store.uri.removeprefix('file://')}/{file.path}"


@retry_stale
def inspect_table(store: ObjectStore, *, declared: TableSpec | None = None) -> LayoutReport:
    """Return the layout of the table in ``store``.

    Values of columns that the applied spec or the ``declared`` one marks as personal data are masked. Row
    counts come from recorded statistics, or else from footers. Times without a zone in queries are in UTC, as
    in the sessions that jobs start.

    Raises:
        TableNotFoundError: if there is no table.
        CorruptTableError: if a file does not have the size with which it was written.

    """
    handle = open_table(store, declared=declared)
    with handle.failures_masked():
        return handle.cleared(_report(handle))


def _report(handle: TableHandle) -> LayoutReport:
    """Return the layout of an open table, with what queries would read and with its debt."""
    store = handle.store
    lost = damaged_files(handle)
    # No report is possible on files that cannot be opened.
    raise_if_damaged(handle, [file for file in lost if file.size_bytes is not None])
    timeline = handle.timeline()
    spec = handle.effective_spec(timeline)
    view = handle.view(timeline)
    slices = view.all_slices()
    queries = spec.extra.queries
    ordered_by = spec.clustering.execution.columns
    types = column_types(spec.columns)
    conditions = {query.name: parse_where(query.where, types=types, time_zone=UTC) for query in queries}
    statistics = look_up(store, slices, columns=None if queries else ordered_by)
    past = completed_clusterings(handle, timeline)
    return LayoutReport(
        table=handle.name,
        instant=timeline.completed_writes[-1].time if timeline.completed_writes else None,
        partitions=_partitions(slices, statistics, spec),
        queries=_queries(conditions, with_pages(store, statistics, conditions.values(), types), types),
        overlap=tuple(_overlap(column, slices, statistics) for column in ordered_by),
        # The number of runs depends on the budget of a target, which is not known here.
        debt=due_figures(handle, spec, budget_bytes=0).figures
        if handle.applied and are_allowed(spec.clustering, handle.store.allowed)
        else None,
        clustering=next((one for one in reversed(past) if one.queries), None),
        forecast_error=forecast_error(past),
        warnings=(
            *((handle.fault.message,) if handle.fault is not None else ()),
            *property_warnings(store),
            *damage_warnings(handle, lost),
            *lag_warnings(handle),
        ),
        damaged_files=len(lost),
    )


def _overlap(
    column: str, slices: Sequence[FileSlice], statistics: Mapping[str, FileStatistics]
) -> OverlapReport:
    """Return the largest overlap depth of a column in any partition."""
    depths = overlap_depths(column, slices, statistics)
    return OverlapReport(column=column, depth=max(depths.values(), default=0))


def _queries(
    conditions: Mapping[str, Predicate], statistics: Mapping[str, FileStatistics], types: Types
) -> tuple[QueryReport, ...]:
    """Return how much of the table each query reads."""
    files = list(statistics.values())
    total = all_of(files)
    return tuple(
        _query(name, reads_of(files, condition, types), total) for name, condition in conditions.items()
    )


def _query(name: str, read: Reads, total: Reads) -> QueryReport:
    """Return what a query reads together with the totals of the table."""
    return QueryReport(
        name=name,
        files=Share(read=read.files, total=total.files),
        row_groups=Share(read=read.row_groups, total=total.row_groups),
        rows=Share(read=read.rows, total=total.rows),
    )


def _partitions(
    slices: Sequence[FileSlice], statistics: Mapping[str, FileStatistics], spec: TableSpec
) -> tuple[PartitionReport, ...]:
    """Return the layout of each partition."""
    by_partition: dict[str, list[FileSlice]] = defaultdict(list)
    for part in slices:
        by_partition[part.partition].append(part)
    return tuple(
        PartitionReport(
            path=path,
            small_files=sum(is_small(part.size_bytes, spec.sizing) for part in parts),
            rows=sum(statistics[part.path].rows for part in parts),
            file_sizes_bytes=tuple(part.size_bytes for part in parts),
            file_instants=tuple(part.instant for part in parts),
            file_layouts=tuple(statistics[part.path].clustering for part in parts),
        )
        for path, parts in sorted(by_partition.items())
    )


def read_layouts(files: Iterable[Path]) -> dict[str, LayoutReport]:
    """Read saved layouts and return them by table.

    Raises:
        UsageError: if a file holds no layout, or two files hold layouts of one table.

    """
    found: dict[str, LayoutReport] = {}
    for file in files:
        layout = _layout(file)
        if layout.table in found:
            raise UsageError(
                "{file} is the second layout of table {table}; give one per table",
                file=file,
                table=layout.table,
            )
        found[layout.table] = layout
    return found


def _layout(file: Path) -> LayoutReport:
    """Read the layout that `inspect --out` saved in a file; raise UsageError for another file."""
    try:
        document = parsed_json(read_named(file))
        return LayoutReport(
            table=_text(document["table"]),
            instant=document["instant"],
            partitions=tuple(_partition(entry) for entry in document["partitions"]),
            queries=(),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(
            "{file} is not a saved layout; save one with {command}",
            file=file,
            command=command("inspect", "TABLE", "--out", "FILE"),
        ) from error


def _partition(entry: Mapping[str, Any]) -> PartitionReport:
    """Read the layout of one partition from JSON; raise an error if a part is missing or wrong."""
    sizes = tuple(int(size) for size in entry["file_sizes_bytes"])
    instants, layouts = (entry.get(key, ()) for key in ("file_instants", "file_layouts"))
    if any(entries and len(entries) != len(sizes) for entries in (instants, layouts)):
        raise ValueError("the numbers of files differ")
    return PartitionReport(
        path=_text(entry["path"]),
        small_files=int(entry["small_files"]),
        rows=int(entry["rows"]),
        file_sizes_bytes=sizes,
        file_instants=tuple(map(_text, instants)),
        file_layouts=tuple(None if digest is None else _text(digest) for digest in layouts),
    )


def _text(value: Any) -> str:
    """Return a value of a saved layout that is a string; raise TypeError for another type."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value
