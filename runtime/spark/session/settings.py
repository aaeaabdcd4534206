"""What parquetry needs to know and to set of a Spark session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.message import Message, Value
from parquetry.runtime.errors import (
    CorruptTableError,
    InvalidDataError,
    NotFoundError,
    UnsupportedSessionError,
)
from parquetry.runtime.quoting import of_library
from parquetry.runtime.spark.session.connect import is_connect
from parquetry.runtime.spark.session.lost_tasks import lost_task
from parquetry.runtime.task_failures import raised_in_task

ARROW_BATCH_BYTES = 4 * 1024 * 1024
_MIB, _GIB = 1024**2, 1024**3
_TASK_BYTES_LEAST, _TASK_BYTES_MOST = 64 * _MIB, 512 * _MIB
_PYTHON_BYTES, _ADDRESSES_BYTES = 128 * _MIB, 1536 * _MIB
_ROWS_BY_BYTES, _ROWS_OF_ANY_SIZE = 16_384, 64
_NO_LIMIT = 2**31 - 1
_FILES_OF_ONE_TASK = 32
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTING_TASKS_OF_A_CORE = 4
_GONE = re.compile(
    r"PATH_NOT_FOUND|FILE_NOT_EXIST|SparkFileNotFoundException|java\.io\.FileNotFoundException"
)
_NO_FILE = re.compile(
    r"(?<=FILE_NOT_EXIST\] ).*?File does not exist|(?<=PATH_NOT_FOUND\] ).*?(?=\. SQLSTATE|$)"
)
_FILE_GONE = re.compile(r"(File |Path does not exist: )?(\w+:/.*?)( does not exist)?")
_LONGEST_LINE = 10_000
_SHUFFLE_PARTITIONS = 200
_MOST_CORES = 65_536
_PARALLELISM: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()
"""Of sessions of Spark Connect: nothing but a job tells, and it is asked for several times in a write."""

_NO_PACKAGE = re.compile(r"ModuleNotFoundError: No module named '(?P<module>parquetry[\w.]*)'")
_CUT = re.compile(r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|Could not read footer")
_FILE_READ = re.compile(r"(?:reading file|footer for file|file:) *'?(?P<file>[^\s',]{1,4096}\.parquet)")
_DATA_FAULTS = re.compile(
    r"ArithmeticException|ArrayIndexOutOfBoundsException|NumberFormatException|DateTimeException"
    r"|ParseException|AnalysisException|SparkRuntimeException|SparkUpgradeException"
    r"|IllegalArgumentException|BadRecordException"
)
_CALLED = re.compile(r"^An error occurred while calling .*\n: ")
_SQL_STATE = re.compile(r"SQLSTATE: (?P<kind>\w\w)")
_DATA_STATES = frozenset({"21", "22"})
"""Classes of SQL's states: cardinality violation and data exception."""


def spark_version(spark: SparkSession) -> tuple[int, int]:
    """Major and minor number, such as ``(3, 5)``."""
    major, minor = spark.version.split(".")[:2]
    return int(major), int(minor)


def is_local(spark: SparkSession) -> bool:
    """True where driver and tasks are one machine and one process tree (``local``, ``local[n]``).

    A Spark Connect server may be on another machine than this process, whatever its own master is.
    """
    if is_connect(spark):
        return False
    return re.fullmatch(r"local(\[.*\])?", spark.sparkContext.master) is not None


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at the same time."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    if spark not in _PARALLELISM:
        numbers = spark.range(_MOST_CORES).select(F.spark_partition_id().alias("partition"))
        (row,) = numbers.agg(F.max("partition").alias("last")).collect()
        _PARALLELISM[spark] = int(row["last"]) + 1
    return _PARALLELISM[spark]


def reachable_parallelism(spark: SparkSession) -> int:
    """How many tasks can run at the same time; under dynamic allocation once executors have come for them.

    Spark starts executors for the tasks that wait, so a job of few tasks gets few of them.
    """
    now = parallelism(spark)
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") != "true" or is_local(spark):
        return now
    given = spark.conf.get("spark.sql.shuffle.partitions", None) or ""
    wanted = int(given) if given.isdecimal() else _SHUFFLE_PARTITIONS
    executors = spark.conf.get("spark.dynamicAllocation.maxExecutors", None) or ""
    cores = int(spark.conf.get("spark.executor.cores", None) or 1)
    return max(now, min(wanted, int(executors) * cores) if executors.isdecimal() else wanted)


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """The session with ``settings`` in force; what the user had set is back afterwards.

    Threads of one session may write at the same time. As long as one of them needs a setting it stays, and
    the last of them puts back what the user had set.
    """
    with ExitStack() as stack:
        for key, value in settings.items():
            stack.enter_context(_setting(spark, key, value))
        yield


@contextmanager
def _setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    turn = object()
    with _SETTINGS:
        place = (_identity(spark), key)
        before = spark.conf.get(key, None)
        spark.conf.set(key, value)
        values = _IN_FORCE.setdefault(place, _InForce(before=before)).values
        values[turn] = value
    try:
        yield
    finally:
        with _SETTINGS:
            del values[turn]
            upheld = next(reversed(values.values()), None)
            back = _IN_FORCE.pop(place).before if upheld is None else upheld
            if back is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, back)


@dataclass(frozen=True, slots=True, kw_only=True)
class _InForce:
    """A setting of a session: what the user had set, and the values that are needed, the newest last."""

    before: str | None
    values: dict[object, str] = field(default_factory=dict)


_SETTINGS: Final = Lock()
_IN_FORCE: Final[dict[tuple[object, str], _InForce]] = {}


def _identity(spark: SparkSession) -> object:
    """The session itself: several objects of PySpark may be one session of the JVM."""
    of_jvm = getattr(spark, "_jsparkSession", None)
    return spark if of_jvm is None else of_jvm.sessionUUID()


TYPE_SETTINGS: Mapping[str, str] = {
    # A table's timestamps are points in time, whatever the bare word means in the session.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}

EXPRESSION_SETTINGS: Mapping[str, str] = {
    **TYPE_SETTINGS,
    # The text of a key, and what a generated column says, must not depend on who runs the write.
    "spark.sql.session.timeZone": "UTC",
    # Hudi's text of a decimal is java.math.BigDecimal.toString, which is what a cast gives here.
    "spark.sql.ansi.enabled": "false",
}


def load_files(spark: SparkSession, reader: DataFrameReader, uris: Sequence[str]) -> DataFrame:
    """The frame of exactly these files.

    Spark looks whether each is there, and by default starts a task for each as soon as there are 33.
    """
    settings = {}
    if len(uris) > _FILES_OF_ONE_TASK:
        tasks = _LISTING_TASKS_OF_A_CORE * parallelism(spark)
        settings[_LISTING_TASKS] = str(min(tasks, int(spark.conf.get(_LISTING_TASKS) or tasks)))
    with session_settings(spark, settings):
        return reader.load(list(uris))


def arrow_settings(spark: SparkSession, rows: int | None) -> dict[str, str]:
    """Settings that cut Arrow batches after so many ``rows``, for those of which somebody knows the size.

    With None Spark 4 cuts at 8 MiB, for which it adds up all columns after each row; before, at 64 rows.
    """
    cuts_by_bytes = spark_version(spark) >= (4, 0)
    most_rows = rows or (_ROWS_BY_BYTES if cuts_by_bytes else _ROWS_OF_ANY_SIZE)
    settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(most_rows)}
    if cuts_by_bytes:
        most_bytes = _NO_LIMIT if rows else 2 * ARROW_BATCH_BYTES
        settings["spark.sql.execution.arrow.maxBytesPerBatch"] = str(most_bytes)
    return settings


def task_memory_bytes(spark: SparkSession) -> int:
    """What one task may take for its rows: a constant of the application.

    Where ``spark.executor.pyspark.memory`` is set, a task's share of it by cores, however much that is.
    Else half a GiB on one machine, and on a cluster the share of the executor's memory overhead, at most
    half a GiB. Python itself has room beside it.
    """

    def setting(name: str) -> str | None:
        value: str | None = spark.conf.get(f"spark.executor.{name}", None)
        return value

    local = is_local(spark)
    cores = parallelism(spark) if local else int(setting("cores") or 1)
    if python := _size_bytes(setting("pyspark.memory"), 0):
        # Spark bounds the address space of a worker by it, much of which is reserved and never used.
        return max(_TASK_BYTES_LEAST, python // cores - _ADDRESSES_BYTES)
    if local:
        return _TASK_BYTES_MOST
    executor = _size_bytes(setting("memory"), _GIB)
    factor = float(setting("memoryOverheadFactor") or 0.1)
    overhead = _size_bytes(setting("memoryOverhead"), max(384 * _MIB, int(executor * factor)))
    return max(_TASK_BYTES_LEAST, min(_TASK_BYTES_MOST, overhead // cores - _PYTHON_BYTES))


def _size_bytes(text: str | None, default: int) -> int:
    """A size as Spark's settings spell it; a bare number counts MiB."""
    if text is None:
        return default
    found = re.fullmatch(r"(\d+)(?:([kmgtp])b?|(b))?", text.strip().lower())
    if found is None:
        return default
    unit: int = 1024 ** "bkmgtp".index(found[2] or found[3] or "m")
    return int(found[1]) * unit


@contextmanager
def failures_translated(what: str, *, of_table: bool = False) -> Iterator[None]:
    """Failures inside Spark as ours: an error that a task raised comes back with its own class.

    Faults in the rows or in the query that makes them become :class:`InvalidDataError`, which
    names ``what``, files that are gone NotFoundError, and cut ones ``of_table`` CorruptTableError; anything
    else passes as it is.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise _translated(error, what, of_table=of_table) from error


def _missing_package(text: str) -> Exception | None:
    missing = _NO_PACKAGE.search(text)
    if missing is None:
        return None
    return UnsupportedSessionError(
        f"Spark's workers have no {missing['module']}; install this version of parquetry where they run, or "
        "send it: spark.addArtifacts(ZIP, pyfile=True) on Spark Connect, --py-files ZIP with spark-submit"
    )


def _translated(error: Exception, what: str, *, of_table: bool) -> Exception:
    text = str(error)
    if ours := raised_in_task(text) or _missing_package(text) or lost_task(text, what):
        return ours
    if _GONE.search(text):
        line = next((line for line in text.splitlines() if _GONE.search(line)), text)
        found = _NO_FILE.search(line[:_LONGEST_LINE])
        said = " ".join((found[0] if found else line).split())
        gone = _FILE_GONE.fullmatch(said)
        told = Message(gone[1] or "", Value.uri(gone[2]), gone[3] or "") if gone else of_library(said)
        return NotFoundError(Message(what, ": ", told, "; run again, and read what is there now"))
    if of_table and _CUT.search(text):
        named = _FILE_READ.search(text)
        file = Value.uri(named["file"]) if named else "a file"
        return CorruptTableError(
            Message(what, ": ", file, " is not a whole parquet file; restore it from a copy")
        )
    message = _CALLED.sub("", text.strip()).partition("\n")[0]
    if "java.lang.StackOverflowError" in message:
        return InvalidDataError(
            Message(what, ": the SQL is nested too deeply for Spark; compute it in steps")
        )
    state = _SQL_STATE.search(text)
    blames_data = state is not None and state["kind"] in _DATA_STATES
    if blames_data or _DATA_FAULTS.search(type(error).__name__) or _DATA_FAULTS.search(message):
        first = " ".join(message.split())
        return InvalidDataError(
            Message(
                what,
                ": Spark cannot compute the rows: ",
                of_library(first),
                "; correct the query or the data",
            )
        )
    return error
