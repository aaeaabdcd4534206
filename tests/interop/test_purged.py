"""A purged table is read, changed and archived by real Hudi: it misses no in-flight file, and keeps the rows."""

from __future__ import annotations

import random

import pytest

from parquetry.runtime.services.archive import archive
from parquetry.runtime.services.clean import clean
from parquetry.runtime.spark.purge import PurgeRequest, purge, survey
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.interop.versions import MOSTLY_0_15_0
from tests.support import our_table
from tests.support.judges import HudiRs, RealHudi, assert_latest
from tests.support.our_table import OurReader
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FEW = ("c_int", "c_string")


@MOSTLY_0_15_0
def test_real_hudi_goes_on_with_a_purged_table(spark, tmp_path, hudi):
    rnd = random.Random(61)
    ours = our_table.create(spark, tmp_path / "ours", typed=FEW)
    for version in range(1, 7):
        ours.upsert(ours.rows(rnd, range(version, version + 30), version))
    clean(open_table(open_store(str(ours.path))), policy=RetentionPolicy(keep_commits=2))
    archive(
        open_table(open_store(str(ours.path))), policy=RetentionPolicy(keep_commits=2, archive_keep_commits=3)
    )
    handle = open_table(open_store(str(ours.path)))
    report = purge(spark, handle, survey(spark, handle, PurgeRequest(where="id IN ('k5', 'k6')")))
    assert report.delete is not None
    assert (report.found, report.rows_deleted) == ((), 2)
    assert report.scrubbed.timeline_files > 0
    assert report.scrubbed.archive_files > 0
    ours.model.delete(report.delete, [{"id": f"k{i}", "region": our_table.REGIONS[i % 4]} for i in (5, 6)])
    readers = [HudiRs(), RealHudi(hudi), OurReader(spark)]
    assert_latest(readers, str(ours.path), ours.model)

    rows = ours.rows(rnd, range(20, 50), 9)
    hudi.write(ours.hudi(), ours.arrow(rows))
    ours.model.upsert(our_table.newest_write(str(ours.path)), rows)
    assert_latest(readers, str(ours.path), ours.model)
    hudi.call("run_clean", str(ours.path), retain_commits=1)
    hudi.call("archive_commits", str(ours.path), min_commits=2, max_commits=3, retain_commits=1)
    assert_latest(readers, str(ours.path), ours.model)
    assert unsound(ours.path) == []
