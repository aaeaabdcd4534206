"""The part of RESULTS.md about goals: what peers cost for each second of ours, and where ours go when that is too little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.charts import bars
from benchmarks.data import APPENDS
from benchmarks.results import Run, rows_with
from benchmarks.tables import Row, table, verdict

# (workload, our case, the peer's case, goal: how many times cheaper than the peer in CPU seconds; None is shown only)
GOALS: list[tuple[str, str, str, float | None]] = [
    ("W1", "parquetry insert", "hudi insert, defaults", 4.0),
    ("W1", "parquetry insert", "hudi insert, record size set", 3.0),
    ("W1", "parquetry insert", "plain Spark write", 1 / 1.2),
    ("W1", "parquetry insert", "delta append", None),
    ("W1", "parquetry insert", "iceberg append", None),
    ("W1", "parquetry insert", "delta-rs append", None),
    ("W1b", "parquetry bulk_insert", "hudi bulk_insert", 2.0),
    ("W1b", "parquetry bulk_insert", "plain Spark write", 1.0),
    ("W1c", "parquetry insert, computed", "plain Spark write, computed", 1.0),
    ("W1c", "parquetry insert, computed", "parquetry insert, copied", 1 / 1.3),
    ("W2", "parquetry upsert", "hudi upsert, SIMPLE", 8.0),
    ("W2", "parquetry upsert", "hudi upsert, BLOOM", 5.0),
    ("W2", "parquetry upsert", "delta merge", 3.0),
    ("W2", "parquetry upsert", "iceberg merge", 3.0),
    ("W2", "parquetry upsert", "delta-rs merge", 1.0),
    ("W2b", "parquetry delete", "hudi delete, SIMPLE", 8.0),
    ("W2b", "parquetry delete", "hudi delete, BLOOM", 5.0),
    ("W2b", "parquetry delete", "delta delete", 3.0),
    ("W2b", "parquetry delete", "iceberg delete", 3.0),
    ("W2b", "parquetry delete", "delta-rs delete", 1.0),
    ("W3", "parquetry, sized", "hudi, sized", 4.0),
    ("W3", "parquetry, sized", "hudi, no sizing", 1.0),
    ("W3", "parquetry, min_fill 0.25", "hudi, sized", 4.0),
    ("W3", "parquetry, min_fill 0.25", "hudi, no sizing", 1.0),
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
    *(
        ("W8", f"parquetry-cluster {work}", f"parquetry {work}", 1 / 1.3)
        for work in ("insert", "insert of a frame that computes", "upsert", "delete", "sort", "zorder")
    ),
    *(
        ("W8", f"parquetry-cluster {work}", f"{hudi} {work}", goal)
        for hudi in ("hudi-cluster", "hudi-0.15-cluster")
        for work, goal in (("insert", 4.0), ("upsert", 8.0), ("delete", 8.0), ("sort", 8.0), ("zorder", 12.0))
    ),
]

CHARTS = {
    "insert": ("First insert (W1) and bulk insert (W1b)", ("W1", "W1b")),
    "changes": ("Upserts (W2) and deletes (W2b)", ("W2", "W2b")),
    "appends": ("Forty appends (W3)", ("W3",)),
    "cluster": ("On a standalone cluster (W8)", ("W8",)),
    "clustering": ("Clustering small files (W4a stitch, W4b sort, W4c z-order)", ("W4a", "W4b", "W4c")),
}
"""File name, title and workloads of each chart of ratios."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """What a peer costs for each second of ours, in the newest run of both, and the rows of that run."""

    workload: str
    ours: str
    theirs: str
    goal: float | None
    cpu: float
    wall: float
    rows: Sequence[Row]

    @property
    def is_missed(self) -> bool:
        return self.goal is not None and self.cpu < self.goal


def ratios(runs: dict[str, list[Run]]) -> list[Ratio]:
    """One for each pair of cases that some run has both of."""
    found = []
    for workload, ours, theirs, goal in GOALS:
        if rows := rows_with(runs.get(workload, []), ours, theirs):
            cpu, wall = (
                total(rows, workload, theirs, figure) / total(rows, workload, ours, figure)
                for figure in ("cpu_seconds", "wall_seconds")
            )
            found.append(Ratio(workload, ours, theirs, goal, cpu, wall, rows))
    return found


def total(rows: Iterable[Row], workload: str, case: str, figure: str) -> float:
    """What a case costs: the median step, in W3 the median of whole series of appends."""
    values = [row[figure] for row in rows if row["case"] == case]
    step = APPENDS if workload == "W3" else 1
    return float(median(sum(values[first : first + step]) for first in range(0, len(values), step)))


def compared(found: Iterable[Ratio]) -> list[str]:
    """The ratios, their goals, and what was reached."""
    head = ["workload", "parquetry", "peer", "CPU: peer / parquetry", "wall: peer / parquetry", "goal", ""]
    return table(
        head,
        (
            [
                each.workload,
                each.ours,
                each.theirs,
                f"{each.cpu:.2f}",
                f"{each.wall:.2f}",
                *(
                    ["", ""]
                    if each.goal is None
                    else [f"{each.goal:.2f}", verdict(reached=not each.is_missed)]
                ),
            ]
            for each in found
        ),
    )


def charts(found: Sequence[Ratio]) -> dict[str, str]:
    """SVG by file name: what peers cost for each second of ours, with the goals."""
    drawn = {}
    for name, (title, workloads) in CHARTS.items():
        mine = [each for each in found if each.workload in workloads]
        if mine:
            drawn[f"{name}.svg"] = bars(
                title,
                "times what parquetry costs; left of 1 the peer is cheaper",
                [_label(each) for each in mine],
                {"CPU": [each.cpu for each in mine], "wall": [each.wall for each in mine]},
                start=1.0,
                goals=[each.goal for each in mine],
            )
    return drawn


def _label(ratio: Ratio) -> str:
    """The peer's case; ours too where a workload has several."""
    ours = {one for workload, one, _, _ in GOALS if workload == ratio.workload}
    against = f" / {ratio.ours.removeprefix('parquetry, ')}" if len(ours) > 1 else ""
    return f"{ratio.workload} {ratio.theirs}{against}"


def limits(found: Iterable[Ratio]) -> list[str]:
    """Where our own time goes in each workload that misses a goal, and what the same bytes cost without a format."""
    missed: dict[tuple[str, str], list[Ratio]] = {}
    for each in found:
        if each.is_missed:
            missed.setdefault((each.workload, each.ours), []).append(each)
    lines = []
    for (workload, ours), each in missed.items():
        names = ", ".join(f"{one.theirs} ({one.cpu:.2f} of {one.goal:.2f})" for one in each)
        lines.append(f"- {workload}, {ours} against {names}: {_split(each[-1].rows, workload, ours)}")
    return ["Where the CPU time goes in workloads that miss a goal:", "", *lines, ""] if lines else []


def _split(rows: Sequence[Row], workload: str, ours: str) -> str:
    whole, jvm = (total(rows, workload, ours, figure) for figure in ("cpu_seconds", "jvm_cpu_seconds"))
    parts = [f"the JVM {jvm:.1f} s (to plan, compile and run Spark's jobs)"]
    if all("driver_cpu_seconds" in row for row in rows):
        driver = total(rows, workload, ours, "driver_cpu_seconds")
        workers = max(0.0, whole - jvm - driver)
        parts += [
            f"the driver {driver:.1f} s",
            f"the Python workers {workers:.1f} s (to decode, merge and encode files)",
        ]
    else:
        parts.append(f"Python {whole - jvm:.1f} s (to decode, merge and encode files, and for the driver)")
    text = f"parquetry takes {whole:.1f} CPU s: {', '.join(parts)}."
    floor = f"arrow {ours.removeprefix('parquetry ')}"
    if any(row["case"] == floor for row in rows):
        text += f" pyarrow alone rewrites the same files in {total(rows, workload, floor, 'cpu_seconds'):.1f} CPU s."
    return text
