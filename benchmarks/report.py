"""Turn benchmarks/results/*.json into benchmarks/RESULTS.md: ratios first, then the figures they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report_layout

Row = dict[str, Any]

# (workload, our case, the peer's case, goal: how many times cheaper than the peer in CPU seconds; None is shown only)
GOALS: list[tuple[str, str, str, float | None]] = [
    ("W1", "parquetry insert", "hudi insert, told nothing", 4.0),
    ("W1", "parquetry insert", "hudi insert, record size told", 3.0),
    ("W1", "parquetry insert", "plain Spark write", 1 / 1.2),
    ("W1b", "parquetry bulk_insert", "hudi bulk_insert", 2.0),
    ("W1b", "parquetry bulk_insert", "plain Spark write", 1.0),
    ("W2", "parquetry upsert", "hudi upsert, SIMPLE", 8.0),
    ("W2", "parquetry upsert", "hudi upsert, BLOOM", 5.0),
    ("W2b", "parquetry delete", "hudi delete, SIMPLE", 8.0),
    ("W2b", "parquetry delete", "hudi delete, BLOOM", 5.0),
    ("W1", "parquetry insert", "delta append", None),
    ("W1", "parquetry insert", "iceberg append", None),
    ("W1", "parquetry insert", "delta-rs append", None),
    ("W2", "parquetry upsert", "delta merge", 3.0),
    ("W2", "parquetry upsert", "iceberg merge", 3.0),
    ("W2", "parquetry upsert", "delta-rs merge", 1.0),
    ("W2b", "parquetry delete", "delta delete", 3.0),
    ("W2b", "parquetry delete", "iceberg delete", 3.0),
    ("W2b", "parquetry delete", "delta-rs delete", 1.0),
    ("W3", "parquetry, min_fill 0.25", "delta append of a batch", None),
    ("W3", "parquetry, min_fill 0.25", "iceberg append of a batch", None),
    ("W3", "parquetry, min_fill 0.25", "delta-rs append of a batch", None),
    ("W4a", "parquetry stitch", "hudi stitch", 1.5),
    ("W4a", "parquetry stitch", "delta stitch", None),
    ("W4a", "parquetry stitch", "iceberg stitch", None),
    ("W4a", "parquetry stitch", "delta-rs stitch", None),
    ("W4a", "parquetry stitch", "arrow stitch", None),
    ("W4b", "parquetry sort", "hudi sort", 8.0),
    ("W4b", "parquetry sort", "delta sort", None),
    ("W4b", "parquetry sort", "iceberg sort", 2.5),
    ("W4b", "parquetry sort", "delta-rs sort", 1.0),
    ("W4b", "parquetry sort", "arrow sort", 1 / 1.6),
    ("W4c", "parquetry zorder", "hudi zorder", 15.0),
    ("W4c", "parquetry zorder", "delta zorder", 3.5),
    ("W4c", "parquetry zorder", "iceberg zorder", 3.5),
    ("W4c", "parquetry zorder", "delta-rs zorder", 1.0),
    ("W3", "parquetry, sized", "hudi, sized", 4.0),
    ("W3", "parquetry, sized", "hudi, no sizing", 1.0),
    ("W3", "parquetry, min_fill 0.25", "hudi, sized", 4.0),
    ("W3", "parquetry, min_fill 0.25", "hudi, no sizing", 1.0),
]


MOST_AMPLIFIED = 5
"""How many bytes appends with ``min_fill`` 0.25 may write for each that stays."""


WORKLOADS = ("W1", "W1b", "W2", "W2b", "W2c", "W3", "W4a", "W4b", "W4c", "W5", "W5b", "W7")
OF_LAYOUT = ("W5", "W5b", "W7")
"""Workloads whose rows are no writes of files; they have tables of their own."""


def _machines(loaded: dict[str, Any]) -> list[str]:
    """Which workloads ran at which scale, how often, and how busy the machine was."""
    lines = ["| workload | scale | repetitions | cores | load when it began |", "|---|---|---|---|---|"]
    runs: dict[tuple[Any, ...], list[str]] = {}
    for name, each in loaded.items():
        machine = each["machine"]
        key = tuple(machine.get(what, "") for what in ("scale", "reps", "cores", "load"))
        runs.setdefault(key, []).append(name)
    for key, names in runs.items():
        lines.append(f"| {', '.join(names)} | {' | '.join(str(what) for what in key)} |")
    notes = dict.fromkeys(each["machine"]["note"] for each in loaded.values() if "note" in each["machine"])
    return [
        *lines,
        "",
        "A load above the number of cores means that others worked on the machine: wall seconds mean little then.",
        *notes,
    ]


def _layout(every: dict[str, list[Row]]) -> list[str]:
    lines = ["## What layouts are worth", ""]
    if every.get("W5"):
        lines += report_layout.scanned(every["W5"])
    if any(row["peer"] == "parquetry" for row in every.get("W5b", [])):
        lines += report_layout.queries(every["W5b"])
    lines += report_layout.planning()
    if every.get("W7"):
        lines += report_layout.growth(every["W7"])
    return lines


def _stored(rows: dict[str, list[Row]]) -> list[str]:
    """The bytes of the column chunks of the sorted rows, without Bloom filters, footers and indexes."""
    stored = {row["peer"]: row["stored_bytes"] for row in rows["W4b"]}
    share = stored["parquetry"] / stored["hudi"]
    said = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in stored.items())
    verdict = "reached" if share <= MOST_STORED else "**not reached**"
    return [
        f"W4b, column data of the same sorted rows: {said}. Ours / Hudi's, Bloom filters left out: {share:.3f} (goal at most {MOST_STORED}: {verdict}).",
        "",
    ]


MOST_STORED = 1.05


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
        if goal is None:
            aim, verdict = "", ""
        else:
            aim, verdict = f"{goal:.2f}", "reached" if cpu >= goal else "**not reached**"
        lines.append(f"| {workload} | {ours} | {theirs} | {cpu:.2f} | {wall:.2f} | {aim} | {verdict} |")
    return lines


def _limits(rows: dict[str, list[Row]]) -> list[str]:
    """Where our own time goes in each workload that misses a goal."""
    everything = [row for each in rows.values() for row in each]
    missed: dict[tuple[str, str], list[str]] = {}
    for workload, ours, theirs, goal in GOALS:
        cases = {row["case"] for row in everything}
        is_split = all("jvm_cpu_seconds" in row for row in everything if row["case"] == ours)
        if goal is None or not is_split or not {ours, theirs} <= cases:
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
    loaded = {name: each for name, each in loaded.items() if name in WORKLOADS}
    every = {name: each["rows"] for name, each in loaded.items()}
    rows = {name: each for name, each in every.items() if name not in OF_LAYOUT}
    lines = [
        "# Benchmarks",
        "",
        "Peers take turns within one run on one machine, with the same rows, codec (zstd) and row-group size; Hudi is 1.2.0 with table version 6 and",
        "its metadata table off, Delta Lake 3.3.2 is on Spark 3.5, Iceberg 1.11.0 on Spark 4.1, delta-rs is 1.6.6, plain Spark is `df.write.partitionBy().parquet()` on the Spark that we use. A ratio above 1 means that ours is cheaper;",
        "CPU seconds (user and system, JVM and Python workers included) are the robust figure on a shared machine. Row counts were checked after each step.",
        "`make bench` repeats all of it; `SCALE` and `REPS` make it shorter.",
        "At a small scale the fixed cost of a job weighs more than that of a row, on every side: read the ratios with the scale below.",
        "",
        "A point query on many small files, before and after clustering, has a page of its own: [SESSIONS.md](SESSIONS.md).",
        "",
        *_machines(loaded),
        "",
        "## Ratios and goals",
        "",
        *_ratios(rows),
        "",
    ]
    if rows.get("W2c"):
        lines += [*_local(rows["W2c"]), ""]
    if {"parquetry", "hudi"} <= {row["peer"] for row in rows.get("W4b", [])}:
        lines += [*_stored(rows), "![CPU seconds of clustering](clustering.svg)", ""]
        target.with_name("clustering.svg").write_text(
            report_layout.chart([*rows["W4b"], *rows.get("W4c", [])])
        )
    if rows.get("W3"):
        lines += _appends(rows["W3"])
    lines += _limits(rows)
    lines += _layout(every)
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
