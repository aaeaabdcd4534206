"""Where a worker's Spark runs: in its own process, or on a standalone cluster that the worker starts.

The cluster's processes are children of the worker, so that what they cost is measured with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.standalone_spark import standalone_spark

SETTINGS = {
    "spark.executor.memory": "2g",
    # For Python, as docs/how-to/scale.md says; engines in the JVM do not need it.
    "spark.executor.memoryOverhead": "640m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What a cluster needs to be told, in every engine alike."""


@contextmanager
def session_builder(arguments: Mapping[str, str]) -> Iterator[Any]:
    """For sessions on two cores of this process, or on two workers of a core each in the folder ``cluster``."""
    from pyspark.sql import SparkSession

    if "cluster" not in arguments:
        yield SparkSession.builder.master("local[2]")
        return
    with standalone_spark(Path(arguments["cluster"]), memory="3g") as master:
        builder = SparkSession.builder.master(master)
        for key, value in SETTINGS.items():
            builder = builder.config(key, value)
        yield builder
