"""Apache Hudi on Spark 3.5, version 6 tables, metadata table off; same codec and limits as ours."""

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
        .config("spark.jars", ARGUMENTS["jar"])
        .config("spark.driver.memory", "8g")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    maximum, small = int(ARGUMENTS["max_file_size"]), int(ARGUMENTS["small_file_limit"])
    common = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "y",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.upsert.shuffle.parallelism": "4",
        "hoodie.insert.shuffle.parallelism": "4",
        "hoodie.bulkinsert.shuffle.parallelism": "4",
        "hoodie.delete.shuffle.parallelism": "4",
        "hoodie.parquet.max.file.size": str(maximum),
        "hoodie.parquet.small.file.limit": str(small),
        "hoodie.parquet.compression.codec": ARGUMENTS["codec"],
        "hoodie.parquet.block.size": str(ARGUMENTS["row_group_size"]),
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.table.version": "6",
        "hoodie.write.auto.upgrade": "false",
    }

    def write(
        table: str, source: str, operation: str, options: dict[str, str] | None = None, *, fresh: bool = False
    ) -> None:
        frame = spark.read.parquet(source)
        writer = frame.write.format("hudi").options(**{**common, **(options or {})})
        writer.option("hoodie.datasource.write.operation", operation).mode(
            "overwrite" if fresh else "append"
        ).save(table)

    def count(table: str) -> dict[str, int]:
        frame = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(table)
        return {"rows": frame.count()}

    def live(table: str) -> dict[str, list[str]]:
        frame = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(table)
        names = [row[0] for row in frame.select("_hoodie_file_name").distinct().collect()]
        sizes = {path.name: path.stat().st_size for path in Path(table).rglob("*.parquet")}
        return {"sizes": [sizes[name] for name in names]}

    def fresh(table: str) -> None:
        shutil.rmtree(table, ignore_errors=True)

    serve({"write": write, "count": count, "live": live, "fresh": fresh})


main()
