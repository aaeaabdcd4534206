"""A point query on many small files, before and after clustering: ``python -m benchmarks.session_experiment``.

20 million events of sessions in order of arrival lie in 1,400 small files (``SCALE`` shrinks both), as an
ingestion leaves them that does not fill small files. Each table format writes the files itself, then
clusters them by session id. A query for one session is asked of both, through Spark, in turns: through the format's
own reader, and through plain Spark on the format's live files. Writes results/session_experiment.json,
SESSIONS.md and the chart beside it.

Names on the command line choose the formats; all take part without. With ``BENCH_TMP`` the tables stay
there, and ``--prepare`` ends when they are made: so they can be made one format at a time,
``BENCH_TMP=/scratch python -m benchmarks.session_experiment --prepare hudi``, and asked all together by a last
call without ``--prepare``. ``REPS`` (7) are the queries, ``BENCH_HEAP`` the memory of each JVM (3g), ``BENCH_OUT`` another folder
for what is written.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import peers, sessions
from benchmarks.bench import MIB
from benchmarks.session_report import chart, render
from benchmarks.session_tables import COLUMN, STATES, Prepared, Tables
from benchmarks.skipping import covering, row_groups
from parquetry.runtime.base_file.encoding import ZSTD_LEVEL
from tests.interop.environment import cache_folder

HERE = Path(__file__).resolve().parent
TARGET, ROW_GROUP = 32 * MIB, 8 * MIB
PEERS = ("parquetry", "hudi", "delta", "iceberg", "plain")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A point query on many small files, before and after clustering."
    )
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)}; all without one")
    parser.add_argument("--prepare", action="store_true", help="make the tables in $BENCH_TMP, ask nothing")
    asked = parser.parse_args()
    if unknown := set(asked.peers) - set(PEERS):
        parser.error(f"{', '.join(sorted(unknown))}: no peer; there are {', '.join(PEERS)}")
    if asked.prepare and "BENCH_TMP" not in os.environ:
        parser.error("--prepare leaves tables for another call; say where with BENCH_TMP")
    scale, reps = float(os.environ.get("SCALE", "1")), int(os.environ.get("REPS", "7"))
    inputs = cache_folder() / "bench" / f"sessions-{scale:g}"
    counts = sessions.prepare(inputs, scale=scale)
    settings = {
        "max_file_size": str(TARGET),
        "small_file_limit": "0",
        "codec": "zstd",
        "level": str(ZSTD_LEVEL),
        "row_group_size": str(ROW_GROUP),
        "heap": os.environ.get("BENCH_HEAP", "3g"),
        "partition_by": "",
    }
    chosen = asked.peers or list(PEERS)
    with tempfile.TemporaryDirectory(prefix="parquetry-bench-") as scratch:
        folder = Path(os.environ.get("BENCH_TMP", scratch)) / f"sessions-{scale:g}"
        folder.mkdir(parents=True, exist_ok=True)
        tables = Tables(folder, settings, inputs, counts, TARGET)
        made = {name: tables.prepared(name) for name in chosen}
        if not asked.prepare:
            machine = peers.machine(scale, reps, chosen, rows=counts["rows"], files=counts["files"])
            write({"machine": machine, **ask(tables, made, reps)})


def write(result: dict[str, Any]) -> None:
    """The figures, the page and the chart."""
    out = Path(os.environ.get("BENCH_OUT", HERE))
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / "results" / "session_experiment.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "session_experiment.svg").write_text(chart(result))
    page = render(result, json.loads((HERE / "results" / "session_bytes.json").read_text()))
    (out / "SESSIONS.md").write_text(page)
    print(page)


def ask(tables: Tables, made: dict[str, Prepared], reps: int) -> dict[str, Any]:
    """Ask both tables of every format in turns; all have to give the same rows."""
    running = {
        name: peers.start(name, tables.folder, tables.settings) for name in dict.fromkeys([*made, "plain"])
    }
    names, wanted = list(made), tables.counts["wanted"]
    queries: list[dict[str, Any]] = []
    for number in range(reps + 1):  # the first is for warming up
        where = f"{COLUMN} = '{wanted[number % len(wanted)]}'"
        found = set()
        first = number % len(names)  # who comes first changes, so that nobody always finds plain Spark cold
        for name in [*names[first:], *names[:first]]:
            for state in STATES:
                row = query(running, tables, name, state, made[name].live[state], where)
                found |= {row["rows"], row.pop("neutral_rows")}
                if number:
                    queries.append(row)
        if len(found) != 1:
            raise SystemExit(f"{where}: the tables do not agree: {found} rows")
        print(f"query {number}: {where}, {found} rows", flush=True)
    for peer in running.values():
        peer.close()
    values = [wanted[number % len(wanted)] for number in range(1, reps + 1)]
    return {
        "clustering": {name: each.cost for name, each in made.items()},
        "queries": queries,
        "skipping": {
            name: {state: skipping(each.live[state], values) for state in STATES}
            for name, each in made.items()
        },
    }


def query(
    running: dict[str, Any], tables: Tables, name: str, state: str, live: list[str], where: str
) -> dict[str, Any]:
    """One query through the format's own reader, and through plain Spark."""
    own, cost = running[name].do("query", table=tables.table(name, state), where=where)
    neutral, common = running["plain"].do("query_paths", paths=live, where=where)
    return {
        "peer": name, "state": state, "rows": own["rows"], "neutral_rows": neutral["rows"],
        "scanned": own["scanned"], "neutral_scanned": neutral["scanned"],
        "wall_seconds": round(cost.wall_seconds, 4), "cpu_seconds": round(cost.cpu_seconds, 3),
        "neutral_wall_seconds": round(common.wall_seconds, 4), "neutral_cpu_seconds": round(common.cpu_seconds, 3),
    }  # fmt: skip


def skipping(live: list[str], values: list[str]) -> dict[str, float]:
    """What the statistics of the files leave to be read for these values."""
    files = [row_groups(path, COLUMN) for path in live]
    each = [covering(files, value.encode()) for value in values]
    return {
        "files": median(c.files for c in each),
        "row_groups": median(c.row_groups for c in each),
        "row_group_rows": median(c.row_group_rows for c in each),
        "page_rows": median(c.page_rows for c in each),
        "largest_pages": max(c.largest_pages for c in each),
    }


if __name__ == "__main__":
    main()
