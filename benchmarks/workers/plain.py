"""Plain Spark: partitioned parquet with the same codec; no keys, no sizing, no timeline."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from benchmarks.workers.loop import serve

ARGUMENTS = json.loads(sys.argv[1])


def main() -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "8g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.parquet.compression.codec", ARGUMENTS["codec"])
        .config("spark.hadoop.parquet.block.size", str(ARGUMENTS["row_group_size"]))
        .getOrCreate()
    )

    def write(
        table: str, source: str, operation: str, options: dict[str, str] | None = None, *, fresh: bool = False
    ) -> None:
        mode = "overwrite" if fresh else "append"
        spark.read.parquet(source).write.partitionBy("y").mode(mode).parquet(table)

    def count(table: str) -> dict[str, int]:
        return {"rows": spark.read.parquet(table).count()}

    def live(table: str) -> dict[str, list[int]]:
        return {"sizes": [path.stat().st_size for path in Path(table).rglob("*.parquet")]}

    def fresh(table: str) -> None:
        shutil.rmtree(table, ignore_errors=True)

    serve({"write": write, "count": count, "live": live, "fresh": fresh})


main()
