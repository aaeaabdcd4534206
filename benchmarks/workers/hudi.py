"""Apache Hudi on Spark 3.5, version 6 tables, metadata table off; same codec and limits as ours."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.workers.loop import serve
from benchmarks.workers.masters import session_builder
from benchmarks.workers.scanning import collected

ARGUMENTS = json.loads(sys.argv[1])
PARTITION = ARGUMENTS.get("partition_by", "y")
ALONE = str(1 << 40)
"""What opening a file is said to cost: every input file is a Spark partition of its own."""
BINARY_COPY = "org.apache.hudi.client.clustering.run.strategy.SparkBinaryCopyClusteringExecutionStrategy"


def main(builder: Any) -> None:
    for key, value in json.loads(ARGUMENTS.get("conf", "{}")).items():
        builder = builder.config(key, value)
    spark = (
        builder.config("spark.jars", ARGUMENTS["jar"])
        .config("spark.driver.memory", ARGUMENTS["heap"])
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.hadoop.parquet.compression.codec.zstd.level", ARGUMENTS["level"])
        .getOrCreate()
    )
    maximum, small = int(ARGUMENTS["max_file_size"]), int(ARGUMENTS["small_file_limit"])
    common = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": PARTITION,
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
    if not PARTITION:
        generator = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        common["hoodie.datasource.write.keygenerator.class"] = generator

    def write(
        table: str, source: str, operation: str, options: dict[str, str] | None = None, *, fresh: bool = False
    ) -> None:
        frame = spark.read.parquet(source)
        writer = frame.write.format("hudi").options(**{**common, **(options or {})})
        writer.option("hoodie.datasource.write.operation", operation).mode(
            "overwrite" if fresh else "append"
        ).save(table)

    def read(table: str):
        return spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(table)

    def count(table: str) -> dict[str, int]:
        return {"rows": read(table).count()}

    def paths(table: str) -> dict[str, list[str]]:
        names = {row[0] for row in read(table).select("_hoodie_file_name").distinct().collect()}
        return {"paths": sorted(str(path) for path in Path(table).rglob("*.parquet") if path.name in names)}

    def live(table: str) -> dict[str, list[int]]:
        return {"sizes": [Path(path).stat().st_size for path in paths(table)["paths"]]}

    def scatter(table: str, source: str, rows_per_file: int) -> None:
        """The input with one small file per input file (and partition)."""
        spark.conf.set("spark.sql.files.openCostInBytes", ALONE)
        options = {"hoodie.bulkinsert.sort.mode": "NONE", "hoodie.bulkinsert.shuffle.parallelism": "0"}
        write(table, source, "bulk_insert", options, fresh=True)
        spark.conf.unset("spark.sql.files.openCostInBytes")

    def cluster(table: str, layout: str, columns: list[str], target: int) -> None:
        prefixes = ("hoodie.metadata", "hoodie.write", "hoodie.embed", "hoodie.parquet", "hoodie.bulkinsert")
        options = {key: value for key, value in common.items() if key.startswith(prefixes)} | {
            "hoodie.clustering.plan.strategy.target.file.max.bytes": str(target),
            "hoodie.clustering.plan.strategy.small.file.limit": str(4 * target),
            "hoodie.parquet.max.file.size": str(target),
        }
        if layout == "stitch":
            options["hoodie.clustering.execution.strategy.class"] = BINARY_COPY
        order = "" if layout == "stitch" else f", order => '{','.join(columns)}'"
        strategy = ", order_strategy => 'zorder'" if layout == "zorder" else ""
        said = ",".join(f"{key}={value}" for key, value in options.items())
        for key in ("hoodie.metadata.enable", "hoodie.write.table.version", "hoodie.write.auto.upgrade"):
            spark.sql(f"SET {key}={common[key]}")
        spark.sql(
            f"CALL run_clustering(path => '{table}', op => 'scheduleAndExecute'{order}{strategy}, options => '{said}')"
        ).collect()

    def query(table: str, where: str) -> dict[str, int]:
        return collected(read(table).where(where))

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
