"""Our writer and reader on other Sparks, each in an environment of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.interop.environment import SPARKS, spark_environment, spark_python
from tests.support.judges import HudiRs

pytestmark = [pytest.mark.interop, pytest.mark.spark]

OLDEST = "3.5"
"""The short suites run everything else on the newest one; what lies between takes its turn in the long ones."""

SMOKE = Path(__file__).with_name("spark_smoke.py")


@pytest.mark.parametrize(
    "version",
    [pytest.param(version, marks=[] if version == OLDEST else pytest.mark.long) for version in SPARKS],
)
def test_every_operation_on_another_spark(tmp_path, version):
    python = spark_python(version)
    done = subprocess.run(
        [str(python), str(SMOKE), str(tmp_path)],
        env=spark_environment(python),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert f"sound on Spark {version}" in done.stdout
    for table in ("every_operation", "a_key_that_moves", "widened_columns", "partitions_in_one_order"):
        assert HudiRs().read(str(tmp_path / table)).num_rows > 0
