"""The Python of Spark's workers on this machine, checked before Spark starts.

Without the check, the first task would fail long after the start, and Spark does not name the variable.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from parquetry.message import Value
from parquetry.runtime.errors import SparkStartError
from parquetry.runtime.spark_environment import spark_environment

PYSPARK_PYTHON: Final = "PYSPARK_PYTHON"

_ASK: Final = (
    "import os, sys; os.write(1, b'%d.%d' % sys.version_info[:2]); import parquetry.version, pyarrow"
)
_SECONDS: Final = 60


def check_worker_python(master: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise SparkStartError if the workers of a local ``master`` cannot start.

    The workers of a cluster are not checked.

    Raises:
        SparkStartError: If the variable names no program, a Python of another version, or one without
            parquetry.

    """
    program = environment.get(PYSPARK_PYTHON, sys.executable)
    if not master.startswith("local") or program == sys.executable:
        return
    if fault := _fault(program, environment):
        raise SparkStartError(
            "{variable} names {program}, {reason}; unset it, or set it to {expected_program}",
            variable=PYSPARK_PYTHON,
            program=Value.uri(program, quoted=True),
            reason=fault,
            expected_program=sys.executable,
        )


def _fault(program: str, environment: Mapping[str, str]) -> str | None:
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        return "which is not a program on this machine"
    try:
        # As in Spark's workers, no module is imported from the current folder.
        asked = subprocess.run(
            [found, "-c", _ASK],
            env={**spark_environment((), environment), "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "which does not start as Python"
    here, version = "{}.{}".format(*sys.version_info), asked.stdout.strip()
    if version and version != here:
        return f"which is Python {version}, but parquetry runs in Python {here}"
    if not asked.returncode:
        return None
    if not version:
        return "which does not start as Python"
    return (
        f"in which parquetry cannot be imported ({(asked.stderr.splitlines() or ['no reason is given'])[-1]})"
    )
