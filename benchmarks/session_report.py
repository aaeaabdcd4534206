"""The page of the session experiment: what was asked, what it cost before and after, what of the goals was reached."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import MIB
from benchmarks.charts import bars
from benchmarks.session_tables import STATES
from benchmarks.tables import middle, table, verdict

FASTER = 15
"""How many times faster a query has to be after clustering."""

MOST_STORED = 1.05
"""How many times the bytes of Hudi's sorted rows ours may take."""

FIGURES = (
    "wall_seconds",
    "cpu_seconds",
    "neutral_wall_seconds",
    "neutral_cpu_seconds",
    "scanned",
    "neutral_scanned",
    "rows",
)


def summary(result: dict[str, Any], name: str) -> dict[str, Any]:
    """The medians of a format, before and after, and how many times cheaper after is."""
    values = {}
    for state in STATES:
        mine = [row for row in result["queries"] if (row["peer"], row["state"]) == (name, state)]
        values[state] = {figure: middle(mine, figure) for figure in FIGURES}
    gain = {figure: values["before"][figure] / max(values["after"][figure], 1e-3) for figure in FIGURES[:4]}
    return {**values, "gain": gain}


def render(result: dict[str, Any]) -> str:
    """The page."""
    machine, clustered = result["machine"], result["clustering"]
    each = {name: summary(result, name) for name in clustered}
    loads = [f"{name} {cost['load']}" for name, cost in clustered.items() if "load" in cost]
    lines = [
        "# The session experiment",
        "",
        f"{machine['rows']:,} events in order of arrival in {machine['files']:,} small files, clustered by a text of 64 random bits; then a point query on it, through Spark.",
        "Each format wrote its small files and its clustered ones with zstd and row groups of 8 MiB, target 32 MiB; Hudi's have its Bloom filters of 431 kB too. Queries",
        f"took turns; figures are medians of {machine['reps']}, warmed up. *Own reader* is the format's own way to be read; *plain Spark* is one Spark on the format's live files, the same for all.",
        f"`SCALE={machine['scale']:g} python -m benchmarks.session_experiment` repeats it; scale 1 is 20 million events in 1,400 files. Load of the machine when queries began: {machine['load']} on {machine['cores']} cores"
        + (", so it was shared: CPU is what to compare." if machine["load"] > 1.5 else "."),
        "",
        *_queries(clustered, each),
        *_rewrites(result),
    ]
    if loads:
        lines += [f"Load of the machine when a clustering began: {', '.join(loads)}.", ""]
    lines += goals(result)
    if "note" in result:
        lines += ["", result["note"]]
    return "\n".join([*lines, "", "![Point query before and after](session_experiment.svg)", ""])


def _queries(clustered: dict[str, Any], each: dict[str, Any]) -> list[str]:
    head = [
        "table",
        "files",
        "own reader: ms before -> after",
        "wall ratio",
        "CPU ratio",
        "plain Spark: ms before -> after",
        "wall ratio",
        "CPU ratio",
        "rows scanned by plain Spark before -> after",
    ]
    rows = []
    for name, cost in clustered.items():
        gain = each[name]["gain"]

        def arrow(figure: str, times: float = 1.0, *, of: dict[str, Any] = each[name]) -> str:
            return f"{of['before'][figure] * times:,.0f} -> {of['after'][figure] * times:,.0f}"

        rows.append(
            [
                name,
                f"{cost['files']['before']:,} -> {cost['files']['after']:,}",
                arrow("wall_seconds", 1e3),
                f"{gain['wall_seconds']:.1f}",
                f"{gain['cpu_seconds']:.1f}",
                arrow("neutral_wall_seconds", 1e3),
                f"{gain['neutral_wall_seconds']:.1f}",
                f"{gain['neutral_cpu_seconds']:.1f}",
                arrow("neutral_scanned"),
            ]
        )
    return table(head, rows)


def _rewrites(result: dict[str, Any]) -> list[str]:
    head = [
        "table",
        "clustering, CPU s",
        "wall s",
        "peak MiB",
        "MB before -> after",
        "of it column data after",
        "row groups that may hold the value",
        "their rows",
        "rows in pages that may",
    ]
    rows = []
    for name, cost in result["clustering"].items():
        skip = result["skipping"][name]["after"]
        rows.append(
            [
                name,
                f"{cost['cpu_seconds']:.1f}",
                f"{cost['wall_seconds']:.1f}",
                f"{cost['peak_rss_bytes'] / MIB:.0f}",
                f"{cost['bytes']['before'] / 1e6:.1f} -> {cost['bytes']['after'] / 1e6:.1f}",
                f"{cost['stored_bytes']['after'] / 1e6:.1f}",
                f"{skip['row_groups']:g}",
                f"{skip['row_group_rows']:,.0f}",
                f"{skip['page_rows']:,.0f}",
            ]
        )
    return table(head, rows)


def goals(result: dict[str, Any]) -> list[str]:
    """What was to be shown, and whether it was."""
    lines: list[str] = []

    def said(what: str, *, reached: bool) -> None:
        lines.append(f"- {what}: {verdict(reached=reached)}.")

    if "parquetry" not in result["clustering"]:
        return lines
    ours = summary(result, "parquetry")
    gain, after = ours["gain"], ours["after"]
    said(
        f"At least {FASTER} times faster after than before: {gain['wall_seconds']:.1f} by wall and {gain['cpu_seconds']:.1f} by CPU through our reader, {gain['neutral_wall_seconds']:.1f} and {gain['neutral_cpu_seconds']:.1f} through plain Spark",
        reached=min(gain["wall_seconds"], gain["neutral_wall_seconds"]) >= FASTER,
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
            f"At most {MOST_STORED} times the bytes of Hudi's sorted rows, Bloom filters left out: {size / theirs:.3f}",
            reached=size <= MOST_STORED * theirs,
        )
    return lines


def chart(result: dict[str, Any]) -> str:
    """Milliseconds of the query, before and after."""
    names = list(result["clustering"])
    each = {name: summary(result, name) for name in names}
    series = {state: [each[name][state]["wall_seconds"] * 1e3 for name in names] for state in STATES}
    title = f"Point query on a session id, {result['machine']['rows'] / 1e6:g} M rows, {result['machine']['files']:,} small files"
    return bars(title, "milliseconds through the format's own reader on Spark, median", names, series)
