"""The result files: one for each workload, with the runs that it took to have every peer in turns with ours.

All peers at once take hours, so a run may have some of them. Costs are compared within a run only, so ours takes
part in each; a run replaces those whose peers all took part in it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.tables import Row

Run = dict[str, Any]
"""``machine`` and ``rows``, a row for each repetition; ``cases`` sums the rows up."""

FIGURES = ("wall_seconds", "cpu_seconds", "peak_rss_bytes", "bytes_written", "files_written")


def save(folder: Path, workload: str, machine: dict[str, Any], rows: Sequence[Row]) -> None:
    """Add a run of a workload to its file."""
    path = folder / f"{workload}.json"
    known: list[Run] = json.loads(path.read_text())["runs"] if path.exists() else []
    names = _names(rows)
    kept = [run for run in known if not _names(run["rows"]) <= names]
    run = {"machine": machine, "cases": _cases(rows), "rows": list(rows)}
    runs = ",\n".join(_text(each) for each in [*kept, run])
    path.write_text(f'{{"runs": [\n{runs}\n]}}\n')


def load(folder: Path, workloads: Iterable[str]) -> dict[str, list[Run]]:
    """The runs of each workload that has some, oldest first."""
    paths = {name: folder / f"{name}.json" for name in workloads}
    return {name: json.loads(path.read_text())["runs"] for name, path in paths.items() if path.exists()}


def rows_with(runs: Sequence[Run], *cases: str) -> list[Row]:
    """The rows of the newest run in which all these cases took part; none without such a run."""
    for run in reversed(runs):
        if set(cases) <= {row["case"] for row in run["rows"]}:
            return list(run["rows"])
    return []


def _text(run: Run) -> str:
    """A line for each case and each repetition."""
    cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in run["cases"].items())
    rows = ",\n".join(json.dumps(row) for row in run["rows"])
    return f'{{"machine": {json.dumps(run["machine"])},\n"cases": {{\n{cases}\n}},\n"rows": [\n{rows}\n]}}'


def _names(rows: Sequence[Row]) -> set[str]:
    return {row["peer"] for row in rows}


def _cases(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """Minimum, median and maximum of each figure that all rows of a case have."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for case in dict.fromkeys(row["case"] for row in rows if "case" in row):
        mine = [row for row in rows if row.get("case") == case]
        found[case] = {
            figure: {"min": min(values), "median": median(values), "max": max(values)}
            for figure in FIGURES
            if len(values := [row[figure] for row in mine if figure in row]) == len(mine)
        }
    return found
