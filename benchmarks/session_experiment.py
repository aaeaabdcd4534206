"""A point query on many small files, before and after clustering: ``python -m benchmarks.session_experiment``.

20 million events of sessions in order of arrival lie in 1,400 small files (``SCALE`` shrinks both), as an
ingestion leaves them that does not fill small files. Each table format writes the files itself, then
clusters them by session id. A query for one session is asked of both, through Spark, in turns: through the format's
own reader, and through plain Spark on the format's live files. Writes results/session_experiment.json,
SESSIONS.md and the chart beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import peers, sessions
from benchmarks.charts import bars
from benchmarks.skipping import covering, row_groups, stored_bytes
from tests.interop.environment import cache_folder

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
COLUMN = "session_id"
TARGET, ROW_GROUP = 32 * MIB, 8 * MIB
PEERS = ("parquetry", "hudi", "delta", "iceberg", "plain")
STATES = ("before", "after")


def main() -> None:
    scale, reps = float(os.environ.get("SCALE", "1")), int(os.environ.get("REPS", "7"))
    chosen = sys.argv[1:] or list(PEERS)
    inputs = cache_folder() / "bench" / f"sessions-{scale:g}"
    counts = sessions.prepare(inputs, scale=scale)
    with tempfile.TemporaryDirectory(prefix="parquetry-bench-", dir=os.environ.get("BENCH_TMP")) as folder:
        settings = {
            "max_file_size": str(TARGET),
            "small_file_limit": "0",
            "codec": "zstd",
            "row_group_size": str(ROW_GROUP),
            "heap": os.environ.get("BENCH_HEAP", "3g"),
            "partition_by": "",
        }
        machine = peers.machine(scale, reps, chosen, rows=counts["rows"], files=counts["files"])
        result = Experiment(Path(folder), settings, inputs, counts).run(chosen, reps)
    result = {"machine": machine, **result}
    out = Path(os.environ.get("BENCH_OUT", HERE))
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / "results" / "session_experiment.json").write_text(json.dumps(result, indent=1) + "\n")
    page = render(result)
    (out / "SESSIONS.md").write_text(page)
    (out / "session_experiment.svg").write_text(chart(result))
    print(page)


class Experiment:
    """Tables of every format, small files and clustered, and the queries on them."""

    def __init__(self, folder: Path, settings: dict[str, str], inputs: Path, counts: dict[str, Any]) -> None:
        self.folder, self.settings, self.inputs, self.counts = folder, settings, inputs, counts
        self.live: dict[tuple[str, str], list[str]] = {}

    def table(self, peer: str, state: str) -> str:
        return str(self.folder / peer / state)

    def run(self, names: list[str], reps: int) -> dict[str, Any]:
        started = dict.fromkeys([*names, "plain"])
        running = {name: peers.start(name, self.folder, self.settings) for name in started}
        clustered = {name: self._prepare(name, running[name]) for name in names}
        asked: list[str] = self.counts["wanted"]
        queries: list[dict[str, Any]] = []
        for number in range(reps + 1):  # the first is for warming up
            where = f"{COLUMN} = '{asked[number % len(asked)]}'"
            found = set()
            for name in names:
                for state in STATES:
                    row = self._ask(running, name, state, where)
                    found |= {row["rows"], row.pop("neutral_rows")}
                    if number:
                        queries.append(row)
            if len(found) != 1:
                raise SystemExit(f"{where}: the tables do not agree: {found} rows")
            print(f"query {number}: {where}, {found} rows", flush=True)
        skipping = {
            name: {state: self._skipping(name, state, asked[1 : reps + 1]) for state in STATES}
            for name in names
        }
        for peer in running.values():
            peer.close()
        return {"clustering": clustered, "queries": queries, "skipping": skipping}

    def _prepare(self, name: str, peer: Any) -> dict[str, Any]:
        """Both tables of a format; what clustering cost."""
        source = str(self.inputs / "small")
        rows_per_file = -(-self.counts["rows"] // self.counts["files"])
        before, after = (self.table(name, state) for state in STATES)
        peer.do("scatter", table=before, source=source, rows_per_file=rows_per_file)
        if name == "iceberg":  # a catalogue knows its tables by place
            peer.do("scatter", table=after, source=source, rows_per_file=rows_per_file)
        else:
            shutil.copytree(before, after)
        _, cost = peer.do("cluster", table=after, layout="sort", columns=[COLUMN], target=TARGET)
        for state in STATES:
            answer, _ = peer.do("count", table=self.table(name, state))
            if answer["rows"] != self.counts["rows"]:
                raise SystemExit(f"{name}, {state}: {answer['rows']} rows, {self.counts['rows']} expected")
            paths, _ = peer.do("paths", table=self.table(name, state))
            self.live[name, state] = paths["paths"]
        row = {
            "cpu_seconds": round(cost.cpu_seconds, 2), "wall_seconds": round(cost.wall_seconds, 2),
            "peak_rss_bytes": cost.peak_rss_bytes,
            "files": {state: len(self.live[name, state]) for state in STATES},
            "bytes": {state: sum(Path(path).stat().st_size for path in self.live[name, state]) for state in STATES},
            "stored_bytes": {state: stored_bytes(self.live[name, state]) for state in STATES},
        }  # fmt: skip
        print(f"{name}: {row}", flush=True)
        return row

    def _ask(self, running: dict[str, Any], name: str, state: str, where: str) -> dict[str, Any]:
        own, cost = running[name].do("query", table=self.table(name, state), where=where)
        neutral, common = running["plain"].do("query_paths", paths=self.live[name, state], where=where)
        return {
            "peer": name, "state": state, "rows": own["rows"], "neutral_rows": neutral["rows"],
            "scanned": own["scanned"], "neutral_scanned": neutral["scanned"],
            "wall_seconds": round(cost.wall_seconds, 4), "cpu_seconds": round(cost.cpu_seconds, 3),
            "neutral_wall_seconds": round(common.wall_seconds, 4), "neutral_cpu_seconds": round(common.cpu_seconds, 3),
        }  # fmt: skip

    def _skipping(self, name: str, state: str, values: list[str]) -> dict[str, float]:
        files = [row_groups(path, COLUMN) for path in self.live[name, state]]
        each = [covering(files, value.encode()) for value in values]
        return {
            "files": median(c.files for c in each),
            "row_groups": median(c.row_groups for c in each),
            "row_group_rows": median(c.row_group_rows for c in each),
            "page_rows": median(c.page_rows for c in each),
            "largest_pages": max(c.largest_pages for c in each),
        }


def summary(result: dict[str, Any], name: str) -> dict[str, Any]:
    """The medians of a format, before and after, and their ratios."""

    def mid(state: str, figure: str) -> float:
        return median(
            row[figure] for row in result["queries"] if (row["peer"], row["state"]) == (name, state)
        )

    figures = (
        "wall_seconds",
        "cpu_seconds",
        "neutral_wall_seconds",
        "neutral_cpu_seconds",
        "scanned",
        "neutral_scanned",
        "rows",
    )
    values = {state: {figure: mid(state, figure) for figure in figures} for state in STATES}
    gains = {figure: values["before"][figure] / max(values["after"][figure], 1e-3) for figure in figures[:4]}
    return {**values, "gain": gains}


def render(result: dict[str, Any]) -> str:
    """The page: what was asked, the table, what of the goals was reached."""
    machine, clustered = result["machine"], result["clustering"]
    lines = [
        "# The session experiment",
        "",
        f"{machine['rows']:,} events in order of arrival in {machine['files']:,} small files, clustered by a text of 64 random bits; then a point query on it, through Spark.",
        "Each format wrote its small files and its clustered ones with zstd and row groups of 8 MiB, target 32 MiB; Hudi's have its Bloom filters of 431 kB too. Queries",
        f"took turns; figures are medians of {machine['reps']}, warmed up. *Own reader* is the format's own way to be read; *plain Spark* is one Spark on the format's live files, the same for all.",
        f"`SCALE={machine['scale']:g} python -m benchmarks.session_experiment` repeats it; scale 1 is 20 million events in 1,400 files. Load of the machine when it began: {machine['load']} on {machine['cores']} cores"
        + (", so it was shared: CPU is what to compare." if machine["load"] > 1.5 else "."),
        "",
        "| table | files | own reader: ms before -> after | wall ratio | CPU ratio | plain Spark: ms before -> after | wall ratio | CPU ratio | rows scanned by plain Spark before -> after |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, cost in clustered.items():
        s = summary(result, name)
        b, a, gain = s["before"], s["after"], s["gain"]
        lines.append(
            f"| {name} | {cost['files']['before']:,} -> {cost['files']['after']:,} | {b['wall_seconds'] * 1e3:,.0f} -> {a['wall_seconds'] * 1e3:,.0f} | {gain['wall_seconds']:.1f} | {gain['cpu_seconds']:.1f} "
            f"| {b['neutral_wall_seconds'] * 1e3:,.0f} -> {a['neutral_wall_seconds'] * 1e3:,.0f} | {gain['neutral_wall_seconds']:.1f} | {gain['neutral_cpu_seconds']:.1f} "
            f"| {b['neutral_scanned']:,.0f} -> {a['neutral_scanned']:,.0f} |"
        )
    lines += [
        "",
        "| table | clustering, CPU s | wall s | peak MiB | MB before -> after | of it column data after | row groups that may hold the value | their rows | rows in pages that may |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, cost in clustered.items():
        skip = result["skipping"][name]["after"]
        lines.append(
            f"| {name} | {cost['cpu_seconds']:.1f} | {cost['wall_seconds']:.1f} | {cost['peak_rss_bytes'] / MIB:.0f} | {cost['bytes']['before'] / 1e6:.1f} -> {cost['bytes']['after'] / 1e6:.1f} "
            f"| {cost['stored_bytes']['after'] / 1e6:.1f} | {skip['row_groups']:g} | {skip['row_group_rows']:,.0f} | {skip['page_rows']:,.0f} |"
        )
    lines += [
        "",
        *goals(result),
        *(["", result["note"]] if "note" in result else []),
        "",
        "![Point query before and after](session_experiment.svg)",
        "",
    ]
    return "\n".join(lines)


def goals(result: dict[str, Any]) -> list[str]:
    """What was to be shown, and whether it was."""
    lines = []

    def said(what: str, *, reached: bool) -> None:
        lines.append(f"- {what}: {'reached' if reached else '**not reached**'}.")

    if "parquetry" not in result["clustering"]:
        return lines
    ours = summary(result, "parquetry")
    gain, after = ours["gain"], ours["after"]
    said(
        f"At least 15 times faster after than before: {gain['wall_seconds']:.1f} by wall and {gain['cpu_seconds']:.1f} by CPU through our reader, {gain['neutral_wall_seconds']:.1f} and {gain['neutral_cpu_seconds']:.1f} through plain Spark",
        reached=min(gain["wall_seconds"], gain["neutral_wall_seconds"]) >= 15,
    )
    limit = after["rows"] + result["skipping"]["parquetry"]["after"]["largest_pages"]
    said(
        f"At most the matching rows and a page per row group that holds some: {after['neutral_scanned']:,.0f} rows scanned, {limit:,.0f} allowed",
        reached=after["neutral_scanned"] <= limit,
    )
    others = {name: summary(result, name)["after"] for name in result["clustering"] if name != "parquetry"}
    for figure, reader in (("cpu_seconds", "own readers"), ("neutral_cpu_seconds", "plain Spark")):
        slower = [name for name, each in others.items() if after[figure] > each[figure]]
        words = ", ".join(f"{name} {each[figure] / after[figure]:.2f}" for name, each in others.items())
        said(
            f"Never slower than a peer after clustering, CPU of the peer / ours with {reader}: {words}",
            reached=not slower,
        )
    if "hudi" in result["clustering"]:
        size, theirs = (result["clustering"][name]["stored_bytes"]["after"] for name in ("parquetry", "hudi"))
        said(
            f"At most 1.05 times the bytes of Hudi's sorted rows, Bloom filters left out: {size / theirs:.3f}",
            reached=size <= 1.05 * theirs,
        )
    return lines


def chart(result: dict[str, Any]) -> str:
    """Milliseconds of the query, before and after."""
    names = list(result["clustering"])
    each = {name: summary(result, name) for name in names}
    series = {state: [each[name][state]["wall_seconds"] * 1e3 for name in names] for state in STATES}
    title = f"Point query on a session id, {result['machine']['rows'] / 1e6:g} M rows, {result['machine']['files']:,} small files"
    return bars(title, "milliseconds through the format's own reader on Spark, median", names, series)


if __name__ == "__main__":
    main()
