"""A metadata table as a Hudi job with its defaults creates one: its properties, and files that nobody here can read."""

from __future__ import annotations

from pathlib import Path

from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import METADATA_TABLE_KEYS
from parquetry.runtime.table.properties import read_table_properties, update_table_properties

FILES = (
    ".hoodie/metadata/.hoodie/hoodie.properties",
    ".hoodie/metadata/.hoodie/20260101000000000.deltacommit",
    ".hoodie/metadata/files/.files-0000-0_20260101000000000.log.1_0-0-0",
    ".hoodie/metadata/files/files-0000-0_0-0-0_20260101000000000.hfile",
    ".hoodie/.index_defs/index.json",
)


def switch_on(path: Path, partitions: str = "files", *, key: str = METADATA_TABLE_KEYS[0]) -> None:
    """Declare a metadata table with these partitions in the properties of the table, and put its files."""
    store = open_store(path)
    for name in FILES:
        store.put(name, b"not for us")
    update_table_properties(store, {key: partitions}, comment="Hudi with its defaults")


def is_declared(path: Path) -> bool:
    """Return whether the properties of the table declare a metadata table."""
    return any(read_table_properties(open_store(path)).get(key) for key in METADATA_TABLE_KEYS)


def exists(path: Path) -> bool:
    """Return whether the folder of a metadata table has files."""
    return bool(open_store(path).list(".hoodie/metadata", recursive=True))
