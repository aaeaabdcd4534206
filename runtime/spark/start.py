"""A Spark session for a job, or a clear word about what is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from parquetry.runtime.errors import SparkStartError
from parquetry.runtime.java import find_java
from parquetry.runtime.job import SparkSettings, resolve_environment

_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


def start_session(
    settings: SparkSettings,
    *,
    name: str,
    packages: Iterable[str] = (),
    launched_by_submit: bool | None = None,
) -> SparkSession:
    """The session that is running, or a new one with ``settings`` and ``packages``.

    Under spark-submit the master is the one that was given there and the JVM is running already.
    Raises MissingJavaError when a JVM would be needed and there is none that fits.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ if launched_by_submit is None else launched_by_submit
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if not submitted:
        find_java()
        builder = builder.master(settings.master or "local[*]")
    options = _DEFAULTS | {key: str(value) for key, value in resolve_environment(settings.conf).items()}
    wanted = dict.fromkeys((*settings.packages, *packages))
    if wanted:
        given = [p for p in options.get("spark.jars.packages", "").split(",") if p]
        options["spark.jars.packages"] = ",".join(dict.fromkeys((*given, *wanted)))
    for key, value in options.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkStartError(_why_not(options)) from error
    session.sparkContext.setLogLevel(options.get("spark.log.level", "ERROR"))
    return session


def _why_not(options: dict[str, str]) -> str:
    packages = options.get("spark.jars.packages")
    if not packages:
        return "Spark did not start; its own words above say why: correct the target's spark settings"
    return (
        f"Spark did not start; its own words above say why. If it could not find {packages}: name a version "
        "that the repository has under spark.conf of the target, as spark.jars.packages"
    )
