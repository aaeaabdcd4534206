from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import parquetry
from parquetry.cli.main import command_line
from parquetry.cli.terminal.output import Paint
from parquetry.cli.terminal.schema import answer_schema
from parquetry.cli.views.adopt import AdoptView
from parquetry.cli.views.drift import DriftView
from parquetry.cli.views.plan.html import render_html
from parquetry.cli.views.plan.markdown import render_markdown
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.errors import SpecError, UnacceptableDriftError
from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.drift import CODES, drift_of_workspace
from parquetry.compiler.plan.model import Step
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.spec_files.adopt import adopt
from parquetry.compiler.spec_files.edit import with_column
from parquetry.errors import UsageError
from parquetry.runtime.apply.adoption import adopt_table
from parquetry.runtime.apply.properties import restore_properties
from parquetry.runtime.errors import (
    InvalidDataError,
    StalePlanError,
    TableNotFoundError,
    UnsupportedTableError,
)
from parquetry.runtime.spec.avro import table_avro_schema
from parquetry.runtime.spec.sizing import SizingPolicy
from parquetry.runtime.spec.table_spec import (
    Column,
    Extra,
    FilesPolicy,
    Operation,
    Query,
    RetentionPolicy,
    Source,
    TableTest,
)
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import read_applied, read_identity, write_applied
from parquetry.runtime.table.config import TIMEZONE_KEY
from parquetry.runtime.table.handle import create_table, open_table
from parquetry.runtime.table.properties import (
    CHECKSUM_KEY,
    format_properties,
    parse_properties,
    table_checksum,
)
from parquetry.runtime.table.schema import live_columns, schema_json
from tests.support.handmade import COLUMNS, HandmadeTable, at, spec
from tests.support.metadata_table import exists, is_declared, switch_on
from tests.support.project_folder import ProjectFolder
from tests.support.repository import ROOT

PROPERTIES = ".hoodie/hoodie.properties"


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def foreign(folder, place=None, **changes):
    """A table that parquetry knows nothing of."""
    table = HandmadeTable(place or folder.root / "warehouse" / "t", spec(**changes) if changes else None)
    table.commit("1", {"p=a": {"f-0": [("k", 1)]}, "p=b": {"f-1": [("l", 2)]}})
    shutil.rmtree(table.folder / ".hoodie" / ".parquetry")
    return table


def edit(table, **changes):
    properties = parse_properties(table.store.read(PROPERTIES))
    for key, value in changes.items():
        name = key.replace("__", ".")
        properties.pop(name, None)
        if value is not None:
            properties[name] = value
    properties[CHECKSUM_KEY] = table_checksum(properties)
    table.store.put(PROPERTIES, format_properties(properties, comment="edited"))


def fits(answer, document):
    """Hold an answer to its schema, and all that it says to be named there."""
    schema = answer_schema(answer)
    Draft202012Validator(schema).validate(document)
    named = [{*part.get("properties", ())} for part in (schema, *schema["$defs"].values())]
    parts = [document, *(part for value in document.values() if isinstance(value, list) for part in value)]
    assert all({*part} in named for part in parts if isinstance(part, dict))


def do(folder, location, name=None):
    done = adopt(folder.workspace(), str(location), name=name, reload=folder.workspace)
    fits("adopt", AdoptView().json(done))
    return done


def written(folder, name="t"):
    return yaml.safe_load((folder.root / "tables" / f"{name}.yml").read_text())


def plan(folder, **options):
    return plan_workspace(folder.workspace(select=("t",)), now_ms=0)


def files_below(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def evolve(table, columns, time="2", **extra):
    """A commit of another program with these columns."""
    table.schema = table_avro_schema("t", columns)
    table.commit(time, {"p=a": {"f-0": [("k", 3)]}})


def test_a_foreign_table_gets_a_spec_and_the_next_plan_is_empty(folder):
    table = foreign(folder)
    before = files_below(table.folder)
    adopted = do(folder, table.folder)
    assert written(folder) == {
        "apiVersion": "parquetry/v1",
        "kind": "table",
        "name": "t",
        "columns": [
            {"name": "id", "type": "string", "nullable": False},
            {"name": "p", "type": "string"},
            {"name": "n", "type": "bigint"},
        ],
        "record_key": ["id"],
        "partition_by": ["p"],
    }
    assert (adopted.table, adopted.applied_number, adopted.columns) == ("t", 1, 3)
    assert plan(folder).is_empty
    handle = open_table(table.store)
    assert (handle.project, handle.first_instant) == ("shop", None)
    after = files_below(table.folder)
    assert {path: after[path] for path in before} == before
    assert all(".hoodie/.parquetry/" in str(path) for path in after.keys() - before.keys())


def test_fields_that_may_not_be_null_stay_so(folder):
    kind = "struct<a:int NOT NULL,b:array<struct<c:string NOT NULL>>,d:map<string,struct<e:date NOT NULL>>>"
    table = foreign(folder, columns=(*COLUMNS, Column(name="s", type=kind)))
    do(folder, table.folder)
    assert written(folder)["columns"][-1] == {"name": "s", "type": kind}
    assert plan(folder).is_empty
    handle = open_table(table.store)
    assert handle.effective_spec(handle.timeline()).columns[-1].type == kind
    assert schema_json("t", handle.spec.columns, table.schema, keys=("id",)) == table.schema


def test_adopting_twice_changes_nothing(folder):
    table = foreign(folder)
    do(folder, table.folder)
    before = files_below(folder.root)
    again = do(folder, table.folder)
    assert again.accepted == ()
    assert files_below(folder.root) == before


def test_recorded_settings_are_declared(folder):
    table = foreign(folder, hive_style=False)
    shutil.rmtree(table.folder / "p=a")
    shutil.rmtree(table.folder / "p=b")
    table.commit("3", {"a": {"f-3": [("k", 1)]}})
    edit(
        table,
        hoodie__parquet__max__file__size="125829120",
        hoodie__parquet__small__file__limit="0",
        hoodie__keep__min__commits="40",
        hoodie__clustering__plan__strategy__sort__columns="n",
        hoodie__layout__optimize__strategy="Z-ORDER",
        hoodie__parquet__page__size="many",
    )
    do(folder, table.folder)
    declared = written(folder)
    assert declared["sizing"] == {"max_file_size": "120MiB", "small_file_limit": 0}
    assert declared["retention"] == {"archive": {"keep_commits": 40}}
    assert declared["clustering"] == {"execution": {"columns": ["n"], "strategy": "zorder"}}
    assert declared["partitioning"] == {"hive_style": False}
    assert "files" not in declared
    assert plan(folder).is_empty


def test_recorded_settings_that_break_a_check_are_left_out_and_named(folder):
    table = foreign(folder)
    edit(
        table,
        hoodie__parquet__max__file__size="125829120",
        hoodie__parquet__small__file__limit="225829120",
        hoodie__parquet__page__size="1048576",
        hoodie__clustering__plan__strategy__sort__columns="n,gone",
        hoodie__layout__optimize__strategy="hilbert",
    )
    result = do(folder, table.folder)
    left = {one.path: one for one in result.left_out}
    assert set(left) == {
        "sizing.small_file_limit",
        "clustering.execution.columns",
        "clustering.execution.strategy",
    }
    assert "gone" in left["clustering.execution.columns"].reason
    assert left["sizing.small_file_limit"].value == "225829120B"
    assert str(left["sizing.small_file_limit"].reason).startswith("PQ")
    assert result.settings["sizing.max_file_size"] == "120MiB"
    declared = written(folder)
    assert declared["files"] == {"page_size": "1MiB"}
    assert "clustering" not in declared
    assert plan(folder).is_empty
    said = AdoptView().text(result, Paint(enabled=False))
    assert "  left out sizing.small_file_limit: 225829120B, for PQ" in said
    assert AdoptView().json(result)["left_out"][0]["path"] in left


def test_a_table_of_ours_keeps_every_setting_it_was_applied_with(folder):
    columns = (*COLUMNS, Column(name="day", type="date", generated="to_date('2026-01-01')", pii=True))
    table = HandmadeTable(folder.root / "elsewhere", spec(columns=columns))
    applied = spec(
        columns=columns,
        sizing=SizingPolicy(max_file_size_bytes=10**8, small_file_limit_bytes=10**7, min_fill=0.25),
        files=FilesPolicy(compression="snappy", row_group_size_bytes=2**24),
        retention=RetentionPolicy(keep_commits=3, max_age_seconds=86_400, archive_keep_commits=12),
        sources=(
            Source(
                name="feed",
                format="csv",
                path="landing/*.csv",
                options={"header": "true"},
                operation=Operation.UPSERT,
                delete_when="op = 'D: yes'",
                drop=("op",),
            ),
        ),
        extra=Extra(
            description="Rows: many # of them",
            tags=("gold",),
            queries=(Query(name="q", where="n = 1", weight=0.5),),
            tests=(
                TableTest(
                    kind="file_size",
                    severity="warn",
                    arguments={"percentile": 95, "max_bytes": 132 * 2**20},
                ),
                TableTest(kind="unique", severity="error", arguments=["id"]),
            ),
        ),
    )
    write_applied(table.store, applied, number=1)
    (table.folder / ".hoodie/.parquetry/table.json").unlink()
    do(folder, table.folder)
    declared = written(folder)
    assert declared["location"] == {"dev": str(table.folder)}
    resolved = folder.workspace().table("t").spec
    for field in ("columns", "sizing", "files", "retention", "sources"):
        assert getattr(resolved, field) == getattr(applied, field), field
    assert replace(resolved.extra, clustering=None) == applied.extra
    assert read_applied(table.store).ref.number == 2
    assert plan(folder).is_empty


def test_a_location_in_the_warehouse_is_declared_relative_to_it(folder):
    table = foreign(folder, folder.root / "warehouse" / "raw" / "t")
    do(folder, table.folder)
    assert written(folder)["location"] == "raw/t"
    assert plan(folder).is_empty


def test_a_name_that_is_none_or_is_taken_asks_for_another(folder):
    table = foreign(folder, name="orders")
    with pytest.raises(UsageError, match=r"orders.yml already declares a table 'orders'; .*--name"):
        do(folder, table.folder)
    with pytest.raises(UsageError, match="'a-b' may only have letters"):
        do(folder, table.folder, "a-b")
    with pytest.raises(UsageError, match=r"'2b' .* no digit at its start"):
        do(folder, table.folder, "2b")
    do(folder, table.folder, "old_orders")
    assert written(folder, "old_orders")["location"] == "t"
    assert plan_workspace(folder.workspace(select=("old_orders",)), now_ms=0).is_empty


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hoodie__table__version": "10"}, "downgrade_table"),
        (
            {"hoodie__populate__meta__fields": "false", "hoodie__table__recordkey__fields": ""},
            "rewrite the table with one of them",
        ),
        ({"hoodie__table__type": "MERGE_ON_READ"}, "copy-on-write"),
        ({"hoodie__table__keygenerator__class": "com.example.Ours"}, "unknown key generator"),
    ],
)
def test_what_cannot_be_written_says_why_and_nothing_is_left(folder, change, said):
    table = foreign(folder)
    edit(table, **change)
    before = files_below(folder.root)
    with pytest.raises(UnsupportedTableError, match=said):
        do(folder, table.folder)
    assert files_below(folder.root) == before


def test_folders_that_are_not_named_by_their_rows_are_refused(folder):
    table = foreign(folder)
    edit(table, hoodie__datasource__write__hive_style_partitioning="false")
    with pytest.raises(UnsupportedTableError, match="'p=a' would be written to 'a'"):
        do(folder, table.folder)
    assert not (folder.root / "tables" / "t.yml").exists()


def test_a_spec_that_the_project_refuses_is_taken_back(folder):
    columns = (*COLUMNS, Column(name="flag", type="boolean"))
    table = foreign(folder, columns=columns)
    edit(table, hoodie__table__precombine__field="flag")
    before = files_below(folder.root)
    with pytest.raises(SpecError, match="PQ404"):
        do(folder, table.folder)
    assert files_below(folder.root) == before


def test_no_table_and_another_projects_table_are_refused(folder):
    with pytest.raises(TableNotFoundError):
        do(folder, folder.root / "nothing")
    table = HandmadeTable(folder.root / "warehouse" / "t")
    with pytest.raises(UnsupportedTableError, match="belongs to project 'tests'"):
        do(folder, table.folder)


def test_of_two_projects_that_adopt_at_once_one_wins(folder):
    table = foreign(folder)
    adopt_table(table.store, spec(), project="first")
    (table.folder / ".hoodie/.parquetry/applied").rename(folder.root / "gone")
    with pytest.raises(UnsupportedTableError, match="belongs to project 'first'"):
        adopt_table(table.store, spec(), project="second")
    assert read_identity(table.store).project == "first"


@pytest.mark.parametrize("name", ["shop+eu", "a:b", "t$1"])
def test_a_table_may_keep_a_name_that_no_new_one_is_given(folder, name):
    table = foreign(folder)
    edit(table, hoodie__table__name=name)
    assert adopt_table(table.store, spec(name=name), project="shop").number == 1
    with pytest.raises(InvalidDataError, match="use ASCII letters"):
        create_table(open_store(folder.root / "new"), spec(name=name), project="shop")


def test_a_spec_recorded_by_somebody_else_meanwhile_is_stale(folder, monkeypatch):
    table = foreign(folder)
    other = spec(ordering=None, sizing=SizingPolicy(max_file_size_bytes=5))
    monkeypatch.setattr(
        "parquetry.runtime.apply.adoption._put_identity",
        lambda store, _: write_applied(store, other, number=1),
    )
    with pytest.raises(StalePlanError):
        adopt_table(table.store, spec(), project="shop")


def drifted(folder):
    (found,) = drift_of_workspace(folder.workspace(select=("t",)))
    fits("drift", DriftView().json([found]))
    return found


def test_an_adopted_table_has_not_drifted_and_neither_has_one_of_ours(folder):
    table = foreign(folder)
    assert not drift_of_workspace(folder.workspace())[0].is_applied
    do(folder, table.folder)
    assert drifted(folder).drifts == ()


def test_a_column_that_another_program_added_is_drift_until_it_is_adopted(folder):
    table = foreign(folder)
    do(folder, table.folder)
    path = folder.root / "tables" / "t.yml"
    path.write_text(path.read_text().replace("record_key", "# the key\nrecord_key"))
    evolve(table, (*COLUMNS, Column(name="more", type="int")))
    table.commit("3", {"p=a": {"f-0": [("k", 4)]}})
    (drift,) = drifted(folder).drifts
    assert (drift.code, drift.path, drift.live) == ("DR201", "columns.more", "int")
    assert (drift.instant, drift.writer) == (at("2"), "another program, upsert")
    accepted = do(folder, table.folder)
    assert [change.path for change in accepted.accepted] == ["columns.more"]
    assert "- {name: more, type: int}\n# the key" in path.read_text()
    assert drifted(folder).drifts == ()
    assert plan(folder).is_empty


def test_a_widened_type_and_a_lifted_not_null_are_accepted_where_they_stand(folder):
    columns = (COLUMNS[0], COLUMNS[1], Column(name="n", type="int", nullable=False))
    table = foreign(folder, columns=columns)
    do(folder, table.folder)
    evolve(table, (COLUMNS[0], COLUMNS[1], Column(name="n", type="bigint")))
    assert [drift.path for drift in drifted(folder).drifts] == ["columns.n.type"]
    do(folder, table.folder)
    assert [drift.path for drift in drifted(folder).drifts] == ["columns.n.nullable"]
    do(folder, table.folder)
    assert written(folder)["columns"][2] == {"name": "n", "type": "bigint", "nullable": True}
    assert drifted(folder).drifts == ()


def test_a_dropped_column_cannot_be_accepted(folder):
    table = foreign(folder)
    do(folder, table.folder)
    evolve(table, COLUMNS[:2])
    (drift,) = drifted(folder).drifts
    assert (drift.code, drift.path, drift.restorable) == ("DR203", "columns.n", True)
    handle = open_table(table.store)
    next_write = handle.effective_spec(handle.timeline()).columns
    assert [column.name for column in next_write] == ["id", "p", "n"]
    before = files_below(folder.root)
    with pytest.raises(
        UnacceptableDriftError, match=r"columns.n cannot be accepted; `parquetry apply` restores"
    ):
        do(folder, table.folder)
    assert files_below(folder.root) == before


def test_apply_puts_back_a_column_that_another_program_dropped(folder):
    table = foreign(folder)
    do(folder, table.folder)
    evolve(table, COLUMNS[:2])
    proposed = plan(folder)
    (action,) = proposed.intent.actions
    assert (action.code, action.change_class, action.steps) == ("SC305", "evolve", (Step.EVOLVE,))
    (change,) = action.changes
    assert (change.path, change.old, change.new) == ("columns.n", None, "bigint")
    number = read_applied(table.store).ref.number
    result = apply_plan(proposed, folder.workspace())
    assert result.failure is None
    assert plan(folder).is_empty
    assert drifted(folder).drifts == ()
    handle = open_table(table.store)
    live = live_columns(handle.store, handle.timeline(), handle.config)
    assert [column.name for column in live] == ["id", "p", "n"]
    assert handle.timeline().completed_writes[-1].time == result.results[0].applied.instant
    assert read_applied(table.store).ref.number == number


def test_apply_widens_again_what_another_program_narrowed(folder):
    columns = (COLUMNS[0], COLUMNS[1], Column(name="n", type="bigint"))
    table = foreign(folder, columns=columns)
    do(folder, table.folder)
    evolve(table, (COLUMNS[0], COLUMNS[1], Column(name="n", type="int")))
    (change,) = plan(folder).intent.actions[0].changes
    assert (change.code, change.path, change.old, change.new) == ("SC305", "columns.n.type", "int", "bigint")
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    assert plan(folder).is_empty
    assert drifted(folder).drifts == ()


def test_a_dropped_column_comes_back_beside_a_change_of_the_spec_unless_it_is_what_goes(folder):
    table = foreign(folder)
    do(folder, table.folder)
    evolve(table, COLUMNS[:2])
    path = folder.root / "tables" / "t.yml"
    declared = path.read_text()
    path.write_text(declared.replace("columns:\n", "columns:\n  - {name: extra, type: int}\n"))
    (action,) = plan(folder).intent.actions
    assert [c.code for c in action.changes] == ["SC301", "SC305"]
    assert action.steps == (Step.EVOLVE, Step.RECORD)
    without = [line for line in declared.splitlines() if "name: n," not in line]
    path.write_text("\n".join(without) + "\n")
    (blocked,) = plan(folder).intent.blocked
    assert [c.code for c in blocked.changes] == ["SC310"]


def test_a_dropped_column_comes_back_beside_a_change_of_its_description(folder):
    table = foreign(folder)
    do(folder, table.folder)
    evolve(table, COLUMNS[:2])
    path = folder.root / "tables" / "t.yml"
    path.write_text(path.read_text().replace("{name: n,", "{name: n, description: A number.,"))
    proposed = plan(folder)
    (action,) = proposed.intent.actions
    assert {c.path: c.code for c in action.changes} == {
        "columns.n": "SC305",
        "columns.n.description": "SC101",
    }
    assert (action.code, action.change_class) == ("SC305", "evolve")
    said = "another program dropped it; it is restored"
    shapes = (
        PlanView().text(proposed, Paint(enabled=False)),
        render_markdown(proposed, max_bytes=60_000),
        render_html(proposed),
    )
    assert all(said in shape for shape in shapes)
    assert apply_plan(proposed, folder.workspace()).failure is None
    assert plan(folder).is_empty
    assert drifted(folder).drifts == ()


def test_a_column_that_a_restore_took_away_is_not_said_to_be_of_another_program(folder):
    table = foreign(folder)
    do(folder, table.folder)

    def called(*arguments):
        done = CliRunner().invoke(command_line, [*arguments, "-p", str(folder.root)])
        assert done.exit_code == 0, done.output

    savepoint = open_table(table.store).timeline().completed_writes[-1].time
    called("service", "savepoint", "t", savepoint)
    path = folder.root / "tables" / "t.yml"
    path.write_text(path.read_text().replace("columns:\n", "columns:\n  - {name: extra, type: int}\n"))
    called("apply", "--auto-approve")
    called("service", "restore", "t", savepoint, "--auto-approve")
    (change,) = plan(folder).intent.actions[0].changes
    assert (change.path, change.reason) == ("columns.extra", "a restore dropped it; it is restored")
    (drift,) = drifted(folder).drifts
    restored = open_table(table.store).timeline().instants[-1].time
    assert (drift.writer, drift.instant) == ("a restore", restored)


def test_changed_properties_are_drift_and_can_be_put_back(folder):
    table = foreign(folder)
    do(folder, table.folder)
    edit(
        table, hoodie__table__precombine__field="n", hoodie__datasource__write__partitionpath__urlencode=None
    )
    found = {drift.path: (drift.applied, drift.live) for drift in drifted(folder).drifts}
    assert found == {
        "properties.hoodie.table.precombine.field": (None, "n"),
        "properties.hoodie.datasource.write.partitionpath.urlencode": ("true", None),
    }
    restore_properties(table.store, read_applied(table.store).spec)
    assert drifted(folder).drifts == ()
    assert open_table(table.store).config.ordering is None


def test_the_spellings_of_hudi_1_are_no_drift(folder):
    table = foreign(folder, ordering="n")
    do(folder, table.folder)
    edit(
        table,
        hoodie__table__precombine__field=None,
        hoodie__table__ordering__fields="n",
        hoodie__table__keygenerator__class=None,
        hoodie__table__keygenerator__type="SIMPLE",
    )
    assert drifted(folder).drifts == ()


@pytest.mark.parametrize("ordering", [None, "n"])
def test_what_hudi_1_changed_by_its_own_name_is_put_back(folder, ordering):
    table = foreign(folder, ordering=ordering)
    do(folder, table.folder)
    edit(table, hoodie__table__precombine__field=None, hoodie__table__ordering__fields="p")
    assert [drift.code for drift in drifted(folder).drifts] == ["DR101"]
    restore_properties(table.store, read_applied(table.store).spec)
    assert drifted(folder).drifts == ()
    assert open_table(table.store).config.ordering == ordering


def test_a_table_created_from_python_is_taken_over_with_its_spec(folder):
    location = folder.root / "warehouse" / "t"
    limits = SizingPolicy(max_file_size_bytes=10**7, small_file_limit_bytes=10**6)
    parquetry.create(location, spec(sizing=limits))
    before = read_identity(open_store(location))
    do(folder, location)
    assert written(folder)["sizing"] == {"max_file_size": "10MB", "small_file_limit": "1MB"}
    assert plan(folder).is_empty
    after = read_identity(open_store(location))
    assert (after.project, after.table_id, after.spec) == ("shop", before.table_id, before.spec)
    assert drifted(folder).drifts == ()


def test_a_feature_that_forbids_writing_is_drift(folder):
    table = foreign(folder)
    do(folder, table.folder)
    edit(table, hoodie__table__version="10")
    (drift,) = drifted(folder).drifts
    assert (drift.code, "downgrade_table" in drift.remedy) == ("DR100", True)


def test_a_table_with_a_metadata_table_is_adopted_and_the_plan_drops_it(folder):
    table = foreign(folder)
    switch_on(table.folder, "column_stats,files")
    done = do(folder, table.folder)
    assert done.metadata_partitions == ("column_stats", "files")
    text = " ".join(AdoptView().text(done, Paint(enabled=False)).split())
    assert (
        "metadata table (column_stats, files): nothing is written until the next plan, which drops it" in text
    )
    assert is_declared(table.folder)
    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class, action.steps) == (
        "SC104",
        "policy",
        (Step.DROP_METADATA_TABLE,),
    )
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    assert not exists(table.folder)
    assert plan(folder).is_empty
    assert drifted(folder).drifts == ()
    assert read_applied(table.store).ref.number == 1


def test_a_metadata_table_that_hudi_creates_later_is_drift_that_apply_drops(folder):
    table = foreign(folder)
    do(folder, table.folder)
    switch_on(table.folder)
    (drift,) = drifted(folder).drifts
    assert (drift.code, drift.path, drift.live, drift.restorable) == (
        "DR104",
        "properties.hoodie.table.metadata.partitions",
        "files",
        True,
    )
    assert (
        str(drift.remedy)
        == "`parquetry apply` drops it; set hoodie.metadata.enable=false in every Hudi writer"
    )
    with pytest.raises(UnacceptableDriftError, match="cannot be accepted; `parquetry apply` drops it"):
        do(folder, table.folder)
    assert apply_plan(plan(folder), folder.workspace()).failure is None
    assert drifted(folder).drifts == ()


def test_the_lost_time_zone_of_a_table_of_ours_is_drift(folder):
    apply_plan(plan_workspace(folder.workspace(), now_ms=0), folder.workspace())
    store = folder.workspace().store(folder.workspace().table("orders"))
    properties = parse_properties(store.read(PROPERTIES))
    store.put(
        PROPERTIES,
        format_properties({k: v for k, v in properties.items() if k != TIMEZONE_KEY}, comment="edited"),
    )
    (drift,) = drift_of_workspace(folder.workspace())[0].drifts
    assert (drift.path, drift.applied, drift.live) == (f"properties.{TIMEZONE_KEY}", "UTC", None)
    restore_properties(store, read_applied(store).spec)
    assert drift_of_workspace(folder.workspace())[0].drifts == ()


def test_columns_in_one_line_and_in_block_style_take_another_one():
    column = Column(name="b", type="map<string,int>", nullable=False)
    flow = "columns: [{name: a, type: int}]  # all\n"
    assert with_column(flow, column, file="t.yml") == (
        "columns: [{name: a, type: int}, {name: b, type: 'map<string,int>', nullable: false}]  # all\n"
    )
    block = "columns:\n- name: a\n  type: int  # small\n\nrecord_key: [a]\n"
    assert with_column(block, column, file="t.yml") == (
        "columns:\n- name: a\n  type: int  # small\n"
        "- {name: b, type: 'map<string,int>', nullable: false}\n\nrecord_key: [a]\n"
    )
    with pytest.raises(UnacceptableDriftError, match="not listed in this file"):
        with_column("columns: {file: x.avsc}\n", column, file="t.yml")


def test_every_drift_code_is_documented():
    page = ROOT / "docs" / "reference" / "commands" / "drift.md"
    found = re.findall(r"^\| (DR\d+) \|", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert found == list(CODES)
