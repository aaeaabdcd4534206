"""A table's policy as ``hoodie.*`` options, and settings from recorded options.

Source: the configuration classes of Hudi 0.15 and 1.2 (HoodieWriteConfig, HoodieStorageConfig,
HoodieCleanConfig, HoodieArchivalConfig, HoodieClusteringConfig, HoodieLayoutConfig).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parquetry.compiler.spec_words import format_age, format_size
from parquetry.runtime.spec.clustering import PartitionFilter, Trigger
from parquetry.runtime.spec.key_generator import KeyGenerator, choose_key_generator
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.table_spec import KeyScope, Locks, RetentionPolicy, TableSpec
from parquetry.runtime.table.properties import boolean_text

_ARCHIVE_BATCH: Final = 10
_HOUR: Final = 3600
_DEFAULT_RECORD_SIZE_BYTES: Final = 1024
_CURVES: Final = {"sort": "LINEAR", "zorder": "ZORDER", "hilbert": "HILBERT"}
_NAMES_OF_CURVES: Final = {"LINEAR": "sort", "ZORDER": "zorder", "Z-ORDER": "zorder", "HILBERT": "hilbert"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiOptions:
    """Options in a fixed order, and the parts of the policy that Hudi has no option for."""

    options: Mapping[str, str]
    unmatched: tuple[str, ...]


def hudi_options(spec: TableSpec) -> HudiOptions:
    """Return the options with which a Hudi writer follows the spec, and the settings that none expresses.

    The options also make it safe to write beside writers of parquetry.
    """
    return HudiOptions(
        options={
            **_identity(spec),
            **_guards(spec),
            **_locks(spec),
            **_sizing(spec),
            **_files(spec),
            **_retention(spec.retention),
            **_clustering(spec),
        },
        unmatched=tuple(_unmatched(spec)),
    )


def _identity(spec: TableSpec) -> dict[str, str]:
    """Return the options that say what the table is: name, keys, partitions and index."""
    generator = choose_key_generator(spec.record_key, spec.partition_by)
    typed = generator is KeyGenerator.CUSTOM
    fields = (f"{name}:SIMPLE" if typed else name for name in spec.partition_by)
    options = {
        "hoodie.table.name": spec.name,
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": ",".join(spec.record_key),
        "hoodie.datasource.write.partitionpath.field": ",".join(fields),
        "hoodie.datasource.write.precombine.field": spec.ordering or "",
        "hoodie.datasource.write.keygenerator.class": generator.class_name,
        "hoodie.datasource.write.hive_style_partitioning": boolean_text(value=spec.hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": boolean_text(value=spec.url_encode),
        "hoodie.table.timeline.timezone": "UTC",
    }
    if spec.record_key and spec.key_scope is KeyScope.TABLE:
        options["hoodie.index.type"] = "GLOBAL_SIMPLE"
        options["hoodie.simple.index.update.partition.path"] = "true"
    elif spec.record_key:
        options["hoodie.index.type"] = "SIMPLE"
    if not spec.files.meta_columns.has_keys:
        options["hoodie.populate.meta.fields"] = "false"
    empty = {"hoodie.datasource.write.recordkey.field", "hoodie.datasource.write.precombine.field"}
    return {key: value for key, value in options.items() if value or key not in empty}


def _guards(spec: TableSpec) -> dict[str, str]:
    """Return the options that keep the table readable and writable for others: see docs/how-to/hudi.md."""
    return {
        "hoodie.metadata.enable": "false",
        "hoodie.write.table.version": str(spec.table_version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.row.writer.enable": "false",
    }


def _locks(spec: TableSpec) -> dict[str, str]:
    """Return the options of a storage-based lock, with which Hudi and parquetry write at the same time."""
    if spec.locks is not Locks.STORAGE:
        return {}
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider",
    }


def _sizing(spec: TableSpec) -> dict[str, str]:
    """Return the options of write-time sizing."""
    sizing = spec.sizing
    options = {
        "hoodie.parquet.max.file.size": str(sizing.max_file_size_bytes),
        "hoodie.parquet.small.file.limit": str(sizing.small_file_limit_bytes),
    }
    if sizing.insert_split_size is not None:
        options["hoodie.copyonwrite.insert.split.size"] = str(sizing.insert_split_size)
    options["hoodie.copyonwrite.insert.auto.split"] = boolean_text(value=sizing.insert_split_size is None)
    if sizing.record_size_bytes is not None:
        options["hoodie.copyonwrite.record.size.estimate"] = str(sizing.record_size_bytes)
    return options


def _files(spec: TableSpec) -> dict[str, str]:
    """Return the options that encode base files."""
    files = spec.files
    options = {"hoodie.parquet.compression.codec": files.compression}
    if files.row_group_size_bytes is not None:
        options["hoodie.parquet.block.size"] = str(files.row_group_size_bytes)
    if files.page_size_bytes is not None:
        options["hoodie.parquet.page.size"] = str(files.page_size_bytes)
    return options


def _retention(policy: RetentionPolicy) -> dict[str, str]:
    """Return the options of one retention rule: that of commits, or else of age, or else of versions.

    Hudi follows only one rule.
    """
    fewest = policy.archive_keep_commits
    if policy.keep_commits is not None:
        fewest = max(fewest, policy.keep_commits + 1)
        rule = {
            "hoodie.cleaner.policy": "KEEP_LATEST_COMMITS",
            "hoodie.cleaner.commits.retained": str(policy.keep_commits),
        }
    elif policy.max_age_seconds is not None:
        rule = {
            "hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS",
            "hoodie.cleaner.hours.retained": str(-(-policy.max_age_seconds // _HOUR)),
        }
    elif policy.keep_versions is not None:
        rule = {
            "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.cleaner.fileversions.retained": str(policy.keep_versions),
        }
    else:
        rule = {"hoodie.clean.automatic": "false"}
    return rule | {
        "hoodie.keep.min.commits": str(fewest),
        "hoodie.keep.max.commits": str(fewest + _ARCHIVE_BATCH),
    }


def _clustering(spec: TableSpec) -> dict[str, str]:
    """Return the options of clustering; none if it is off."""
    clustering = spec.clustering
    every = str(clustering.every_commits)
    if clustering.trigger is Trigger.OFF:
        return {}
    when = (
        {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": every}
        if clustering.trigger is Trigger.INLINE
        else {"hoodie.clustering.async.enabled": "true", "hoodie.clustering.async.max.commits": every}
    )
    plan, execution = clustering.plan, clustering.execution
    options = when | {
        "hoodie.clustering.plan.strategy.small.file.limit": str(plan.small_file_limit_bytes),
        "hoodie.clustering.plan.strategy.target.file.max.bytes": str(plan.target_file_size_bytes),
        "hoodie.clustering.plan.strategy.max.bytes.per.group": str(plan.max_group_size_bytes),
        "hoodie.clustering.plan.strategy.max.num.groups": str(plan.max_groups),
    }
    options |= _partitions(plan.partitions)
    if execution.strategy in _CURVES and execution.columns:
        options["hoodie.clustering.plan.strategy.sort.columns"] = ",".join(execution.columns)
        options["hoodie.layout.optimize.strategy"] = _CURVES[execution.strategy]
    return options


def _partitions(chosen: PartitionFilter) -> dict[str, str]:
    """Return the options that choose the partitions of a clustering."""
    if chosen.recent:
        return {
            "hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS",
            "hoodie.clustering.plan.strategy.daybased.lookback.partitions": str(chosen.recent),
            "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions": str(chosen.skip_newest),
        }
    if chosen.selected:
        return {"hoodie.clustering.plan.strategy.partition.selected": ",".join(chosen.selected)}
    if chosen.regex:
        return {"hoodie.clustering.plan.strategy.partition.regex.pattern": chosen.regex}
    return {}


def _unmatched(spec: TableSpec) -> Iterator[str]:
    """Yield the settings of the spec that no option of Hudi expresses."""
    retention = spec.retention
    rules = [retention.keep_commits, retention.max_age_seconds, retention.keep_versions]
    if sum(rule is not None for rule in rules) > 1:
        yield "retention.clean: Hudi follows one rule, the first of keep_commits, max_age, keep_versions"
    if retention.partitions is not None:
        yield "retention.partitions: Hudi ages partitions by their last commit, and not by their day"
    if retention.quarantine_seconds is not None:
        yield "retention.quarantine: Hudi deletes orphans"
    if spec.sizing.min_fill:
        yield "sizing.min_fill"
    if generated := [column.name for column in spec.columns if column.generated]:
        yield f"columns.generated ({', '.join(generated)}): the job has to compute them"
    if spec.files.encryption_key is not None:
        yield "files.encryption_key: Hudi cannot read the files, and would write others in the clear"
    if spec.files.meta_columns is MetaColumns.COMMIT_TIME:
        yield "files.meta_columns: Hudi fills none, and readers take the time of the file"
    clustering = spec.clustering
    if clustering.trigger is Trigger.OFF:
        return
    if clustering.plan.strategy != "size":
        yield f"clustering.plan.strategy {clustering.plan.strategy}"
    if clustering.execution.strategy not in _CURVES:
        yield f"clustering.execution.strategy {clustering.execution.strategy}"
    for key in ("split_by", "then"):
        if getattr(clustering.execution, key):
            yield f"clustering.execution.{key}"


def settings_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings, by dotted path, that correspond to recorded ``hoodie.*`` options.

    Other programs wrote the options, so values that are not numbers where numbers belong are ignored.
    """
    found: dict[str, Any] = {}
    for key, (path, convert) in _SETTINGS.items():
        text = options.get(key, "").strip()
        value = convert(text) if text else None
        if value is not None:
            found[path] = value
    columns = options.get("hoodie.clustering.plan.strategy.sort.columns", "")
    if columns.strip():
        curve = options.get("hoodie.layout.optimize.strategy", "LINEAR").strip().upper()
        found["clustering.execution.columns"] = [name.strip() for name in columns.split(",") if name.strip()]
        found["clustering.execution.strategy"] = _NAMES_OF_CURVES.get(curve, "sort")
    return found


def _number(text: str) -> int | None:
    """Return a text of digits as a number, or None for another text."""
    return int(text) if text.isascii() and text.isdigit() else None


def _size(text: str) -> str | None:
    """Return a number of bytes as a size with its unit; None for 0 or another text."""
    number = _number(text)
    return format_size(number) if number else None


def _limit(text: str) -> str | int | None:
    """Return a size, or 0, which turns the limit off; None for another text."""
    return 0 if _number(text) == 0 else _size(text)


def _record_size(text: str) -> str | None:
    """Return a size, or None for Hudi's default, which is not an estimate."""
    return None if _number(text) == _DEFAULT_RECORD_SIZE_BYTES else _size(text)


def _codec(text: str) -> str | None:
    """Return the name of a codec that specs know, or None."""
    return text.lower() if text.lower() in ("zstd", "gzip", "snappy", "lz4", "uncompressed") else None


def _hours(text: str) -> str | None:
    """Return a number of hours as a duration; None for 0 or another text."""
    number = _number(text)
    return format_age(number * _HOUR) if number else None


_SETTINGS: Final = {
    "hoodie.parquet.max.file.size": ("sizing.max_file_size", _size),
    "hoodie.parquet.small.file.limit": ("sizing.small_file_limit", _limit),
    "hoodie.copyonwrite.record.size.estimate": ("sizing.record_size", _record_size),
    "hoodie.parquet.compression.codec": ("files.compression", _codec),
    "hoodie.parquet.block.size": ("files.row_group_size", _size),
    "hoodie.parquet.page.size": ("files.page_size", _size),
    "hoodie.cleaner.commits.retained": ("retention.clean.keep_commits", _number),
    "hoodie.clean.commits.retained": ("retention.clean.keep_commits", _number),
    "hoodie.cleaner.fileversions.retained": ("retention.clean.keep_versions", _number),
    "hoodie.cleaner.hours.retained": ("retention.clean.max_age", _hours),
    "hoodie.keep.min.commits": ("retention.archive.keep_commits", _number),
    "hoodie.clustering.plan.strategy.small.file.limit": ("clustering.plan.small_file_limit", _size),
    "hoodie.clustering.plan.strategy.target.file.max.bytes": ("clustering.plan.target_file_size", _size),
    "hoodie.clustering.plan.strategy.max.bytes.per.group": ("clustering.plan.max_group_size", _size),
    "hoodie.clustering.plan.strategy.max.num.groups": ("clustering.plan.max_groups", _number),
}
