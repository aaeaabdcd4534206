"""When a table was last clustered is known after the archive, and that a job began one whatever came of it."""

from __future__ import annotations

import pytest

from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.cluster import cluster
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.timeline.last_clustering import last_begun, last_clustering, record_begun
from parquetry.runtime.timeline.sidecars import ARCHIVED_CLUSTERING_PATH, CLUSTERING_BEGUN_PATH
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planned_clustering import table_in_debt
from tests.support.small_table import FAST

FEW = RetentionPolicy(keep_commits=1, archive_keep_commits=2)


def test_the_last_clustering_is_known_after_it_was_archived(tmp_path):
    table = table_in_debt(tmp_path / "t")
    assert last_clustering(table.handle.timeline()) == ""
    clustered = cluster(OneProcessSpark(), table.handle, timing=FAST).instants[-1]
    for number in range(4):
        table.insert({f"l{number}": (number, "a")})
    clean(table.handle, policy=FEW, timing=FAST)
    assert clustered in archive(table.handle, policy=FEW, timing=FAST).instants
    timeline = table.handle.timeline()
    assert clustered not in {write.time for write in timeline.completed_writes}
    assert last_clustering(timeline) == clustered
    # A newer one counts as soon as it is there.
    newer = cluster(OneProcessSpark(), table.handle, timing=FAST).instants[-1]
    assert last_clustering(table.handle.timeline()) == newer > clustered


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"instant": 7, "at_ms": "x"}', b'{"at_ms": 7}', b'{"at_ms": 1e999}']
)
def test_records_that_cannot_be_read_count_as_none(tmp_path, content):
    table = table_in_debt(tmp_path / "t", inserts=1)
    assert last_begun(table.store) is None
    record_begun(table.store, size_bytes=7)
    begun = last_begun(table.store)
    assert abs(begun.at_ms - table.store.now_ms()) < 60_000
    assert begun.size_bytes == 7
    for path in (ARCHIVED_CLUSTERING_PATH, CLUSTERING_BEGUN_PATH):
        table.store.put(path, content)
    assert last_clustering(table.handle.timeline()) == ""
    assert last_begun(table.store) is None
