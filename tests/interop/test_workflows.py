"""What actionlint says of the workflows that `init` writes, and of the repository's own."""

from __future__ import annotations

import subprocess

import pytest

from parquetry.compiler.spec_files.scaffold import CI, scaffold
from tests.interop.environment import actionlint
from tests.support.repository import ROOT

pytestmark = pytest.mark.interop


def test_actionlint_finds_nothing(tmp_path):
    program = actionlint()
    if program is None:
        pytest.skip("neither actionlint nor Go, which builds it, is on the path")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in (".", "another lake"):
        scaffold(tmp_path / name, ci=CI.GITHUB)
    files = [*tmp_path.glob(".github/workflows/*.yml"), *ROOT.glob(".github/workflows/*.yml")]
    assert len(files) == 11
    done = subprocess.run(
        [program, "-no-color", *map(str, files)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "")
