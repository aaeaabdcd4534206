"""How many requests S3 gets, and how long operations take behind a slow network.

A server on this machine (moto) counts what comes over HTTP from the driver and from all tasks, by kind.

- ``python -m benchmarks.requests`` runs each operation twice: as on one machine, where rows are staged in a local
  folder, and as on a cluster, where they are staged in the table's store.
- ``--peers`` runs the same operations by Hudi, Delta Lake and delta-rs. It needs Hadoop's client of S3 (280 MB).
- ``--seconds REVISION`` measures how long operations take if every answer comes 30 ms later, with the code of that
  revision and with this one.

Each writes its part of benchmarks/results/requests.json, and benchmarks/REQUESTS.md, below ``BENCH_OUT`` where that is
set.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import s3fs

import parquetry
from benchmarks import environment as formats
from benchmarks.peer import Peer
from benchmarks.peers import HUDI, VERSIONS
from benchmarks.slow_network import slow_network
from parquetry import Table
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, RetentionPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, write_applied
from parquetry.runtime.timing import DEFAULT_TIMING
from tests.interop.environment import hudi_bundle, s3a_jars, spark_python
from tests.support.local_spark import local_spark
from tests.support.repository import ROOT
from tests.support.s3_server import BUCKET, s3_server
from tests.support.spark_writes import as_on_a_cluster
from tools.wrap_markdown import wrapped

HERE = Path(__file__).parent
KINDS = ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE")
PARTITIONS, FILES, ROWS = 4, 8, 640_000
MIB = 1024 * 1024
SPEC = TableSpec(
    name="requests",
    columns=tuple(
        Column(name=name, type=kind)
        for name, kind in {"id": "bigint", "p": "string", "v": "double", "text": "string"}.items()
    ),
    record_key=("id",),
    partition_by=("p",),
    sizing=SizingPolicy(max_file_size_bytes=4 * MIB, small_file_limit_bytes=3 * MIB),
)
SORTED = ClusteringSpec(
    plan=PlanPolicy(small_file_limit_bytes=3 * MIB, target_file_size_bytes=4 * MIB),
    execution=ExecutionPolicy(strategy="sort", columns=("v",)),
)
LATENCY_SECONDS, REPETITIONS = 0.03, 2
MEASURE = """
import json, os, sys, time
import parquetry
from benchmarks.requests import SPEC, STEPS
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, write_applied
from tests.support.local_spark import local_spark

options = json.loads(sys.argv[1])
spark = local_spark("seconds", {"spark.driver.memory": "2g"})
spark.range(10).selectExpr("id % 2 AS p").groupBy("p").count().collect()
uri = f"s3://lake/seconds{os.getpid()}/t"
table = parquetry.create(uri, SPEC, options=options)
store = open_store(uri, options)
found = {}
for step in STEPS:
    if step.spec is not None:
        write_applied(store, step.spec, number=read_applied(store).ref.number + 1)
    begun = time.monotonic()
    step.run(spark, table)
    found[step.name] = round(time.monotonic() - begun, 2)
print(json.dumps(found))
"""
"""The script that measures the wall seconds of each operation, by the code of any revision."""

PAGE = """# Requests to S3

HTTP requests of one operation, from the driver and from all tasks. An S3 server (moto) on the same machine counts them.
The table has {rows:,} rows of four columns in {partitions} partitions, and {files} files of up to 4 MiB. Spark computes
the source rows, two tasks at a time, and no reader of Spark's touches S3. `python -m benchmarks.requests` writes this
page.

All operations on a table run in one process, which keeps the commits that it has read or put. The first operation of
another process has one GET more for each commit of the timeline and for the applied record. An operation that takes long has further requests. Not
counted here are a PUT of its heartbeat every 20 seconds, and a listing if 10 seconds pass before its lock. A listing
that asks for the store's clock after a minute without a request is counted.

GET reads an object, or a range of one. HEAD asks for its size. LIST is one page of a listing. An object of up to 16 MiB
is one PUT. A larger one is uploaded in parts, with a POST before and one after. A DELETE removes up to 1,000 objects.
Larger files take more GETs: one for each 4 to 8 MiB.

On one machine rows wait in a local folder (*local*). On a cluster they wait in the table's store (*store*). Each
operation was measured with table versions 6 and 9.

{own}

## Other programs

The same operations on as many rows by other programs, against the same server
(`python -m benchmarks.requests --peers`): {peers}. Hudi and Delta Lake use Hadoop's S3A. Hudi has table version 6 and no
metadata table, and its insert is a bulk insert. Delta Lake and delta-rs create the table with the first write. Their
rows have a column more, the version of the row. Files are those with rows, which the operation wrote.

{others}

## Behind a slow network

Wall seconds of operations on one machine if every answer comes {milliseconds} ms later, with the code before and after
the reading of files was changed (`python -m benchmarks.requests --seconds {before}`). Version 6; the fastest and the median of
{repetitions} runs. Other work on the machine makes these times longer: its load was {load}.

{seconds}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An operation, and how many base files it reads and writes by its result; ``spec`` is applied before."""

    name: str
    run: Callable[[Any, Table], Any]
    files: Callable[[Any], tuple[int, int]]
    spec: TableSpec | None = None


def rows(spark: Any, condition: str) -> Any:
    """Rows of the ids that fulfil the condition, with new values."""
    values = ("id", f"concat('p', id % {PARTITIONS}) AS p", "rand() AS v", "uuid() AS text")
    return spark.range(0, 2 * ROWS, 1, 4).where(condition).selectExpr(*values)


def written(result: Any) -> tuple[int, int]:
    return result.files_rewritten, result.files_rewritten + result.files_added


STEPS = (
    Step(
        name="insert into an empty table",
        run=lambda spark, table: table.insert(rows(spark, f"id < {ROWS}")),
        files=written,
    ),
    Step(
        name="insert of 4,000 rows into 4 partitions",
        run=lambda spark, table: table.insert(rows(spark, f"id >= {ROWS} AND id < {ROWS + 4000}")),
        files=written,
    ),
    Step(
        name="upsert of 1 % of the rows, in all files",
        run=lambda spark, table: table.upsert(
            rows(spark, f"id < {ROWS} AND id % 100 < 4 AND id % 400 < 100")
        ),
        files=written,
    ),
    Step(
        name="upsert of 1,000 rows in one partition",
        run=lambda spark, table: table.upsert(
            rows(spark, f"id < {PARTITIONS * 1000} AND id % {PARTITIONS} = 0")
        ),
        files=written,
    ),
    Step(
        name="delete of 400 keys, in all partitions",
        run=lambda spark, table: table.delete(rows(spark, "id < 400").select("id", "p")),
        files=written,
    ),
    Step(
        name="clean of all old versions",
        run=lambda _, table: table.clean(),
        files=lambda result: (0, result.files_deleted),
        spec=replace(SPEC, retention=RetentionPolicy(keep_commits=1)),
    ),
    Step(
        name="clustering: sort of all",
        run=lambda spark, table: table.cluster(spark),
        files=lambda result: (result.files_before, result.files_after),
        spec=replace(SPEC, extra=Extra(clustering=SORTED)),
    ),
)


def measured(
    spark: Any, options: Mapping[str, Any], requests: Counter[str], *, stage: str, version: int
) -> Iterator[Any]:
    """Each step with its requests and files."""
    uri = f"s3://{BUCKET}/{stage}{version}/requests"
    table = parquetry.create(uri, replace(SPEC, table_version=version), options=options)
    store = open_store(uri, options)
    for step in STEPS:
        if step.spec is not None:
            spec = replace(step.spec, table_version=version)
            write_applied(store, spec, number=read_applied(store).ref.number + 1)
        requests.clear()
        with as_on_a_cluster() if stage == "store" else nullcontext():
            result = step.run(spark, table)
        yield step, dict(requests), step.files(result)
        assert step is not STEPS[0] or result.files_added == FILES
        print(f"version {version}, {stage}: {step.name}: {dict(requests)}", flush=True)


def own_requests() -> list[dict[str, Any]]:
    """The requests of each operation of ours, by stage and version."""
    # A busy machine must not add requests.
    for period in ("heartbeat_seconds", "listing_valid_seconds"):
        object.__setattr__(DEFAULT_TIMING, period, 3600.0)
    spark = local_spark("requests", {"spark.driver.memory": "2g"})
    requests: Counter[str] = Counter()
    found = []
    with s3_server(requests) as options:
        for stage, version in (("local", 6), ("store", 6), ("local", 9), ("store", 9)):
            for step, counted, (read, wrote) in measured(
                spark, options, requests, stage=stage, version=version
            ):
                found.append(
                    {"operation": step.name, "stage": stage, "version": version, "read": read, "wrote": wrote}
                    | {"requests": counted}
                )
    return sorted(found, key=lambda one: [step.name for step in STEPS].index(one["operation"]))


def peer_sources(folder: Path) -> None:
    """Parquet files with the rows of each operation, those of the first in a file for each file of the table."""

    def put(name: str, ids: np.ndarray) -> None:
        random = np.random.default_rng(len(ids))
        table = pa.table(
            {
                "k": ids,
                "y": [f"p{number % PARTITIONS}" for number in ids.tolist()],
                "ts": np.full(len(ids), 1),
                "v": random.random(len(ids)),
                "text": [random.bytes(18).hex() for _ in range(len(ids))],
            }
        )
        (folder / name).parent.mkdir(exist_ok=True)
        pq.write_table(table, folder / name)

    ids = np.arange(ROWS)
    for number in range(FILES):
        half = ids % PARTITIONS == number % PARTITIONS
        put(f"insert/{number}.parquet", ids[half & ((ids < ROWS // 2) == (number < PARTITIONS))])
    put("insert.parquet", ids)
    put("upsert of all.parquet", ids[(ids % 100 < 4) & (ids % 400 < 100)])
    put("upsert of one.parquet", ids[(ids < PARTITIONS * 1000) & (ids % PARTITIONS == 0)])
    put("delete.parquet", ids[:400])


def start_peer(name: str, folder: Path, options: Mapping[str, str]) -> Peer:
    """Start a peer whose tables lie on the server that has these options."""
    limits = {"heap": "2g", "max_file_size": str(8 * MIB), "small_file_limit": str(3 * MIB), "codec": "zstd"}
    limits |= {"level": "1", "row_group_size": str(8 * MIB), "row_group_rows": "200000"}
    log = folder / f"{name}.log"
    if name == "delta-rs":
        storage = {
            "AWS_ENDPOINT_URL": options["endpoint_url"],
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }
        storage |= {"AWS_ACCESS_KEY_ID": options["key"], "AWS_SECRET_ACCESS_KEY": options["secret"]}
        return Peer(
            name, "delta_rs.py", formats.delta_rs_python(), log, {**limits, "storage": json.dumps(storage)}
        )
    s3a = {
        "endpoint": options["endpoint_url"], "access.key": options["key"], "secret.key": options["secret"],
        "path.style.access": "true", "connection.ssl.enabled": "false", "endpoint.region": "us-east-1",
    }  # fmt: skip
    conf = json.dumps({f"spark.hadoop.fs.s3a.{key}": value for key, value in s3a.items()})
    own = [hudi_bundle(HUDI)] if name == "hudi" else formats.jars(formats.DELTA)
    jars = ",".join(str(jar) for jar in [*own, *s3a_jars("3.3.4")])
    worker, jar = ("hudi.py", "jar") if name == "hudi" else ("lakehouse.py", "jars")
    arguments = {**limits, jar: jars, "conf": conf, "format": name, "warehouse": str(folder)}
    return Peer(name, worker, spark_python("3.5"), log, arguments)


def peer_requests() -> list[dict[str, Any]]:
    """The requests of each operation of the peers."""
    requests: Counter[str] = Counter()
    found = []
    with tempfile.TemporaryDirectory() as scratch, s3_server(requests) as options:
        folder = Path(scratch)
        peer_sources(folder)
        storage = s3fs.S3FileSystem(**options, use_listings_cache=False)
        for name in ("hudi", "delta", "delta-rs"):
            scheme = "s3" if name == "delta-rs" else "s3a"
            table = f"{scheme}://{BUCKET}/{name}/t"
            more = {"options": {"hoodie.copyonwrite.record.size.estimate": "60"}} if name == "hudi" else {}
            insert: dict[str, Any] = {"rows_per_file": ROWS // FILES, "source": str(folder / "insert")}
            if name == "delta-rs":
                insert = {"source": str(folder / "insert.parquet"), "operation": "insert", "fresh": True}
            with closing(start_peer(name, folder, options)) as peer:
                files: set[str] = set()
                for operation, command, arguments in (
                    ("insert into an empty table", "write" if name == "delta-rs" else "scatter", insert),
                    *(
                        (words, "write", {"source": str(folder / source), "operation": source[:6], **more})
                        for words, source in (
                            ("upsert of 1 % of the rows, in all files", "upsert of all.parquet"),
                            ("upsert of 1,000 rows in one partition", "upsert of one.parquet"),
                            ("delete of 400 keys, in all partitions", "delete.parquet"),
                        )
                    ),
                    (
                        "clustering: sort of all",
                        "cluster",
                        {
                            "layout": "zorder" if name == "delta-rs" else "sort",
                            "columns": ["v"],
                            "target": 4 * MIB,
                        },
                    ),
                ):
                    requests.clear()
                    peer.do(command, table=table, **arguments)
                    counted = dict(requests)
                    now = {path for path in storage.find(f"{BUCKET}/{name}/t") if path.endswith(".parquet")}
                    now = {path for path in now if "/_" not in path and "/.hoodie/" not in path}
                    found.append(
                        {"operation": operation, "peer": name, "wrote": len(now - files), "requests": counted}
                    )
                    files = now
                    print(found[-1], flush=True)
    return found


def _tree(folder: Path, revision: str) -> Path:
    """Unpack the files of a revision, with its rooms linked into one package."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    for room in ("project", "compiler", "runtime", "templates"):
        (folder / "parquetry" / room).symlink_to(folder / room)
    return folder


def all_seconds(before: str) -> dict[str, Any]:
    """The wall seconds of each operation by the code of a revision and by this one, in turns."""
    found: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
    with tempfile.TemporaryDirectory() as scratch, s3_server() as options:
        folders = {
            which: _tree(Path(scratch, which), at) for which, at in (("before", before), ("after", "HEAD"))
        }
        with slow_network(options["endpoint_url"], LATENCY_SECONDS) as url:
            for _ in range(REPETITIONS):
                for which, folder in folders.items():
                    command = [sys.executable, "-c", MEASURE, json.dumps({**options, "endpoint_url": url})]
                    environment = {**os.environ, "PYTHONPATH": str(folder)}
                    done = subprocess.run(
                        command, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True
                    )
                    found[which].append(json.loads(done.stdout.splitlines()[-1]))
                    print(which, found[which][-1], flush=True)
    return {"revision": before, "load": round(os.getloadavg()[0], 1), **found}


def table_of(head: list[str], lines: list[list[Any]]) -> str:
    """A table in Markdown."""
    written = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, *written]).replace(
        "|\n", "|\n|" + "---|" * len(head) + "\n", 1
    )


def counts(requests: Mapping[str, int]) -> list[int]:
    """The requests of each kind, and of all."""
    return [*(requests.get(kind, 0) for kind in KINDS), sum(requests.values())]


def page(found: Mapping[str, Any]) -> str:
    """The page of all parts that were measured."""
    own = [
        [
            one["operation"],
            one["stage"],
            str(one["version"]),
            one["read"],
            one["wrote"],
            *counts(one["requests"]),
        ]
        for one in found["own"]
    ]
    local = {one["operation"]: one for one in found["own"] if (one["stage"], one["version"]) == ("local", 6)}
    others = []
    for operation in dict.fromkeys(one["operation"] for one in found["peers"]):
        ours = local[operation]
        others.append([operation, "parquetry", ours["wrote"], *counts(ours["requests"])])
        others += [
            [operation, one["peer"], one["wrote"], *counts(one["requests"])]
            for one in found["peers"]
            if one["operation"] == operation
        ]
    seconds, lines = found["seconds"], []
    for step in STEPS:
        runs = [[run[step.name] for run in seconds[which]] for which in ("before", "after")]
        lines.append(
            [step.name, *(f"{least(each):.1f}" for each in runs for least in (min, statistics.median))]
        )
    text = PAGE.format(
        partitions=PARTITIONS,
        files=FILES,
        rows=ROWS,
        own=table_of(
            ["operation", "stage", "version", "files read", "files written or deleted", *KINDS, "all"], own
        ),
        peers="; ".join(VERSIONS[name] for name in ("hudi", "delta", "delta-rs")),
        others=table_of(["operation", "program", "files written or deleted", *KINDS, "all"], others),
        milliseconds=int(1000 * LATENCY_SECONDS),
        before=seconds["revision"],
        repetitions=len(seconds["after"]),
        load=seconds["load"],
        seconds=table_of(
            ["operation", "before, fastest", "before, median", "after, fastest", "after, median"], lines
        ),
    )
    return wrapped(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--seconds", metavar="REVISION")
    parser.add_argument("--page", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    out = Path(os.environ.get("BENCH_OUT", HERE))
    results = out / "results" / "requests.json"
    results.parent.mkdir(exist_ok=True)
    found = json.loads(results.read_text()) if results.exists() else {}
    if arguments.peers:
        found["peers"] = peer_requests()
    elif arguments.seconds:
        found["seconds"] = all_seconds(arguments.seconds)
    elif not arguments.page:
        found["own"] = own_requests()
    results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if {"own", "peers", "seconds"} <= found.keys():
        (out / "REQUESTS.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
