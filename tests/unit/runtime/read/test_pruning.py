"""What a partition's path says of its columns, and where it says nothing."""

from __future__ import annotations

from datetime import UTC

import numpy as np
import pytest

from parquetry.runtime.read.pruning import Pruner
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.handle import TableHandle


def kept(tmp_path, kind: str, where: str, path: str, *, generator: str, ours: bool = False) -> bool:
    raw = {
        "hoodie.table.name": "t",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "p",
        "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    handle = TableHandle(
        store=open_store(tmp_path),
        config=TableConfig.from_properties(raw, location="t"),
        spec=None,
        applied=None,
        table_id=None,
        project=None,
        first_instant="20260101000000000" if ours else None,
    )
    pruner = Pruner(handle, (Column(name="p", type=kind),), where, UTC)
    return pruner.partitions([path]) == [path]


@pytest.mark.parametrize("generator", ["TimestampBasedKeyGenerator", "CustomKeyGenerator", "com.me.OwnKeys"])
def test_a_path_that_may_hold_a_formatted_time_leaves_no_partition_out(tmp_path, generator):
    """The table of another program: the row's time of day is not in its folder's name."""
    where = "p = '2024-01-02T10:00:00'"
    assert kept(tmp_path, "string", where, "p=2024-01-02", generator=generator)


def test_a_path_that_holds_the_value_leaves_partitions_out(tmp_path):
    where = "p = '2024-01-02'"
    for generator, ours in (("SimpleKeyGenerator", False), ("CustomKeyGenerator", True)):
        assert kept(tmp_path, "string", where, "p=2024-01-02", generator=generator, ours=ours)
        assert not kept(tmp_path, "string", where, "p=2024-01-03", generator=generator, ours=ours)


def test_the_folder_of_null_may_hold_its_own_name_as_a_text_and_empty_text(tmp_path):
    path = "p=__HIVE_DEFAULT_PARTITION__"
    for where in ("p = '__HIVE_DEFAULT_PARTITION__'", "p LIKE '__HIVE%'", "p = ''", "p IS NULL", "p > 'A'"):
        assert kept(tmp_path, "string", where, path, generator="SimpleKeyGenerator"), where
    assert not kept(tmp_path, "string", "p > 'a'", path, generator="SimpleKeyGenerator")
    assert not kept(tmp_path, "int", "p = 1", path, generator="SimpleKeyGenerator")


def test_a_moment_in_a_path_is_read_of_tables_that_count_microseconds(tmp_path):
    """A schema with timestamp-millis makes paths of milliseconds."""
    where = "p = '2024-01-02 00:00:00'"
    for path, is_it in (("p=1704153600000000", True), ("p=1704153600000", False)):
        assert kept(tmp_path, "timestamp", where, path, generator="SimpleKeyGenerator")
        assert kept(tmp_path, "timestamp", where, path, generator="SimpleKeyGenerator", ours=True) is is_it


@pytest.mark.parametrize("text", ["0.7", "0.1", "1.1"])
def test_a_float_in_a_path_is_compared_as_the_double_that_it_is(tmp_path, text):
    stored = float(np.float32(text))
    for operator, bound in (("<", stored + 1e-9), ("<=", stored), (">=", stored), (">", stored - 1e-9)):
        where = f"p {operator} {bound!r}D"
        assert kept(tmp_path, "float", where, f"p={text}", generator="SimpleKeyGenerator")
