"""The start of a Spark session for a job, or an error that names what is missing."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from parquetry.message import Message
from parquetry.runtime.errors import SparkEndedError, SparkStartError
from parquetry.runtime.java import find_java
from parquetry.runtime.quoting import quoted_library_text
from parquetry.runtime.redaction import secret_options
from parquetry.runtime.spark.session.connect import is_connect
from parquetry.runtime.spark.session.jvm import start_jvm
from parquetry.runtime.spark_environment import UTF8_LOCALE, selected_variables
from parquetry.runtime.spark_log import NO_RULES, LogRules, add_rules, current_rules, log_hint
from parquetry.runtime.spec.job import SparkSettings, resolve_environment
from parquetry.runtime.worker_python import PYSPARK_PYTHON, check_worker_python

_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Workers start with `python -m`, which would import modules from their folder, the project.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    "spark.executorEnv.LC_ALL": UTF8_LOCALE,
}

_LOCAL_MASTER: Final = re.compile(r"local(\[[^\]]*\])?")

_LOCAL_ONLY: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
}
"""Settings without a cluster: Spark listens on loopback and answers only processes with its secret.

Otherwise Java would deserialize anything that somebody sends to the driver's port. For local masters Spark
creates the secret (SecurityManager.initializeAuth); in a cluster, the operator provides one.
"""

_SILENT: Final = {"spark.log.level": "OFF", "spark.executor.syncLogLevel.enabled": "true"}
"""Settings that turn off logs that are not ours: the driver's and, after it, the executors'."""

_QUERY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""The loggers to which PySpark 4 writes the whole trace of a failed query as JSON."""

_REDACTED: Final = "spark.redaction.regex"
_ALWAYS_REDACTED: Final = "(?i)secret|password|token|access[.]?key"
"""Spark's own default."""

_STARTED_WITH: Final[dict[int, Mapping[str, str]]] = {}
"""The environment variables of each JVM that this process started, by the identity of its gateway."""

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
"""Warnings and errors as Spark prints them, except those about every start on every machine."""


def start_session(
    settings: SparkSettings, *, name: str, log: Path | None = None, rules: LogRules = NO_RULES
) -> SparkSession:
    """Return the running session, or start one with ``settings``.

    Under spark-submit the JVM is running already, with the master that was given there. If the environment
    names a Spark Connect server (``SPARK_REMOTE``), the session is a client of it.

    Args:
        settings: The target's Spark settings.
        name: The name of the application.
        log: The file for the output of a JVM started here, with that of its workers and PySpark; None for
            stderr.
        rules: The rules that decide which output is written. If the rows are personal, the logs of
            spark-submit's JVM are turned off.

    Raises:
        MissingJavaError: If a JVM is needed and no suitable Java is installed.
        SparkStartError: If Spark does not start, or the Spark Connect server does not answer.
        SparkEndedError: If the JVM that was started here has ended.

    """
    if has_ended():
        raise ended_error()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    running = SparkSession.getActiveSession() or _session_of_other_thread()
    if running is not None:
        _apply_log_rules(running, rules, submitted=submitted)
        _send_variables(running, settings.environment)
        _use_own_pool(running, settings, name)
        return running
    if "SPARK_REMOTE" in os.environ:
        return _connected(settings)
    os.environ.setdefault(PYSPARK_PYTHON, sys.executable)
    options = {"spark.app.name": name}
    if not submitted:
        find_java()
        options["spark.master"] = settings.master or "local[*]"
        check_worker_python(options["spark.master"])
        if _LOCAL_MASTER.fullmatch(options["spark.master"]):
            options |= _LOCAL_ONLY
    options |= _DEFAULTS | {key: str(value) for key, value in resolve_environment(settings.conf).items()}
    if settings.packages:
        options["spark.jars.packages"] = ",".join(settings.packages)
    options |= _redaction(settings)
    if rules.personal and submitted:
        options |= _SILENT
    with _quiet_start({} if submitted else options) as quiet:
        try:
            if not submitted and SparkContext._gateway is None:  # noqa: SLF001 - nothing public tells
                _start_jvm({**options, **quiet}, settings.environment, log, LogRules(secrets=rules.secrets))
            session = SparkSession.builder.config(map={**options, **quiet}).getOrCreate()
        except PySparkRuntimeError as error:
            raise SparkStartError(_start_error_text(options)) from error
    session.sparkContext.setLogLevel(options.get("spark.log.level", "ERROR"))
    _apply_log_rules(session, rules, submitted=submitted)
    _send_variables(session, settings.environment)
    _use_own_pool(session, settings, name)
    return session


def _session_of_other_thread() -> SparkSession | None:
    """Return the session that another thread of this process started, as it is active only there."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - nothing public tells
    session: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    return session if context is not None and context._jsc is not None else None  # noqa: SLF001 - see above


def _use_own_pool(session: SparkSession, settings: SparkSettings, name: str) -> None:
    """Put the jobs of this thread into a pool of their own if the scheduler shares cores among pools."""
    if settings.conf.get("spark.scheduler.mode") == "FAIR" and not is_connect(session):
        session.sparkContext.setLocalProperty("spark.scheduler.pool", name)


def cancel_jobs() -> None:
    """Cancel the jobs of all threads in the session of this process, so that their threads end."""
    context = SparkContext._active_spark_context  # noqa: SLF001 - nothing public tells
    if context is not None:
        with suppress(Exception):  # the JVM may have ended
            context.cancelAllJobs()


def _connected(settings: SparkSettings) -> SparkSession:
    """Return a session of the Spark Connect server that the environment names, whose settings are fixed."""
    given = [*settings.conf, *(("packages",) if settings.packages else ())]
    if settings.master or given:
        raise SparkStartError(
            "SPARK_REMOTE names a Spark Connect server, which the target's spark settings cannot "
            "change ({settings}); unset SPARK_REMOTE, or drop them",
            settings=["master"] * bool(settings.master) + given,
        )
    try:
        return SparkSession.builder.getOrCreate()
    except ImportError as error:
        raise SparkStartError(
            "SPARK_REMOTE names a Spark Connect server, and a package for its clients is missing "
            "({reason}); install it: pip install 'pyspark[connect]'",
            reason=quoted_library_text(str(error).partition("\n")[0]),
        ) from error
    except PySparkException as error:
        raise SparkStartError(
            "the Spark Connect server that SPARK_REMOTE names does not answer ({reason}); start it, or "
            "correct the address",
            reason=quoted_library_text(str(error).partition("\n")[0]),
        ) from error


def _apply_log_rules(session: SparkSession, rules: LogRules, *, submitted: bool) -> None:
    """Apply the rules to Spark's output from now on. Until now Spark has seen no row of the job."""
    add_rules(rules)
    if rules.personal and submitted and not is_connect(session):
        # The log belongs to somebody else. Executors follow the driver's level.
        session.sparkContext.setLogLevel("OFF")


def _redaction(settings: SparkSettings) -> Mapping[str, str]:
    """Return the setting that masks secret options in Spark's user interface, event log and plans."""
    names = secret_options(settings.conf)
    if not names or _REDACTED in settings.conf:
        return {}
    return {_REDACTED: "|".join((_ALWAYS_REDACTED, *(re.escape(name) for name in sorted(names))))}


def _start_jvm(
    options: Mapping[str, str], environment: Iterable[str], log: Path | None, rules: LogRules
) -> None:
    """Start the JVM of this process, with the file as its stdout and stderr.

    Rows that it shuffles and spills are in a folder that only this user may enter, as Spark itself lets
    everybody read them. The JVM removes the folder when it ends. The settings or the environment may name
    another folder.
    """
    if log is not None:
        _log_into(log)
    folder = tempfile.mkdtemp(prefix="parquetry-spark-")
    try:
        gateway = start_jvm(options, local_folder=folder, environment=environment, log=log, rules=rules)
        gateway.jvm.java.io.File(folder).deleteOnExit()
    except BaseException:
        with suppress(OSError):
            Path(folder).rmdir()
        raise
    _STARTED_WITH[id(gateway)] = selected_variables(environment)
    SparkContext(conf=SparkConf().setAll([*options.items()]), gateway=gateway)


def _send_variables(session: SparkSession, names: Iterable[str]) -> None:
    """Give this machine's workers the variables that the JVM was not started with, such as a table's key.

    A JVM that somebody else started, or that of a cluster, keeps the environment that it has.
    """
    started = _STARTED_WITH.get(id(SparkContext._gateway))  # noqa: SLF001 - nothing public tells
    if started is None or is_connect(session) or not session.sparkContext.master.startswith("local"):
        return
    wanted = selected_variables(names).items()
    session.sparkContext.environment.update({n: value for n, value in wanted if started.get(n) != value})


def _log_into(log: Path) -> None:
    """Write the Python logs of PySpark and Py4J to the file only."""
    loggers = [logging.getLogger("py4j")]
    with suppress(ImportError):  # Spark 3.5 has none
        from pyspark.logger import PySparkLogger  # noqa: PLC0415

        loggers += [PySparkLogger.getLogger(name) for name in _QUERY_LOGGERS]
    handler = _MaskingHandler(log, delay=True, encoding="utf-8")
    handler.terminator = ""
    for logger in loggers:
        for other in [*logger.handlers]:
            logger.removeHandler(other)
        logger.addHandler(handler)
        logger.propagate = False
    root = logging.getLogger()
    if not root.handlers and logging.lastResort is not None:
        # Py4J logs a trace there when it is interrupted; our own warnings stay on stderr.
        root.addHandler(handler)
        logging.getLogger("parquetry").addHandler(logging.lastResort)


class _MaskingHandler(logging.FileHandler):
    """A handler that writes the parts of a record that the rules of this process's JVM allow.

    PySpark sets formatters of its own.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the allowed lines of the record with their line ends, or an empty text."""
        return current_rules().shown(f"{super().format(record)}\n")


def has_ended(*, patience_seconds: float = 0.0) -> bool:
    """Return whether the JVM that this process started has ended, as after a kill or a crash.

    ``patience_seconds`` is the time to wait for its end.
    """
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing public tells
    if process is None:
        return False
    try:
        process.wait(timeout=patience_seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def ended_error() -> SparkEndedError:
    """Return the error for a JVM that has ended."""
    return SparkEndedError(
        "Spark's JVM ended before its work was done: {reason}; if it was killed for its memory, give "
        "it less work or more memory (spark.driver.memory); run again, which rolls back what is "
        "unfinished",
        reason=log_hint(),
    )


@contextmanager
def _quiet_start(options: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Yield settings that silence a JVM that starts, or no settings if the user has configured logging.

    With them, a JVM that starts without an error logs nothing. The file that they name is read when the JVM
    starts, and deleted at the end of the block.
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


def _start_error_text(options: dict[str, str]) -> Message:
    """Return the message for a JVM that did not start."""
    packages = options.get("spark.jars.packages")
    if not packages:
        return Message(
            "Spark did not start: {reason}; correct the target's spark settings", reason=log_hint()
        )
    return Message(
        "Spark did not start: {reason}. If it could not find {packages}: name a version that the "
        "repository has under spark.packages of the target",
        reason=log_hint(),
        packages=packages,
    )
