"""Columns that are added again: blocked while files from before they were dropped still hold their values."""

from __future__ import annotations

import pytest

from parquetry.compiler.plan.changes import spec_changes, with_returning
from parquetry.compiler.plan.model import ChangeClass
from parquetry.runtime.spark import cluster
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.former_columns import FormerColumn
from parquetry.runtime.table.handle import open_table
from parquetry.runtime.table.schema import live_columns
from tests.support.one_process_spark import OneProcessSpark
from tests.support.planning import apply, plan
from tests.support.project_folder import EVENTS, ProjectFolder
from tests.support.small_table import FAST, SmallTable

ID, V, P = EVENTS["columns"]
DROP = {"code": "SC310", "table": "events", "reason": "moved"}
PRUNE = {"trigger": "async", "execution": {"strategy": "sort", "columns": ["id"], "then": ["prune"]}}


@pytest.fixture
def folder(tmp_path):
    """A project whose table had a column v, which its one file still holds."""
    folder = ProjectFolder.create(tmp_path / "shop")
    (folder.root / "tables/orders.yml").unlink()
    folder.project(allow=[DROP])
    declare(folder, ID, V, P)
    apply(folder)
    SmallTable(store=open_store(folder.root / "warehouse/events")).insert({"k1": (1, "a")})
    declare(folder, ID, P)
    apply(folder)
    return folder


def declare(folder, *columns):
    folder.write("tables/events.yml", EVENTS | {"columns": list(columns), "clustering": PRUNE})


@pytest.mark.parametrize(("name", "kind"), [("v", "string"), ("v", "int"), ("V", "string")])
def test_under_a_type_that_files_do_not_hold_it_is_refused(folder, name, kind):
    declare(folder, ID, P, {"name": name, "type": kind})
    folder.project(allow=[DROP, DROP | {"code": "SC311"}])
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC311"
    assert f"its type is bigint, not {kind}" in blocked.reason
    assert f"1 file from before {name} was dropped (instant " in blocked.reason


def test_with_its_old_values_it_is_back_only_where_that_is_allowed(folder):
    declare(folder, ID, P, V)
    (blocked,) = plan(folder).intent.blocked
    assert blocked.code == "SC316"
    assert "would reappear" in blocked.reason
    folder.project(allow=[DROP, DROP | {"code": "SC316"}])
    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class) == ("SC316", ChangeClass.BREAKING)
    apply(folder)
    assert plan(folder).is_empty


def test_the_name_is_free_when_the_files_were_rewritten(folder):
    table = SmallTable(store=open_store(folder.root / "warehouse/events"))
    assert cluster.cluster(OneProcessSpark(), table.handle, timing=FAST).groups == 1
    declare(folder, ID, P, {"name": "v", "type": "string"})
    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class) == ("SC301", ChangeClass.EVOLVE)


def test_a_column_that_never_was_is_added_as_ever(folder):
    declare(folder, ID, P, {"name": "w", "type": "string"})
    (action,) = plan(folder).intent.actions
    assert (action.code, action.change_class) == ("SC301", ChangeClass.EVOLVE)


def test_a_field_that_is_dropped_is_gone_for_readers_and_the_plan_is_empty(folder):
    def person(fields):
        return {"name": "w", "type": f"array<struct<{fields}>>"}

    declare(folder, ID, P, person("name:string,email:string"))
    apply(folder)
    declare(folder, ID, P, person("name:string"))
    (action,) = plan(folder).intent.actions
    assert [(change.path, change.code) for change in action.changes] == [("columns.w.element.email", "SC310")]
    apply(folder)
    assert plan(folder).is_empty
    handle = open_table(open_store(folder.root / "warehouse/events"))
    by_name = {c.name: c.type for c in live_columns(handle.store, handle.timeline(), handle.config)}
    assert by_name["w"] == "array<struct<name:string>>"


@pytest.mark.parametrize(
    ("before", "wanted", "path", "former", "code"),
    [
        ("struct<a:int>", "struct<a:int,b:int>", ("s", "b"), "string", "SC311"),
        ("array<struct<a:int>>", "array<struct<a:int,b:bigint>>", ("s", "element", "b"), "int", "SC316"),
        (None, "map<string,struct<a:int,b:int>>", ("s", "value", "b"), "string", "SC311"),
        (None, "struct<a:int>", ("s",), "struct<a:int,b:int>", "SC316"),
        (None, "struct<a:int,bb:int>", ("s", "b"), None, "SC301"),
    ],
)
def test_fields_within_columns_return_too(before, wanted, path, former, code):
    def spec(kind):
        columns = [Column(name="id", type="string", nullable=False)]
        if kind is not None:
            columns.append(Column(name="s", type=kind))
        return TableSpec(name="t", columns=tuple(columns), record_key=("id",))

    def former_of(paths):
        if former is None:
            assert path not in paths
            return ()
        assert path in paths
        return (FormerColumn(path=path, type=parse_type(former), dropped_at="20260101000000000", files=2),)

    applied, declared = spec(before), spec(wanted)
    changes = spec_changes(applied, declared, origin=lambda _: None)
    found = with_returning(changes, applied=applied, declared=declared, former=former_of)
    assert [change.code for change in found] == [code]
