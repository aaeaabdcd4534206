"""The version is stated once, in parquetry/version.py; everything else reads it there."""

from __future__ import annotations

import re
import subprocess
import tomllib

import parquetry
from parquetry.version import VERSION
from tests.support.repository import ROOT

HOME = "parquetry/version.py"


def test_pyproject_reads_the_version():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["dynamic"] == ["version"]
    assert "version" not in pyproject["project"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "parquetry.version.VERSION"}


def test_the_package_has_it():
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)
    assert parquetry.__version__ == VERSION


def test_no_other_file_states_it():
    """Sources, templates and tools; tests and recorded output may show any version as an example."""
    folders = ("parquetry", "project", "compiler", "runtime", "templates", "tools", "pyproject.toml")
    listed = subprocess.run(
        ["git", "grep", "--files-with-matches", "--fixed-strings", f'"{VERSION}"', "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.stdout.split() == [HOME]
