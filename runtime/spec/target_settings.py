"""The settings of a target that affect jobs: the start of Spark, access to storage, events, and limits.

They are plain JSON by dotted path (``spark.conf.spark.executor.memory``, ``storage.endpoint_url``). A value
from the environment is kept as its template, and literal passwords are ``***``.

A setting *executes* if it can execute other code, or send rows and credentials elsewhere. Settings that are
known to do neither are listed here; all others execute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from parquetry.message import command
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.spec.codec import canonical_json

Settings = Mapping[str, Any]

EXECUTES: Final = "SC702"
"""The code of messages about a changed setting that executes."""

_CONF: Final = "spark.conf."

_NUMERIC_KEYS: Final = re.compile(
    r"""spark\.(
      (driver|executor)\.(memory|memoryOverhead|memoryOverheadFactor|minMemoryOverhead|cores)
    | driver\.maxResultSize
    | executor\.(instances|heartbeatInterval|pyspark\.memory)
    | cores\.max | default\.parallelism | task\.(cpus|maxFailures) | stage\.maxConsecutiveAttempts
    | dynamicAllocation\.(enabled | (min|max|initial)Executors | executorAllocationRatio
        | (executorIdle|cachedExecutorIdle|schedulerBacklog|sustainedSchedulerBacklog)Timeout
        | shuffleTracking\.(enabled|timeout))
    | memory\.(fraction | storageFraction | offHeap\.(enabled|size))
    | network\.timeout(Interval)? | rpc\.(askTimeout|lookupTimeout|message\.maxSize)
    | locality\.wait(\.(process|node|rack))?
    | speculation(\.(interval|multiplier|quantile))?
    | (broadcast|rdd|shuffle|shuffle\.spill)\.compress | broadcast\.blockSize
    | shuffle\.(file\.buffer | io\.(maxRetries|retryWait) | sort\.bypassMergeThreshold)
    | kryoserializer\.buffer(\.max)? | reducer\.(maxSizeInFlight|maxReqsInFlight)
    | cleaner\.periodicGC\.interval | ui\.showConsoleProgress
    | sql\.shuffle\.partitions | sql\.autoBroadcastJoinThreshold | sql\.broadcastTimeout
    | sql\.adaptive\.(enabled | advisoryPartitionSizeInBytes | autoBroadcastJoinThreshold
        | maxShuffledHashJoinLocalMapThreshold | localShuffleReader\.enabled
        | coalescePartitions\.(enabled|parallelismFirst|minPartitionSize|minPartitionNum|initialPartitionNum)
        | skewJoin\.(enabled|skewedPartitionFactor|skewedPartitionThresholdInBytes)
        | optimizeSkewsInRebalancePartitions\.enabled | rebalancePartitionsSmallPartitionFactor)
    | sql\.files\.(maxPartitionBytes|openCostInBytes|minPartitionNum|maxPartitionNum)
    | sql\.sources\.parallelPartitionDiscovery\.(threshold|parallelism)
    | sql\.execution\.arrow\.(maxRecordsPerBatch|maxBytesPerBatch)
    | sql\.inMemoryColumnarStorage\.(batchSize|compressed)
    | sql\.parquet\.(filterPushdown | enableVectorizedReader | columnarReaderBatchSize | aggregatePushdown)
    | hadoop\.fs\.s3a\.(connection\.(maximum|timeout|establish\.timeout) | threads\.max | attempts\.maximum
        | retry\.limit | multipart\.(size|threshold) | block\.size | readahead\.range | path\.style\.access)
    )""",
    re.VERBOSE,
)
"""Spark properties with numbers, sizes, durations and flags, which contain no code or location."""

_NUMERIC_VALUE: Final = re.compile(
    r"-?\d{1,18}(\.\d{1,18})?[A-Za-z]{0,3}|true|false", re.ASCII | re.IGNORECASE
)

_KEYWORD_VALUES: Final[Mapping[str, re.Pattern[str]]] = {
    "spark.io.compression.codec": re.compile(r"lz4|lzf|snappy|zstd"),
    "spark.sql.parquet.compression.codec": re.compile(r"none|uncompressed|snappy|gzip|lz4|zstd"),
    "spark.ui.enabled": re.compile(r"false"),
    "spark.scheduler.mode": re.compile(r"FIFO|FAIR"),
    "spark.log.level": re.compile(r"ALL|DEBUG|ERROR|FATAL|INFO|OFF|TRACE|WARN"),
}

_NUMERIC_STORAGE_KEYS: Final = re.compile(
    r"""storage\.(anon | requester_pays | default_block_size | default_fill_cache | max_concurrency
    | config_kwargs\.(connect_timeout | read_timeout | max_pool_connections
        | retries\.(max_attempts|total_max_attempts)))""",
    re.VERBOSE,
)
_CATALOG_VALUES: Final[Mapping[str, re.Pattern[str]]] = {
    "type": re.compile(r"sql|rest|glue|hive"),
    "region": re.compile(r"[a-z]{2}(-[a-z]{1,12}){1,3}-\d{1,2}"),
    "scope": re.compile(r"[\w:./-]*"),
    "warehouse": re.compile(r"[\w:./-]*"),
    "partition_index": re.compile(r"true|false"),
}
"""Options of catalogs that do not say to which machine names of tables and columns are sent."""
_REGION: Final = re.compile(r"storage\.client_kwargs\.region(_name)?")
_REGION_NAME: Final = re.compile(r"[a-z]{2}(-[a-z]{1,12}){1,3}-\d{1,2}")
_CREDENTIAL: Final = re.compile(
    r"storage\.(key|secret|token|username|password)"
    r"|spark\.conf\.spark\.hadoop\.fs\.s3a\.(access\.key|secret\.key|session\.token)"
)
"""Credentials of storage. With those of someone else, reads and writes of the same locations are rejected.

Those of other servers execute: a branch that names another variable would send its value to the server.
"""

_BELOW_TARGET: Final = re.compile(r"target(/(?!\.\.?(/|$))[\w.-]+)+")
"""Paths below ``target/`` of the project."""

_WHOLE_SETTINGS: Final[Mapping[str, re.Pattern[str]]] = {
    "spark.master": re.compile(r"local(\[(\d{1,4}|\*)(,\d{1,4})?\])?"),
    "spark.launcher": re.compile("in-process"),
    "metrics.file": _BELOW_TARGET,
    "lineage.file": _BELOW_TARGET,
    "lineage.console": re.compile(r"true|false"),
}
_ENV_REFERENCE: Final = re.compile(
    r"""\{\{ \s* env_var\( \s* ['"]\w+['"] \s* (,\s* (?:'(?P<one>[^'"\\{}]*)'|"(?P<two>[^'"\\{}]*)") \s*)? \)
    \s* \}\}""",
    re.VERBOSE | re.ASCII,
)
"""A value that comes entirely from the environment, so no branch can change it except for its default."""


def executes(path: str, value: Any) -> bool:
    """Return whether the setting at a path can execute other code or send data elsewhere.

    If ``value`` is None, the setting is absent, and the result is False.
    """
    if value is None or path.startswith(("budget.", "operations.", "protect")) or _CREDENTIAL.fullmatch(path):
        return False
    text = _text(value)
    read = _ENV_REFERENCE.fullmatch(text)
    if read is not None and _allowed_value(path) is not None:
        default = read["one"] if read["one"] is not None else read["two"]
        return default is not None and executes(path, default)
    shape = _allowed_value(path)
    return shape is None or shape.fullmatch(text) is None


def _allowed_value(path: str) -> re.Pattern[str] | None:
    """Return the pattern of the values of a setting that cannot do harm, or None if any value can."""
    if path in _WHOLE_SETTINGS:
        return _WHOLE_SETTINGS[path]
    if path.startswith(_CONF):
        key = path.removeprefix(_CONF)
        return _NUMERIC_VALUE if _NUMERIC_KEYS.fullmatch(key) else _KEYWORD_VALUES.get(key)
    if _NUMERIC_STORAGE_KEYS.fullmatch(path):
        return _NUMERIC_VALUE
    if path.startswith("catalogs."):
        return _CATALOG_VALUES.get(path.rpartition(".")[2])
    return _REGION_NAME if _REGION.fullmatch(path) else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else canonical_json(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting whose declared value differs from the applied one. None means that there is no value."""

    path: str
    declared: Any
    applied: Any

    @property
    def executes(self) -> bool:
        """True if the change can execute other code or send data elsewhere."""
        return executes(self.path, self.declared) or executes(self.path, self.applied)


def setting_differences(declared: Settings, applied: Settings | None) -> tuple[SettingDifference, ...]:
    """Return the differences, sorted by path. If ``applied`` is None, no setting is applied."""
    before = applied or {}
    return tuple(
        SettingDifference(path=path, declared=declared.get(path), applied=before.get(path))
        for path in sorted(declared.keys() | before.keys())
        if not same_setting(declared.get(path), before.get(path))
    )


def same_setting(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON. 1 and true are different."""
    return canonical_json(one) == canonical_json(other)


def check_settings(declared: Settings, applied: Settings | None, *, place: str) -> None:
    """Raise StalePlanError if a setting that executes differs from the applied one.

    Args:
        declared: The settings of the target.
        applied: The settings in the applied record, or None if there are none.
        place: The location of the table for error messages.

    """
    changed = [
        difference.path for difference in setting_differences(declared, applied) if difference.executes
    ]
    if changed:
        raise StalePlanError(
            "{code} {table}: the target's {settings} can execute other code, or send rows "
            "elsewhere, and differs from what is applied to the table; {plan} shows it and "
            "{apply} records it",
            code=EXECUTES,
            table=place,
            settings=changed,
            plan=command("plan"),
            apply=command("apply"),
        )
