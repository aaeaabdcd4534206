"""Plans, applies, runs and drift of a table in a catalog (Glue, as moto has it), without a JVM."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from importlib.resources import files
from unittest.mock import patch

import pytest
from jsonschema import validate

from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.cli.views.apply import ApplyView
from parquetry.cli.views.drift import DriftView
from parquetry.cli.views.operating.run import RunView
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.errors import UnappliedError, UnnamedPlaceError
from parquetry.compiler.jobs.results import to_json as run_json
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.codec import decode, encode, plan_json
from parquetry.compiler.plan.drift import drift_of_workspace
from parquetry.compiler.plan.model import Step
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.reports.doctor import check_project
from parquetry.compiler.security.untrusted import base_at
from parquetry.compiler.workspace.catalogs import sync_table
from parquetry.message import in_full
from parquetry.project_api import NoProgress
from parquetry.runtime.catalog.glue import READ_ONLY_FIELDS
from parquetry.runtime.catalog.sync import sync
from parquetry.runtime.errors import PartialFailureError, StalePlanError
from parquetry.runtime.main import execute
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import APPLIED_FOLDER
from parquetry.runtime.table.handle import open_table
from tests.support.applied_records import edit
from tests.support.glue import CountedGlue, credentials
from tests.support.handmade_git import committed
from tests.support.hive_metastore import CountedHive, memory_metastore
from tests.support.project_folder import EVENTS, PROJECT, ProjectFolder, with_leave
from tests.support.small_table import SmallTable

_NUMBERS = itertools.count()
PRICE = {"name": "price", "type": "double", "description": "In euros."}
PLAIN = Paint(enabled=False)


class Shop:
    """A project with the table ``events`` in a catalog; ``glue`` counts what parquetry asks it for."""

    def __init__(self, folder: ProjectFolder, endpoint: str) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self.database = f"plans{next(_NUMBERS)}"
        self.glue = CountedGlue(endpoint, database=self.database, table="events")
        self.target()
        self.declare()

    def target(self, **changes: object) -> None:
        catalog = {"type": "glue", "region": "eu-west-1", "endpoint": self.endpoint}
        target = {"catalogs": {"lake": catalog}, "catalog": "lake", "database": self.database} | changes
        target = {key: value for key, value in target.items() if value is not None}
        self.folder.project(targets={"dev": with_leave(PROJECT["targets"]["dev"] | target)})

    def declare(self, *columns: dict[str, object], **changes: object) -> None:
        declared = EVENTS | {"columns": [*EVENTS["columns"], *columns]} | changes
        self.folder.write("tables/events.yml", declared)

    def plan(self, **options: object):
        return plan_workspace(self.folder.workspace(**options), now_ms=0)

    def apply(self):
        plan = self.plan()
        return apply_plan(plan, self.folder.workspace())

    def drift(self) -> list[tuple[str, str, object, object]]:
        (found,) = drift_of_workspace(self.folder.workspace())
        return [(drift.code, drift.path, drift.applied, drift.live) for drift in found.drifts]

    def run(self):
        return run_tables(
            self.folder.workspace(),
            only=None,
            run_id=f"run{next(_NUMBERS)}",
            prepare=lambda _: execute,
            observer=NoProgress(),
            diagnose=_raised,
        )

    @property
    def store(self):
        return open_store(self.folder.root / "warehouse" / "events")

    def write(self, *partitions: str) -> None:
        SmallTable(store=self.store).upsert({f"{one}1": (1, one) for one in partitions})

    def change(self, change) -> None:
        """Change the entry as another program does."""
        stored = self.glue.client.get_table(DatabaseName=self.database, Name="events")["Table"]
        entry = {key: value for key, value in stored.items() if key not in READ_ONLY_FIELDS}
        change(entry)
        self.glue.client.update_table(DatabaseName=self.database, TableInput=entry)
        self.glue.taken()

    def registered(self) -> list[tuple[str, ...]]:
        found = sorted(part.values for part in self.glue.every_partition())
        self.glue.taken()
        return found


def _raised(bug: Exception) -> None:
    raise bug


@pytest.fixture
def shop(tmp_path, s3_options):
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables" / "orders.yml").unlink()
    with credentials():
        made = Shop(folder, s3_options["endpoint_url"])
        with patch("parquetry.compiler.workspace.opened.open_catalog", lambda *_, **__: made.glue):
            yield made


@pytest.fixture
def registered(shop):
    """The shop with the table applied, registered and written."""
    assert shop.apply().failure is None
    shop.write("a", "b")
    sync(open_table(shop.store), shop.glue, restores=True)
    shop.glue.taken()
    return shop


def unreachable(shop: Shop) -> None:
    """Let every request to the catalog fail."""
    with patch("parquetry.runtime.catalog.glue._ATTEMPTS", 1):
        shop.glue = CountedGlue("http://127.0.0.1:9", database=shop.database, table="events")


def reachable(shop: Shop) -> None:
    shop.glue = CountedGlue(shop.endpoint, database=shop.database, table="events")


def steps(plan) -> list[str]:
    return [str(step) for action in plan.intent.actions for step in action.steps]


def shown(plan) -> tuple[str, ...]:
    """Return the plan in each format in which people read it, each on one line."""
    texts = (PlanView().text(plan, PLAIN), render_markdown(plan, max_bytes=60_000), render_html(plan))
    return tuple(" ".join(text.replace("\\", "").replace("&gt;", ">").split()) for text in texts)


def schema(name: str) -> dict[str, object]:
    return json.loads((files("parquetry.cli.schemas") / f"{name}.json").read_text())


def change_type(entry: dict) -> None:
    column = next(one for one in entry["StorageDescriptor"]["Columns"] if one["Name"] == "v")
    column["Type"] = "string"


def test_a_new_table_is_planned_and_registered(shop) -> None:
    plan = shop.plan()
    assert steps(plan) == ["create", "record", "sync"]
    assert shop.glue.taken() == {"GetTable": 1}
    for text in shown(plan):
        assert f"catalog lake: {shop.database}.events: registered with 8 columns" in text
        assert "registers the table in its catalog" in text
    validate(plan_json(plan), schema("plan"))
    assert decode(encode(plan), name="plan.json") == plan
    done = apply_plan(plan, shop.folder.workspace())
    assert done.failure is None
    assert "registered" in ApplyView(typed_options=TypedOptions()).text(done, PLAIN)
    validate(ApplyView(typed_options=TypedOptions()).json(done), schema("apply"))
    assert shop.glue.table().location == f"file:{shop.folder.root}/warehouse/events"
    assert shop.plan().is_empty


def test_nothing_is_written_if_nothing_changed(registered) -> None:
    assert registered.plan().is_empty
    assert registered.glue.taken() == {"GetTable": 1}
    assert registered.drift() == []
    assert registered.glue.taken() == {"GetTable": 1}
    registered.run()
    assert registered.glue.taken() == {"GetTable": 1}


def test_a_new_column_is_shown_and_reaches_the_partitions(registered) -> None:
    registered.declare(PRICE)
    plan = registered.plan()
    assert steps(plan) == ["evolve", "record", "sync"]
    assert registered.glue.taken() == {"GetTable": 1, "GetPartitions": 1}
    for text in shown(plan):
        assert "columns.price: (none) -> double, In euros." in text
        assert "parameters.spark.sql.sources.schema" in text
        assert "2 partitions updated" in text
    assert decode(encode(plan), name="plan.json") == plan
    (result,) = apply_plan(plan, registered.folder.workspace()).results
    assert result.synced.partitions_updated == 2
    assert {"price": "double"}.items() <= {c.name: c.type for c in registered.glue.table().columns}.items()
    assert registered.plan().is_empty


def test_rows_that_arrive_do_not_change_the_plan(registered) -> None:
    registered.declare(PRICE)
    before = registered.plan().plan_id
    registered.write("c", "d")
    assert registered.plan().plan_id == before


def add_column(entry: dict) -> None:
    entry["StorageDescriptor"]["Columns"].append({"Name": "x", "Type": "int"})


@pytest.mark.parametrize("planned", [PRICE, None])
def test_a_change_of_others_that_no_plan_showed_is_left(registered, planned) -> None:
    if planned is None:
        registered.change(add_column)
    else:
        registered.declare(planned)
    plan = registered.plan()
    registered.change(change_type)
    before = registered.glue.table()
    done = apply_plan(decode(encode(plan), name="plan.json"), registered.folder.workspace())
    (result,) = done.results
    assert isinstance(result.error, StalePlanError)
    assert "changed the entry in the catalog after the plan; plan again" in result.error.message.in_full()
    assert registered.glue.table() == before
    assert "columns.v: string -> bigint" in shown(registered.plan())[0]
    assert registered.apply().failure is None


def test_an_entry_that_others_removed_or_created_after_the_plan_is_left(shop) -> None:
    new = shop.plan()
    assert apply_plan(new, shop.folder.workspace()).failure is None
    theirs = shop.glue.client.get_table(DatabaseName=shop.database, Name="events")["Table"]
    shop.declare(PRICE)
    plan = shop.plan()
    shop.glue.client.delete_table(DatabaseName=shop.database, Name="events")
    assert isinstance(apply_plan(plan, shop.folder.workspace()).results[0].error, StalePlanError)
    assert shop.glue.table() is None
    plan = shop.plan()
    assert plan.evidence.catalogs["events"].definition is None
    entry = {key: value for key, value in theirs.items() if key not in READ_ONLY_FIELDS}
    del entry["Parameters"]["parquetry.definition"]
    shop.glue.client.create_table(DatabaseName=shop.database, TableInput=entry)
    assert isinstance(apply_plan(plan, shop.folder.workspace()).results[0].error, StalePlanError)


def test_what_parquetry_registered_after_the_plan_does_not_make_it_stale(registered) -> None:
    registered.declare(PRICE)
    plan = registered.plan()
    registered.write("c")
    sync(open_table(registered.store), registered.glue, restores=True)
    assert apply_plan(plan, registered.folder.workspace()).failure is None


def test_a_change_that_no_catalog_shows_has_no_sync(registered) -> None:
    registered.declare(sizing={"max_file_size": "64MiB", "small_file_limit": "1MiB"})
    assert steps(registered.plan()) == ["record"]
    assert registered.apply().results[0].synced is None


def test_a_column_that_somebody_changed_is_drift_that_apply_restores(registered) -> None:
    registered.change(change_type)
    assert registered.drift() == [("DR502", "catalog.columns.v", "bigint", "string")]
    text = DriftView().text(drift_of_workspace(registered.folder.workspace()), PLAIN)
    assert "the entry in the catalog was changed: bigint -> string" in text
    plan = registered.plan()
    (action,) = plan.intent.actions
    assert (action.code, action.steps, action.changes) == ("SC105", (Step.SYNC,), ())
    assert [change.path for change in plan.evidence.drift] == ["events.catalog.columns.v"]
    assert all("columns.v: string -> bigint" in text for text in shown(plan))
    (result,) = apply_plan(plan, registered.folder.workspace()).results
    assert result.applied.applied_number == 1
    assert registered.drift() == []
    assert registered.plan().is_empty


def test_a_column_that_somebody_added_is_drift(registered) -> None:
    registered.change(add_column)
    assert registered.drift() == [("DR502", "catalog.columns.x", None, "int")]


def test_what_parquetry_wrote_before_is_no_drift(registered) -> None:
    registered.declare(PRICE)
    unreachable(registered)
    registered.apply()
    reachable(registered)
    assert registered.drift() == []
    assert steps(registered.plan()) == ["sync"]


def test_a_removed_entry_is_drift_and_is_registered_with_its_partitions(registered) -> None:
    registered.glue.client.delete_table(DatabaseName=registered.database, Name="events")
    assert registered.drift() == [("DR501", "catalog", registered.glue.place, None)]
    plan = registered.plan()
    assert all("registered with 8 columns, 2 partitions added" in text for text in shown(plan))
    text = RunView().text(registered.run(), PLAIN)
    assert "not synchronised; warning: " in text
    assert "the table is not in the catalog, which is left so; `parquetry sync` registers it" in text
    assert registered.glue.table() is None
    assert apply_plan(plan, registered.folder.workspace()).failure is None
    assert registered.registered() == [("a",), ("b",)]


def test_the_entry_of_another_table_is_reported_and_left(registered) -> None:
    registered.change(lambda entry: entry["StorageDescriptor"].update(Location="s3://other/events"))
    (found,) = registered.drift()
    assert found[:2] == ("DR500", "catalog")
    (warning,) = registered.plan().evidence.warnings
    assert "is the table at s3://other/events" in warning.message.in_full()
    assert registered.plan().intent.actions == ()
    (outcome,) = [one for one in registered.run().outcomes if one.name == "sync"]
    assert "s3://other/events" in outcome.warnings[0].in_full()
    assert registered.glue.table().location == "s3://other/events"


def test_a_catalog_that_cannot_be_reached_stops_no_run(registered) -> None:
    registered.write("c")
    unreachable(registered)
    (warning,) = registered.plan().evidence.warnings
    assert warning.code == "DR500"
    assert [code for code, *_ in registered.drift()] == ["DR500"]
    result = registered.run()
    assert result.exit_code == 0
    text = RunView().text(result, PLAIN)
    assert "events sync      not synchronised; warning: lake: " in text
    assert "Glue refused get_table" in text
    validate(run_json(result), schema("run"))
    reachable(registered)
    result = registered.run()
    assert f"lake: {registered.database}.events: 1 partition added" in RunView().text(result, PLAIN)
    validate(run_json(result), schema("run"))
    assert registered.registered() == [("a",), ("b",), ("c",)]


def test_a_catalog_that_cannot_be_reached_is_asked_once_in_a_run(registered) -> None:
    registered.folder.write("tables/others.yml", EVENTS | {"name": "others"})
    registered.apply()
    unreachable(registered)
    warnings = [one.warnings for one in registered.run().outcomes if one.name == "sync"]
    assert len(warnings) == 2
    assert all("Glue refused get_table" in warning.in_full() for (warning,) in warnings)
    assert registered.glue.taken() == {"GetTable": 1}


def test_the_doctor_asks_each_catalog(registered) -> None:
    def found() -> tuple[bool, str]:
        (check,) = [c for c in check_project(registered.folder.workspace()) if c.name == "catalog lake"]
        return check.ok, in_full(check.found)

    assert found() == (True, f"answers; {registered.glue.place} is registered")
    assert registered.glue.taken() == {"GetTable": 1}
    unreachable(registered)
    ok, text = found()
    assert not ok
    assert "Glue refused get_table" in text


def test_an_apply_without_the_catalog_applies_the_spec_and_fails(registered) -> None:
    registered.declare(PRICE)
    unreachable(registered)
    done = registered.apply()
    assert steps(done.plan) == ["evolve", "record", "sync"]
    assert isinstance(done.failure, PartialFailureError)
    assert done.results[0].applied.applied_number == 2
    text = ApplyView(typed_options=TypedOptions()).text(done, PLAIN)
    assert "registering failed: lake: " in text


def test_a_run_leaves_what_others_changed(registered) -> None:
    registered.change(change_type)
    registered.write("c")
    result = registered.run()
    assert result.exit_code == 0
    assert "another program changed the entry in the catalog (columns.v)" in RunView().text(result, PLAIN)
    assert registered.registered() == [("a",), ("b",), ("c",)]
    assert [code for code, *_ in registered.drift()] == ["DR502"]


def test_nothing_is_dropped_from_the_catalog(registered) -> None:
    SmallTable(store=registered.store).delete_partition("p=b")
    registered.run()
    registered.target(catalog=None, database=None)
    assert "record" in steps(registered.plan())
    assert "sync" not in steps(registered.plan())
    assert registered.apply().failure is None
    registered.run()
    assert registered.registered() == [("a",), ("b",)]
    assert registered.glue.table() is not None


def test_a_table_gets_a_catalog_later(shop) -> None:
    shop.target(catalog=None, database=None)
    shop.apply()
    shop.write("a")
    shop.run()
    assert shop.glue.taken() == {}
    shop.target()
    assert shop.drift() == []
    plan = shop.plan()
    assert steps(plan) == ["record", "sync"]
    assert {change.path for change in plan.intent.actions[0].changes} == {"catalog", "database"}
    assert all("1 partition added" in text for text in shown(plan))
    assert shop.apply().failure is None
    assert shop.registered() == [("a",)]


def test_a_hive_metastore_is_planned_as_glue_is(shop) -> None:
    with memory_metastore() as uri:
        shop.glue = CountedHive(uri, database=shop.database, table="events")
        assert shop.apply().failure is None
        shop.write("a")
        assert [one.result.synced.partitions_added for one in shop.run().outcomes if one.name == "sync"] == [
            1
        ]
        shop.glue.taken()
        assert shop.plan().is_empty
        assert shop.glue.taken() == {"get_table_req": 1}
        assert shop.drift() == []
        shop.declare(PRICE)
        plan = shop.plan()
        assert all("columns.price: (none) -> double, In euros." in text for text in shown(plan))
        assert apply_plan(plan, shop.folder.workspace()).failure is None
        assert shop.plan().is_empty


def test_a_record_names_no_entry_that_is_not_declared(registered) -> None:
    (record,) = (registered.folder.root / "warehouse" / "events" / APPLIED_FOLDER).iterdir()
    edit(record, lambda document: document["spec"]["extra"].update(database="theirs"))
    workspace = registered.folder.workspace()
    registered.glue.taken()
    with pytest.raises(UnappliedError, match="differs from the applied one, and nothing is written"):
        sync_table(workspace, workspace.table("events"), open_table(registered.store), restores=True)
    (outcome,) = [one for one in registered.run().outcomes if one.name == "sync"]
    assert "differs from the applied one" in outcome.warnings[0].in_full()
    assert registered.glue.taken() == {}
    assert registered.drift() == []


def test_an_endpoint_that_is_not_allowed_is_not_asked(registered) -> None:
    text = (registered.folder.root / "parquetry.yml").read_text()
    (registered.folder.root / "parquetry.yml").write_text(text.replace("127.0.0.1", "localhost", 1))
    plan = registered.plan()
    assert [blocked.code for blocked in plan.intent.blocked] == ["SC702"]
    with pytest.raises(UnappliedError, match=r"catalogs\.lake\.endpoint"):
        registered.run()
    assert registered.glue.taken() == {}


def test_an_untrusted_branch_reads_no_entry_that_its_base_does_not_name(registered) -> None:
    committed(registered.folder.root)
    base = base_at(registered.folder.root, "HEAD", target=None, variables={}, environment={})
    assert registered.plan(base=base).evidence.warnings == ()
    assert registered.glue.taken() == {"GetTable": 1}
    project = registered.folder.workspace().project
    spec = registered.folder.workspace().table("events").spec
    for other in (
        replace(spec, name="others"),
        replace(spec, extra=replace(spec.extra, database="others")),
        replace(spec, extra=replace(spec.extra, catalog="others")),
    ):
        with pytest.raises(UnnamedPlaceError, match="does not name it so"):
            base.check_catalog(project, other)
    registered.target(catalogs={"lake": {"type": "glue", "region": "us-east-1"}})
    warning = registered.plan(base=base).evidence.warnings[0]
    assert "is not read: HEAD does not name it so" in warning.message.in_full()
    assert registered.glue.taken() == {}
