"""A table's layout as one HTML page that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parquetry.compiler.reports.inspection import LayoutReport
from parquetry.templates.environment import environment
from parquetry.version import VERSION

_BARS = 12
_HEIGHT = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBar:
    """Files up to a size: how many, and the height of their bar in pixels."""

    label: str
    files: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition; ``share`` of its size in that of the largest one, in percent."""

    name: str
    cells: tuple[str, ...]
    share: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutPage:
    """Everything the template may say."""

    title: str
    summary: str
    version: str
    bars: tuple[SizeBar, ...]
    header: tuple[str, ...]
    partitions: tuple[PartitionRow, ...]
    queries: tuple[tuple[str, ...], ...]
    measured: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]


def render_layout(
    report: LayoutReport,
    *,
    summary: str,
    header: tuple[str, ...],
    row: Callable[..., tuple[str, ...]],
    queries: tuple[tuple[str, ...], ...],
    measured: Sequence[tuple[str, ...]],
    size: Callable[[float], str],
) -> str:
    """The page's HTML, with its style inside and no script; the functions put numbers into words."""
    sizes = [size for partition in report.partitions for size in partition.file_sizes_bytes]
    largest = max((partition.size_bytes for partition in report.partitions), default=0) or 1
    page = LayoutPage(
        title=f"{report.table} at {report.instant or 'no write yet'}",
        summary=summary,
        version=VERSION,
        bars=size_bars(sizes, size=size),
        header=header,
        partitions=tuple(
            PartitionRow(
                name=partition.path or "(unpartitioned)",
                cells=row("", partition)[1:],
                share=round(partition.size_bytes * 100 / largest),
            )
            for partition in report.partitions
        ),
        queries=queries,
        measured=tuple(measured),
        warnings=report.warnings,
    )
    return environment(page=True).get_template("layout.html.j2").render(page=page)


def size_bars(sizes: Sequence[int], *, size: Callable[[float], str]) -> tuple[SizeBar, ...]:
    """The files in steps of equal width up to the largest one; none without files."""
    if not sizes:
        return ()
    step = max(-(-max(sizes) // _BARS), 1)
    counts = [0] * _BARS
    for file_size in sizes:
        counts[max(-(-file_size // step), 1) - 1] += 1
    most = max(counts)
    return tuple(
        SizeBar(label=size(step * (index + 1)), files=files, height=round(files * _HEIGHT / most))
        for index, files in enumerate(counts)
    )
