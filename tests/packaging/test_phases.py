"""The phases of `make test`: those that collect some folders only miss no test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT
from tools.run_tests import FAST, INTEROP, OWN_SPARK, SHARED_SPARK, UNIT


def marked(name: str) -> list[Path]:
    """The files that use a mark, but for this one."""
    files = (path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
    return [path for path in files if f"mark.{name}" in path.read_text(encoding="utf-8")]


def collects(arguments: tuple[str, ...], file: Path) -> bool:
    """Whether pytest looks into the file when it gets these arguments."""
    ignored = [ROOT / word.removeprefix("--ignore=") for word in arguments if word.startswith("--")]
    given = [ROOT / word for word in arguments if not word.startswith("--")]
    return any(file.is_relative_to(path) for path in given) and not any(
        file.is_relative_to(path) for path in ignored
    )


@pytest.mark.parametrize(("name", "phases"), [("spark", (SHARED_SPARK, OWN_SPARK)), ("interop", (INTEROP,))])
def test_a_marked_test_is_in_one_phase(name, phases):
    files = [path for path in marked(name) if name == "interop" or path not in marked("interop")]
    assert len(files) > 10
    assert [path for path in files if sum(collects(phase, path) for phase in phases) != 1] == []


def test_a_file_outside_of_the_folder_of_spark_is_in_one_fast_phase():
    files = {*(ROOT / "tests").rglob("test_*.py")} - {*(ROOT / "tests" / "spark").rglob("test_*.py")}
    assert [path for path in files if sum(collects(phase, path) for phase in (UNIT, FAST)) != 1] == []


def test_what_lies_in_the_folder_of_spark_is_marked():
    assert {*(ROOT / "tests" / "spark").rglob("test_*.py")} - {*marked("spark")} == set()


COMPUTES = "import time\nwhile time.process_time() < 0.5: pass"
LEFT_BEHIND = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {COMPUTES!r}]); sys.exit(3)"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to another process")
def test_cpu_seconds_of_a_process_that_is_left_behind_count(tmp_path):
    file = tmp_path / "cpu"
    command = [sys.executable, "-m", "tools.cpu_seconds", str(file), sys.executable, "-c", LEFT_BEHIND]
    done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == 3
    assert float(file.read_text()) >= 0.5
