"""Properties and settings of a Spark session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.message import Value
from parquetry.runtime.errors import UnsupportedSessionError
from parquetry.runtime.spark.session.connect import is_connect
from parquetry.runtime.spark.session.failures import missing_client_error
from parquetry.runtime.spark_environment import UTF8_LOCALE

ARROW_BATCH_BYTES = 4 * 1024 * 1024
_MIB, _GIB = 1024**2, 1024**3
_TASK_BYTES_LEAST, _TASK_BYTES_MOST = 64 * _MIB, 512 * _MIB
_PYTHON_BYTES, _ADDRESSES_BYTES = 128 * _MIB, 1536 * _MIB
_ROWS_BY_BYTES, _ROWS_OF_ANY_SIZE = 16_384, 64
_NO_LIMIT: Final = 2**31 - 1
_BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_LIMITS: Final = frozenset({_BATCH_ROWS, _BATCH_BYTES})
_FILES_OF_ONE_TASK = 32
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTING_TASKS_OF_A_CORE = 4
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_PARTITIONS_BY_DEFAULT = 200
_MOST_CORES = 65_536
_PARALLELISM: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()
"""The parallelism of Spark Connect sessions, which only a job finds out and a write needs several times."""


def spark_version(spark: SparkSession) -> tuple[int, int]:
    """Return the major and minor number of Spark, such as ``(3, 5)``."""
    major, minor = spark.version.split(".")[:2]
    return int(major), int(minor)


def is_local(spark: SparkSession) -> bool:
    """Return whether driver and tasks run in one process tree on one machine (``local``, ``local[n]``).

    A Spark Connect server may run on another machine than this process, whatever its own master is.
    """
    if is_connect(spark):
        return False
    return re.fullmatch(r"local(\[.*\])?", spark.sparkContext.master) is not None


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that run at the same time."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    if spark not in _PARALLELISM:
        numbers = spark.range(_MOST_CORES).select(F.spark_partition_id().alias("partition"))
        (row,) = numbers.agg(F.max("partition").alias("last")).collect()
        _PARALLELISM[spark] = int(row["last"]) + 1
    return _PARALLELISM[spark]


def reachable_parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that can run at once after dynamic allocation has added executors.

    Spark starts executors for pending tasks, so a job of few tasks gets few executors.
    """
    now = parallelism(spark)
    if spark.conf.get("spark.dynamicAllocation.enabled", "false") != "true" or is_local(spark):
        return now
    given = set_by_user(spark, SHUFFLE_PARTITIONS) or ""
    wanted = int(given) if given.isdecimal() else _PARTITIONS_BY_DEFAULT
    executors = spark.conf.get("spark.dynamicAllocation.maxExecutors", None) or ""
    cores = int(spark.conf.get("spark.executor.cores", None) or 1)
    return max(now, min(wanted, int(executors) * cores) if executors.isdecimal() else wanted)


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Yield with ``settings`` in force in the session; restore the user's settings afterwards.

    Threads of one session may write at the same time. A setting stays in force as long as one of them needs
    it: for limits the lowest value, for others the newest. The last thread restores the user's setting.
    """
    with ExitStack() as stack:
        session = _session_key(spark) if settings else None
        for key, value in settings.items():
            stack.enter_context(_setting(spark, session, key, value))
        yield


@contextmanager
def _setting(spark: SparkSession, session: object, key: str, value: str) -> Iterator[None]:
    turn = object()
    place = (session, key)
    with _SETTINGS:
        in_force = _IN_FORCE.get(place) or _InForce(before=spark.conf.get(key, None))
        values = in_force.values
        spark.conf.set(key, _effective(key, {**values, turn: value}))
        values[turn] = value
        _IN_FORCE[place] = in_force
    try:
        yield
    finally:
        with _SETTINGS:
            del values[turn]
            back = _effective(key, values) if values else _IN_FORCE.pop(place).before
            if back is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, back)


def _effective(key: str, values: Mapping[object, str]) -> str:
    """Return the value to set while several writes need it: the lowest limit, or the newest value."""
    return min(values.values(), key=int) if key in _LIMITS else next(reversed(list(values.values())))


def set_by_user(spark: SparkSession, key: str) -> str | None:
    """Return the value that the user gave the setting, even while a write has replaced it."""
    with _SETTINGS:
        in_force = _IN_FORCE.get((_session_key(spark), key))
        value: str | None = in_force.before if in_force else spark.conf.get(key, None)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _InForce:
    """A setting that writes have changed: the user's value, and the values of the writes, the newest last."""

    before: str | None
    values: dict[object, str] = field(default_factory=dict)


_SETTINGS: Final = Lock()
_IN_FORCE: Final[dict[tuple[object, str], _InForce]] = {}


def _session_key(spark: SparkSession) -> object:
    """Return an identity of the session, as several objects of PySpark may be one session of the JVM."""
    of_jvm = getattr(spark, "_jsparkSession", None)
    return spark if of_jvm is None else of_jvm.sessionUUID()


TYPE_SETTINGS: Mapping[str, str] = {
    # A table's timestamps are points in time, whatever TIMESTAMP alone means in the session.
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}

_EXPRESSION_SETTINGS: Mapping[str, str] = {
    **TYPE_SETTINGS,
    # The text of a key, and the value of a generated column, must not depend on who runs the write.
    "spark.sql.session.timeZone": "UTC",
    # Hudi's text of a decimal is java.math.BigDecimal.toString, which a cast gives without ANSI mode.
    "spark.sql.ansi.enabled": "false",
}


def expression_settings(spark: SparkSession) -> Mapping[str, str]:
    """Return the settings for building expressions; none on Spark Connect, which analyses them later."""
    return {} if is_connect(spark) else _EXPRESSION_SETTINGS


def load_files(spark: SparkSession, reader: DataFrameReader, uris: Sequence[str]) -> DataFrame:
    """Load exactly these files as a frame.

    Spark checks that each file exists. By default it would start a task for each as soon as there are 33
    files.

    Raises:
        UnsupportedSessionError: If the JVM's encoding cannot spell the name of a local file, or Spark has no
            client for the store.

    """
    _check_names(spark, uris)
    settings = {}
    if len(uris) > _FILES_OF_ONE_TASK:
        tasks = _LISTING_TASKS_OF_A_CORE * parallelism(spark)
        settings[_LISTING_TASKS] = str(min(tasks, int(spark.conf.get(_LISTING_TASKS) or tasks)))
    with session_settings(spark, settings):
        try:
            return reader.load(list(uris))
        except (PySparkException, Py4JJavaError) as error:
            if no_client := missing_client_error(str(error)):
                raise no_client from error
            raise


def _check_names(spark: SparkSession, uris: Sequence[str]) -> None:
    """Raise UnsupportedSessionError if the JVM's encoding cannot spell the name of a local file."""
    named = next((uri for uri in uris if uri.startswith("file:") and not uri.isascii()), None)
    if named is None or is_connect(spark):
        return
    jvm: Any = spark._jvm  # noqa: SLF001 - nothing public tells
    encoding = str(jvm.java.lang.System.getProperty("sun.jnu.encoding"))
    try:
        named.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        raise UnsupportedSessionError(
            "Spark's JVM encodes names of files in {encoding}, which cannot encode {file}; start it "
            "with LC_ALL={locale} in the environment, as parquetry does",
            encoding=encoding,
            file=Value.uri(named),
            locale=UTF8_LOCALE,
        ) from None


def arrow_settings(spark: SparkSession, *, rows: int | None = None, by_count: bool = False) -> dict[str, str]:
    """Return settings that end an Arrow batch after so many ``rows``, and before it exceeds two times 4 MiB.

    Args:
        spark: The session.
        rows: The limit of rows; None for a default: 16,384 in Spark 4, 64 before Spark 4, which has no limit
            of bytes.
        by_count: Whether only the rows limit a batch. With a limit of bytes, Spark 4 adds up the sizes of all
            columns after each row.

    """
    limits_bytes = spark_version(spark) >= (4, 0)
    most_rows = rows or (_ROWS_BY_BYTES if limits_bytes else _ROWS_OF_ANY_SIZE)
    settings = {_BATCH_ROWS: str(most_rows)}
    most_bytes = _NO_LIMIT if by_count else 2 * ARROW_BATCH_BYTES
    return {**settings, _BATCH_BYTES: str(most_bytes)} if limits_bytes else settings


def task_memory_bytes(spark: SparkSession) -> int:
    """Return the memory that one task may use for its rows. It does not change during an application.

    If ``spark.executor.pyspark.memory`` is set, it is the task's share of that by cores, without an upper
    bound. Otherwise it is half a GiB on one machine, and on a cluster the task's share of the executor's
    memory overhead, at most half a GiB. The memory of Python itself is subtracted from both shares.
    """

    def setting(name: str) -> str | None:
        # A session may get other values later, which change no executor.
        conf: Any = spark.conf if is_connect(spark) else spark.sparkContext.getConf()
        value: str | None = conf.get(f"spark.executor.{name}", None)
        return value

    local = is_local(spark)
    cores = parallelism(spark) if local else int(setting("cores") or 1)
    if python := _size_bytes(setting("pyspark.memory"), 0):
        # Spark limits a worker's address space with it, much of which is reserved and never used.
        return max(_TASK_BYTES_LEAST, python // cores - _ADDRESSES_BYTES)
    if local:
        return _TASK_BYTES_MOST
    executor = _size_bytes(setting("memory"), _GIB)
    factor = float(setting("memoryOverheadFactor") or 0.1)
    overhead = _size_bytes(setting("memoryOverhead"), max(384 * _MIB, int(executor * factor)))
    return max(_TASK_BYTES_LEAST, min(_TASK_BYTES_MOST, overhead // cores - _PYTHON_BYTES))


def _size_bytes(text: str | None, default: int) -> int:
    """Return the bytes of a size in the notation of Spark's settings. A number without a unit counts MiB."""
    if text is None:
        return default
    found = re.fullmatch(r"(\d+)(?:([kmgtp])b?|(b))?", text.strip().lower())
    if found is None:
        return default
    unit: int = 1024 ** "bkmgtp".index(found[2] or found[3] or "m")
    return int(found[1]) * unit
