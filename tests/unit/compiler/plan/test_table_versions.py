"""A changed table version in plans: its class, whom it shuts out, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parquetry.cli.terminal.output import Paint
from parquetry.cli.views.plan.text import PlanView
from parquetry.compiler.plan.changes import spec_changes
from parquetry.compiler.plan.model import ChangeClass
from parquetry.compiler.plan.table_versions import effect_on_readers, is_possible
from parquetry.runtime.spec.table_spec import Column, TableSpec
from tests.support.planning import apply, plan
from tests.support.project_folder import ProjectFolder

SPEC = TableSpec(name="orders", columns=(Column(name="id", type="string"),), record_key=("id",))


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


@pytest.mark.parametrize(
    ("old", "new", "effect"),
    [
        (6, 9, "shuts out Athena, Redshift and Hudi before 1.1"),
        (6, 8, "shuts out Athena, Redshift and Hudi before 1.0"),
        (8, 9, "shuts out Hudi before 1.1"),
        (9, 6, "opens the table to Athena, Redshift and Hudi before 1.1 again"),
        (9, 8, "opens the table to Hudi before 1.1 again"),
    ],
)
def test_a_changed_version_is_a_class_of_its_own_and_says_whom_it_shuts_out(old, new, effect):
    (change,) = spec_changes(
        replace(SPEC, table_version=old), replace(SPEC, table_version=new), origin=lambda path: f"at {path}"
    )
    assert (change.path, change.old, change.new) == ("table_version", old, new)
    assert (change.code, change.change_class) == ("SC261", ChangeClass.FORMAT)
    assert change.note == change.reason == effect == effect_on_readers(old, new)
    assert not change.needs_allow_entry


def test_the_class_lies_between_rewrite_and_breaking():
    assert ChangeClass.REWRITE.rank < ChangeClass.FORMAT.rank < ChangeClass.BREAKING.rank


def test_version_6_leaves_the_digest_of_a_spec_as_it_was():
    assert "table_version" not in SPEC.to_json()
    newer = replace(SPEC, table_version=9)
    assert newer.to_json() == SPEC.to_json() | {"table_version": 9}
    assert TableSpec.from_json(newer.to_json()) == newer
    assert TableSpec.from_json(SPEC.to_json()).table_version == 6


def test_version_8_is_for_tables_that_have_it():
    assert not is_possible(8, live=None)
    assert not is_possible(8, live=6)
    assert is_possible(8, live=8)
    assert is_possible(8, live=9)
    assert is_possible(6, live=9)


def test_a_new_table_of_version_8_is_refused_with_a_remedy(folder):
    folder.orders(table_version=8)
    (blocked,) = plan(folder).intent.blocked
    assert (blocked.code, blocked.changes) == ("SC509", ())
    assert blocked.reason == (
        "table_version: no table is created with version 8; it is for tables that already have it"
    )
    assert blocked.remedy.startswith("declare table_version: 6")


def test_an_upgrade_to_version_8_is_refused(folder):
    apply(folder)
    folder.orders(table_version=8)
    document = plan(folder)
    (blocked,) = document.intent.blocked
    assert blocked.code == "SC509"
    assert "a table of version 6 cannot get 8" in blocked.reason
    text = PlanView().text(document, Paint(enabled=False))
    assert "SC509" in text
