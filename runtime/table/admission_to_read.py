"""Checks for tables that cannot be read: other versions, other types, rows outside the table."""

from __future__ import annotations

from typing import Final

from parquetry.message import Message
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import COPY_ON_WRITE, TableConfig
from parquetry.runtime.table.properties import PROPERTIES_PATH
from parquetry.runtime.timeline.layout import LAYOUT_OF_VERSION

_FOLDERS: Final = {"hoodie.timeline.path": "timeline", "hoodie.timeline.history.path": "history"}
"""The folders of timeline layout 2, which Hudi never names otherwise."""

_FLAGS: Final = {
    "hoodie.table.cdc.enabled": "change logs",
    "hoodie.table.multiple.base.file.formats.enable": "several formats of base files",
}
"""Properties with which rows may be in files that are not read, and the kinds of tables that have them."""


def check_readable(store: ObjectStore, config: TableConfig) -> None:
    """Raise UnsupportedTableError, with a remedy, unless it is a copy-on-write table of version 6, 8 or 9.

    Bootstrapped tables, tables with change logs, and tables with files other than Parquet are refused too.
    """
    if LAYOUT_OF_VERSION.get(config.version) != config.layout:
        raise UnsupportedTableError(_other_version(store, config))
    if config.table_type != COPY_ON_WRITE:
        raise UnsupportedTableError(
            "{table}: hoodie.table.type={found}; only {expected} is supported: write it into "
            "a new copy-on-write table with Hudi",
            table=store.uri,
            found=config.table_type,
            expected=COPY_ON_WRITE,
        )
    if config.bootstrap_base_path is not None:
        raise UnsupportedTableError(
            "{table}: bootstrapped from {location} (hoodie.bootstrap.base.path), so some "
            "rows are outside the table; write it into a new table with Hudi",
            table=store.uri,
            location=config.bootstrap_base_path,
        )
    for key, kind in _FLAGS.items():
        if config.raw.get(key, "").strip().lower() == "true":
            raise UnsupportedTableError(
                "{table}: {property}=true; tables with {kind} are not supported: write it into a new table "
                "with Hudi, without that setting",
                table=store.uri,
                property=key,
                kind=kind,
            )
    for key, folder in _FOLDERS.items():
        if config.raw.get(key, folder).strip("/") != folder:
            raise UnsupportedTableError(
                "{table}: {property}={found}; only {expected} is supported: write it into a new table "
                "with Hudi",
                table=store.uri,
                property=key,
                found=config.raw[key],
                expected=folder,
            )
    if config.base_file_format != "PARQUET":
        raise UnsupportedTableError(
            "{table}: hoodie.table.base.file.format={found}; only PARQUET is supported: "
            "write it into a new table with Hudi",
            table=store.uri,
            found=config.base_file_format,
        )


def _other_version(store: ObjectStore, config: TableConfig) -> Message:
    found = Message(
        "{table}: table version {version}, timeline layout {layout}",
        table=store.uri,
        version=config.version,
        layout=config.layout,
    )
    if config.version in LAYOUT_OF_VERSION:
        return Message(
            "{found}: version {version} has timeline layout {expected_layout}, so {file} was damaged; "
            "restore it from a copy",
            found=found,
            version=config.version,
            expected_layout=LAYOUT_OF_VERSION[config.version],
            file=PROPERTIES_PATH,
        )
    supported = ", ".join(map(str, LAYOUT_OF_VERSION))
    if config.version < min(LAYOUT_OF_VERSION):
        return Message(
            "{found}; the supported versions are {supported_versions}: upgrade it by a write with Hudi "
            "0.15, or 1.x with hoodie.write.table.version={version}",
            found=found,
            supported_versions=supported,
            version=min(LAYOUT_OF_VERSION),
        )
    return Message(
        "{found}; the supported versions are {supported_versions}: change it with Hudi's own CALL "
        "downgrade_table(table => '{name}', to_version => 'NINE'), or 'EIGHT' if it is version 7",
        found=found,
        supported_versions=supported,
        name=config.name,
    )
