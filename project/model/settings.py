"""Merged settings as typed values: units converted, dependent defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from parquetry.project.model.resolved import (
    Budget,
)
from parquetry.project.validation.definitions import Kind, built_in
from parquetry.project.validation.units import DAY_SECONDS, duration_seconds, size_bytes
from parquetry.runtime.spec.clustering import (
    ENCRYPT,
    ClusteringScope,
    ClusteringSpec,
    ExecutionPolicy,
    Existing,
    PartitionFilter,
    PlanPolicy,
    Trigger,
)
from parquetry.runtime.spec.meta_columns import MetaColumns
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import (
    MODIFIED,
    BloomFilter,
    CatalogType,
    Column,
    DeltaFormat,
    FilesPolicy,
    IcebergFormat,
    Operation,
    PartitionRetention,
    Publish,
    Query,
    RetentionPolicy,
    Source,
    TargetCatalog,
    TextEncodings,
    Ties,
)


@cache
def built_in_settings() -> Mapping[str, Any]:
    """Return the built-in layer of every table, from the defaults in the schemas."""
    sections = ("sizing", "clustering", "retention", "files", "partitioning")
    defaults = built_in(Kind.TABLE)
    return {section: built_in(Kind.TABLE, section) for section in sections} | {
        key: defaults[key] for key in ("key_scope", "table_version", "locks")
    }


@cache
def built_in_budget() -> Mapping[str, Any]:
    """Return the built-in layer of every target's budget."""
    return built_in(Kind.PROJECT, "defaults", "budget")


def sizing(value: Mapping[str, Any]) -> SizingPolicy:
    """Return the limits that size files at write time."""
    split, record = value["insert_split_size"], value["record_size"]
    return SizingPolicy(
        max_file_size_bytes=size_bytes(value["max_file_size"]),
        small_file_limit_bytes=size_bytes(value["small_file_limit"]),
        insert_split_size=None if split == "auto" else split,
        record_size_bytes=None if record == "auto" else size_bytes(record),
        min_fill=float(value["min_fill"]),
    )


def publish(value: Mapping[str, Any], catalogs: Mapping[str, Any]) -> Publish | None:
    """Return the formats in which the table is published, or None if there are none.

    Args:
        value: The value of ``publish``.
        catalogs: The catalogs of the target, by name.

    """
    if not value:
        return None
    delta = DeltaFormat() if "delta" in value else None
    return Publish(delta=delta, iceberg=_iceberg(value["iceberg"], catalogs) if "iceberg" in value else None)


def _iceberg(value: Mapping[str, Any], catalogs: Mapping[str, Any]) -> IcebergFormat:
    name = value.get("catalog")
    declared = None if name is None else catalogs.get(name)
    if name is None or not isinstance(declared, Mapping) or "type" not in declared:
        return IcebergFormat(name=value.get("name"))
    options = {key: str(option) for key, option in declared.items() if key != "type"}
    return IcebergFormat(
        catalog=TargetCatalog(name=name, type=CatalogType(declared["type"]), options=options),
        name=value.get("name"),
    )


def files(value: Mapping[str, Any]) -> FilesPolicy:
    """Return the encoding settings of base files."""
    return FilesPolicy(
        compression=value["compression"],
        row_group_size_bytes=_size(value, "row_group_size"),
        page_size_bytes=_size(value, "page_size"),
        bloom_filter=BloomFilter(value["bloom_filter"]),
        text_encodings=TextEncodings(value["text_encodings"]),
        encryption_key=value.get("encryption_key"),
        former_encryption_keys=tuple(value.get("former_encryption_keys", ())),
        meta_columns=MetaColumns(value["meta_columns"]),
    )


def retention(value: Mapping[str, Any]) -> RetentionPolicy:
    """Return the rules that decide which old versions and which partitions stay."""
    clean = value["clean"]
    age = clean.get("max_age")
    return RetentionPolicy(
        keep_commits=clean.get("keep_commits"),
        keep_versions=clean.get("keep_versions"),
        max_age_seconds=None if age is None else duration_seconds(age),
        archive_keep_commits=value["archive"]["keep_commits"],
        partitions=_partition_retention(value.get("partitions", {})),
        quarantine_seconds=duration_seconds(value["quarantine"]) if "quarantine" in value else None,
    )


def _partition_retention(value: Mapping[str, Any]) -> PartitionRetention | None:
    """Return the rule that decides which partitions stay, in whole days; None without a complete one."""
    if not {"column", "keep"} <= value.keys():
        return None
    return PartitionRetention(
        column=value["column"],
        keep_days=duration_seconds(value["keep"]) // DAY_SECONDS,
        at_most=float(value.get("at_most", 0.1)),
    )


def clustering(value: Mapping[str, Any], *, sizing: SizingPolicy, files: FilesPolicy) -> ClusteringSpec:
    """Return when and how files are clustered; sizes that are not declared follow ``sizing``.

    The encryption key is that of ``files``.
    """
    plan, execution = value["plan"], value.get("execution", {})
    target = _size(plan, "target_file_size") or sizing.max_file_size_bytes
    limit = _size(plan, "small_file_limit") or sizing.small_file_limit_bytes or target * 5 // 6
    partitions = plan["partitions"]
    columns, then = tuple(execution.get("columns", ())), tuple(execution.get("then", ()))
    return ClusteringSpec(
        trigger=Trigger(value["trigger"]),
        every_commits=value["every_commits"],
        existing=Existing(value["existing"]),
        plan=PlanPolicy(
            strategy=plan["strategy"],
            small_file_limit_bytes=limit,
            target_file_size_bytes=target,
            max_group_size_bytes=size_bytes(plan["max_group_size"]),
            max_groups=plan["max_groups"],
            partitions=PartitionFilter(
                selected=tuple(partitions.get("selected", ())),
                regex=partitions.get("regex"),
                recent=partitions.get("recent"),
                skip_newest=partitions["skip_newest"],
            ),
        ),
        execution=ExecutionPolicy(
            strategy=execution.get("strategy", "sort" if columns else "stitch"),
            columns=columns,
            scope=ClusteringScope(execution["scope"]),
            split_by=tuple(execution.get("split_by", ())),
            then=then,
            encryption_key=files.encryption_key if ENCRYPT in then else None,
        ),
    )


def column(value: Mapping[str, Any], *, type_text: str) -> Column:
    """Return a column; ``type_text`` is the canonical spelling of its type."""
    return Column(
        name=value["name"],
        type=type_text,
        nullable=value.get("nullable", True),
        description=value.get("description"),
        generated=value.get("generated"),
        pii=value.get("pii", False),
    )


def source(value: Mapping[str, Any], *, path: str, has_key: bool) -> Source:
    """Return a source; its default operation is upsert if the table has a record key, or else insert."""
    default = Operation.UPSERT if has_key else Operation.INSERT
    return Source(
        name=value["name"],
        format=value["format"],
        path=path,
        options={key: _option(option) for key, option in value.get("options", {}).items()},
        select=value.get("select"),
        operation=Operation(value.get("operation", default)),
        read=value.get("read", "new"),
        drop_duplicates=value.get("drop_duplicates", False),
        delete_when=value.get("delete_when"),
        drop=tuple(value.get("drop", ())),
        match=tuple(value.get("match", ())),
        if_missing=value.get("if_missing"),
        bad_files=value.get("bad_files", "stop"),
        ingest_again=value.get("ingest_again"),
        removed_rows=value.get("removed_rows", "error"),
        file_order=value.get("file_order", MODIFIED),
        ties=Ties(value.get("ties", Ties.REFUSE)),
        encryption_keys=tuple(value.get("encryption_keys", ())),
    )


def query(value: Mapping[str, Any]) -> Query:
    """Return a declared query."""
    runs = value.get("runs_per_day")
    return Query(
        name=value["name"],
        where=value["where"],
        weight=float(value.get("weight", 1)),
        runs_per_day=None if runs is None else float(runs),
    )


def budget(value: Mapping[str, Any]) -> Budget:
    """Return the byte limits of table services."""
    return Budget(
        per_run_bytes=_size(value, "per_run"),
        per_apply_bytes=_size(value, "per_apply"),
        per_commit_bytes=_size(value, "per_commit"),
    )


def _size(value: Mapping[str, Any], key: str) -> int | None:
    return size_bytes(value[key]) if key in value else None


def _option(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
