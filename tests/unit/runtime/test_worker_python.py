"""The Python of Spark's workers is checked before Spark starts."""

from __future__ import annotations

import os
import sys

import pytest

from parquetry.runtime.errors import SparkStartError
from parquetry.runtime.worker_python import check_worker_python

HERE = "{}.{}".format(*sys.version_info)


def program(tmp_path, text):
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def check(named, master="local[2]"):
    check_worker_python(master, {"PYSPARK_PYTHON": named, "PATH": os.environ["PATH"]})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("echo 3.8", "which is Python 3.8, but parquetry runs in Python [0-9.]+"),
        (
            f"echo {HERE}; echo \"ModuleNotFoundError: No module named 'parquetry'\" >&2; exit 1",
            r"in which parquetry cannot be imported \(ModuleNotFoundError: No module named 'parquetry'\)",
        ),
        ("exit 1", "which does not start as Python"),
    ],
)
def test_a_python_without_parquetry_is_named_with_the_remedy(tmp_path, text, fault):
    with pytest.raises(SparkStartError, match=f"PYSPARK_PYTHON names .*{fault}; unset it, or set it to "):
        check(program(tmp_path, text))


def test_a_name_that_is_no_program(tmp_path):
    with pytest.raises(SparkStartError, match="which is not a program on this machine"):
        check(str(tmp_path / "nowhere"))


def test_a_python_with_parquetry_passes(tmp_path):
    check(program(tmp_path, f'exec {sys.executable} "$@"'))


def test_workers_of_a_cluster_are_not_looked_at(tmp_path):
    check(str(tmp_path / "nowhere"), master="yarn")
    check_worker_python("local", {})
