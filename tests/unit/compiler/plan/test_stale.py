"""Every way in which a plan can have gone stale: exit 4 or a block, with what changed and who changed it."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess

import pytest

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import check_age, decode, encode
from parquetry.compiler.plan.model import Step
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.runtime.apply.requirements import check_requirements
from parquetry.runtime.commit.claims import open_session
from parquetry.runtime.errors import StalePlanError
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.timeline.clustering_plan import CLUSTER, ClusteringPlan, RequestedReplace
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable
from tests.support.stores import Kind, WrappedStore

NOW = 1_800_000_000_000
NOTE = {"columns": [*EVENTS["columns"], {"name": "note", "type": "string"}]}


class Shop(ProjectFolder):
    """A project with the table ``events``, which a writer without Spark can write."""

    def events(self, **changes):
        self.write("tables/events.yml", EVENTS | changes)

    @property
    def place(self):
        return self.root / "warehouse/events"

    @property
    def store(self):
        return open_store(self.place)

    def plan(self):
        return plan_workspace(self.workspace(), now_ms=NOW)

    def apply(self, plan=None):
        return apply_plan(plan or self.plan(), self.workspace())


@pytest.fixture
def shop(tmp_path):
    shop = Shop.create(tmp_path / "shop")
    (shop.root / "tables/orders.yml").unlink()
    shop.events()
    assert shop.apply().failure is None
    return shop


def refusal(result):
    """The error of a plan that was refused whole; nothing was recorded by it."""
    assert isinstance(result.failure, StalePlanError)
    assert result.failure.exit_code == 4
    assert [r.applied for r in result.results] == [None] * len(result.results)
    return str(result.failure)


def git(shop, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    command = ["git", *identity, "-C", str(shop.root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_table_was_replaced(shop):
    shop.events(description="Reviewed.")
    stale = shop.plan()
    before = stale.intent.actions[0].requirements.table_id
    shutil.rmtree(shop.place)
    shop.events()
    assert shop.apply().failure is None
    message = refusal(shop.apply(stale))
    assert f"{before} was expected: the table was replaced" in message
    assert open_table(shop.store).table_id in message


def test_the_table_is_gone(shop):
    shop.events(description="Reviewed.")
    stale = shop.plan()
    shutil.rmtree(shop.place)
    assert "a table was expected, but none exists" in refusal(shop.apply(stale))


def test_somebody_else_applied_a_spec(shop):
    git(shop, "init", "--quiet")
    (shop.root / ".gitignore").write_text("warehouse\ntarget\n")
    shop.events(description="Reviewed.")
    stale = shop.plan()
    shop.events(description="Theirs.")
    git(shop, "add", ".")
    git(shop, "commit", "--quiet", "-m", "theirs")
    theirs = shop.plan()
    assert shop.apply(theirs).failure is None
    message = refusal(shop.apply(stale))
    commit = git(shop, "rev-parse", "HEAD")
    assert (
        f"record 2 is applied by plan {theirs.plan_id} from commit {commit}, but record 1 was expected"
        in message
    )


def test_somebody_created_the_table_meanwhile(shop):
    shutil.rmtree(shop.place)
    stale = shop.plan()
    shop.events(description="Theirs.")
    theirs = shop.plan()
    assert shop.apply(theirs).failure is None
    message = refusal(shop.apply(stale))
    assert f"a table of project shop by plan {theirs.plan_id}" in message


def test_a_clustering_is_pending(shop):
    SmallTable(shop.store, timing=FAST).insert({"a": (1, "x")})
    clustering = {"trigger": "async", "existing": "now", "execution": {"strategy": "sort", "columns": ["v"]}}
    shop.events(clustering=clustering)
    stale = shop.plan()
    table = open_table(shop.store)
    timeline = table.timeline()
    with open_session(
        shop.store,
        purpose="clustering plan",
        after=timeline.last_instant,
        zone=table.config.timezone,
        timing=FAST,
    ) as session:
        content = RequestedReplace(operation=CLUSTER, plan=ClusteringPlan(groups=())).encode()
        shop.store.put(f".hoodie/{session.instant}.replacecommit.requested", content)
        message = refusal(shop.apply(stale))
    assert f"the clustering {session.instant} is pending, but none was expected" in message


def test_hudi_upgraded_the_table(shop):
    shop.events(description="Reviewed.")
    stale = shop.plan()
    properties = shop.place / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.version=6", "hoodie.table.version=8"))
    with pytest.raises(
        StalePlanError, match=r"hoodie\.table\.version is 8, but 6 was expected: another program"
    ):
        check_requirements(shop.store, stale.intent.actions[0].requirements)
    assert "hoodie.table.version is 8" in refusal(shop.apply(stale))
    (blocked,) = shop.plan().intent.blocked
    assert blocked.code == "SC503"


def test_hudi_made_a_metadata_table(shop):
    shop.events(description="Reviewed.")
    stale = shop.plan()
    properties = shop.place / ".hoodie/hoodie.properties"
    properties.write_text(f"{properties.read_text()}\nhoodie.table.metadata.partitions=files\n")
    assert "hoodie.table.metadata.partitions is files, but was empty" in refusal(shop.apply(stale))
    (action,) = shop.plan().intent.actions
    assert action.steps == (Step.DROP_METADATA_TABLE, Step.RECORD)
    assert shop.apply().failure is None
    assert shop.plan().is_empty


def test_the_plan_was_edited(shop):
    shop.events(description="Reviewed.")
    text = encode(shop.plan())
    with pytest.raises(StalePlanError, match="its digest does not match"):
        decode(text.replace("Reviewed.", "Another."), name="plan.json")


def test_the_plan_was_used(shop):
    shop.events(description="Reviewed.")
    plan = shop.plan()
    assert shop.apply(plan).failure is None
    assert read_applied(shop.store).ref.plan_id == plan.plan_id
    assert "this plan has already been applied, as record 2" in refusal(shop.apply(plan))


def test_the_plan_expired(shop):
    with pytest.raises(StalePlanError, match="plans expire after 7"):
        check_age(shop.plan(), NOW + 8 * 86_400_000, name="plan.json")


def test_the_plan_needs_a_newer_parquetry(shop):
    shop.events(description="Reviewed.")
    plan = shop.plan()
    (action,) = plan.intent.actions
    newer = dataclasses.replace(action.requirements, minimum_parquetry="99.0")
    intent = dataclasses.replace(plan.intent, actions=(dataclasses.replace(action, requirements=newer),))
    assert "parquetry 99.0 or newer" in refusal(shop.apply(dataclasses.replace(plan, intent=intent)))


def test_the_branch_is_behind(shop):
    git(shop, "init", "--quiet", "--initial-branch=main")
    (shop.root / ".gitignore").write_text("warehouse\ntarget\n")
    git(shop, "add", ".")
    git(shop, "commit", "--quiet", "-m", "first")
    git(shop, "switch", "--quiet", "-c", "theirs")
    shop.events(description="Theirs.")
    git(shop, "commit", "--quiet", "-a", "-m", "theirs")
    commit = git(shop, "rev-parse", "HEAD")
    assert shop.apply().failure is None
    git(shop, "switch", "--quiet", "main")
    (blocked,) = shop.plan().intent.blocked
    assert (blocked.code, commit[:12] in blocked.reason) == ("SC502", True)
    assert f"merge or rebase onto {commit[:12]}" in blocked.remedy


def test_ingestion_in_between_changes_nothing(shop):
    shop.events(**NOTE)
    plan = shop.plan()
    table = SmallTable(shop.store, timing=FAST)
    table.insert({"a": (1, "x"), "b": (2, "y")})
    table.upsert({"a": (3, "x")})
    assert shop.plan().plan_id == plan.plan_id
    assert shop.apply(plan).failure is None
    assert shop.plan().is_empty


class Overtaken(WrappedStore):
    """Lets somebody else apply at the moment when the lock was taken, before the record is put."""

    def __init__(self, inner, overtake):
        super().__init__(inner)
        self.overtake = overtake

    def after(self, kind, path):
        if kind is Kind.PUT_IF_ABSENT and path.endswith("lock") and self.overtake:
            overtake, self.overtake = self.overtake, None
            overtake()


def test_what_holds_is_looked_at_again_under_the_lock(shop):
    shop.events(description="Reviewed.")
    plan = shop.plan()
    properties = shop.place / ".hoodie/hoodie.properties"

    def upgrade():
        properties.write_text(
            properties.read_text().replace("hoodie.table.version=6", "hoodie.table.version=8")
        )

    workspace = dataclasses.replace(
        shop.workspace(),
        open=lambda place, options, allowed: Overtaken(open_store(place, options, allowed), upgrade),
    )
    assert "hoodie.table.version is 8" in refusal(apply_plan(plan, workspace))
    assert read_applied(shop.store).ref.number == 1
