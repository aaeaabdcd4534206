"""A table without the columns that its spec has dropped, and real Hudi that writes on in it."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from parquetry.runtime.spec.clustering import ExecutionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.interop.versions import MOSTLY_0_15_0
from tests.support.clustering import clustering_of, table_of_small_files
from tests.support.judges import assert_latest
from tests.support.our_table import OurReader
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def clustered(ours):
    result = ours.table.cluster(ours.spark)
    for instant in result.instants:
        ours.model.unchanged(instant)
    return result


def columns_on_disk(ours):
    handle = open_table(open_store(str(ours.path)))
    slices = handle.view(handle.timeline()).all_slices()
    return {name for part in slices for name in pq.read_schema(ours.path / part.path).names[5:]}


@MOSTLY_0_15_0
def test_hudi_goes_on_writing_a_pruned_table(spark, tmp_path, judges, hudi):
    section = replace(clustering_of(), execution=ExecutionPolicy(then=("prune",)))
    ours = table_of_small_files(spark, tmp_path / "table", section, inserts=1)
    clustered(ours)
    ours.evolve(ours.schema.remove(ours.schema.get_field_index("c_double")))
    assert "c_double" in columns_on_disk(ours)
    result = clustered(ours)
    assert result.groups == 4
    assert columns_on_disk(ours) == set(ours.schema.names)
    assert clustered(ours).groups == 0
    rnd = random.Random(61)
    rows = ours.rows(rnd, range(0, 90, 4), 7)
    ours.model.upsert(hudi.write(ours.hudi(), ours.arrow(rows), "upsert"), rows)
    rows = ours.rows(rnd, range(200, 209), 7)
    ours.model.insert(hudi.write(ours.hudi(), ours.arrow(rows), "insert"), rows)
    assert columns_on_disk(ours) == set(ours.schema.names)
    ours.upsert(ours.rows(rnd, range(1, 90, 6), 8))
    assert unsound(ours.path, since=result.instants[0]) == []
    assert_latest([*judges, OurReader(spark)], str(ours.path), ours.model)
