"""Whatever Spark writes below ``.hoodie/``, staged rows among it, no reader takes for data."""

from __future__ import annotations

import pytest

from parquetry.runtime.spec.table_spec import Operation
from parquetry.runtime.storage.open import open_store
from tests.support import names_below_hoodie as names
from tests.support.small_table import make_table, view_rows
from tests.support.spark_writes import SparkWrite
from tests.support.stores import CountingStore

pytestmark = pytest.mark.spark

ROWS = {f"k{n}": (n, "ab"[n % 2]) for n in range(20)}
EVERY = [operation for operation in Operation if operation is not Operation.DELETE_PARTITION]


@pytest.mark.parametrize("on_cluster", [False, True])
def test_no_operation_writes_a_name_below_hoodie_that_a_reader_takes_for_data(spark, tmp_path, on_cluster):
    make_table(tmp_path / "t")
    store = CountingStore(open_store(tmp_path / "t"), tmp_path / "log")
    expected = {}
    for number, operation in enumerate([Operation.UPSERT, *EVERY]):
        rows = {f"{operation}{n}": (n, "ab"[n % 2]) for n in range(5)} | (ROWS if number == 0 else {})
        rows = {"k1": (1, "b"), "k2": (2, "a")} if operation is Operation.DELETE else rows
        write = SparkWrite(operation=operation, rows=rows, on_cluster=on_cluster)
        write.perform(spark, store)
        expected = rows if operation is Operation.INSERT_OVERWRITE_TABLE else write.after(expected)
        assert view_rows(tmp_path / "t") == expected
    assert any("/stage/" in path for _, path in store.calls()) is on_cluster
    assert names.written(store) == []
    assert names.in_folder(tmp_path / "t") == []
