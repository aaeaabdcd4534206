"""No Java, and one that is too old: what `run` and `doctor` say, and that the remedy named works."""

from __future__ import annotations

import os
import shutil
import stat

import pytest

from parquetry.runtime.errors import MissingJavaError
from parquetry.runtime.java import REMEDY, find_java
from tests.support.command_script import parquetry
from tests.support.project_folder import ProjectFolder

ROW = "order_id,city,amount,items,revision\n1,Rome,1.5,2,1\n"


@pytest.fixture
def folder(tmp_path):
    folder = ProjectFolder.create(tmp_path / "shop")
    folder.deliver("a.csv", ROW)
    assert parquetry("apply", "-p", folder.root, "--auto-approve").returncode == 0
    return folder


def fake_java(folder, version_line):
    """A program called java that says this."""
    home = folder / "jvm"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


def path_without_java(tmp_path):
    """A PATH with the tools a command may need, and no java."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "bash", "sh", "env", "ps", "dirname", "basename"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    return str(tools)


def test_run_without_java_says_so_and_how_to_mend_it(folder, tmp_path):
    done = parquetry("run", "-p", folder.root, PATH=path_without_java(tmp_path), JAVA_HOME=None)
    assert done.returncode == 1
    assert "there is none (PATH)" in done.stderr
    assert REMEDY in done.stderr
    assert "Traceback" not in done.stderr


def test_run_with_a_java_that_is_too_old_names_what_was_found(folder, tmp_path):
    home = fake_java(tmp_path, 'openjdk version "11.0.22" 2024-01-16')
    done = parquetry("run", "-p", folder.root, JAVA_HOME=str(home))
    assert done.returncode == 1
    assert f"found Java 11 at {home}/bin/java (JAVA_HOME={home})" in done.stderr
    assert REMEDY in done.stderr


def test_nothing_to_ingest_needs_no_java(folder, tmp_path):
    (folder.root / "landing/a.csv").unlink()
    done = parquetry("run", "-p", folder.root, PATH=path_without_java(tmp_path), JAVA_HOME=None)
    assert done.returncode == 0, done.stderr
    assert "nothing new" in done.stdout


def test_doctor_marks_java_and_exits_1(folder, tmp_path):
    done = parquetry(
        "doctor", "-p", folder.root, PATH=path_without_java(tmp_path), JAVA_HOME=None, COLUMNS="500"
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.split()[1] == "java"]
    assert line.startswith("fix")
    assert REMEDY in line


@pytest.mark.parametrize(
    ("line", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
    ],
)
def test_versions_that_are_new_enough(tmp_path, line, major):
    home = fake_java(tmp_path, line)
    assert find_java({"JAVA_HOME": str(home)}).major == major


@pytest.mark.parametrize(
    ("line", "found"),
    [('java version "1.8.0_392"', "Java 8"), ("command not understood", "a program without a version")],
)
def test_versions_that_are_not(tmp_path, line, found):
    home = fake_java(tmp_path, line)
    with pytest.raises(MissingJavaError, match=found):
        find_java({"JAVA_HOME": str(home)})


def test_a_java_home_without_java_names_it(tmp_path):
    with pytest.raises(MissingJavaError, match=f"there is none .JAVA_HOME={tmp_path}."):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_the_java_of_this_machine_is_found():
    assert find_java().major >= 17


def test_run_with_workers_that_cannot_start_names_the_variable_before_spark_starts(folder):
    done = parquetry("run", "-p", folder.root, PYSPARK_PYTHON="/opt/nowhere/python")
    assert done.returncode == 1
    assert "PYSPARK_PYTHON names '/opt/nowhere/python', which is not a program on this machine" in done.stderr
    assert "unset it, or set it to" in done.stderr
    (log,) = (folder.root / "target").glob("runs/*/spark.log")
    assert not log.read_text(), "Spark was started"


def test_doctor_finds_workers_that_cannot_start(folder):
    done = parquetry("doctor", "-p", folder.root, PYSPARK_PYTHON="/opt/nowhere/python")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "PYSPARK_PYTHON names '/opt/nowhere/python', which is not a program on this machine" in said
