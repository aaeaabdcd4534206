"""The main job on real data: a year of flights in twelve deliveries, kept well-sized.

Each delivery is dropped into the landing folder and ingested by ``parquetry run``, beside it appended by
plain Spark. In the end the flights are clustered for two declared queries; then Spark and hudi-rs read the
table back, and every row is compared with a result that pandas computed from the deliveries. Run it with
``make demo``.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import parquetry
from examples.flights import batches
from examples.flights.report import Check, Layout, Report, Step, print_report, reads, write_html
from parquetry.cli.main import command_line
from parquetry.runtime.spark.session.start import start_session
from parquetry.runtime.spec.job import SparkSettings

PROJECT = Path(__file__).resolve().parent
TARGET = PROJECT / "target"
REPORT = PROJECT.parents[1] / "target" / "report.html"
console = Console(highlight=False)


def command(*arguments: str) -> str:
    """Run ``parquetry`` in this process, so that deliveries share one Spark session; return its stdout."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as noise:
        code = command_line.main([*arguments, "--project", str(PROJECT)], standalone_mode=False)
    if code:
        raise SystemExit(f"parquetry {' '.join(arguments)} ended with {code}:\n{noise.getvalue()}")
    return out.getvalue()


def query(*arguments: str) -> dict[str, Any]:
    """Return the JSON that a command prints."""
    answer: dict[str, Any] = json.loads(command(*arguments, "--format", "json"))
    return answer


def sized_layout(limit: int) -> Layout:
    """Return the sizes of the table's live files."""
    partitions = query("inspect", "flights")["partitions"]
    return Layout(
        sizes_bytes=tuple(sorted(size for part in partitions for size in part["file_sizes_bytes"])),
        small_limit_bytes=limit,
    )


def plain_layout(folder: Path, limit: int) -> Layout:
    """Return the sizes of the files that plain Spark has left."""
    sizes = sorted(path.stat().st_size for path in folder.rglob("*.parquet"))
    return Layout(sizes_bytes=tuple(sizes), small_limit_bytes=limit)


def different_rows(found: pd.DataFrame, wanted: pd.DataFrame) -> int:
    """Return in how many rows, matched by key, the two frames differ; missing and surplus rows count."""
    columns = list(wanted.columns)
    both = wanted.merge(found[columns], on=batches.KEY, how="outer", suffixes=("", "_found"), indicator=True)
    wrong = both["_merge"] != "both"
    for name in columns:
        if name not in batches.KEY:
            one, other = both[name], both[f"{name}_found"]
            wrong |= ~((one == other) | (one.isna() & other.isna())).fillna(value=False).astype(bool)
    return int(wrong.sum()) + len(found) - found.drop_duplicates(batches.KEY).shape[0]


def check(reader: str, table: pa.Table, wanted: pd.DataFrame) -> Check:
    """Compare what a reader returned with the independent result."""
    frame = table.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)
    return Check(reader=reader, rows=len(frame), different=different_rows(frame, wanted))


def read_back(spark: Any, wanted: pd.DataFrame) -> list[Check]:
    """Read the whole table with Spark and with hudi-rs and compare both with pandas."""
    from hudi import HudiTableBuilder

    location = TARGET / "warehouse" / "flights"
    names = [name for name in batches.SCHEMA.names if name != "op"]
    by_spark = parquetry.open(location).read(spark).select(*names).toArrow()
    by_hudi = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(location)).build().read()).select(
        names
    )
    return [check("Spark", by_spark, wanted), check("hudi-rs", by_hudi, wanted)]


def main() -> int:
    """Run the demo; return 0 when every reader saw exactly the expected rows."""
    started = time.monotonic()
    shutil.rmtree(TARGET, ignore_errors=True)
    landing, plain = TARGET / "landing", TARGET / "plain"
    landing.mkdir(parents=True)
    spark = start_session(SparkSettings(master="local[2]"), name="flights")
    console.print(command("plan"), end="")
    console.print(command("apply", "--auto-approve"), end="")
    limit = parquetry.open(TARGET / "warehouse" / "flights").spec.sizing.small_file_limit_bytes
    delivered: list[pd.DataFrame] = []
    steps: list[Step] = []
    for number, delivery in enumerate(batches.deliveries(), start=1):
        delivered.append(delivery)
        file = landing / f"{number:02d}.parquet"
        pq.write_table(batches.as_arrow(delivery), file)
        command("run")
        spark.read.parquet(str(file)).write.partitionBy("origin").mode("append").parquet(str(plain))
        # A clean may be the newest instant.
        commits = [i for i in query("timeline", "flights")["instants"] if i["operation"] == "upsert"]
        rows = commits[-1]["rows"]
        steps.append(
            Step(
                batch=number,
                rows=len(delivery),
                inserted=rows["inserted"],
                updated=rows["updated"],
                deleted=rows["deleted"],
                sized=sized_layout(limit),
                plain=plain_layout(plain, limit),
            )
        )
        last = steps[-1]
        console.print(
            f"batch {number:2}: {len(delivery):,} rows; files {last.sized.files} "
            f"({last.sized.small_files} small), plain {last.plain.files} ({last.plain.small_files} small)"
        )
    command("service", "cluster", "flights")
    *_, clustered = (i for i in query("timeline", "flights")["instants"] if i["operation"] == "cluster")
    checks = read_back(spark, batches.expected(delivered))
    limits = "files up to 512 KiB, small below 384 KiB"
    report = Report(
        steps=steps,
        reads=reads(clustered["queries"]),
        checks=checks,
        limits=limits,
        seconds=time.monotonic() - started,
    )
    console.print()
    print_report(report, console)
    write_html(report, REPORT)
    console.print(f"{report.seconds:.0f} s; the page with charts is {REPORT}")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
