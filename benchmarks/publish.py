"""Measure what publishing adds to the upserts of W2 and the appends of W3: `python -m benchmarks.publish`.

Three tables take turns in one process of Spark: one that is not published, one as Delta, one as Iceberg. ``SCALE``
(1 is TPC-H scale factor 1) and ``REPS`` shrink the run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import data, peers
from benchmarks.bench import MIB, Bench
from benchmarks.run import CODEC, ROW_GROUP
from parquetry.runtime.base_file.encoding import ZSTD_LEVEL
from tests.interop.environment import cache_folder

HERE = Path(__file__).resolve().parent
FORMS = {"": "none", "delta": "Delta", "iceberg": "Iceberg"}
PAGE = """\
# CPU time of publishing

Tables of lineitem at scale {scale:g} ({base:,} rows, 7 partitions), changed in turns by one process of Spark: *W2* upserts
{batch:,} rows, half of them new, in every partition; *W3* appends {append:,} rows. *CPU* is that of Spark and Python for a
write, *publishing* that of the driver within it, both means of {reps} writes. *Added* is the share of publishing in the rest
of its own write. *First* is the first publication in a process, which imports the libraries.
`python -m benchmarks.publish` writes this page.

| workload | published as | CPU s | publishing, CPU s | added |
|---|---|---|---|---|
{lines}
"""


class Cost(NamedTuple):
    """CPU seconds of a write, and of publishing within it."""

    whole: float
    publishing: float


def costs(bench: Bench, source: str, operation: str, *, fresh: bool = False) -> dict[str, Cost]:
    """The cost of a write of one input to each table."""
    found = {}
    for form in FORMS:
        table = bench.table("parquetry", f"published-{form}")
        answer, cost = bench.peers["parquetry"].do(
            "write",
            table=table,
            source=str(bench.inputs / source),
            operation=operation,
            fresh=fresh,
            publish=form,
        )
        found[form] = Cost(cost.cpu_seconds, answer["publishing_cpu_seconds"])
        print(f"{source:20} {form:8} {found[form]}", flush=True)
    return found


def lines(name: str, writes: Iterable[dict[str, Cost]]) -> list[str]:
    """The rows of a workload."""
    listed = [*writes]
    rows = []
    for form, label in FORMS.items():
        whole = sum(write[form].whole for write in listed) / len(listed)
        publishing = sum(write[form].publishing for write in listed) / len(listed)
        added = f"{publishing:.3f} | {publishing / (whole - publishing):.1%}" if form else " | "
        rows.append(f"| {name} | {label} | {whole:.2f} | {added.replace('%', ' %')} |")
    return rows


def check(bench: Bench, writes: int) -> None:
    """Fail if a table has other rows than the one that is not published, or another number of versions."""
    peer, found = bench.peers["parquetry"], {}
    for form in FORMS:
        found[form] = peer.do("count", table=bench.table("parquetry", f"published-{form}"))[0]["rows"]
    folder = bench.tables / "parquetry"
    versions = {
        len(list(folder.glob("published-delta/_delta_log/*.json"))),
        len(list(folder.glob("published-iceberg/metadata/v*.metadata.json"))),
    }
    if len({*found.values()}) != 1 or versions != {writes}:
        raise SystemExit(f"the tables differ: {found} rows, {versions} versions after {writes} writes")


def main() -> None:
    """Run the writes, and write the page."""
    scale, reps = float(os.environ.get("SCALE", "1")), int(os.environ.get("REPS", "5"))
    inputs = cache_folder() / "bench" / f"scale-{scale:g}"
    counts = data.prepare(inputs, scale=scale)
    maximum = max(2 * MIB, int(32 * MIB * min(scale, 1)))
    settings = {
        "max_file_size": str(maximum), "small_file_limit": str(maximum * 25 // 32), "codec": CODEC,
        "level": str(ZSTD_LEVEL), "row_group_size": str(ROW_GROUP), "row_group_rows": str(ROW_GROUP // 40),
        "heap": os.environ.get("BENCH_HEAP", "4g"),
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="parquetry-bench-", dir=os.environ.get("BENCH_TMP")) as folder:
        bench = Bench(
            inputs=inputs, tables=Path(folder), reps=reps, counts=counts, scale=scale, maximum=maximum,
            start=partial(peers.start, folder=Path(folder), settings=settings),
        )  # fmt: skip
        bench.peers["parquetry"] = bench.start("parquetry")
        try:
            bench.warm_up("parquetry")
            first = costs(bench, "base.parquet", "insert", fresh=True)
            upserts = [costs(bench, f"upsert{number}.parquet", "upsert") for number in range(min(reps, 5))]
            check(bench, 1 + len(upserts))
            costs(bench, "append00.parquet", "insert", fresh=True)
            appends = [costs(bench, f"append{number:02d}.parquet", "insert") for number in range(1, 1 + reps)]
            check(bench, 1 + len(appends))
        finally:
            bench.peers["parquetry"].close()
    rows = [*lines("First", [first]), *lines("W2", upserts), *lines("W3", appends)]
    page = PAGE.format(**counts, scale=scale, reps=reps, lines="\n".join(rows))
    (Path(os.environ.get("BENCH_OUT", HERE)) / "PUBLISH.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
