"""Where the JVM of a session without a cluster puts the rows that it shuffles and spills."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from select import select

import pytest

_SESSION = """
from parquetry.runtime.spark.session.start import start_session
from parquetry.runtime.spec.job import SparkSettings

session = start_session(SparkSettings(master="local[2]"), name="files")
assert session.range(10).repartition(2).count() == 10
print(session._jvm.System.getenv("SPARK_LOCAL_DIRS"), flush=True)
input()
"""


@pytest.mark.spark
def test_only_the_user_may_enter_the_folder_and_it_goes_with_the_jvm(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", _SESSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    with child:
        assert child.stdout is not None and child.stdin is not None
        folder = Path(child.stdout.readline().strip())
        mode = folder.stat().st_mode & 0o777
        shuffled = [*folder.rglob("shuffle_*.data")]
        jvm = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        child.stdin.write("\n")
    assert folder.parent == tmp_path
    assert mode == 0o700
    assert shuffled, "what Spark shuffles is in this folder"
    assert child.returncode == 0
    for pid in map(int, jvm):
        with suppress(ProcessLookupError):
            select([os.pidfd_open(pid)], [], [])
    assert [*tmp_path.iterdir()] == []
