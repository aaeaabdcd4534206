"""A table's spec with the keys and units of its YAML, for reviews and the paths of changes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from parquetry.runtime.spec.codec import to_json_value
from parquetry.runtime.spec.table_spec import PartitionRetention, Publish, Source, TableSpec
from parquetry.text.printable import quoted

_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_DECIMAL_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("KB", 10**3))
_AGES = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def format_size(size_bytes: int) -> str:
    """Return the size in the largest exact unit, such as ``120MiB``, ``120MB`` or ``77B``."""
    if size_bytes == 0:
        return "0"
    candidates = [
        next((f"{size_bytes // scale}{unit}" for unit, scale in units if size_bytes % scale == 0), None)
        for units in (_UNITS, _DECIMAL_UNITS)
    ]
    exact = [text for text in candidates if text is not None]
    return min(exact, key=len) if exact else f"{size_bytes}B"


def human_duration(seconds: float) -> str:
    """Return a duration rounded down to its largest useful unit: ``40 s``, ``4 min``, ``3 days``."""
    seconds = round(seconds)
    for unit, length in (("days", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def format_age(seconds: int) -> str:
    """Return the duration in the largest exact unit, such as ``25d``."""
    return next(f"{seconds // scale}{unit}" for unit, scale in _AGES if seconds % scale == 0)


def document(spec: TableSpec) -> dict[str, Any]:
    """Return the spec as a nested mapping with the keys and units of its YAML."""
    sizing, files, retention = spec.sizing, spec.files, spec.retention
    extra = {key: _with_yaml_keys(value) for key, value in sorted(to_json_value(spec.extra).items())}
    # This repeats files.encryption_key.
    extra.get("clustering", {}).get("execution", {}).pop("encryption_key", None)
    return {
        **extra,
        "columns": {
            column.name: {
                "type": column.type,
                "nullable": column.nullable,
                "description": column.description,
                "generated": column.generated,
                "pii": column.pii,
            }
            for column in spec.columns
        },
        "record_key": list(spec.record_key),
        "key_scope": str(spec.key_scope),
        "ordering": spec.ordering,
        "partition_by": list(spec.partition_by),
        "partitioning": {"hive_style": spec.hive_style, "url_encode": spec.url_encode},
        "table_version": spec.table_version,
        "locks": str(spec.locks),
        **({} if spec.publish is None else {"publish": _publish(spec.publish)}),
        "sizing": {
            "max_file_size": format_size(sizing.max_file_size_bytes),
            "small_file_limit": format_size(sizing.small_file_limit_bytes),
            "insert_split_size": "auto" if sizing.insert_split_size is None else sizing.insert_split_size,
            "record_size": _optional_size(sizing.record_size_bytes, "auto"),
            "min_fill": sizing.min_fill,
        },
        "files": {
            "compression": files.compression,
            "row_group_size": _optional_size(files.row_group_size_bytes, None),
            "page_size": _optional_size(files.page_size_bytes, None),
            "bloom_filter": str(files.bloom_filter),
            "text_encodings": str(files.text_encodings),
            "encryption_key": files.encryption_key,
            "former_encryption_keys": list(files.former_encryption_keys),
            "meta_columns": str(files.meta_columns),
        },
        "retention": {
            "clean": {
                "keep_commits": retention.keep_commits,
                "keep_versions": retention.keep_versions,
                "max_age": None
                if retention.max_age_seconds is None
                else format_age(retention.max_age_seconds),
            },
            "archive": {"keep_commits": retention.archive_keep_commits},
            **(
                {}
                if retention.partitions is None
                else {"partitions": _partition_retention(retention.partitions)}
            ),
            **(
                {}
                if retention.quarantine_seconds is None
                else {"quarantine": format_age(retention.quarantine_seconds)}
            ),
        },
        "sources": {source.name: _source(source) for source in spec.sources},
    }


def _partition_retention(rule: PartitionRetention) -> dict[str, Any]:
    return {"column": rule.column, "keep": f"{rule.keep_days}d", "at_most": rule.at_most}


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings by dotted path. Lists and empty mappings are leaves."""
    if not isinstance(value, Mapping) or (not value and path):
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, item in value.items():
        leaves |= flatten(item, f"{path}.{key}" if path else str(key))
    return leaves


def _with_yaml_keys(value: Any) -> Any:
    """Return the value with units in values instead of in keys, and lists of named items as mappings."""
    if isinstance(value, Mapping):
        return dict(_yaml_entry(key, item) for key, item in value.items())
    if isinstance(value, list) and value and all(isinstance(v, Mapping) and "name" in v for v in value):
        return {
            v["name"]: {key: item for key, item in _with_yaml_keys(v).items() if key != "name"} for v in value
        }
    return value


def _yaml_entry(key: str, value: Any) -> tuple[str, Any]:
    if key.endswith("_bytes") and isinstance(value, int):
        return key.removesuffix("_bytes"), format_size(value)
    if key.endswith("_seconds") and isinstance(value, int):
        return key.removesuffix("_seconds"), format_age(value)
    return key, _with_yaml_keys(value)


def _optional_size(size_bytes: int | None, absent: str | None) -> str | None:
    return absent if size_bytes is None else format_size(size_bytes)


def _source(source: Source) -> dict[str, Any]:
    return {
        "format": source.format,
        "path": source.path,
        "options": dict(source.options),
        "select": source.select,
        "operation": str(source.operation),
        "read": source.read,
        "drop_duplicates": source.drop_duplicates,
        "delete_when": source.delete_when,
        "drop": list(source.drop),
        "match": list(source.match),
        "if_missing": source.if_missing,
        "bad_files": source.bad_files,
        "ingest_again": source.ingest_again,
        "removed_rows": source.removed_rows,
        "file_order": source.file_order,
        "ties": str(source.ties),
        "encryption_keys": list(source.encryption_keys),
    }


ENTRY_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "columns": {"nullable": True, "pii": False},
    "sources": {
        key: value
        for key, value in _source(Source(name="", format="", path="")).items()
        if key not in ("format", "path", "operation")
    },
    "queries": {"weight": 1.0},
}
"""Default values in named entries, by section, which may be omitted."""

_NO_DEFAULT: Final = object()


def _publish(publish: Publish) -> dict[str, Any]:
    """Return the formats with the keys of YAML: a catalog is its name."""
    formats: dict[str, Any] = to_json_value(publish)
    if publish.iceberg is not None and publish.iceberg.catalog is not None:
        formats["iceberg"]["catalog"] = publish.iceberg.catalog.name
    return formats


def is_default(path: str, value: Any) -> bool:
    """Return whether a field of a named entry has the value that it has when it is absent.

    A format below ``publish`` has no such value: an empty mapping publishes the table.
    """
    section, _, name = path.partition(".")
    if section == "publish":
        return False
    defaults = ENTRY_DEFAULTS.get(section, {})
    return value in (None, [], {}) or defaults.get(name.rpartition(".")[2], _NO_DEFAULT) == value


def scalar(value: Any) -> str:
    """Return the value on one line of YAML; only text that needs quotes gets them."""
    if isinstance(value, str):
        return value if value.isprintable() and _is_plain(value) else quoted(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(scalar(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _is_plain(text: str) -> bool:
    """Return whether YAML reads the unquoted text as the same text."""
    special = set(":{}[],&*#?|<>=!%@`\"'\\")
    words = {"true", "false", "null", "yes", "no", "on", "off"}
    return bool(_QUANTITY.fullmatch(text)) or (
        bool(text)
        and text == text.strip()
        and text[0].isalpha()
        and not special & set(text)
        and text.lower() not in words
    )


def flow(value: Any) -> str:
    """Return the value on one line of YAML in flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if isinstance(value, str):
        if not value.isprintable():
            return quoted(value)
        # The YAML library quotes text that would be read as another type, a comment or a template.
        text = yaml.safe_dump([value], default_flow_style=True, width=1_000_000, allow_unicode=True)
        return text.strip().removeprefix("[").removesuffix("]")
    return json.dumps(value)


_QUANTITY = re.compile(r"\d+([KMGT]i?B|B|[smhd])")
