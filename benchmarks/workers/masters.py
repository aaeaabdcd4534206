"""Where a worker's Spark runs: in its own process, or on a standalone cluster that the worker starts.

The cluster's processes are children of the worker, so that what they cost is measured with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.standalone_spark import standalone_spark

EXECUTOR_MEMORY, EXECUTOR_OVERHEAD = "2g", "640m"
"""The second one is for Python, as docs/how-to/scale.md says; engines in the JVM do not need it."""


@contextmanager
def on_cluster(arguments: Mapping[str, str]) -> Iterator[str]:
    """The master: two cores of this process, or two workers of a core each in the folder ``cluster``."""
    if "cluster" not in arguments:
        yield "local[2]"
        return
    with standalone_spark(Path(arguments["cluster"]), memory="3g") as master:
        yield master


def settings_of(arguments: Mapping[str, str]) -> dict[str, str]:
    """What a cluster needs to be told, in every engine alike."""
    if "cluster" not in arguments:
        return {}
    return {
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.executor.memoryOverhead": EXECUTOR_OVERHEAD,
        "spark.executor.cores": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
