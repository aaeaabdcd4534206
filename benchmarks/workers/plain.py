"""Plain Spark: partitioned parquet with the same codec; no keys, no sizing, no timeline."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from benchmarks.workers.frames import frame_of
from benchmarks.workers.loop import serve
from benchmarks.workers.scanning import collected

ARGUMENTS = json.loads(sys.argv[1])
PARTITION = ARGUMENTS.get("partition_by", "y")
ALONE = str(1 << 40)
"""What opening a file is said to cost: every input file is a Spark partition of its own."""


def main() -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", ARGUMENTS["heap"])
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.hadoop.parquet.compression.codec.zstd.level", ARGUMENTS["level"])
        .config("spark.sql.parquet.compression.codec", ARGUMENTS["codec"])
        .config("spark.hadoop.parquet.block.size", str(ARGUMENTS["row_group_size"]))
        .getOrCreate()
    )

    def write(
        table: str,
        source: str,
        operation: str,
        options: dict[str, str] | None = None,
        *,
        fresh: bool = False,
        computes: bool = False,
    ) -> None:
        mode = "overwrite" if fresh else "append"
        save(frame_of(spark, source, computes=computes), table, mode)

    def save(frame, table: str, mode: str) -> None:
        writer = frame.write.mode(mode)
        (writer.partitionBy(PARTITION) if PARTITION else writer).parquet(table)

    def scatter(table: str, source: str, rows_per_file: int) -> None:
        """The input with one small file per input file (and partition)."""
        spark.conf.set("spark.sql.files.openCostInBytes", ALONE)
        save(spark.read.parquet(source), table, "overwrite")
        spark.conf.unset("spark.sql.files.openCostInBytes")

    def cluster(table: str, layout: str, columns: list[str], target: int) -> None:
        """The table again beside itself, ordered across files and within them, in its place."""
        size = sum(live(table)["sizes"])
        files = max(1, round(size / target))
        frame = spark.read.parquet(table)
        by = [*([PARTITION] if PARTITION else []), *columns]
        ordered = (
            frame.repartition(files, *by[:1])
            if layout == "stitch"
            else frame.repartitionByRange(files, *by).sortWithinPartitions(*by)
        )
        if layout == "stitch" and not PARTITION:
            ordered = frame.repartition(files)
        save(ordered, f"{table}.new", "overwrite")
        shutil.rmtree(table)
        Path(f"{table}.new").rename(table)

    def paths(table: str) -> dict[str, list[str]]:
        return {"paths": sorted(str(path) for path in Path(table).rglob("*.parquet"))}

    def query(table: str, where: str) -> dict[str, int]:
        return collected(spark.read.parquet(table).where(where))

    def query_paths(paths: list[str], where: str) -> dict[str, int]:
        """Files of any table, read by the same reader."""
        return collected(spark.read.parquet(*paths).where(where))

    def count(table: str) -> dict[str, int]:
        return {"rows": spark.read.parquet(table).count()}

    def live(table: str) -> dict[str, list[int]]:
        return {"sizes": [path.stat().st_size for path in Path(table).rglob("*.parquet")]}

    def fresh(table: str) -> None:
        shutil.rmtree(table, ignore_errors=True)

    serve(
        {
            "write": write, "count": count, "live": live, "fresh": fresh, "scatter": scatter,
            "cluster": cluster, "paths": paths, "query": query, "query_paths": query_paths,
        }
    )  # fmt: skip


main()
