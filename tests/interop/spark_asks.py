"""Queries of a small partitioned table on the Spark of this interpreter, recorded in its event log.

``python spark_asks.py TABLE LOGS CODEC QUERIES`` writes the table, restarts the session with event logs, and
asks the SQL texts of the JSON file QUERIES, in which ``orders`` is the table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "Europe/Rome",
    "spark.sql.adaptive.enabled": "true",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "true",
    "spark.eventLog.rolling.enabled": "true",
}


def main(table: str, logs: str, codec: str, queries: str) -> None:
    builder = SparkSession.builder.master("local[2]").appName("asks")
    for name, value in {**SETTINGS, "spark.eventLog.dir": f"file://{logs}"}.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.eventLog.compression.codec", codec).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.range(1000).selectExpr(
        "id",
        "element_at(array('Bergamo', 'Roma', 'L\\'Aquila', null), int(id % 4) + 1) as city",
        "date_add(date '2024-01-01', int(id % 50)) as day",
        "timestamp_seconds(1704067200 + id * 3600) as at",
        "double(id) / 8 as amount",
        "cast(id % 100 as decimal(10, 2)) as price",
        "int(id % 10) as items",
        "named_struct('code', concat('c', id % 7)) as detail",
    )
    rows.write.partitionBy("city").parquet(table)
    spark.read.parquet(table).createOrReplaceTempView("orders")
    for sql in json.loads(Path(queries).read_text(encoding="utf-8")):
        spark.sql(sql).collect()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
