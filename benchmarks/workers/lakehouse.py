"""Delta Lake or Apache Iceberg on Spark: appends, MERGE, OPTIMIZE or rewrite_data_files; same codec."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from benchmarks.workers.loop import serve
from benchmarks.workers.scanning import collected

ARGUMENTS = json.loads(sys.argv[1])
IS_DELTA = ARGUMENTS["format"] == "delta"
PARTITION = ARGUMENTS.get("partition_by", "y")
ALONE = str(1 << 40)
"""What opening a file is said to cost: every input file is a Spark partition of its own."""


def session() -> Any:
    from pyspark.sql import SparkSession

    maximum = ARGUMENTS["max_file_size"]
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ARGUMENTS["jars"])
        .config("spark.driver.extraClassPath", ARGUMENTS["jars"].replace(",", ":"))
        .config("spark.driver.memory", ARGUMENTS["heap"])
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.hadoop.parquet.compression.codec.zstd.level", ARGUMENTS["level"])
        .config("spark.sql.parquet.compression.codec", ARGUMENTS["codec"])
        .config("spark.hadoop.parquet.block.size", ARGUMENTS["row_group_size"])
    )
    for key, value in json.loads(ARGUMENTS.get("conf", "{}")).items():
        builder = builder.config(key, value)
    if IS_DELTA:
        return (
            builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
            .config("spark.databricks.delta.optimizeWrite.binSize", f"{maximum}b")
            .getOrCreate()
        )
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return (
        builder.config("spark.sql.extensions", extensions)
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", ARGUMENTS["warehouse"])
        .getOrCreate()
    )


def main() -> None:
    spark = session()

    def name(table: str) -> str:
        """How SQL calls the table; Iceberg's lie in the catalogue's warehouse."""
        return f"delta.`{table}`" if IS_DELTA else f"ice.db.{Path(table).name}"

    def read(table: str) -> Any:
        return spark.read.format("delta").load(table) if IS_DELTA else spark.table(name(table))

    def create(table: str, schema: Any, *, distribution: str = "hash") -> None:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
        properties = {
            "format-version": "2",
            "write.target-file-size-bytes": ARGUMENTS["max_file_size"],
            "write.parquet.compression-codec": ARGUMENTS["codec"],
            "write.parquet.compression-level": ARGUMENTS["level"],
            "write.parquet.row-group-size-bytes": ARGUMENTS["row_group_size"],
            "write.merge.mode": "copy-on-write",
            "write.delete.mode": "copy-on-write",
            "write.distribution-mode": distribution,
            "write.spark.fanout.enabled": "true",
        }
        said = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
        partitioned = f" PARTITIONED BY ({PARTITION})" if PARTITION else ""
        tail = "" if IS_DELTA else f" TBLPROPERTIES ({said})"
        spark.sql(f"CREATE TABLE {name(table)} ({columns}) USING {ARGUMENTS['format']}{partitioned}{tail}")

    def append(table: str, frame: Any) -> None:
        if IS_DELTA:
            writer = frame.write.format("delta").mode("append")
            (writer.partitionBy(PARTITION) if PARTITION else writer).save(table)
        else:
            frame.writeTo(name(table)).append()

    def write(
        table: str, source: str, operation: str, options: dict[str, str] | None = None, *, fresh: bool = False
    ) -> None:
        frame = spark.read.parquet(source)
        if fresh:
            clear(table)
            create(table, frame.schema)
        if operation in {"insert", "bulk_insert"}:
            append(table, frame)
            return
        frame.createOrReplaceTempView("s")
        matched = "DELETE" if operation == "delete" else "UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        condition = "" if operation == "delete" else " AND s.ts >= t.ts"
        spark.sql(
            f"MERGE INTO {name(table)} t USING s ON t.k = s.k AND t.y = s.y "
            f"WHEN MATCHED{condition} THEN {matched}"
        )

    def scatter(table: str, source: str, rows_per_file: int) -> None:
        """The input with one small file per input file (and partition)."""
        clear(table)
        spark.conf.set("spark.sql.files.openCostInBytes", ALONE)
        frame = spark.read.parquet(source)
        create(table, frame.schema, distribution="none")
        append(table, frame)
        if not IS_DELTA:
            spark.sql(f"ALTER TABLE {name(table)} SET TBLPROPERTIES ('write.distribution-mode'='hash')")
        spark.conf.unset("spark.sql.files.openCostInBytes")

    def reset(table: str) -> None:
        """An Iceberg table as ``scatter`` left it: its first snapshot."""
        history = f"SELECT snapshot_id FROM {name(table)}.snapshots ORDER BY committed_at"
        first = spark.sql(history).first()[0]
        spark.sql(f"CALL ice.system.rollback_to_snapshot('db.{Path(table).name}', {first})").collect()

    def cluster(table: str, layout: str, columns: list[str], target: int) -> None:
        listed = ", ".join(columns)
        if IS_DELTA:
            spark.conf.set("spark.databricks.delta.optimize.maxFileSize", target)
            spark.conf.set("spark.databricks.delta.optimize.minFileSize", target)
            spark.sql(
                f"OPTIMIZE {name(table)}" + ("" if layout == "stitch" else f" ZORDER BY ({listed})")
            ).collect()
            return
        order = f"zorder({listed})" if layout == "zorder" else listed
        strategy = "'binpack'" if layout == "stitch" else f"'sort', sort_order => '{order}'"
        spark.sql(
            f"CALL ice.system.rewrite_data_files(table => 'db.{Path(table).name}', strategy => {strategy}, "
            f"options => map('target-file-size-bytes', '{target}', 'rewrite-all', 'true'))"
        ).collect()

    def paths(table: str) -> dict[str, list[str]]:
        if IS_DELTA:
            found = read(table).inputFiles()
        else:
            found = [row[0] for row in spark.sql(f"SELECT file_path FROM {name(table)}.files").collect()]
        return {"paths": sorted(unquote(urlparse(each).path) for each in found)}

    def live(table: str) -> dict[str, list[int]]:
        return {"sizes": [Path(path).stat().st_size for path in paths(table)["paths"]]}

    def count(table: str) -> dict[str, int]:
        return {"rows": read(table).count()}

    def query(table: str, where: str) -> dict[str, int]:
        return collected(read(table).where(where))

    def clear(table: str) -> None:
        if not IS_DELTA:
            spark.sql(f"DROP TABLE IF EXISTS {name(table)} PURGE")
        shutil.rmtree(table, ignore_errors=True)

    serve(
        {
            "write": write, "count": count, "live": live, "fresh": clear, "scatter": scatter,
            "reset": reset, "cluster": cluster, "paths": paths, "query": query,
        }
    )  # fmt: skip


main()
