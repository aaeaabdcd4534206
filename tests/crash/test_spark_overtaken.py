"""A Spark write whose files another writer replaces and cleans under its hands is done again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from parquetry.runtime.storage.open import open_store
from tests.support.fault_store import OVERTAKING, Deed, Fault, FaultStore
from tests.support.local_spark import local_spark
from tests.support.small_table import rows_of
from tests.support.spark_crash import DATA_FILE, OLD, WRITES, prepare, spark_rows, survives

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    return local_spark("parquetry tests")


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "t"
    prepare(spark, path, keep_commits=50)
    return path


ONE_READING_PER_WRITE = [
    pytest.param(name, reading, marks=[] if (i + j) % 2 == 0 else pytest.mark.long)
    for i, name in enumerate(["upsert", "delete", "upsert on a cluster"])
    for j, reading in enumerate(["the keys", "the rows"])
]


@pytest.mark.parametrize(("name", "reading"), ONE_READING_PER_WRITE)
def test_a_file_is_cleaned_before_it_is_read(name, reading, spark, template, tmp_path) -> None:
    path = tmp_path / "t"
    shutil.copytree(template, path)
    candidates = 2  # files in partitions a and b
    overtaken = Fault(
        deed=Deed.OVERTAKE,
        kind="open_input",
        path=DATA_FILE,
        when="before",
        skip=0 if reading == "the keys" else candidates,
    )
    store = FaultStore(open_store(path), tmp_path / "scratch", overtaken)
    result = WRITES[name].perform(spark, store)
    print(f"{name}: {result.retries} retries, because {result.retry_reasons}")
    assert store.happened() == 1
    assert result.retries == 1
    new = WRITES[name].after({**OLD, **OVERTAKING})
    assert rows_of(path) == spark_rows(spark, path) == new
    survives(path, [new])
