"""A real manifest of dbt: the project in dbt_project, parsed by dbt-core, becomes specs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.interop.environment import dbt_python

pytestmark = pytest.mark.interop

PROJECT = Path(__file__).with_name("dbt_project")
CHECKED_IN = Path(__file__).parents[1] / "unit" / "compiler" / "spec_files" / "dbt_manifest.json"
_OPTIONS = ("--no-partial-parse", "--no-version-check", "--quiet", "--profiles-dir", ".")


@pytest.fixture
def manifest(tmp_path):
    folder = tmp_path / "dbt"
    shutil.copytree(PROJECT, folder)
    parse(folder)
    return folder / "target" / "manifest.json"


def parse(folder):
    """Let dbt write the manifest; it reads files alone, and sends nothing."""
    environment = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    command = [str(dbt_python().with_name("dbt")), "parse", *_OPTIONS]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def init(manifest, root, *options):
    command = ["init", str(root), "--from-dbt", str(manifest), "--format", "json", *options]
    done = CliRunner().invoke(command_line, command)
    return done.exit_code, json.loads(done.stdout)


def specs(root):
    return {path.name: path.read_text() for path in (root / "tables").glob("*.yml")}


def test_dbt_writes_the_manifest_that_other_tests_read(manifest, tmp_path):
    """The checked-in manifest, which is a part of a real one, gives the same specs."""
    exit_code, answer = init(manifest, tmp_path / "lake")
    assert exit_code == 1
    assert [each["model"] for each in answer["left_out"]] == ["model.shop.notes"]
    assert init(CHECKED_IN, tmp_path / "other")[0] == 1
    assert specs(tmp_path / "lake") == specs(tmp_path / "other")
    assert {*specs(tmp_path / "lake")} == {"customers.yml", "orders.yml"}
    done = CliRunner().invoke(command_line, ["validate", "--project", str(tmp_path / "lake")])
    assert done.exit_code == 0, done.output


def test_a_change_in_dbt_is_noticed_and_taken(manifest, tmp_path):
    init(manifest, tmp_path / "lake")
    folder = manifest.parent.parent
    schema = folder / "models" / "schema.yml"
    text = schema.read_text().replace("decimal(12,2)", "decimal(14,2)")
    schema.write_text(
        text.replace("columns: [{name: note_id}]", "columns: [{name: note_id, data_type: bigint}]")
    )
    parse(folder)
    exit_code, answer = init(manifest, tmp_path / "lake", "--check")
    assert (exit_code, answer["files"]) == (3, ["tables/notes.yml", "tables/orders.yml"])
    assert init(manifest, tmp_path / "lake")[0] == 0
    assert init(manifest, tmp_path / "lake", "--check")[0] == 0
    assert "decimal(14,2)" in specs(tmp_path / "lake")["orders.yml"]
