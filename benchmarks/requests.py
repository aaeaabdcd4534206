"""How many requests S3 gets: ``python -m benchmarks.requests``.

A server on this machine (moto) counts what comes over HTTP from the driver and from all tasks, by kind. Each
operation runs twice: as on one machine, where rows are staged in a local folder, and as on a cluster, where they
are staged in the table's store. Writes benchmarks/REQUESTS.md, below ``BENCH_OUT`` where that is set.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import parquetry
from parquetry import Table
from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import Column, Extra, RetentionPolicy, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, write_applied
from tests.support.local_spark import local_spark
from tests.support.s3_server import BUCKET, s3_server
from tests.support.spark_writes import as_on_a_cluster

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
PAGE = """# Requests to S3

HTTP requests of one operation, from the driver and from all tasks. An S3 server (moto) on the same machine counts them.
The table has {rows:,} rows of four columns in {partitions} partitions, and {files} files of up to 4 MiB. Spark computes
the source rows, two tasks at a time, and no reader of Spark's touches S3. `python -m benchmarks.requests` writes this
page.

GET reads an object, or a range of one. HEAD asks for its size. LIST is one page of a listing. An object of up to 16 MiB
is one PUT. A larger one is uploaded in parts, with a POST before and one after. A DELETE removes up to 1,000 objects.
Larger files take more GETs, because columns are read row group by row group.

On one machine rows wait in a local folder (*local*). On a cluster they wait in the table's store (*store*). Each
operation was measured with table versions 6 and 9.

| operation | stage | version | files read | files written or deleted | {heads} | all |
|---|---|---|---|---|{lines}---|
{body}
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


def line(step: Step, kind: str, requests: Mapping[str, int], files: tuple[int, int]) -> str:
    counted = [*(requests.get(kind, 0) for kind in KINDS), sum(requests.values())]
    return (
        f"| {step.name} | {kind} | {files[0]} | {files[1]} | " + " | ".join(f"{n:,}" for n in counted) + " |"
    )


def main() -> None:
    spark = local_spark("requests", {"spark.driver.memory": "2g"})
    requests: Counter[str] = Counter()
    found: list[list[str]] = []
    with s3_server(requests) as options:
        for stage, version in (("local", 6), ("store", 6), ("local", 9), ("store", 9)):
            runs = measured(spark, options, requests, stage=stage, version=version)
            found.append(
                [line(step, f"{stage} | {version}", counted, files) for step, counted, files in runs]
            )
    body = "\n".join(row for both in zip(*found, strict=True) for row in both)
    page = PAGE.format(
        partitions=PARTITIONS,
        files=FILES,
        rows=ROWS,
        heads=" | ".join(KINDS),
        lines="---|" * len(KINDS),
        body=body,
    )
    (Path(os.environ.get("BENCH_OUT", HERE)) / "REQUESTS.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
