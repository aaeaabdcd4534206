"""Checks of a table's limits, clustering and retention: order of limits, strategies, combinations."""

from __future__ import annotations

import re

from parquetry.project.diagnostics.model import did_you_mean
from parquetry.project.loading.resolve import Resolution
from parquetry.project.readers.effects import READERS_PATH, effects
from parquetry.project.validation.units import DAY_SECONDS, duration_seconds
from parquetry.runtime.spec.plug_ins import EXECUTION_STRATEGIES, KMS_CLIENTS, PLAN_STRATEGIES
from parquetry.runtime.spec.rules import type_of
from parquetry.runtime.spec.table_spec import (
    DAY_TYPES,
    EXACT_FILTER_BYTES,
    BloomFilter,
    CatalogType,
    IcebergFormat,
)
from parquetry.text.linear_regex import LinearRegex, RegexError

_TWO_NAMES = (CatalogType.GLUE, CatalogType.HIVE)
_CURVES = ("zorder", "hilbert")
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_-]{0,19}")


def check_settings(resolution: Resolution) -> None:
    """Report limits out of order, unknown strategies and settings without effect."""
    _check_sizing(resolution)
    _check_clustering_limits(resolution)
    _check_strategies(resolution)
    _check_partition_filter(resolution)
    _check_clustering_effect(resolution)
    _check_retention(resolution)
    _check_files(resolution)
    _check_readers(resolution)
    _check_publish(resolution)
    _check_catalog(resolution)


def _check_sizing(resolution: Resolution) -> None:
    """Report a small file limit above the maximum size, and ``min_fill`` without small files."""
    sizing = resolution.table.spec.sizing
    limit, size_limit = "sizing.small_file_limit", "sizing.max_file_size"
    if resolution.intact(limit, size_limit) and sizing.small_file_limit_bytes > sizing.max_file_size_bytes:
        _report_order(resolution, limit, size_limit)
    if sizing.small_file_limit_bytes == 0 and sizing.min_fill > 0 and resolution.intact(limit):
        resolution.report(
            "PQ701", "min_fill has no effect with small_file_limit: 0", "sizing.min_fill", at_key=True
        )


def _check_clustering_limits(resolution: Resolution) -> None:
    """Report limits of clustering that contradict each other or the maximum file size."""
    plan = resolution.table.spec.clustering.plan
    limit, target, group = (
        f"clustering.plan.{key}" for key in ("small_file_limit", "target_file_size", "max_group_size")
    )
    if not resolution.intact("clustering.plan", "sizing"):
        return
    if plan.small_file_limit_bytes > plan.target_file_size_bytes:
        _report_order(resolution, limit, target)
    if plan.target_file_size_bytes > plan.max_group_size_bytes:
        _report_order(resolution, target, group)
    size_limit, size_limit_bytes = "sizing.max_file_size", resolution.table.spec.sizing.max_file_size_bytes
    if plan.target_file_size_bytes > size_limit_bytes:
        _report_order(resolution, target, size_limit)
    elif resolution.was_declared(target) and plan.target_file_size_bytes < size_limit_bytes:
        declared = resolution.table.declared
        summary = f"target_file_size {declared(target)} is below sizing.max_file_size {declared(size_limit)}"
        resolution.report("PQ702", summary, target, "make them equal")


def _report_order(resolution: Resolution, lower: str, upper: str) -> None:
    """Report at the declared one of two limits, the lower one first; do nothing if neither was declared."""
    if not resolution.was_declared(lower) and not resolution.was_declared(upper):
        return
    path = lower if resolution.was_declared(lower) or not resolution.was_declared(upper) else upper
    values = [resolution.table.declared(name) for name in (lower, upper)]
    shown = [
        f"{name} ({value})" if value is not None else name
        for name, value in zip((lower, upper), values, strict=True)
    ]
    remedy = f"lower {lower}" if path == lower else f"raise {upper}"
    resolution.report("PQ501", f"{shown[0]} is above {shown[1]}", path, remedy)


def _check_strategies(resolution: Resolution) -> None:
    """Report strategies that are neither built in nor installed."""
    clustering = resolution.table.spec.clustering
    for path, name, group in (
        ("clustering.plan.strategy", clustering.plan.strategy, PLAN_STRATEGIES),
        ("clustering.execution.strategy", clustering.execution.strategy, EXECUTION_STRATEGIES),
    ):
        if name in group.built_in:
            continue
        known = group.known_names()
        if name not in known:
            hint = did_you_mean(name, known) or f"known are {', '.join(known)}"
            resolution.report("PQ503", f"there is no strategy '{name}'", path, hint)


def _check_partition_filter(resolution: Resolution) -> None:
    """Report partition filters that exclude each other, are invalid, or have no effect."""
    top = "clustering.plan.partitions"
    chosen = resolution.layered.value["clustering"]["plan"]["partitions"]
    rules = [
        rule
        for rule in ("all", "selected", "regex", "recent")
        if rule in chosen and chosen[rule] is not False
    ]
    if len(rules) > 1:
        resolution.report(
            "PQ504",
            f"{' and '.join(rules)} exclude each other",
            f"{top}.{rules[-1]}",
            "keep one of them",
            at_key=True,
        )
    if "regex" in chosen:
        try:
            LinearRegex(chosen["regex"])
        except RegexError as error:
            hint = "correct it; RE2 has no back references, lookahead or lookbehind"
            resolution.report("PQ506", f"not a regular expression: {error}", f"{top}.regex", hint)
    if resolution.table.spec.partition_by or not resolution.intact("partition_by"):
        return
    for rule in ("selected", "regex", "recent", "skip_newest"):
        if resolution.was_declared(f"{top}.{rule}") and _in_table(resolution, top):
            resolution.report(
                "PQ701", f"{rule} has no effect without partition_by", f"{top}.{rule}", at_key=True
            )


def _check_clustering_effect(resolution: Resolution) -> None:
    """Report clustering settings without effect, and encryption without a key."""
    clustering = resolution.table.spec.clustering
    execution = clustering.execution
    every, columns = "clustering.every_commits", "clustering.execution.columns"
    if (
        clustering.trigger == "off"
        and _in_table(resolution, every)
        and resolution.intact("clustering.trigger")
    ):
        resolution.report(
            "PQ701", "every_commits has no effect with trigger: off", every, "set trigger", at_key=True
        )
    if execution.strategy == "stitch" and execution.columns:
        resolution.report("PQ701", "columns have no effect with strategy: stitch", columns, at_key=True)
    if execution.strategy in _CURVES and len(execution.columns) == 1:
        summary = f"{execution.strategy} over one column is a sort"
        resolution.report("PQ701", summary, "clustering.execution.strategy", "use sort, or name more columns")
    has_key = resolution.table.spec.files.encryption_key is not None
    if "encrypt" in execution.then and not has_key and resolution.intact("files.encryption_key"):
        resolution.report(
            "PQ505", "encrypt needs a key", "clustering.execution.then", "declare files.encryption_key"
        )


def _check_retention(resolution: Resolution) -> None:
    """Report a retention that keeps no old version, or an archive that keeps too few commits."""
    retention = resolution.table.spec.retention
    rules = (retention.keep_commits, retention.keep_versions, retention.max_age_seconds)
    if not resolution.intact("retention"):
        return
    if all(rule is None for rule in rules):
        summary = "no rule keeps any old version, so running readers would lose their files"
        resolution.report(
            "PQ504", summary, "retention.clean.keep_commits", "set keep_commits, keep_versions or max_age"
        )
    _check_partition_retention(resolution)
    path = "retention.archive.keep_commits"
    needed = retention.keep_commits or 0
    if resolution.was_declared(path) and retention.archive_keep_commits <= needed:
        summary = f"archive keeps {retention.archive_keep_commits} commits, clean needs more than {needed}"
        resolution.report("PQ501", summary, path, f"raise it above {needed}")


def _check_partition_retention(resolution: Resolution) -> None:
    """Report a rule for partitions whose column has no days, or that keeps parts of a day."""
    spec = resolution.table.spec
    rule = spec.retention.partitions
    if rule is None or not resolution.columns_known or not resolution.intact("partition_by", "columns"):
        return
    path = "retention.partitions.column"
    kind = type_of(resolution.types, rule.column)
    if rule.column not in spec.partition_by:
        summary = f"{rule.column} is no partition column, so no partition has a day"
        resolution.report("PQ509", summary, path, "name a column of partition_by")
    elif kind is not None and str(kind) not in DAY_TYPES:
        summary = f"{rule.column} is {kind}, and has no days"
        resolution.report("PQ509", summary, path, f"name a column of type {', '.join(DAY_TYPES)}")
    path = "retention.partitions.keep"
    seconds = duration_seconds(resolution.table.declared(path))
    if seconds == 0 or seconds % DAY_SECONDS:
        summary = f"{resolution.table.declared(path)} is no number of whole days"
        days = max(1, -(-seconds // DAY_SECONDS))
        resolution.report("PQ509", summary, path, f"keep {days}d, or another number of whole days")


def _check_files(resolution: Resolution) -> None:
    """Report encryption, page sizes, filters and meta columns that do not fit the other settings."""
    files = resolution.table.spec.files
    _check_meta_columns(resolution)
    path, former = "files.encryption_key", "files.former_encryption_keys"
    key = files.encryption_key if resolution.intact(path) else None
    if key is not None and check_key(resolution, path, key):
        summary = "only parquetry reads encrypted files: hudi-rs, Hudi and Spark's own reader cannot"
        resolution.report("PQ708", summary, path, "accept it with an allow entry", at_key=True)
    for reference in files.former_encryption_keys if resolution.intact(former) else ():
        check_key(resolution, former, reference)
    page, group = files.page_size_bytes, files.row_group_size_bytes
    if page is not None and group is not None and page > group and resolution.intact("files"):
        _report_order(resolution, "files.page_size", "files.row_group_size")
    path, size_limit = "files.bloom_filter", "sizing.max_file_size"
    most = resolution.table.spec.sizing.max_file_size_bytes
    if (
        files.bloom_filter is BloomFilter.EXACT
        and most < 2 * EXACT_FILTER_BYTES
        and resolution.intact(path, size_limit)
    ):
        summary = (
            f"an exact bloom filter takes {EXACT_FILTER_BYTES // 1024} KiB of every file, more than half of "
            f"{size_limit} ({resolution.table.declared(size_limit)})"
        )
        remedy = f"use always_true, or raise {size_limit} to 1MiB or more"
        resolution.report("PQ501", summary, path, remedy)


def _check_meta_columns(resolution: Resolution) -> None:
    """Report meta columns without keys if rows have no other key, or if a filter of keys is declared."""
    path, bloom_filter = "files.meta_columns", "files.bloom_filter"
    spec = resolution.table.spec
    if spec.files.meta_columns.has_keys or not resolution.intact(path):
        return
    declared = resolution.table.declared(path)
    if not spec.record_key and resolution.intact("record_key"):
        summary = f"meta_columns: {declared} without record_key: rows would have no keys"
        resolution.report("PQ502", summary, path, "declare record_key, or use meta_columns: all")
    if spec.files.bloom_filter is BloomFilter.EXACT and resolution.intact(bloom_filter):
        summary = f"bloom_filter: exact is a filter of the keys that meta_columns: {declared} leaves out"
        resolution.report("PQ504", summary, bloom_filter, "use always_true, or meta_columns: all")


def check_key(resolution: Resolution, path: str, reference: str) -> bool:
    """Return whether a text refers to a key, and report it if not. The text itself is never shown."""
    kind, colon, name = reference.partition(":")
    known = KMS_CLIENTS.known_names()
    if not colon or not name or kind not in known:
        # The text may be a key that was pasted by mistake, so only the name of a client is shown.
        named = f"'{kind}:'" if colon and _PLAIN_NAME.fullmatch(kind) else "the text (not shown)"
        summary = f"{named} does not refer to a key: a reference begins with one of {', '.join(known)}"
        hint = "write env:NAME or file:/PATH, or install the plug-in of your key management service"
        resolution.report("PQ505", summary, path, hint, shows_lines=False)
        return False
    return True


def _check_readers(resolution: Resolution) -> None:
    """Report settings with which a declared reader returns wrong rows or fails."""
    table = resolution.table
    if not resolution.columns_known or resolution.incomplete:
        return
    for effect in effects(table.spec, table.readers):
        path = effect.trait.path if resolution.was_declared(effect.trait.path) else READERS_PATH
        code = "PQ713" if effect.is_wrong else "PQ714"
        resolution.report(code, effect.message, path, effect.remedy)


def _check_publish(resolution: Resolution) -> None:
    """Report formats whose readers cannot open the files of the table, and unknown or incomplete names."""
    spec, key = resolution.table.spec, "files.encryption_key"
    if spec.publish is None or not resolution.intact("publish", "files"):
        return
    declared = (
        ("publish.delta", "Delta", spec.publish.delta),
        ("publish.iceberg", "Iceberg", spec.publish.iceberg),
    )
    for path, name, form in declared if spec.files.keys else ():
        if form is not None:
            what = "cannot read encrypted files, so the table cannot be published as one"
            summary = f"readers of {name} tables {what}"
            named = path if resolution.declares_below(path) else key
            resolution.report("PQ508", summary, named, f"remove {path}, or {key}", at_key=True)
    if spec.publish.iceberg is not None:
        _check_catalog_of_iceberg(resolution, spec.publish.iceberg)


def _check_catalog_of_iceberg(resolution: Resolution, form: IcebergFormat) -> None:
    """Report a catalog that the target lacks, one without a name, and a name that no catalog holds."""
    path = "publish.iceberg"
    catalog = resolution.table.declared(f"{path}.catalog")
    if catalog is None:
        if form.name is not None:
            summary = "name has no effect without catalog"
            resolution.report("PQ508", summary, f"{path}.name", f"add {path}.catalog", at_key=True)
        return
    catalogs = resolution.catalogs
    if catalogs is not None and catalog not in catalogs:
        hint = did_you_mean(catalog, catalogs) or "declare it under catalogs of the target"
        resolution.report("PQ313", f"there is no catalog '{catalog}' at this target", f"{path}.catalog", hint)
    if form.name is None:
        hint = f"add {path}.name, such as shop.{resolution.table.name}"
        resolution.report("PQ508", "a table in a catalog needs a name", f"{path}.catalog", hint, at_key=True)
    elif form.catalog is not None and form.catalog.type in _TWO_NAMES and form.name.count(".") != 1:
        kind = form.catalog.type
        summary = f"a catalog of type {kind} has names of two parts, a database and a table"
        resolution.report("PQ508", summary, f"{path}.name", f"write database.{resolution.table.name}")
    elif _is_registered_as(resolution, catalog, form.name):
        summary = f"catalog '{catalog}' has one entry '{form.name}', which is that of the Hudi table"
        resolution.report("PQ508", summary, f"{path}.name", "choose another name, or another catalog")


def _is_registered_as(resolution: Resolution, catalog: str, name: str) -> bool:
    """Return whether the Hudi table itself has that name in the catalog, which spells it in lower case."""
    spec = resolution.table.spec
    registered = f"{spec.extra.database}.{spec.name}"
    return spec.extra.catalog == catalog and registered.lower() == name.lower()


def _check_catalog(resolution: Resolution) -> None:
    """Report a catalog that the target does not have, and a catalog or database without the other."""
    extra, catalogs = resolution.table.spec.extra, resolution.catalogs
    if extra.catalog is None and extra.database is None:
        return
    if extra.catalog is None or extra.database is None:
        path, other = ("database", "catalog") if extra.catalog is None else ("catalog", "database")
        if resolution.intact(other):
            resolution.report(
                "PQ313", f"{path} has no effect without {other}", path, f"add {other}", at_key=True
            )
    elif catalogs is not None and extra.catalog not in catalogs:
        hint = did_you_mean(extra.catalog, catalogs) or "declare it under catalogs of the target"
        resolution.report("PQ313", f"there is no catalog '{extra.catalog}' at this target", "catalog", hint)
    elif catalogs is not None and catalogs[extra.catalog].get("type") not in (None, *_TWO_NAMES):
        summary = f"tables are not registered in catalog '{extra.catalog}', which is of another type"
        resolution.report("PQ313", summary, "catalog", f"name a catalog of type {' or '.join(_TWO_NAMES)}")


def _in_table(resolution: Resolution, path: str) -> bool:
    """Return whether the table's own file sets this path, and not a layer for many tables."""
    place = resolution.layered.places.get(path)
    return place is not None and place.source is resolution.file.source
