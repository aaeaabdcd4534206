"""The part of RESULTS.md about layouts: what must be read (W5), how fast it is (W5b), planning (W6), growth (W7)."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.charts import bars
from benchmarks.results import Run
from benchmarks.tables import Row, middle, table, verdict

SCANNED_GOAL = 0.15
"""The largest share of the rows that a point filter on either column of a Z-order may have to scan."""

GROWTH_GOAL = 1.05
"""Cost per row may grow by so much from the smallest to the largest table, memory of a worker too."""

TICK = 0.01
"""CPU seconds are counted in so many."""

Runs = dict[str, list[Run]]


def section(runs: Runs) -> list[str]:
    """All of it."""
    lines = ["## Benefits of layouts", "", *scanned(_shares(runs))]
    if asked := _with_ours(runs, "W5b"):
        lines += [
            "### W5b",
            "",
            "A point query on l_partkey, before and after the sort of W4b, in turns. Each format uses its own reader: delta-rs without Spark, the others on Spark. Figures are medians. The ratio is before / after.",
            "",
            *(line for run in asked for line in queries(run["rows"])),
        ]
    lines += planning()
    for run in _with_ours(runs, "W7")[-1:]:
        lines += growth(run["rows"])
    return lines


def scanned(rows: Sequence[Row]) -> list[str]:
    """W5: shares of rows by peer and column."""
    if not rows:
        return []
    lines = [
        "### W5",
        "",
        "The share of rows that a point filter must scan in a table with a z-order by (l_partkey, l_suppkey). It is the mean over 20 values from random rows. *Row groups* uses the statistics of row groups, *pages* uses the page index if the writer makes one.",
        f"The goal for parquetry: both columns below {SCANNED_GOAL:.0%}.",
        "",
        *table(
            ["table", "l_partkey: row groups", "pages", "l_suppkey: row groups", "pages"],
            (
                [
                    name,
                    *(
                        cell
                        for row in rows
                        if row["peer"] == name
                        for cell in (
                            f"{row['row_group_share']:.1%}",
                            f"{row['page_share']:.1%}" if row["has_pages"] else "none",
                        )
                    ),
                ]
                for name in dict.fromkeys(row["peer"] for row in rows)
            ),
        ),
    ]
    if ours := [row["page_share"] for row in rows if row["peer"] == "parquetry"]:
        reached = max(ours) < SCANNED_GOAL
        lines += [f"The worse column for parquetry: {max(ours):.1%} ({verdict(reached=reached)}).", ""]
    return lines


def queries(rows: Sequence[Row]) -> list[str]:
    """W5b: medians of a run before and after the sort."""
    ours = max(_middle(rows, "parquetry", "after", "cpu_seconds"), TICK)
    cells, slower = [], []
    names = list(dict.fromkeys(row["peer"] for row in rows))
    for name in names:
        wall, cpu = (
            [_middle(rows, name, state, figure) for state in ("before", "after")]
            for figure in ("wall_seconds", "cpu_seconds")
        )
        cells.append(
            [
                name,
                sum(row["peer"] == name and row["state"] == "after" for row in rows),
                f"{wall[0] * 1e3:,.0f} -> {wall[1] * 1e3:,.0f}",
                f"{wall[0] / wall[1]:.2f}",
                f"{cpu[0] * 1e3:,.0f} -> {cpu[1] * 1e3:,.0f}",
                f"{cpu[0] / max(cpu[1], TICK):.2f}",
                f"{cpu[1] / ours:.2f}",
            ]
        )
        if name != "delta-rs" and cpu[1] < ours:
            slower.append(name)
    head = ["table", "n", "wall ms before -> after", "ratio", "CPU ms before -> after", "ratio"]
    lines = table([*head, "CPU after: peer / parquetry"], cells)
    if not set(names) - {"parquetry", "delta-rs"}:
        return [*lines, "No other format on Spark took part in this run.", ""]
    against = f" against {', '.join(slower)}" if slower else ""
    return [
        *lines,
        f"parquetry must not cost more CPU than a peer on Spark: {verdict(reached=not slower)}{against}.",
        "",
    ]


def growth(rows: Sequence[Row]) -> list[str]:
    """W7: cost per million rows and the memory of a worker, by the size of the table."""
    cells = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        cpu, worker, count = middle(mine, "cpu_seconds"), middle(mine, "worker_rss_bytes"), mine[0]["rows"]
        cells.append([case, f"{count:,}", f"{cpu:.2f}", f"{cpu / count * 1e6:.2f}", f"{worker / 2**20:.0f}"])
    lines = [
        "### W7",
        "",
        "The table and the upsert have one, two and four times the data. *Worker* is the resident memory of the largest Python worker, which must not grow. About 70 MiB of it are libraries and mapped files. The rest follows the largest row group that is rewritten: the last one of a file may have 1.25 times the usual rows.",
        "",
        *table(["case", "rows", "CPU s", "CPU s per million rows", "worker MiB"], cells),
    ]
    for operation in ("upsert", "sort"):
        mine = _by_factor(rows, operation)
        first, last = mine[min(mine)], mine[max(mine)]
        times = last[0]["rows"] / first[0]["rows"]
        cost = middle(last, "cpu_seconds") / middle(first, "cpu_seconds")
        memory = middle(last, "worker_rss_bytes") / middle(first, "worker_rss_bytes")
        words = [
            verdict(reached=grown <= allowed)
            for grown, allowed in ((cost, GROWTH_GOAL * times), (memory, GROWTH_GOAL))
        ]
        lines.append(
            f"- {operation}: {times:g} times the rows cost {cost:.2f} times the CPU ({words[0]}). A worker takes {memory:.2f} times the memory ({words[1]})."
        )
    return [*lines, ""]


def planning() -> list[str]:
    """What needs no peer and no JVM has pages of its own: W6, and the commands that plan."""
    return [
        "### W6",
        "",
        "Clustering plans start no JVM. [CLUSTERING_PLANS.md](CLUSTERING_PLANS.md) measures their cost for up to 100,000 files. [SUGGESTIONS.md](SUGGESTIONS.md) compares suggested layouts with an exhaustive search. [PLANS.md](PLANS.md) measures `validate`, `plan` and other commands without a JVM, for up to 1,000 tables. [LAYOUT_TESTS.md](LAYOUT_TESTS.md) measures `test` for 10,000 files, and [DATA_TESTS.md](DATA_TESTS.md) tests of rows, which do start one.",
        "",
    ]


def charts(runs: Runs) -> dict[str, str]:
    """SVG by file name: what must be scanned, what a query costs, and how costs grow."""
    drawn = {}
    if shares := _shares(runs):
        names = list(dict.fromkeys(row["peer"] for row in shares))
        drawn["scanned.svg"] = bars(
            "Rows to scan for a point filter after the z-order (W5)",
            "per cent of the rows, by page index",
            names,
            {
                column: [
                    next(100 * row["page_share"] for row in shares if (row["peer"], row["column"]) == (name, column))
                    for name in names
                ]
                for column in ("l_partkey", "l_suppkey")
            },
            goals=[100 * SCANNED_GOAL if name == "parquetry" else None for name in names],
        )  # fmt: skip
    if newest := {row["peer"]: run["rows"] for run in runs.get("W5b", []) for row in run["rows"]}:
        names = list(newest)
        drawn["queries.svg"] = bars(
            "Point query through the format's own reader (W5b)",
            "CPU milliseconds, median",
            names,
            {
                state: [1e3 * max(_middle(newest[name], name, state, "cpu_seconds"), TICK) for name in names]
                for state in ("before", "after")
            },
        )
    for run in _with_ours(runs, "W7")[-1:]:
        grown = {operation: _by_factor(run["rows"], operation) for operation in ("upsert", "sort")}
        drawn["growth.svg"] = bars(
            "Cost by the size of the table (W7)",
            "CPU seconds per million rows, median",
            [f"{factor} x the data" for factor in sorted(grown["upsert"])],
            {
                operation: [
                    middle(of[factor], "cpu_seconds") / of[factor][0]["rows"] * 1e6 for factor in sorted(of)
                ]
                for operation, of in grown.items()
            },
        )
    return drawn


def _with_ours(runs: Runs, workload: str) -> list[Run]:
    return [run for run in runs.get(workload, []) if any(row["peer"] == "parquetry" for row in run["rows"])]


def _shares(runs: Runs) -> list[Row]:
    """The newest shares of each peer: they are no costs, so the run does not matter."""
    newest = {(row["peer"], row["column"]): row for run in runs.get("W5", []) for row in run["rows"]}
    return list(newest.values())


def _by_factor(rows: Sequence[Row], operation: str) -> dict[int, list[Row]]:
    mine = [row for row in rows if row["case"].startswith(operation)]
    return {
        factor: [row for row in mine if row["factor"] == factor] for factor in {r["factor"] for r in mine}
    }


def _middle(rows: Sequence[Row], name: str, state: str, figure: str) -> float:
    return middle([row for row in rows if (row["peer"], row["state"]) == (name, state)], figure)
