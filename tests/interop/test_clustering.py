"""Clustering plans across: ours read and executed by real Hudi, Hudi's by us."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from parquetry.runtime.clustering.plan.schedule import schedule
from parquetry.runtime.clustering.plan.survey import survey
from parquetry.runtime.layout.clustering.debt import compute_debt
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.services.archive import archive
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table
from tests.interop.versions import MOSTLY_0_15_0, MOSTLY_1_2_0
from tests.support import hudi_history, our_table
from tests.support.clustering import FEW, clustering_of, spec_of, table_of_small_files
from tests.support.hudi_history import NO_ROW_WRITER
from tests.support.judges import assert_history, assert_latest
from tests.support.our_table import OurReader, OurTable
from tests.support.rows import TYPES
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]


def handle_of(ours):
    return open_table(open_store(str(ours.path)))


def clustered(ours, **settings):
    result = ours.table.cluster(ours.spark, **settings)
    for instant in result.instants:
        ours.model.unchanged(instant)
    return result


def scheduled(ours):
    handle = handle_of(ours)
    plan = schedule(handle, compute_debt(*survey(handle, handle.timeline())).groups)
    assert plan is not None
    return plan.instant


@MOSTLY_1_2_0
def test_readers_and_services_of_real_hudi_take_our_clustering(spark, tmp_path, judges, hudi):
    section = clustering_of("c_int", "c_string", strategy="zorder")
    ours = table_of_small_files(spark, tmp_path / "table", section, typed=list(TYPES), rows=24)
    rnd = random.Random(51)
    result = clustered(ours)
    assert result.groups == 4
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model, thorough=True)
    shown = hudi.call("show_clustering", str(ours.path), show_involved_partition=True)
    assert [(row["timestamp"], row["input_group_size"], row["state"]) for row in shown] == [
        (result.instants[0], 4, "COMPLETED")
    ]
    rows = ours.rows(rnd, range(0, 90, 5), 7)
    ours.model.upsert(hudi.write(ours.hudi(), ours.arrow(rows), "upsert"), rows)
    rows = ours.rows(rnd, range(200, 212), 7)
    ours.model.insert(hudi.write(ours.hudi(), ours.arrow(rows), "insert"), rows)
    assert clustered(ours).files_before > 0
    hudi.call("run_clean", str(ours.path), retain_commits=2)
    archive(handle_of(ours), policy=RetentionPolicy(keep_commits=2, archive_keep_commits=3))
    ours.upsert(ours.rows(rnd, range(1, 90, 6), 8))
    assert unsound(ours.path, since=result.instants[0]) == []
    newest = ours.model.instants()[-2]
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model, from_instant=newest)


@MOSTLY_0_15_0
def test_real_hudi_carries_out_a_plan_of_ours(spark, tmp_path, judges, hudi):
    ours = table_of_small_files(spark, tmp_path / "table", clustering_of("c_int", "c_string"))
    instant = scheduled(ours)
    ((name, value),) = NO_ROW_WRITER.items()
    hudi.call("run_clustering", str(ours.path), op="execute", options=f"{name}={value}")
    handle = handle_of(ours)
    assert handle.timeline().is_completed(instant)
    ours.model.unchanged(instant)
    assert len(handle.view(handle.timeline()).all_slices()) == 4
    rnd = random.Random(52)
    ours.upsert(ours.rows(rnd, range(0, 100, 3), 9))
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)


@MOSTLY_0_15_0
def test_we_carry_out_a_plan_of_real_hudi(spark, tmp_path, judges, hudi):
    made = hudi_history.start(hudi, tmp_path / "theirs", partition_by=("region",))
    rnd = random.Random(53)
    made.insert(made.rows(rnd, range(40), 1), mode="overwrite")
    small = {"hoodie.parquet.small.file.limit": "0"}
    made.insert(made.rows(rnd, range(40, 80), 1), options=small)
    made.upsert(made.rows(rnd, range(0, 80, 9), 2))
    hudi.call("run_clustering", made.table.path, op="schedule", order="c_int")
    ours = OurTable(spark=spark, path=tmp_path / "theirs", schema=made.schema, model=made.model, name="made")
    (instant,) = handle_of(ours).timeline().pending_clusterings
    result = clustered(ours, instant=instant)
    assert result.instants == (instant,)
    assert (result.files_before, result.files_after) == (8, 4)
    assert unsound(ours.path, since=instant) == []
    assert_history([*judges, OurReader(spark)], str(ours.path), ours.model)
    assert hudi.call("show_clustering", made.table.path)[0]["state"] == "COMPLETED"
    rows = made.rows(rnd, range(0, 80, 7), 3)
    made.upsert(rows)
    assert_latest(judges, str(ours.path), ours.model)


def test_every_reader_takes_copied_pages(spark, tmp_path, judges):
    """Texts of small files that are long enough for their pages to be copied into one column chunk."""
    rnd = random.Random(56)
    ours = our_table.create(spark, tmp_path / "table", typed=list(FEW), spec=spec_of(clustering_of()))
    for first in (0, 1200, 2400):
        rows = ours.rows(rnd, range(first, first + 1200, 4), 1)
        ours.insert([{**row, "c_string": rnd.randbytes(100).hex()} for row in rows])
    small = {path: path.read_bytes() for path in ours.path.glob("region=eu/*.parquet")}
    result = clustered(ours)
    assert (result.files_before, result.files_after) == (3, 1)
    (new,) = set(ours.path.glob("region=eu/*.parquet")) - small.keys()
    content = new.read_bytes()
    assert all(pages in content for pages in map(pages_of_strings, small.values()))
    assert unsound(ours.path) == []
    assert_latest([*judges, OurReader(spark)], str(ours.path), ours.model)


def pages_of_strings(content: bytes) -> bytes:
    """The pages of the long texts in a file."""
    parts = ParquetParts(pa.BufferReader(content))
    (chunk,) = (chunk for chunk in parts.chunks(0) if chunk.name == "c_string")
    return content[chunk.start : chunk.start + chunk.size_bytes]
