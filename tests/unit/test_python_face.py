"""Projects in Python, as the documentation shows them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import parquetry
from parquetry.compiler.rereading import read_again
from parquetry.runtime.errors import StalePlanError, StaleTimelineError
from tests.support.project_folder import ProjectFolder


@pytest.fixture
def folder(tmp_path):
    return ProjectFolder.create(tmp_path / "shop")


def test_load_plan_apply(folder):
    project = parquetry.load(folder.root, target="dev")
    assert (project.name, project.target) == ("shop", "dev")
    assert project.tables == {"orders": str(folder.table)}
    plan = project.plan()
    assert not plan.is_empty
    plan.apply()
    assert parquetry.load(folder.root).plan().is_empty
    with pytest.raises(StalePlanError):
        plan.apply()


def test_a_saved_plan_is_the_one_that_the_command_reads(folder, tmp_path):
    plan = parquetry.load(folder.root).plan()
    plan.save(tmp_path / "plan.json")
    assert (
        json.loads((tmp_path / "plan.json").read_text())["plan_id"]
        == plan.plan_id
        == plan.to_json()["plan_id"]
    )


def test_an_invalid_project_raises_all_its_diagnostics(folder):
    folder.orders(record_key=["nothing"], ordering="nobody")
    with pytest.raises(parquetry.SpecError, match="record_key names the column 'nothing'") as caught:
        parquetry.load(folder.root)
    assert len(caught.value.diagnostics) == 2
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("lone", ["p=a", {"p": "a"}])
def test_one_partition_to_delete_is_not_taken_for_a_list_of_its_letters_or_columns(tmp_path, lone):
    columns = (
        parquetry.Column(name="id", type="string", nullable=False),
        parquetry.Column(name="p", type="string"),
    )
    spec = parquetry.TableSpec(name="t", columns=columns, record_key=("id",), partition_by=("p",))
    table = parquetry.create(tmp_path / "t", spec)
    with pytest.raises(parquetry.ParquetryError, match=r"is one partition; give a list of them: \["):
        table.delete_partition(lone)
    assert table.delete_partition([lone]).instant is None


def test_importing_parquetry_loads_nothing_heavy():
    program = "import sys, parquetry; sys.exit(any(m in sys.modules for m in ('yaml', 'jinja2', 'click', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_report_is_read_again_when_the_timeline_moved_beneath_it():
    calls = []

    @read_again
    def report(stale):
        calls.append(1)
        if len(calls) <= stale:
            raise StaleTimelineError("archived")
        return "done"

    assert report(2) == "done"
    calls.clear()
    with pytest.raises(StaleTimelineError):
        report(3)
