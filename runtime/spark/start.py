"""A Spark session for a job, or a clear word about what is missing."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

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

_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"

_LOGGING: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = error
"""
"""Warnings and errors as Spark prints them, but for those about every start on every machine."""


def start_session(settings: SparkSettings, *, name: str) -> SparkSession:
    """The session that is running, or a new one with ``settings``.

    Under spark-submit the master is the one that was given there and the JVM is running already.
    Raises MissingJavaError when a JVM would be needed and there is none that fits.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if not submitted:
        find_java()
        builder = builder.master(settings.master or "local[*]")
    options = _DEFAULTS | {key: str(value) for key, value in resolve_environment(settings.conf).items()}
    if settings.packages:
        given = [p for p in options.get("spark.jars.packages", "").split(",") if p]
        options["spark.jars.packages"] = ",".join(dict.fromkeys((*given, *settings.packages)))
    with _quiet_start({} if submitted else options) as quiet:
        for key, value in {**options, **quiet}.items():
            builder = builder.config(key, value)
        try:
            session = builder.getOrCreate()
        except PySparkRuntimeError as error:
            raise SparkStartError(_why_not(options)) from error
    session.sparkContext.setLogLevel(options.get("spark.log.level", "ERROR"))
    return session


@contextmanager
def _quiet_start(options: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Settings under which a JVM says nothing when it starts well; none where logging is configured.

    The file they name is read when the JVM starts, and goes with the block.
    """
    given = options.get(_JVM_OPTIONS, "")
    folders = [
        os.environ.get("SPARK_CONF_DIR"),
        os.environ.get("SPARK_HOME", "") and f"{os.environ['SPARK_HOME']}/conf",
    ]
    configured = any(folder and (Path(folder) / "log4j2.properties").exists() for folder in folders)
    if not options or configured or "log4j" in given:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="parquetry-") as folder:
        file = Path(folder) / "log4j2.properties"
        file.write_text(_LOGGING)
        yield {_JVM_OPTIONS: f"{given} -Dlog4j2.configurationFile={file.as_uri()}".strip()}


def _why_not(options: dict[str, str]) -> str:
    packages = options.get("spark.jars.packages")
    if not packages:
        return "Spark did not start; its own words above say why: correct the target's spark settings"
    return (
        f"Spark did not start; its own words above say why. If it could not find {packages}: name a version "
        "that the repository has under spark.conf of the target, as spark.jars.packages"
    )
