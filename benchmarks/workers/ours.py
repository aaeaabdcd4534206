"""parquetry on the Spark that pip resolves to, through its public Python interface."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.workers.loop import serve

ARGUMENTS = json.loads(sys.argv[1])


def main() -> None:
    from pyspark.sql import SparkSession

    import parquetry

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "8g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    default = {name: int(ARGUMENTS[name]) for name in ("max_file_size", "small_file_limit")}

    def create(table: str, source: str, limits: dict[str, Any]) -> None:
        schema = spark.read.parquet(source).schema
        sizing = {**default, **limits}
        spec = parquetry.TableSpec(
            name="t",
            columns=tuple(
                parquetry.Column(
                    name=field.name,
                    type=field.dataType.simpleString(),
                    nullable=field.name not in {"k", "y", "ts"},
                )
                for field in schema.fields
            ),
            record_key=("k",),
            ordering="ts",
            partition_by=("y",),
            sizing=parquetry.SizingPolicy(
                max_file_size_bytes=sizing["max_file_size"],
                small_file_limit_bytes=sizing["small_file_limit"],
                min_fill=sizing.get("min_fill", 0.0),
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
    ) -> None:
        if fresh or not Path(table).exists():
            shutil.rmtree(table, ignore_errors=True)
            create(table, source, limits or {})
        getattr(parquetry.open(table), operation)(spark.read.parquet(source))

    def count(table: str) -> dict[str, int]:
        return {"rows": parquetry.open(table).read(spark).count()}

    def live(table: str) -> dict[str, list[int]]:
        report = parquetry.open(table).inspect()
        return {"sizes": [size for part in report.partitions for size in part.file_sizes_bytes]}

    def fresh(table: str) -> None:
        shutil.rmtree(table, ignore_errors=True)

    serve({"write": write, "count": count, "live": live, "fresh": fresh})


main()
