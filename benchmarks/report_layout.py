"""The part of RESULTS.md about layouts: what must be read (W5), how fast it is (W5b), planning (W6), growth (W7)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks.charts import bars

Row = dict[str, Any]

SCANNED_GOAL = 0.15
"""The largest share of the rows that a point filter on either column of a Z-order may have to scan."""

GROWTH_GOAL = 1.1
"""Cost per row may grow by so much from the smallest to the largest table, memory of a worker too."""


def scanned(rows: Sequence[Row]) -> list[str]:
    """W5: shares of rows by peer and column."""
    lines = [
        "### W5",
        "",
        "Rows that must be scanned for a point filter on a table z-ordered by (l_partkey, l_suppkey), mean of 20 values drawn by row: by the statistics of row groups,",
        f"and by the page index where a writer makes one. Goal for ours: both columns below {SCANNED_GOAL:.0%}.",
        "",
        "| table | l_partkey: row groups | pages | l_suppkey: row groups | pages |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["peer"] for row in rows):
        cells = []
        for column in ("l_partkey", "l_suppkey"):
            (row,) = [row for row in rows if (row["peer"], row["column"]) == (name, column)]
            cells.append(
                f"{row['row_group_share']:.1%} | {row['page_share']:.1%}"
                if row["has_pages"]
                else f"{row['row_group_share']:.1%} | none"
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    ours = [row["page_share"] for row in rows if row["peer"] == "parquetry"]
    if ours:
        verdict = "reached" if max(ours) < SCANNED_GOAL else "**not reached**"
        lines += ["", f"The worse column of ours: {max(ours):.1%} ({verdict})."]
    return [*lines, ""]


def queries(rows: Sequence[Row]) -> list[str]:
    """W5b: medians before and after the sort."""
    lines = [
        "### W5b",
        "",
        "Point query on l_partkey through the format's own reader (Spark; delta-rs without), before and after the sort of W4b, in turns. Medians; ratio is before / after.",
        "",
        "| table | n | wall ms before -> after | ratio | CPU ms before -> after | ratio | CPU after: peer / ours |",
        "|---|---|---|---|---|---|---|",
    ]
    ours = _middle(rows, "parquetry", "after", "cpu_seconds")
    slower = []
    for name in dict.fromkeys(row["peer"] for row in rows):
        wall, cpu = (
            [_middle(rows, name, state, figure) for state in ("before", "after")]
            for figure in ("wall_seconds", "cpu_seconds")
        )
        count = sum(row["peer"] == name and row["state"] == "after" for row in rows)
        lines.append(
            f"| {name} | {count} | {wall[0] * 1e3:,.0f} -> {wall[1] * 1e3:,.0f} | {wall[0] / wall[1]:.2f} | {cpu[0] * 1e3:,.0f} -> {cpu[1] * 1e3:,.0f} "
            f"| {cpu[0] / max(cpu[1], 0.01):.2f} | {cpu[1] / ours:.2f} |"
        )
        if name != "delta-rs" and cpu[1] < ours:
            slower.append(name)
    if not {row["peer"] for row in rows} - {"parquetry", "delta-rs"}:
        return [*lines, "", "No other format on Spark took part in this run.", ""]
    verdict = f"**not reached** against {', '.join(slower)}" if slower else "reached"
    return [*lines, "", f"Never slower than a peer on Spark, by CPU: {verdict}.", ""]


def growth(rows: Sequence[Row]) -> list[str]:
    """W7: cost per million rows and the memory of a worker, by the size of the table."""
    lines = [
        "### W7",
        "",
        "One, two and four times the data, the upsert growing with the table. *Worker* is the largest Python process on Spark, which is the figure that must not grow.",
        "",
        "| case | rows | CPU s | CPU s per million rows | worker MiB |",
        "|---|---|---|---|---|",
    ]
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        cpu, worker, count = _of(mine, "cpu_seconds"), _of(mine, "worker_rss_bytes"), mine[0]["rows"]
        lines.append(f"| {case} | {count:,} | {cpu:.2f} | {cpu / count * 1e6:.2f} | {worker / 2**20:.0f} |")
    lines.append("")
    for operation in ("upsert", "sort"):
        mine = {
            row["factor"]: [r for r in rows if r["case"] == row["case"]]
            for row in rows
            if row["case"].startswith(operation)
        }
        first, last = mine[min(mine)], mine[max(mine)]
        times = last[0]["rows"] / first[0]["rows"]
        cost = _of(last, "cpu_seconds") / _of(first, "cpu_seconds")
        memory = _of(last, "worker_rss_bytes") / _of(first, "worker_rss_bytes")
        verdicts = [
            "reached" if grown <= allowed else "**not reached**"
            for grown, allowed in ((cost, GROWTH_GOAL * times), (memory, GROWTH_GOAL))
        ]
        lines.append(
            f"- {operation}: {times:g} times the rows cost {cost:.2f} times the CPU ({verdicts[0]}); memory of a worker times {memory:.2f} ({verdicts[1]})."
        )
    return [*lines, ""]


def planning() -> list[str]:
    """What needs no peer and no JVM has pages of its own: W6, and the commands that plan."""
    return [
        "### W6",
        "",
        "Planning the clustering of up to 100,000 files starts no JVM: [CLUSTERING_PLANS.md](CLUSTERING_PLANS.md) has its cost by the number of files.",
        "What `validate`, `plan` and other commands without a JVM cost, up to 1,000 tables: [PLANS.md](PLANS.md).",
        "",
    ]


def chart(rows: Sequence[Row]) -> str:
    """CPU seconds of rewriting the small files, by format, as SVG."""
    formats = [name for name in dict.fromkeys(row["peer"] for row in rows) if name != "arrow"]
    two = [layout for layout in ("sort", "zorder") if any(row["case"].endswith(layout) for row in rows)]
    series = {
        layout: [
            _of([row for row in rows if row["case"] == f"{name} {layout}"], "cpu_seconds") for name in formats
        ]
        for layout in two
    }
    return bars("Clustering small files of lineitem (W4b, W4c)", "CPU seconds, median", formats, series)


def _middle(rows: Sequence[Row], name: str, state: str, figure: str) -> float:
    return _of([row for row in rows if (row["peer"], row["state"]) == (name, state)], figure)


def _of(rows: Sequence[Row], figure: str) -> float:
    return float(median(row[figure] for row in rows))
