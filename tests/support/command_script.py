"""The installed `parquetry` script as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(sys.executable).parent / "parquetry"


def environment(**changes) -> dict[str, str]:
    """This process's environment without the script's own variables; a None takes one away."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARQUETRY_")}
    merged = kept | {"PYSPARK_PYTHON": sys.executable} | changes
    return {name: value for name, value in merged.items() if value is not None}


def parquetry(*arguments, cwd=None, **changes) -> subprocess.CompletedProcess[str]:
    """Run the script; ``changes`` are variables of its environment."""
    return subprocess.run(
        [str(SCRIPT), *map(str, arguments)],
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
