"""Checks for tables that cannot be read, because they are not copy-on-write tables of version 6."""

from __future__ import annotations

import re
from typing import Final

from parquetry.message import Message
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import COPY_ON_WRITE, TABLE_VERSION, TIMELINE_LAYOUT, TableConfig

_LAYOUT_2_FOLDER: Final = ".hoodie/timeline"
_COMPLETED_OF_LAYOUT_2 = re.compile(r"(\d+)_(\d+)\.([a-z]+)")


def check_readable(store: ObjectStore, config: TableConfig) -> None:
    """Raise UnsupportedTableError, with a remedy, if the table is not a version 6 copy-on-write table.

    Bootstrapped tables and tables with files other than Parquet are refused too.
    """
    if config.version != TABLE_VERSION or config.layout != TIMELINE_LAYOUT:
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
    if config.version < TABLE_VERSION:
        return Message(
            "{found}; only version {supported_version} is supported: upgrade it by a write with Hudi "
            "0.15, or 1.x with hoodie.write.table.version={supported_version}",
            found=found,
            supported_version=TABLE_VERSION,
        )
    newest = _newest_of_layout_2(store)
    instant = f" (newest completed instant there: {newest})" if newest else ""
    return Message(
        "{found}; a Hudi 1.x writer has upgraded it{instant}. Downgrade it with Hudi's own CALL "
        "downgrade_table(table => '{name}', to_version => 'SIX') and CALL "
        "delete_metadata_table(table => '{name}'), and give every Hudi writer "
        "hoodie.write.table.version={supported_version}, hoodie.write.auto.upgrade=false and "
        "hoodie.metadata.enable=false",
        found=found,
        instant=instant,
        name=config.name,
        supported_version=TABLE_VERSION,
    )


def _newest_of_layout_2(store: ObjectStore) -> str | None:
    """Return the file name of the newest completed instant in timeline layout 2, or None without instants."""
    names = (info.path.rpartition("/")[2] for info in store.list(_LAYOUT_2_FOLDER))
    completed = [match for name in names if (match := _COMPLETED_OF_LAYOUT_2.fullmatch(name))]
    newest = max(completed, key=lambda match: match[1], default=None)
    return None if newest is None else newest[0]
