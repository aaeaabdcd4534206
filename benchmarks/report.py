"""Turn benchmarks/results/*.json into benchmarks/RESULTS.md: ratios first, then the figures they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

Row = dict[str, Any]

# (workload, our case, the peer's case, goal: how many times cheaper than the peer in CPU seconds)
GOALS = [
    ("W1", "parquetry insert", "hudi insert, told nothing", 4.0),
    ("W1", "parquetry insert", "hudi insert, record size told", 3.0),
    ("W1", "parquetry insert", "plain Spark write", 1 / 1.2),
    ("W1b", "parquetry bulk_insert", "hudi bulk_insert", 2.0),
    ("W1b", "parquetry bulk_insert", "plain Spark write", 1.0),
    ("W2", "parquetry upsert", "hudi upsert, SIMPLE", 8.0),
    ("W2", "parquetry upsert", "hudi upsert, BLOOM", 5.0),
    ("W2b", "parquetry delete", "hudi delete, SIMPLE", 8.0),
    ("W2b", "parquetry delete", "hudi delete, BLOOM", 5.0),
    ("W3", "parquetry, sized", "hudi, sized", 4.0),
    ("W3", "parquetry, sized", "hudi, no sizing", 1.0),
    ("W3", "parquetry, min_fill 0.25", "hudi, sized", 4.0),
    ("W3", "parquetry, min_fill 0.25", "hudi, no sizing", 1.0),
]


MOST_AMPLIFIED = 5
"""How many bytes appends with ``min_fill`` 0.25 may write for each that stays."""


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.1f} / {median(values):.1f} / {max(values):.1f}"


def _figures(rows: Sequence[Row], case: str) -> list[str]:
    mine = [row for row in rows if row["case"] == case]
    last = mine[-1]["live_sizes_bytes"]
    sizes = "/".join(
        f"{last[min(len(last) - 1, int(len(last) * share))] / 2**20:.1f}" for share in (0.05, 0.5, 0.95)
    )
    return [
        case,
        str(len(mine)),
        _spread([row["wall_seconds"] for row in mine]),
        _spread([row["cpu_seconds"] for row in mine]),
        f"{median(row.get('jvm_cpu_seconds', 0.0) for row in mine):.1f}",
        f"{max(row['peak_rss_bytes'] for row in mine) / 2**20:.0f}",
        f"{median(row['bytes_written'] for row in mine) / 1e6:.1f}",
        f"{len(last)}",
        sizes,
    ]


def _total(rows: Sequence[Row], workload: str, case: str, figure: str) -> float:
    """Return what a case costs: the whole series for W3, the median step elsewhere."""
    values = [row[figure] for row in rows if row["case"] == case]
    return sum(values) if workload == "W3" else median(values)


def _ratios(rows: dict[str, list[Row]]) -> list[str]:
    lines = [
        "| workload | ours | against | CPU: peer / ours | wall: peer / ours | goal | |",
        "|---|---|---|---|---|---|---|",
    ]
    everything = [row for each in rows.values() for row in each]
    for workload, ours, theirs, goal in GOALS:
        cases = {row["case"] for row in everything}
        if not {ours, theirs} <= cases:
            continue
        cpu, wall = (
            _ratio(everything, workload, ours, theirs, figure) for figure in ("cpu_seconds", "wall_seconds")
        )
        verdict = "reached" if cpu >= goal else "**not reached**"
        lines.append(f"| {workload} | {ours} | {theirs} | {cpu:.2f} | {wall:.2f} | {goal:.2f} | {verdict} |")
    return lines


def _limits(rows: dict[str, list[Row]]) -> list[str]:
    """Where our own time goes in each workload that misses a goal."""
    everything = [row for each in rows.values() for row in each]
    missed: dict[tuple[str, str], list[str]] = {}
    for workload, ours, theirs, goal in GOALS:
        cases = {row["case"] for row in everything}
        is_split = all("jvm_cpu_seconds" in row for row in everything if row["case"] == ours)
        if not is_split or not {ours, theirs} <= cases:
            continue
        if _ratio(everything, workload, ours, theirs, "cpu_seconds") < goal:
            missed.setdefault((workload, ours), []).append(theirs)
    lines = []
    for (workload, ours), theirs in missed.items():
        whole = _total(everything, workload, ours, "cpu_seconds")
        jvm = _total(everything, workload, ours, "jvm_cpu_seconds")
        lines.append(
            f"- {workload}, {ours} against {', '.join(theirs)}: of our {whole:.1f} CPU s {jvm:.1f} s are spent in the JVM (planning, "
            f"compiling and running Spark's jobs), {whole - jvm:.1f} s in Python (decoding, merging and encoding files; the driver)."
        )
    return ["What limits where a goal is missed:", "", *lines, ""] if lines else []


def _ratio(rows: Sequence[Row], workload: str, ours: str, theirs: str, figure: str) -> float:
    return _total(rows, workload, theirs, figure) / _total(rows, workload, ours, figure)


def _appends(rows: Sequence[Row]) -> list[str]:
    """Bytes written by all appends for each byte that is live at the end."""
    lines = ["W3, write amplification (bytes written by all appends for each byte live at the end):", ""]
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        factor = sum(row["bytes_written"] for row in mine) / sum(mine[-1]["live_sizes_bytes"])
        goal = ""
        if case == "parquetry, min_fill 0.25":
            goal = f" (goal at most {MOST_AMPLIFIED}: {'reached' if factor <= MOST_AMPLIFIED else '**not reached**'})"
        lines.append(
            f"- {case}: {factor:.1f}{goal}, {len(mine[-1]['live_sizes_bytes'])} files of {sum(mine[-1]['live_sizes_bytes']) / 1e6:.0f} MB"
        )
    return [*lines, ""]


def _local(rows: Sequence[Row]) -> list[str]:
    cost = {
        name: {
            figure: median(row[figure] for row in rows if row["case"] == case)
            for figure in ("cpu_seconds", "bytes_written")
        }
        for name, case in (
            ("random", "parquetry upsert of random keys"),
            ("near", "parquetry upsert within 5 % of files"),
            ("one", "parquetry upsert of one row"),
        )
    }
    above = max(0.0, cost["near"]["cpu_seconds"] - cost["one"]["cpu_seconds"]) / cost["random"]["cpu_seconds"]
    written = cost["near"]["bytes_written"] / cost["random"]["bytes_written"]
    return [
        "W2c, files of 8 MiB: an upsert whose keys lie in 5 % of the files costs, above an upsert of one row, "
        f"{above:.2f} of the CPU of one with random keys (goal 0.125: {_verdict(above)}) and writes {written:.2f} of its bytes "
        f"(goal 0.125: {_verdict(written)}).",
    ]


def _verdict(share: float) -> str:
    return "reached" if share <= 0.125 else "**not reached**"


def write(results: Path, target: Path) -> None:
    """Write the page from every result file there is."""
    loaded = {path.stem: json.loads(path.read_text()) for path in sorted(results.glob("*.json"))}
    rows = {name: each["rows"] for name, each in loaded.items()}
    machines = sorted({json.dumps(each["machine"], sort_keys=True) for each in loaded.values()})
    lines = [
        "# Benchmarks: writing",
        "",
        "Peers take turns within one run on one machine, with the same rows, codec (zstd) and row-group size; Hudi is 1.2.0 with table version 6 and",
        "its metadata table off, plain Spark is `df.write.partitionBy().parquet()` on the Spark that we use. A ratio above 1 means that ours is cheaper;",
        "CPU seconds (user and system, JVM and Python workers included) are the robust figure on a shared machine. Row counts were checked after each step.",
        "`make bench` repeats all of it; `SCALE` and `REPS` make it shorter.",
        "At a small scale the fixed cost of a job weighs more than that of a row, on every side: read the ratios with the scale below.",
        "",
        *[f"Machine and scale: `{machine}`" for machine in machines],
        "",
        "## Ratios and goals",
        "",
        *_ratios(rows),
        "",
    ]
    if rows.get("W2c"):
        lines += [*_local(rows["W2c"]), ""]
    if rows.get("W3"):
        lines += _appends(rows["W3"])
    lines += _limits(rows)
    lines += [
        "## Figures",
        "",
        "Seconds and CPU seconds are minimum / median / maximum; sizes are p5/p50/p95 of the live files after the last step.",
        "",
    ]
    for name, each in rows.items():
        head = [
            "case",
            "n",
            "wall s",
            "CPU s",
            "of it JVM",
            "peak MiB",
            "MB written",
            "files",
            "MiB p5/p50/p95",
        ]
        lines += [f"### {name}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        for case in dict.fromkeys(row["case"] for row in each):
            lines.append(f"| {' | '.join(_figures(each, case))} |")
        lines.append("")
    target.write_text("\n".join(lines))
