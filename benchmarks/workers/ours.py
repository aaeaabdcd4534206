"""parquetry on the Spark that pip resolves to, through its public Python interface."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.workers.frames import frame_of
from benchmarks.workers.loop import serve
from benchmarks.workers.masters import session_builder
from benchmarks.workers.scanning import collected

ARGUMENTS = json.loads(sys.argv[1])
PARTITION = ARGUMENTS.get("partition_by", "y")


def main(builder: Any) -> None:
    import parquetry
    from parquetry.runtime.services import after_write
    from parquetry.runtime.spec.clustering import ClusteringSpec, ExecutionPolicy, PlanPolicy
    from parquetry.runtime.spec.table_spec import DeltaFormat, Extra, IcebergFormat, Publish
    from parquetry.runtime.storage.open import open_store
    from parquetry.runtime.table.applied import write_applied
    from parquetry.runtime.table.handle import open_table

    spark = (
        builder.config("spark.driver.memory", ARGUMENTS["heap"])
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    default = {name: int(ARGUMENTS[name]) for name in ("max_file_size", "small_file_limit")}

    published = {
        "": None,
        "delta": Publish(delta=DeltaFormat()),
        "iceberg": Publish(iceberg=IcebergFormat()),
    }
    publishing: list[float] = []
    publish_after = after_write.publish_after

    def timed(*arguments: Any) -> Any:
        begin = time.process_time()
        try:
            return publish_after(*arguments)
        finally:
            publishing.append(time.process_time() - begin)

    after_write.publish_after = timed

    def create(table: str, source: str, limits: dict[str, Any], publish: str) -> None:
        schema = spark.read.parquet(source).schema
        sizing = {**default, **limits}
        spec = parquetry.TableSpec(
            name="t",
            columns=tuple(
                parquetry.Column(
                    name=field.name,
                    type=field.dataType.simpleString(),
                    nullable=field.name not in {"k", PARTITION, "ts"},
                )
                for field in schema.fields
            ),
            record_key=("k",),
            ordering="ts",
            publish=published[publish],
            partition_by=(PARTITION,) if PARTITION else (),
            sizing=parquetry.SizingPolicy(
                max_file_size_bytes=sizing["max_file_size"],
                small_file_limit_bytes=sizing["small_file_limit"],
                min_fill=sizing.get("min_fill", 0.0),
                insert_split_size=sizing.get("insert_split_size"),
            ),
            files=parquetry.FilesPolicy(
                compression=ARGUMENTS["codec"], row_group_size_bytes=int(ARGUMENTS["row_group_size"])
            ),
        )
        parquetry.create(table, spec)

    def write(
        table: str,
        source: str,
        operation: str,
        options: dict[str, str] | None = None,
        *,
        fresh: bool = False,
        limits: dict[str, Any] | None = None,
        computes: bool = False,
        publish: str = "",
    ) -> dict[str, float]:
        if fresh or not Path(table).exists():
            shutil.rmtree(table, ignore_errors=True)
            create(table, source, limits or {}, publish)
        publishing.clear()
        getattr(parquetry.open(table), operation)(frame_of(spark, source, computes=computes))
        return {"publishing_cpu_seconds": sum(publishing)}

    def scatter(table: str, source: str, rows_per_file: int) -> None:
        """The input in files of so many rows in their order of arrival."""
        limits = {"small_file_limit": 0, "insert_split_size": rows_per_file}
        write(table, source, "insert", fresh=True, limits=limits)

    def cluster(table: str, layout: str, columns: list[str], target: int) -> dict[str, int]:
        """Apply the policy, which is what a project's ``apply`` records, and pay all of its debt."""
        section = ClusteringSpec(
            plan=PlanPolicy(small_file_limit_bytes=target, target_file_size_bytes=target),
            execution=ExecutionPolicy(strategy=layout, columns=tuple(columns)),
        )
        handle = open_table(open_store(table))
        assert handle.applied is not None
        spec = replace(parquetry.open(table).spec, extra=Extra(clustering=section))
        number = handle.applied.number + 1
        write_applied(handle.store, spec, number=number)
        result = parquetry.open(table).cluster(spark)
        return {"before": result.files_before, "after": result.files_after}

    def paths(table: str) -> dict[str, list[str]]:
        handle = open_table(open_store(table))
        view = handle.view(handle.timeline())
        slices = [part for partition in view.partitions() for part in view.slices(partition)]
        return {"paths": sorted(str(Path(table) / part.path) for part in slices)}

    def query(table: str, where: str) -> dict[str, int]:
        return collected(parquetry.open(table).read(spark, where=where))

    def count(table: str) -> dict[str, int]:
        return {"rows": parquetry.open(table).read(spark).count()}

    def live(table: str) -> dict[str, list[int]]:
        report = parquetry.open(table).inspect()
        return {"sizes": [size for part in report.partitions for size in part.file_sizes_bytes]}

    def fresh(table: str) -> None:
        shutil.rmtree(table, ignore_errors=True)

    serve(
        {
            "write": write, "count": count, "live": live, "fresh": fresh, "scatter": scatter,
            "cluster": cluster, "paths": paths, "query": query,
        }
    )  # fmt: skip


with session_builder(ARGUMENTS) as builder:
    main(builder)
