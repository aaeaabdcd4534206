"""A project that cannot be read is one thing for the doctor to name, beside Java and the packages."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from click.testing import CliRunner

from parquetry.cli.main import command_line
from tests.support.spec_cases import PROJECT, TABLE, write_project

UNSET = "targets:\n  dev: {warehouse: \"{{ env_var('PARQUETRY_NOWHERE') }}/lake\"}\n"


def checks(root):
    answer = CliRunner().invoke(command_line, ["doctor", "-p", str(root), "--format", "json"])
    assert answer.exit_code == 1
    return {check["name"]: check for check in json.loads(answer.stdout)["checks"]}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"tables/flights.yml": TABLE + "ownr: me\n"},
            "1 error: tables/flights.yml:7:1: PQ102 unknown key 'ownr'; did you mean 'owner'?",
        ),
        (
            {"tables/flights.yml": TABLE + "ownr: me\npolicy: none\n"},
            "2 errors, the first: tables/flights.yml:7:1: PQ102 ",
        ),
        (
            {
                "parquetry.yml": "apiVersion: parquetry/v1\nkind: project\nname: p\n" + UNSET,
                "tables/flights.yml": TABLE,
            },
            "1 error: parquetry.yml:5:20: PQ204 environment variable 'PARQUETRY_NOWHERE' is not set; set it: export PARQUETRY_NOWHERE=...",
        ),
    ],
)
def test_an_invalid_project_is_one_line_beside_java_and_packages(tmp_path, monkeypatch, files, said):
    monkeypatch.delenv("PARQUETRY_NOWHERE", raising=False)
    found = checks(write_project(tmp_path, {"parquetry.yml": PROJECT, **files}))
    assert {"python", "java", "pyarrow", "pyspark"} <= set(found)
    assert not found["project"]["ok"]
    assert found["project"]["found"].startswith(said)
    assert "storage" not in found


@pytest.fixture
def immutable():
    """A function that makes a folder one that nobody may change, root neither."""
    locked = []

    def lock(path):
        path.chmod(0o500)
        if (
            os.geteuid() == 0
            and subprocess.run(["chattr", "+i", path], check=False, capture_output=True).returncode
        ):
            pytest.skip("root may write everywhere, and the file system knows no immutable folder")
        locked.append(path)

    yield lock
    for path in locked:
        subprocess.run(["chattr", "-i", path], check=False, capture_output=True)
        path.chmod(0o700)


def test_a_table_that_cannot_be_written_is_named_with_the_remedy(tmp_path, immutable):
    root = write_project(tmp_path, {"parquetry.yml": PROJECT, "tables/flights.yml": TABLE})
    run = CliRunner().invoke(command_line, ["apply", "--auto-approve", "-p", str(root)])
    assert run.exit_code == 0, run.output
    (timeline,) = root.glob("**/.hoodie")
    immutable(timeline)
    found = checks(root)
    assert found["storage"]["ok"]
    assert not found["table flights"]["ok"]
    assert f"{timeline}" in found["table flights"]["found"]
    assert "grant this user the permission" in found["table flights"]["found"]
