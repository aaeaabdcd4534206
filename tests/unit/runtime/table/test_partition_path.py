"""Partition paths that readers would not find again are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import create_table
from parquetry.runtime.table.partition_metadata import put_partition_metadata
from parquetry.runtime.table.partition_path import KeyRules, check_partition_path, partition_path

COLUMNS = tuple(Column(name=name, type="string") for name in ("id", "a", "b"))


@pytest.mark.parametrize("value", [".hoodie", ".hoodie_partition_metadata", "metadata", "_delta_log", "b"])
def test_a_path_that_is_accepted_is_found_at_its_level(tmp_path: Path, value: str) -> None:
    spec = TableSpec(name="t", columns=COLUMNS, record_key=("id",), partition_by=("a", "b"), hive_style=False)
    store = open_store(tmp_path / "t")
    handle = create_table(store, spec, project="tests")
    rules = KeyRules.of(handle.config, named_key=False)
    path = partition_path(rules, {"a": "x", "b": value})
    if value.startswith(".hoodie"):
        with pytest.raises(InvalidDataError, match="hive_style: true"):
            check_partition_path(rules, path)
        return
    check_partition_path(rules, path)
    put_partition_metadata(store, path, instant="20260101000000000")
    assert handle.view(handle.timeline()).partitions() == [path]
