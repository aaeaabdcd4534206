"""Tables of real Hudi with its metadata table: read, refused to writers, dropped by a reviewed plan, and built again."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace

import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.model import Step
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.spec_files.adopt import adopt
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.services.clean import clean
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.config import METADATA_TABLE_KEYS
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.properties import read_table_properties, update_table_properties
from parquetry.runtime.timeline.sidecars import METADATA_DROP_PATH
from tests.interop.test_hudi_beside_us import Beside
from tests.support import hudi_history, our_table
from tests.support.hudi_spark import NO_METADATA_TABLE, HudiSpark, newest_write
from tests.support.judges import HudiRs, RealHudi, assert_latest
from tests.support.project_folder import ProjectFolder
from tests.support.soundness import unsound

pytestmark = [pytest.mark.interop, pytest.mark.spark]


SKIPPING = {"hoodie.enable.data.skipping": "true"}


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


@dataclass(frozen=True)
class Maker:
    """A Hudi whose jobs keep a metadata table, as is the default, in tables of one version."""

    hudi: HudiSpark
    version: int

    @property
    def settings(self):
        stays = self.hudi.guards() if self.version == 6 else {}
        return {"guarded": False, "options": stays | {"hoodie.metadata.enable": "true"}}

    def make(self, path, rnd):
        made = hudi_history.start(self.hudi, path, partition_by=("region",), columns=["c_int"])
        made.insert(made.rows(rnd, range(20), 1), mode="overwrite", **self.settings)
        made.upsert(made.rows(rnd, range(10, 30), 2), **self.settings)
        made.delete(made.rows(rnd, range(3), 3), **self.settings)
        assert open_table(open_store(path)).config.version == self.version
        return made


@pytest.fixture(
    params=[("hudi_15", 6), ("hudi_12", 6), ("hudi_12", 9)], ids=lambda p: f"{p[0]} version {p[1]}"
)
def maker(request):
    fixture, version = request.param
    return Maker(request.getfixturevalue(fixture), version)


def readers(hudi):
    """Return the readers that use a metadata table if there is one, and those that list."""
    return [
        HudiRs(),
        RealHudi(hudi, metadata_table=None),
        RealHudi(hudi, metadata_table=True),
        RealHudi(hudi),
    ]


def planned(folder):
    workspace = folder.workspace(select=("made",))
    return workspace, plan_workspace(workspace, now_ms=0)


def partitions_of(path):
    """The partitions of the metadata table that the properties declare."""
    return read_table_properties(open_store(path)).get(METADATA_TABLE_KEYS[0]) or ""


def assert_planned(folder, path):
    """The plan drops the metadata table; apply does it, and the next plan is empty."""
    workspace, plan = planned(folder)
    (action,) = plan.intent.actions
    assert (action.code, action.change_class, action.steps) == (
        "SC104",
        "policy",
        (Step.DROP_METADATA_TABLE,),
    )
    assert action.changes[0].old == partitions_of(path)
    result = apply_plan(plan, workspace)
    assert result.failure is None
    assert not (path / ".hoodie/metadata").exists()
    assert not set(METADATA_TABLE_KEYS) & set(read_table_properties(open_store(path)))
    assert planned(folder)[1].is_empty


def assert_refused(ours, rnd):
    with pytest.raises(
        UnsupportedTableError, match=r"hoodie\.table\.metadata\.partitions=.*`parquetry plan`"
    ):
        ours.upsert(ours.rows(rnd, range(5), 90))


def test_adopted_dropped_written_and_built_again(spark, folder, maker):
    rnd = random.Random(81)
    path = folder.root / "warehouse" / "made"
    made = maker.make(path, rnd)
    ours = our_table.OurTable(spark=spark, path=path, schema=made.schema, model=made.model, name="made")
    theirs = newest_write(str(path))
    assert "files" in partitions_of(path)
    assert_refused(ours, rnd)

    adopted = adopt(folder.workspace(), str(path), name=None, reload=folder.workspace)
    assert ",".join(adopted.metadata_partitions) == partitions_of(path)
    assert (path / ".hoodie/metadata").exists()
    assert_refused(ours, rnd)
    assert_planned(folder, path)

    ours.upsert(ours.rows(rnd, range(5, 40), 5))
    ours.delete(ours.rows(rnd, range(12, 15), 6))
    assert_latest(readers(maker.hudi), str(path), ours.model)

    assert_pruned(maker.hudi, path, 5)

    beside = Beside(maker.hudi, ours)
    beside.upsert(ours.rows(rnd, [7, 31, 50], 8), **maker.settings)
    assert "files" in partitions_of(path)
    assert_latest(readers(maker.hudi), str(path), ours.model)
    assert_pruned(maker.hudi, path, 5)
    (drift,) = drift_of_workspace(folder.workspace(select=("made",)))
    assert [(found.code, found.restorable) for found in drift.drifts] == [("DR104", True)]
    assert_refused(ours, rnd)
    assert_planned(folder, path)

    ours.upsert(ours.rows(rnd, [8, 31, 60], 9))
    assert_latest(readers(maker.hudi), str(path), ours.model)
    assert unsound(path, since=theirs) == []


def assert_pruned(hudi, path, version):
    """Hudi finds the rows of our write also by the statistics that it has of the files."""
    found = [
        hudi.read(str(path), where=f"version = {version}", metadata_table=uses, options=SKIPPING)
        for uses in (None, False)
    ]
    assert found[0].num_rows == found[1].num_rows > 0


def test_the_folder_that_an_interrupted_drop_leaves_misleads_nobody(spark, tmp_path, maker):
    rnd = random.Random(82)
    made = maker.make(tmp_path / "made", rnd)
    path = tmp_path / "made"
    ours = our_table.OurTable(spark=spark, path=path, schema=made.schema, model=made.model, name="made")
    store = open_store(path)
    update_table_properties(store, {}, remove=METADATA_TABLE_KEYS, comment="stopped here")
    ours.upsert(ours.rows(rnd, range(5, 40), 5))
    assert_latest(readers(maker.hudi), str(path), ours.model)
    cleaned = path.with_name("cleaned")
    shutil.copytree(path, cleaned)
    Beside(maker.hudi, ours).upsert(ours.rows(rnd, [7, 31, 50], 8), **maker.settings)
    assert "files" in partitions_of(path)
    assert_latest(readers(maker.hudi), str(path), ours.model)
    store = open_store(cleaned)
    store.put(METADATA_DROP_PATH, b"files\n")
    clean(open_table(store))
    assert not (cleaned / ".hoodie/metadata").exists()
    assert store.stat(METADATA_DROP_PATH) is None


def test_we_leave_what_hudi_leaves(folder, maker):
    """The definitions of indexes stay, and the two properties are empty there and absent here."""
    rnd = random.Random(83)
    path = folder.root / "warehouse" / "made"
    made = maker.make(path, rnd)
    theirs = folder.root / "warehouse" / "theirs"
    shutil.copytree(path, theirs)
    settings = maker.settings["options"] | NO_METADATA_TABLE
    rows = our_table.to_arrow(made.rows(rnd, range(4), 9), made.schema)
    maker.hudi.write(replace(made.table, path=str(theirs)), rows, guarded=False, options=settings)
    adopt(folder.workspace(), str(path), name=None, reload=folder.workspace)
    assert_planned(folder, path)
    assert _beside_timeline(path) == _beside_timeline(theirs)
    assert _set_properties(path) == _set_properties(theirs)


def _set_properties(path):
    return {key: value for key, value in read_table_properties(open_store(path)).items() if value}


def _beside_timeline(path):
    ignored = {".parquetry", ".aux", ".temp", ".heartbeat"}
    found = path.joinpath(".hoodie").iterdir()
    return {
        p.name
        for p in found
        if not p.name[:1].isdigit() and p.name not in ignored and not p.name.endswith(".crc")
    }
