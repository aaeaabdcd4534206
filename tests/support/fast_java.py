"""Java that starts fast, for tests that start it often: less compiling, and Spark's classes from an archive.

`python -m tests.support.fast_java` makes the archive (JDK's class data sharing) for the Spark of the interpreter
that runs it. Without one, or with one of another Java, everything works the same, but starts slower.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

# With one compiler alone Java's cache of compiled code is a fifth of its usual size, and would be swept all the time.
_FEW_THREADS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


def archive(prefix: str | Path = sys.prefix) -> Path:
    """Where the archive for the Spark of a virtual environment lies."""
    return Path(prefix) / "spark-classes.jsa"


def java_options(prefix: str | Path = sys.prefix) -> str:
    """What to tell a Java that runs Spark's classes."""
    # The log of sharing would say on stdout that an archive does not fit; then it is just not used.
    shared = f"-XX:SharedArchiveFile={archive(prefix)} -Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
    return f"{_FEW_THREADS} {shared}"


def fast_java(prefix: str | Path = sys.prefix) -> Mapping[str, str]:
    """Environment variables that every spark-submit obeys, the one inside pyspark too."""
    return {"SPARK_SUBMIT_OPTS": java_options(prefix), "SPARK_LAUNCHER_OPTS": _FEW_THREADS}


def make_archive() -> Path:
    """Run a small job that loads what jobs of the tests load, and keep its classes."""
    unfinished = archive().with_suffix(".unfinished")
    options = f"{_FEW_THREADS} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    os.environ |= {"SPARK_SUBMIT_OPTS": options, "SPARK_LAUNCHER_OPTS": _FEW_THREADS}
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.range(100).selectExpr(
            "id", "id % 7 AS k", "cast(id AS string) AS s", "current_date() AS d"
        )
        rows.write.partitionBy("k").parquet(f"{folder}/rows")
        stored = spark.read.parquet(f"{folder}/rows")
        stored.where("id > 5").join(rows, "id").groupBy(rows["s"]).count().orderBy("count").collect()
        stored.select("id").mapInArrow(lambda batches: batches, "id bigint").repartition(3).collect()
    spark.stop()
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    # The archive is written by Java when it ends.
    gateway.proc.wait()
    unfinished.replace(archive())
    return archive()


if __name__ == "__main__":
    if not archive().exists():
        make_archive()
    print(archive())
