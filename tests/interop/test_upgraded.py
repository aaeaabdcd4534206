"""Table versions beside real Hudi: a default job upgrades a table of ours, and our own upgrades and downgrades."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.model import Step
from parquetry.compiler.spec_files.adopt import adopt
from parquetry.runtime.apply.version_change import change_version
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.services.savepoint import create_savepoint
from parquetry.runtime.spec.job import TableOwner, rules_digest
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import read_table_properties, update_table_properties
from parquetry.runtime.table.version_properties import PARTITIONS_KEY
from parquetry.runtime.timeline.instant import State
from tests.support import hudi_rs, our_table
from tests.support.hudi_spark import NO_METADATA_TABLE, HudiTable
from tests.support.judges import HudiRs, RealHudi, assert_history, assert_latest
from tests.support.planning import apply, plan
from tests.support.project_folder import ProjectFolder

pytestmark = [pytest.mark.interop, pytest.mark.spark]

POLICY = RetentionPolicy(keep_commits=2, archive_keep_commits=4)


def version(table):
    return open_table(open_store(table.path)).config.version


def archived(table):
    """The times of the archived instants, by our reading."""
    handle = open_table(open_store(table.path))
    files = [file for _, file in handle.timeline().layout.archived(handle.store)]
    return {instant.time for file in files for instant in file if instant.state == State.COMPLETED}


def shown_by(hudi, table):
    """The times of the archived instants, as Hudi lists them."""
    found = hudi.call_with(
        NO_METADATA_TABLE,
        "show_archived_commits",
        str(table.path),
        start_ts="20000101000000",
        end_ts="29991231235959",
        limit=99,
    )
    return {str(row["commit_time"]) for row in found}


def test_a_default_hudi_job_upgrades_a_table_and_one_apply_brings_it_back(spark, tmp_path, hudi_12, judges):
    rnd = random.Random(21)
    ours = our_table.create(spark, tmp_path / "ours")
    ours.upsert(ours.rows(rnd, range(20), 1))
    ours.upsert(ours.rows(rnd, range(10, 30), 2))
    folder = ProjectFolder.create(tmp_path / "project")
    (folder.root / "tables/orders.yml").unlink()
    folder.project(name="interop")
    adopt(folder.workspace(), str(ours.path), name=None, reload=folder.workspace)
    assert plan(folder).is_empty

    rows = ours.rows(rnd, range(25, 35), 3)
    ours.model.upsert(hudi_12.write(ours.hudi(), ours.arrow(rows), guarded=False), rows)
    assert version(ours) == 9
    assert_latest([HudiRs(), RealHudi(hudi_12, metadata_table=None)], str(ours.path), ours.model)

    (found,) = drift_of_workspace(folder.workspace())
    drifts = {drift.code: drift for drift in found.drifts}
    assert drifts.keys() == {"DR103", "DR104"}
    changed = drifts["DR103"]
    assert (changed.applied, changed.live, changed.writer) == (6, 9, "Hudi 1.1 or later")
    assert "shuts out Athena" in changed.remedy
    # The drift cannot be more exact.
    assert not [file for file in ours.path.rglob("*") if file.is_file() and b"1.2.0" in file.read_bytes()]

    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class) == ("SC262", "format")
    assert action.steps == (Step.DROP_METADATA_TABLE, Step.DOWNGRADE)
    store = open_store(ours.path)
    spec = open_table(store).spec
    as_job = open_table(store, owner=TableOwner(project="interop", target=None, rules=rules_digest(spec)))
    with pytest.raises(UnsupportedTableError, match="its version is 9, but 6 is applied"):
        check_writable(as_job, as_job.timeline(), store.now_ms())
    with pytest.raises(UnsupportedTableError, match="metadata"):
        ours.upsert(ours.rows(rnd, range(5), 4))

    apply(folder)
    assert version(ours) == 6
    assert plan(folder).is_empty
    (found,) = drift_of_workspace(folder.workspace())
    assert found.drifts == ()
    ours.upsert(ours.rows(rnd, range(5), 4))
    rows = ours.rows(rnd, range(30, 40), 5)
    ours.model.upsert(hudi_12.write(ours.hudi(), ours.arrow(rows)), rows)
    assert version(ours) == 6
    ours.upsert(ours.rows(rnd, range(38, 42), 6))
    assert_history(judges, str(ours.path), ours.model)


def test_hudi_reads_and_writes_what_we_upgraded_and_downgraded(spark, tmp_path, hudi_15, hudi_12, judges):
    rnd = random.Random(22)
    ours = our_table.create(spark, tmp_path / "ours")
    for number in range(6):
        ours.upsert(ours.rows(rnd, range(4 * number, 4 * number + 8), number))
        ours.clean(POLICY)
    ours.insert_overwrite(ours.rows(rnd, range(40, 41), 7))
    ours.clean(POLICY)
    assert ours.archive(POLICY)
    handle = open_table(open_store(ours.path))
    create_savepoint(handle)
    ours.delete(ours.rows(rnd, range(21, 23), 8))
    before, history = open_table(handle.store).timeline().earliest_retained, archived(ours)
    assert shown_by(hudi_15, ours) == history

    for round_, wanted in enumerate((9, 8)):
        change_version(open_store(ours.path), wanted)
        assert version(ours) == wanted
        of_version_9 = [HudiRs(), RealHudi(hudi_12)]
        if round_ == 0:
            # Also ranges of instants: commits of layout 2 complete later than they begin, changed ones do not.
            assert_history(of_version_9, str(ours.path), ours.model, from_instant=before)
        assert archived(ours) == history
        assert shown_by(hudi_12, ours) == history
        rows = ours.rows(rnd, range(30 + round_, 36 + round_), 10 + round_)
        stays = NO_METADATA_TABLE | {
            "hoodie.write.table.version": str(wanted),
            "hoodie.write.auto.upgrade": "false",
        }
        written = hudi_12.write(ours.hudi(), ours.arrow(rows), guarded=False, options=stays)
        ours.model.upsert(written, rows)
        assert version(ours) == wanted
        ours.upsert(ours.rows(rnd, range(33, 38), 20 + round_))
        assert_latest(of_version_9, str(ours.path), ours.model)

    change_version(open_store(ours.path), 6)
    assert archived(ours) == shown_by(hudi_15, ours) == history
    assert_history(judges, str(ours.path), ours.model, from_instant=before)
    rows = ours.rows(rnd, range(31, 39), 30)
    ours.model.upsert(hudi_15.write(ours.hudi(), ours.arrow(rows)), rows)
    rows = ours.rows(rnd, range(35, 42), 31)
    ours.model.upsert(hudi_12.write(ours.hudi(), ours.arrow(rows)), rows)
    ours.upsert(ours.rows(rnd, range(38, 42), 32))
    assert version(ours) == 6
    assert_latest(judges, str(ours.path), ours.model)


def test_hudi_goes_on_with_a_clustering_that_was_pending_while_the_version_changed(spark, tmp_path, hudi_12):
    rnd = random.Random(23)
    ours = our_table.create(spark, tmp_path / "ours")
    ours.bulk_insert(ours.rows(rnd, range(20), 1))
    ours.bulk_insert(ours.rows(rnd, range(20, 40), 2))
    hudi_12.call("run_clustering", str(ours.path), op="schedule")
    (pending,) = open_table(open_store(ours.path)).timeline().pending_clusterings
    change_version(open_store(ours.path), 9)
    assert (ours.path / f".hoodie/timeline/{pending}.clustering.requested").exists()
    hudi_12.call_with(
        NO_METADATA_TABLE | {"hoodie.write.table.version": "9"},
        "run_clustering",
        str(ours.path),
        op="execute",
    )
    timeline = open_table(open_store(ours.path)).timeline()
    assert timeline.is_completed(pending)
    ours.model.unchanged(pending)
    assert_latest([HudiRs(), RealHudi(hudi_12)], str(ours.path), ours.model)
    change_version(open_store(ours.path), 6)
    assert_latest([HudiRs(), RealHudi(hudi_12)], str(ours.path), ours.model)


def test_partition_fields_without_types_are_read_by_all_and_upserted_by_hudi(tmp_path, hudi_12):
    version_9 = NO_METADATA_TABLE | {"hoodie.write.table.version": "9"}
    made = HudiTable(
        path=str(tmp_path / "t"),
        name="t",
        key=("id",),
        ordering="v",
        partition_by=("p", "q"),
        options=version_9,
    )

    def write(version):
        rows = {
            "id": ["k0", "k1"],
            "v": pa.array([version] * 2, pa.int64()),
            "p": ["a", "b"],
            "q": ["x", "x"],
        }
        hudi_12.write(made, pa.table(rows), guarded=False)

    write(1)
    store = open_store(made.path)
    assert read_table_properties(store)[PARTITIONS_KEY] == "p:SIMPLE,q:SIMPLE"
    with pytest.raises(Exception, match="not present in the table schema"):
        hudi_rs.read(made.path)
    update_table_properties(store, {PARTITIONS_KEY: "p,q"}, comment="as parquetry writes them")
    write(2)
    assert read_table_properties(store)[PARTITIONS_KEY] == "p,q"
    for found in (hudi_12.read(made.path), hudi_rs.read(made.path)):
        assert found.column("v").to_pylist() == [2, 2]
    assert hudi_12.read(made.path, where="p = 'a' and q = 'x'").num_rows == 1
