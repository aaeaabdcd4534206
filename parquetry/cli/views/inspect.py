"""The layout of a table, in text, JSON and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from parquetry.cli.terminal.format import columns, count, human_size
from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.queries import forecast_error_lines, measured_block, measured_table
from parquetry.compiler.evidence.model import DueFigures
from parquetry.compiler.reports.charts import Bars, bar_chart
from parquetry.compiler.reports.duckdb_view import DuckdbView
from parquetry.compiler.reports.inspection import (
    LayoutReport,
    LiveFiles,
    PartitionReport,
    QueryReport,
    Share,
)
from parquetry.compiler.reports.page import (
    Badge,
    Cell,
    DataTable,
    Facts,
    Lines,
    Meter,
    Page,
    Section,
    Tone,
    Verbatim,
    render_page,
)
from parquetry.message import in_full

_HEADER = ("partition", "files", "small", "rows", "size", "smallest", "median", "largest")
_QUERY_HEADER = ("query", "files", "row groups", "rows")
_NUMBERS = frozenset(range(1, len(_HEADER)))
_BARS = 12
_DEBT = ("rewrite_bytes", "rewrite_files", "files_after", "expired_files", "expired_bytes")


class InspectView:
    """The partitions, totals and queries of a table."""

    def text(self, outcome: LayoutReport, paint: Paint) -> str:
        """Return a line per partition and one for all of them, then queries, overlap, clustering and debt."""
        totals = _totals(outcome.partitions)
        head = f"{paint.bold(outcome.table)} at {outcome.instant or 'no write yet'}"
        rows = [_row(partition.path or "(unpartitioned)", partition) for partition in outcome.partitions]
        if len(rows) > 1:
            rows.append(_row("total", totals))
        blocks = [head, columns(_HEADER, rows, paint=paint, right=_NUMBERS) if rows else "no files"]
        if outcome.queries:
            lines = [_query_row(query) for query in outcome.queries]
            blocks.append(columns(_QUERY_HEADER, lines, paint=paint, right=frozenset({1, 2, 3})))
        if outcome.overlap:
            depths = ", ".join(f"{overlap.column} {overlap.depth}" for overlap in outcome.overlap)
            blocks.append(f"files that share a value, at most in one partition: {depths}")
        if outcome.clustering is not None:
            head = f"clustered by {outcome.clustering.instant}, of the files that it rewrote"
            blocks.append(f"{paint.bold(head)}\n{measured_table(outcome.clustering.queries, paint)}")
        if outcome.forecast_error is not None:
            blocks.append(forecast_error_lines(outcome.forecast_error))
        if outcome.debt is not None and not outcome.debt.is_paid:
            blocks.append(f"debt: {_debt(outcome.debt)}")
        blocks.append(_summary(totals))
        blocks += [f"{paint.bad('warning')}: {in_full(warning)}" for warning in outcome.warnings]
        return "\n\n".join(blocks)

    def html(self, outcome: LayoutReport) -> str:
        """Return one self-contained page with file sizes, partitions and queries."""
        return render_page(
            Page(
                title=f"{outcome.table} at {outcome.instant or 'no write yet'}",
                verdict=_verdict(outcome),
                facts=Facts(entries=tuple(_facts(outcome))),
                sections=tuple(_sections(outcome)),
            )
        )

    def json(self, outcome: LayoutReport) -> Any:
        """Return the document that the schema of ``inspect`` describes."""
        totals = _totals(outcome.partitions)
        return {
            "table": outcome.table,
            "instant": outcome.instant,
            "partitions": [{"path": p.path} | _figures(p) | _by_file(p) for p in outcome.partitions],
            "totals": {"partitions": len(outcome.partitions)} | _figures(totals),
            "queries": [asdict(query) for query in outcome.queries],
            "overlap": [asdict(overlap) for overlap in outcome.overlap],
            "debt": None if outcome.debt is None else {key: getattr(outcome.debt, key) for key in _DEBT},
            "clustering": None if outcome.clustering is None else asdict(outcome.clustering),
            "forecast_error": None if outcome.forecast_error is None else asdict(outcome.forecast_error),
            "warnings": list(outcome.warnings),
        }


class FilesView:
    """The paths of live files, for engines that read Parquet files."""

    def text(self, outcome: LiveFiles, _: Paint) -> str:
        """Return one path per line and nothing else, for scripts."""
        return "\n".join(file.path for file in outcome.files)

    def json(self, outcome: LiveFiles) -> Any:
        """Return the document that the schema of ``inspect-files`` describes."""
        return asdict(outcome)


class StatementView:
    """The statement of a view over live files, for the engine to run."""

    def text(self, outcome: DuckdbView, _: Paint) -> str:
        """Return the statement and nothing else, for scripts."""
        return outcome.statement

    def json(self, outcome: DuckdbView) -> Any:
        """Return the document that the schema of ``inspect-view`` describes."""
        return asdict(outcome)


def _verdict(report: LayoutReport) -> Badge | None:
    if report.warnings:
        return Badge(text=count(len(report.warnings), "warning"), tone=Tone.WARN)
    if report.debt is not None and not report.debt.is_paid:
        return Badge(text="files are due", tone=Tone.WARN)
    return Badge(text="nothing due", tone=Tone.GOOD) if report.debt is not None else None


def _facts(report: LayoutReport) -> Iterator[tuple[str, str]]:
    yield "files", _summary(_totals(report.partitions))
    if report.debt is not None and not report.debt.is_paid:
        yield "due", _debt(report.debt)
    if report.overlap:
        depths = ", ".join(f"{overlap.column} {overlap.depth}" for overlap in report.overlap)
        yield "overlap", f"{depths}: files that share a value, at most in one partition"


def _sections(report: LayoutReport) -> Iterator[Section]:
    if report.warnings:
        yield Section(
            title="Warnings", tone=Tone.WARN, blocks=(Lines(texts=tuple(map(in_full, report.warnings))),)
        )
    sizes = [size for partition in report.partitions for size in partition.file_sizes_bytes]
    chart = bar_chart("files, up to the size below each bar", size_bars(sizes))
    if chart is not None:
        yield Section(title="File sizes", blocks=(chart,))
    if report.partitions:
        largest = max(partition.size_bytes for partition in report.partitions) or 1
        rows = tuple(_shared(partition, largest) for partition in report.partitions)
        header = (*_HEADER, "share")
        table = DataTable(caption="Partitions", header=header, rows=rows, numbers=_NUMBERS)
        yield Section(title="Partitions", note="share: of the largest one", blocks=(table,))
    if report.queries:
        yield Section(
            title="Declared queries",
            note="what each reads of the table",
            blocks=(
                DataTable(
                    caption="Declared queries",
                    header=_QUERY_HEADER,
                    rows=tuple(_query_row(query) for query in report.queries),
                    numbers=frozenset({1, 2, 3}),
                ),
            ),
        )
    if report.clustering is not None:
        yield Section(
            title="Clustering",
            note=f"{report.clustering.instant}: what queries read of the files that it rewrote",
            blocks=(measured_block(report.clustering.queries),),
        )


def _shared(partition: PartitionReport, largest: int) -> tuple[Cell, ...]:
    """Return the row of a partition, with its size as a share of the largest partition."""
    share = Meter(round(partition.size_bytes * 100 / largest))
    return (Verbatim(partition.path or "(unpartitioned)"), *_row("", partition)[1:], share)


def size_bars(sizes: Sequence[int]) -> tuple[Bars, ...]:
    """Return the number of files per size class, all of equal width; empty without files."""
    if not sizes:
        return ()
    step = max(-(-max(sizes) // _BARS), 1)
    counts = [0] * _BARS
    for file_size in sizes:
        counts[max(-(-file_size // step), 1) - 1] += 1
    return tuple(
        Bars(label=human_size(step * (index + 1)), values=(files,)) for index, files in enumerate(counts)
    )


def _debt(debt: DueFigures) -> str:
    parts = []
    if debt.rewrite_files:
        rewritten = f"{count(debt.rewrite_files, 'file')} ({human_size(debt.rewrite_bytes)})"
        parts.append(f"{rewritten} to cluster, after which there are {debt.files_after:,}")
    if debt.expired_files:
        expired = count(debt.expired_files, "expired version")
        parts.append(f"{expired} to delete ({human_size(debt.expired_bytes)})")
    return "; ".join(parts)


def _summary(totals: PartitionReport) -> str:
    return (
        f"{count(totals.files, 'file')}, {totals.small_files} small, {count(totals.rows, 'row')}, "
        f"{human_size(totals.size_bytes)}"
    )


def _totals(partitions: Sequence[PartitionReport]) -> PartitionReport:
    """Return the sums of all partitions."""
    return PartitionReport(
        path="",
        small_files=sum(p.small_files for p in partitions),
        rows=sum(p.rows for p in partitions),
        file_sizes_bytes=tuple(size for p in partitions for size in p.file_sizes_bytes),
    )


def _figures(partition: PartitionReport) -> dict[str, int]:
    return {
        "files": partition.files,
        "small_files": partition.small_files,
        "rows": partition.rows,
        "size_bytes": partition.size_bytes,
    }


def _by_file(partition: PartitionReport) -> dict[str, list[Any]]:
    return {
        "file_sizes_bytes": list(partition.file_sizes_bytes),
        "file_instants": list(partition.file_instants),
        "file_layouts": list(partition.file_layouts),
    }


def _row(name: str, partition: PartitionReport) -> tuple[str, ...]:
    """Return the cells of a partition: counts, bytes, and the smallest, median and largest file."""
    sizes = sorted(partition.file_sizes_bytes)
    quantiles = [human_size(sizes[i]) for i in (0, len(sizes) // 2, -1)] if sizes else ["", "", ""]
    numbers = (f"{partition.files:,}", f"{partition.small_files:,}", f"{partition.rows:,}")
    return (name, *numbers, human_size(partition.size_bytes), *quantiles)


def _query_row(query: QueryReport) -> tuple[str, ...]:
    return (query.name, *(_share(share) for share in (query.files, query.row_groups, query.rows)))


def _share(share: Share) -> str:
    return f"{share.read:,} of {share.total:,}"
