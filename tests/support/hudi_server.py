"""Real Apache Hudi behind a pipe: runs in the Spark 3.5 environment with one bundle, one JSON object per line.

Request `{"do": NAME, ...}`, answer `{"ok": VALUE}` or `{"error": CLASS, "message": TEXT}`. Rows travel as
parquet files named in the request. Started by `tests.support.hudi_spark`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession


class Server:
    def __init__(self, jars: str, version: str, settings: dict[str, str]) -> None:
        builder = (
            SparkSession.builder.master("local[2]")
            .appName(f"hudi {version}")
            .config("spark.jars", jars)
            .config("spark.driver.memory", "1500m")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.default.parallelism", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
            .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
            .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
            .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
            .config("spark.sql.warehouse.dir", os.path.join(os.getcwd(), "warehouse"))
        )
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def hello(self) -> dict[str, str]:
        return {"spark": self.spark.version, "python": sys.version.split()[0]}

    def write(self, path: str, rows: str, mode: str, options: dict[str, str]) -> None:
        frame = self.spark.read.parquet(rows)
        frame.coalesce(1).write.format("hudi").options(**options).mode(mode).save(path)

    def read(self, path: str, out: str, options: dict[str, str], where: str | None, form: str) -> None:
        frame = self.spark.read.format(form).options(**options).load(path)
        self._store(frame if where is None else frame.where(where), out)

    def sql(self, text: str, conf: dict[str, str]) -> list[dict[str, Any]]:
        before = {key: self.spark.conf.get(key, None) for key in conf}
        try:
            for key, value in conf.items():
                self.spark.conf.set(key, value)
            found = [row.asDict(recursive=True) for row in self.spark.sql(text).collect()]
        finally:
            for key, old in before.items():
                self.spark.conf.unset(key) if old is None else self.spark.conf.set(key, old)
        return found

    def hive_sync(self, options: dict[str, str]) -> None:
        hudi = self.spark._jvm.org.apache.hudi
        properties = hudi.common.config.TypedProperties()
        for key, value in options.items():
            properties.setProperty(key, value)
        tool = hudi.hive.HiveSyncTool(properties, self.spark.sparkContext._jsc.hadoopConfiguration())
        tool.syncHoodieTable()
        tool.close()

    def hadoop(self, key: str, value: str | None) -> None:
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        conf.unset(key) if value is None else conf.set(key, value)

    @staticmethod
    def _store(frame: DataFrame, out: str) -> None:
        batches = frame._collect_as_arrow()
        if batches:
            table = pa.Table.from_batches(batches)
        else:
            from pyspark.sql.pandas.types import to_arrow_schema

            table = to_arrow_schema(frame.schema).empty_table()
        pq.write_table(table, out)


def main() -> None:
    jars, version, settings = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = Server(jars, version, json.loads(settings))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": getattr(server, request.pop("do"))(**request)}
        except Exception as problem:
            kind = type(problem).__name__
            told = [
                line for line in str(problem).splitlines() if not line.lstrip().startswith(("at ", "..."))
            ]
            answer = {"error": kind, "message": "\n".join(dict.fromkeys(told))[:6000]}
            traceback.print_exc()
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
