"""Commands that name a table say alike when there is none of that name, or none yet."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.support.project_folder import ProjectFolder

NAMING = (
    ("inspect",),
    ("timeline",),
    ("service", "clean"),
    ("service", "archive"),
    ("service", "cluster", "--plan-only"),
    ("simulate", "sizing", "--inserts", "1"),
    ("simulate", "clustering"),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = ProjectFolder.create(tmp_path / "shop")
    monkeypatch.chdir(folder.root)
    return folder


def refusal(*arguments):
    result = CliRunner().invoke(command_line, [*arguments])
    assert result.exit_code != 0, result.stdout
    return result.exit_code, result.stderr.strip().rpartition("error: ")[2]


@pytest.mark.parametrize("command", NAMING, ids=" ".join)
def test_a_table_that_is_not_applied_is_told_to_be_applied(folder, command):
    code, said = refusal(*command, "orders")
    assert code == 1
    assert said == (
        f"table orders is not applied at {folder.root}/warehouse/orders; run `parquetry apply --target dev`"
    )


@pytest.mark.parametrize("command", [*NAMING, ("explain",)], ids=" ".join)
def test_an_unknown_table_is_told_the_nearest_one(folder, command):
    told = (2, "there is no table 'order'; did you mean 'orders'?")
    assert refusal(*command, "order") == told
    assert refusal("plan", "--select", "order") == told
    assert refusal(*command, "x") == (2, "there is no table 'x'; tables are orders")


def test_a_place_without_a_table_is_no_matter_of_applying(folder):
    assert "there is no Hudi table" in refusal("inspect", str(folder.root / "warehouse/orders"))[1]


def test_an_unknown_command_is_told_the_nearest_one():
    code, said = refusal("plann")
    assert (code, "No such command 'plann'; did you mean 'plan'?" in said) == (2, True)
    assert "did you mean" not in refusal("zzzzzz")[1]
