"""Turn benchmarks/results/*.json into benchmarks/RESULTS.md: ratios first, then the figures they come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report_goals, report_layout
from benchmarks.data import APPENDS
from benchmarks.results import Run, load, rows_with
from benchmarks.tables import Row, middle, spread, table, verdict
from tools.wrap_markdown import wrapped

WORKLOADS = ("W1", "W1b", "W1c", "W2", "W2b", "W2c", "W3", "W4a", "W4b", "W4c", "W5", "W5b", "W7", "W8")
MOST_AMPLIFIED = 5
"""How many bytes appends with ``min_fill`` 0.25 may write for each that stays."""

MOST_STORED = 1.05
"""How many times the bytes of Hudi's sorted rows ours may take."""

MOST_LOCAL = 0.125
"""What an upsert into a twentieth of the files may cost, of one into all of them."""

INTRODUCTION = """\
# Benchmarks

All peers run in turns, within one run on one machine. They write the same rows with the same codec (zstd) and the same
row-group size.

- **Hudi** is version 1.2.0 with table version 6. Its metadata table is off.
- **Delta Lake** is version 3.3.2 on Spark 3.5.
- **Iceberg** is version 1.11.0 on Spark 4.1.
- **delta-rs** is version 1.6.6.
- **Plain Spark** is `df.write.partitionBy().parquet()` on the Spark version that parquetry uses.

A ratio above 1 means that parquetry is cheaper. Compare CPU seconds, because wall seconds vary on a shared machine. CPU
seconds contain user and system time, the JVM and the Python workers. The benchmark checks the number of rows after each
step.

`make bench` repeats all workloads. `SCALE` and `REPS` shorten them, and `PEERS=parquetry,hudi python -m benchmarks.run
W1 W2` runs some of them. A ratio always compares two cases of the same run. At a small scale, the fixed cost of a job
outweighs the cost of its rows for every peer. Read the ratios together with the scale below.

In W8 the peers named *cluster* have a standalone cluster of their own on this machine: a master and two workers of one
core, executors of 2 GiB and 640 MiB of memory overhead. Hudi's inserts there have the record size set. What the
processes of a cluster take is counted with the peer.

[SESSIONS.md](SESSIONS.md) measures a point query on many small files, before and after clustering. [SHARES.md](SHARES.md)
measures where the CPU time of the Python tasks goes. [LEARNED.md](LEARNED.md)
counts the filters of public logs that `learn` understands.
[PUBLISH.md](PUBLISH.md) measures what publishing adds to W2 and W3.
"""


def write(results: Path, target: Path) -> None:
    """Write the page from every result file there is, and its charts beside it."""
    runs = load(results, WORKLOADS)
    ratios = report_goals.ratios(runs)
    drawn = report_goals.charts(ratios) | report_layout.charts(runs)
    for name, chart in drawn.items():
        target.with_name(name).write_text(chart)
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        *_machines(runs),
        "## Ratios and goals",
        "",
        *report_goals.compared(ratios),
        *_local(runs.get("W2c", [])),
        *_stored(runs.get("W4b", [])),
        *_amplification(runs.get("W3", [])),
        *report_goals.limits(ratios),
        *report_layout.section(runs),
        "## Charts",
        "",
        *(f"![{name.removesuffix('.svg')}]({name})" for name in drawn),
        "",
        "## Figures",
        "",
        "Seconds and CPU seconds are minimum / median / maximum over *n* repetitions, or over all appends in W3. *Peak* is the largest resident memory of the whole process tree, and *worker* that of the largest Python worker.",
        "*Written* is the median of a step. *Live*, and the p5/p50/p95 of file sizes, describe the table after the last step.",
        "",
    ]
    for name, each in runs.items():
        wrote = [run["rows"] for run in each if all("bytes_written" in row for row in run["rows"])]
        if wrote:
            lines += [f"### {name}", "", *(line for rows in wrote for line in _figures(rows))]
    target.write_text(wrapped("\n".join(lines)))


def _machines(runs: dict[str, list[Run]]) -> list[str]:
    """Which workloads ran with whom, at which scale, how often, and how busy the machine was."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for name, each in runs.items():
        for run in each:
            machine = run["machine"]
            peers = ", ".join(dict.fromkeys(row["peer"] for row in run["rows"]))
            level = machine.get("zstd_level", "each its own")
            key = (peers, *(machine.get(what, "") for what in ("scale", "reps", "cores", "load")), level)
            found.setdefault(key, []).append(name)
    head = ["workload", "peers", "scale", "repetitions", "cores", "load at the start", "zstd level"]
    notes = dict.fromkeys(
        run["machine"]["note"] for each in runs.values() for run in each if "note" in run["machine"]
    )
    return [
        *table(head, ([", ".join(names), *key] for key, names in found.items())),
        "A workload that takes minutes runs at most three times. A load above the number of cores means that the machine did other work: then ignore wall seconds.",
        *notes,
        "",
    ]


def _figures(rows: Sequence[Row]) -> list[str]:
    head = [
        "case",
        "n",
        "wall s",
        "CPU s",
        "JVM CPU s",
        "peak MiB",
        "worker MiB",
        "MB written",
        "files written",
        "MB live",
        "files live",
        "MiB p5/p50/p95",
    ]
    cases = dict.fromkeys(row["case"] for row in rows)
    return table(head, (_case(case, [row for row in rows if row["case"] == case]) for case in cases))


def _case(case: str, rows: Sequence[Row]) -> list[str]:
    last = rows[-1]["live_sizes_bytes"]
    sizes = "/".join(
        f"{last[min(len(last) - 1, int(len(last) * share))] / 2**20:.1f}" for share in (0.05, 0.5, 0.95)
    )
    worker = max(row.get("worker_rss_bytes", 0) for row in rows) / 2**20
    return [
        case,
        str(len(rows)),
        spread([row["wall_seconds"] for row in rows]),
        spread([row["cpu_seconds"] for row in rows]),
        f"{median(row.get('jvm_cpu_seconds', 0.0) for row in rows):.1f}",
        f"{max(row['peak_rss_bytes'] for row in rows) / 2**20:.0f}",
        f"{worker:.0f}" if worker else "",
        f"{middle(rows, 'bytes_written') / 1e6:.1f}",
        f"{middle(rows, 'files_written'):g}",
        f"{sum(last) / 1e6:.1f}",
        str(len(last)),
        sizes,
    ]


def _local(runs: Sequence[Run]) -> list[str]:
    """W2c: what an upsert costs whose keys lie in few files."""
    names = [f"parquetry upsert {what}" for what in ("of random keys", "within 5 % of files", "of one row")]
    rows = rows_with(runs, *names)
    if not rows:
        return []
    (cpu, bytes_) = (
        [middle([row for row in rows if row["case"] == name], figure) for name in names]
        for figure in ("cpu_seconds", "bytes_written")
    )
    above, written = max(0.0, cpu[1] - cpu[2]) / cpu[0], bytes_[1] / bytes_[0]
    return [
        "W2c, files of 8 MiB: an upsert with keys in 5 % of the files writes "
        f"{written:.2f} of the bytes of an upsert with random keys (goal {MOST_LOCAL}: {verdict(reached=written <= MOST_LOCAL)}). "
        f"It costs {above:.2f} of the CPU, if the CPU of an upsert of one row is first subtracted from its own "
        f"(goal {MOST_LOCAL}: {verdict(reached=above <= MOST_LOCAL)}).",
        "",
    ]


def _stored(runs: Sequence[Run]) -> list[str]:
    """W4b: the bytes of the column chunks of the sorted rows, without Bloom filters, footers and indexes."""
    rows = rows_with(runs, "parquetry sort", "hudi sort")
    if not rows:
        return []
    stored = {row["peer"]: row["stored_bytes"] for row in rows}
    share = stored["parquetry"] / stored["hudi"]
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in stored.items())
    return [
        f"W4b, column data of the same sorted rows: {sizes}. Ratio of parquetry to Hudi, without Bloom filters: {share:.3f} (goal at most {MOST_STORED}: {verdict(reached=share <= MOST_STORED)}).",
        "",
    ]


def _amplification(runs: Sequence[Run]) -> list[str]:
    """W3: bytes written by all appends for each byte that is live at the end."""
    newest = {case: run["rows"] for run in runs for case in dict.fromkeys(row["case"] for row in run["rows"])}
    lines = []
    for case, rows in newest.items():
        mine = [row for row in rows if row["case"] == case][-APPENDS:]
        live = mine[-1]["live_sizes_bytes"]
        factor = sum(row["bytes_written"] for row in mine) / sum(live)
        goal = ""
        if case == "parquetry, min_fill 0.25":
            goal = f" (goal at most {MOST_AMPLIFIED}: {verdict(reached=factor <= MOST_AMPLIFIED)})"
        lines.append(f"- {case}: {factor:.1f}{goal}, {len(live)} files of {sum(live) / 1e6:.0f} MB")
    what = "W3, write amplification (bytes that all appends write, per live byte at the end):"
    return [what, "", *lines, ""] if lines else []
