"""Suggestions against the best of all layouts: ``python -m benchmarks.suggestions``.

Twenty random tables, whose seeds no test uses, get random weighted queries. A sixteenth of the rows is in the sample.
`suggest` decides by it alone, and by dry runs of the finalists that it names. The judge makes a dry run of every sort
and curve of up to three of the queried columns, which makes the files of a real clustering. Nothing starts a JVM.
Writes SUGGESTIONS.md, below ``BENCH_OUT`` where that is set.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.tables import Row, table, verdict
from parquetry.compiler.reports.simulate_clustering import SimulatedTable
from parquetry.compiler.reports.suggestion import in_words, suggest
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.table.handle import open_table
from tests.support.layout_search import RandomTable, all_layouts, random_table
from tools.wrap_markdown import wrapped

HERE = Path(__file__).resolve().parent
SEEDS = (*range(601, 611), *range(701, 711))
ROWS = 120_000
PART = 16
"""One of so many rows is in the sample."""

COLUMNS = 3
NEAR = 1.05


def sample_of(rows: int) -> SampleLimits:
    """The limits of a sample with a part of the rows, as a large table's sample has."""
    return SampleLimits(rows=rows // PART, group_rows=rows // PART, tried_bytes=512 * 1024)


def shares(made: RandomTable) -> dict[Any, float]:
    """The bytes that queries read after each layout, as a share of those they read now."""
    simulated = SimulatedTable(open_table(made.store))
    now = simulated.policy.execution
    every = [replace(now, strategy=each.strategy, columns=each.columns) for each in all_layouts(made.asked)]
    measured = simulated.simulate([now, *every], dry_run=True)
    return {candidate.execution: candidate.share for candidate in measured.candidates}


def measure(seed: int, rows: int) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        made = random_table(Path(folder), seed, rows=rows, columns=COLUMNS)
        started = time.process_time()
        alone = suggest(made.store, sample=sample_of(rows), final_bytes=0)
        sampled = time.process_time()
        found = suggest(made.store, sample=sample_of(rows))
        suggested = time.process_time()
        every = shares(made)
        best = min(1.0, *every.values())
        read = {
            name: 1.0 if by.best is None else every[by.best.execution]
            for name, by in (("alone", alone), ("read", found))
        }
        return {
            "seed": seed,
            "files": found.candidates.files,
            "queries": len(found.candidates.queries),
            "layouts": len(every),
            "chosen": "none" if found.best is None else in_words(found.best.execution),
            "read": read["read"],
            "best": best,
            "ratio": read["read"] / best,
            "alone": read["alone"] / best,
            "sample": sampled - started,
            "suggest": suggested - sampled,
            "search": time.process_time() - suggested,
        }


def page(rows: list[Row], count: int) -> str:
    head = [
        *("table", "files", "queries", "layouts", "suggested", "read after it", "after the best"),
        *("ratio", "by the sample alone", "CPU s", "of the sample alone", "of the search"),
    ]
    cells = [
        [
            *(row["seed"], row["files"], row["queries"], row["layouts"], row["chosen"]),
            *(f"{row['read']:.1%}", f"{row['best']:.1%}", f"{row['ratio']:.3f}", f"{row['alone']:.3f}"),
            *(f"{row['suggest']:.1f}", f"{row['sample']:.1f}", f"{row['search']:.1f}"),
        ]
        for row in rows
    ]
    lines = [
        "# Suggested layouts against an exhaustive search",
        "",
        f"Each table has {count:,} random rows in files of 256 KiB, {COLUMNS} columns of random types, skew and correlation, and random weighted queries. `suggest` compares layouts by a systematic sample of one in {PART} rows and makes dry runs of about 15 finalists, as `simulate clustering --suggest` does for a table above 20 MiB. So of a table with 2 or 9 layouts, all that differ are written, and a ratio of 1 is no surprise; the tables with 40 layouts test the choice of finalists. *By the sample alone* is the ratio of what it suggests without writing anything, as for a table above about 128 MiB. The search makes a dry run of every sort and curve of up to three of the queried columns, which makes the files of a clustering. *Read after it* is what the queries then read of the bytes that they read now, and *ratio* is that divided by the bytes after the best. No JVM starts.",
        "",
        f"The seeds are used nowhere else. Figures are CPU seconds of one process on a machine of {os.cpu_count()} cores. `python -m benchmarks.suggestions` writes this page.",
        "",
        *table(head, cells),
        _verdict("suggestions", [row["ratio"] for row in rows], goal=True),
        _verdict("suggestions by the sample alone", [row["alone"] for row in rows], goal=False),
        "- The sample alone does not tell at which rows row groups end, because that depends on the bytes of all rows before. So a query may read a page more or less than forecast. The fewer pages queries read, the more it weighs. The order of the files matters too: written anew under other names, a table can get another suggestion by the sample alone.",
    ]
    return wrapped("\n".join([*lines, ""]))


def _verdict(what: str, ratios: list[float], *, goal: bool) -> str:
    near = sum(ratio <= NEAR for ratio in ratios)
    reached = f" (goal all: {verdict(reached=near == len(ratios))})" if goal else ""
    return f"- {near} of {len(ratios)} {what} read at most 5 % more than the best layout{reached}. The median ratio is {median(ratios):.3f}, the largest {max(ratios):.3f}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        rows.append(measure(seed, options.rows))
        print(rows[-1], flush=True)
    shown = page(rows, options.rows)
    (Path(os.environ.get("BENCH_OUT", HERE)) / "SUGGESTIONS.md").write_text(shown)
    print(shown)


if __name__ == "__main__":
    main()
