"""The page of the session experiment: what was asked, what it cost before and after, what of the goals was reached."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import MIB
from benchmarks.charts import bars
from benchmarks.session_tables import STATES
from benchmarks.tables import middle, table, verdict
from tools.wrap_markdown import wrapped

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


def render(result: dict[str, Any], measured: dict[str, Any]) -> str:
    """The page, from the experiment and from the bytes of columns that ``session_bytes`` measured."""
    machine, clustered = result["machine"], result["clustering"]
    each = {name: summary(result, name) for name in clustered}
    loads = [f"{name} {cost['load']}" for name, cost in clustered.items() if "load" in cost]
    lines = [
        "# The session experiment",
        "",
        f"The table has {machine['rows']:,} events in order of arrival, in {machine['files']:,} small files. The experiment clusters it by a string of 64 random bits, and measures a point query on this column through Spark.",
        "",
        "Each format writes its own small files and its own clustered files, with zstd, row groups of 8 MiB and a target of 32 MiB. Hudi's files also contain its Bloom filters of 431 kB.",
        "",
        f"The formats take turns. Figures are medians of {machine['reps']} queries after a warm-up. *Own reader* is the reader of the format itself. *Plain Spark* is the same Spark for all formats, on their live files.",
        "",
        f"`SCALE={machine['scale']:g} python -m benchmarks.session_experiment` repeats the experiment. Scale 1 is 20 million events in 1,400 files. When the queries started, the machine had a load of {machine['load']} on {machine['cores']} cores."
        + (" It did other work too, so compare CPU." if machine["load"] > 1.5 else ""),
        "",
        *_queries(clustered, each),
        *_rewrites(result),
    ]
    if loads:
        lines += [f"Load of the machine when each clustering started: {', '.join(loads)}.", ""]
    lines += goals(result)
    lines += ["", *_column_bytes(measured)]
    if "note" in result:
        lines += ["", result["note"]]
    return wrapped("\n".join([*lines, "![Point query before and after](session_experiment.svg)", ""]))


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
        "column data after, MB",
        "row groups that may contain the value",
        "rows in these row groups",
        "rows in pages that may contain it",
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


def _column_bytes(measured: dict[str, Any]) -> list[str]:
    """Return parquetry's bytes by column before and after, and what limits them."""
    found, rows, bits = measured["bytes"], measured["rows"], measured["bits"]
    every = found["all"]

    def megabytes(state: str, name: str) -> float:
        return every[state][name] / 1e6

    totals = {
        setting: {state: sum(sizes.values()) / 1e6 for state, sizes in states.items()}
        for setting, states in found.items()
    }
    grown = sorted(setting for setting, each in totals.items() if each["after"] > each["before"])
    least = {name: bits["after"][name] * rows / 8e6 for name in ("k", "at")}
    names = [name for name in every["after"] if max(megabytes(state, name) for state in STATES) >= 1]
    keys = megabytes("after", "k") + megabytes("after", "_hoodie_record_key")
    lines = [
        "## Bytes by column",
        "",
        "`python -m benchmarks.session_bytes` encodes a tenth of these rows as parquetry's writers do, without Spark, and gives the bytes for all rows. *Index* is the page indexes and footers.",
        "",
        *table(
            ["`files.meta_columns`", "before, MB", "after, MB", "after / before"],
            [
                [
                    f"`{setting}`",
                    f"{each['before']:.1f}",
                    f"{each['after']:.1f}",
                    f"{each['after'] / each['before']:.3f}",
                ]
                for setting, each in totals.items()
            ],
        ),
        *table(
            ["column, with `all`", "before, MB", "after, MB"],
            [[name, *(f"{megabytes(state, name):.1f}" for state in STATES)] for name in names],
        ),
    ]
    if grown:
        lines += [
            f"The clustered table may not be larger. With {', '.join(f'`{setting}`' for setting in grown)}: {verdict(reached=False)}. With the other settings: {verdict(reached=True)}.",
            "",
            f"The limit is the record key. It counts up in order of arrival and then takes little. In the order of the sessions it has {bits['after']['k']:.1f} bits of entropy a row, which is {least['k']:.0f} MB, if neighbours are compared as numbers. Parquet compares them as texts, and Hudi stores the key twice, in `_hoodie_record_key` and in `k`: {keys:.1f} MB. The times have {bits['before']['at']:.1f} bits a row before and {bits['after']['at']:.1f} after, which is {least['at']:.0f} MB. These columns grow by more than the others shrink. [Decision 5](../docs/decisions/0005-base-files-assembled-from-row-groups.md) says what was tried.",
            "",
        ]
    else:
        lines += [f"The clustered table may not be larger, with each setting: {verdict(reached=True)}.", ""]
    return lines


def goals(result: dict[str, Any]) -> list[str]:
    """What was to be shown, and whether it was."""
    lines: list[str] = []

    def add(what: str, *, reached: bool) -> None:
        lines.append(f"- {what}: {verdict(reached=reached)}.")

    if "parquetry" not in result["clustering"]:
        return lines
    ours = summary(result, "parquetry")
    gain, after = ours["gain"], ours["after"]
    add(
        f"At least {FASTER} times faster after the clustering: {gain['wall_seconds']:.1f} by wall and {gain['cpu_seconds']:.1f} by CPU through parquetry's own reader, {gain['neutral_wall_seconds']:.1f} and {gain['neutral_cpu_seconds']:.1f} through plain Spark",
        reached=min(gain["wall_seconds"], gain["neutral_wall_seconds"]) >= FASTER,
    )
    limit = after["rows"] + result["skipping"]["parquetry"]["after"]["largest_pages"]
    add(
        f"At most the matching rows and one page for each row group with matches: {after['neutral_scanned']:,.0f} rows scanned, {limit:,.0f} allowed",
        reached=after["neutral_scanned"] <= limit,
    )
    others = {name: summary(result, name)["after"] for name in result["clustering"] if name != "parquetry"}
    for figure, reader in (("cpu_seconds", "own readers"), ("neutral_cpu_seconds", "plain Spark")):
        slower = [name for name, each in others.items() if after[figure] > each[figure]]
        words = ", ".join(f"{name} {each[figure] / after[figure]:.2f}" for name, each in others.items())
        add(
            f"Never slower than a peer after clustering, CPU of peer / parquetry with {reader}: {words}",
            reached=not slower,
        )
    if "hudi" in result["clustering"]:
        size, theirs = (result["clustering"][name]["stored_bytes"]["after"] for name in ("parquetry", "hudi"))
        add(
            f"At most {MOST_STORED} times the bytes of Hudi's sorted rows, without Bloom filters: {size / theirs:.3f}",
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
