"""``target/runs/<run id>/results.json``: what a run, or tests, came to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from parquetry.compiler.errors import UnsavedResultsError
from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.errors import ParquetryError
from parquetry.message import joined

RUNS: Final = Path("target") / "runs"
RESULTS: Final = "results.json"


def save_results(root: Path, run_id: str, document: Mapping[str, Any], *, kept: str) -> ParquetryError | None:
    """Write the results down; an error that names the file where the disk refuses, and no half of it.

    ``kept`` says what is not lost by that.
    """
    file = root / RUNS / run_id / RESULTS
    try:
        ConfinedFolder(root).write(file, json.dumps(document, indent=2) + "\n", private=True)
    except (OSError, LinkInTheWayError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return UnsavedResultsError(
            joined("", (f"{file} cannot be written: {why}; ", kept))
            + ": make room, or make the folder writable, before the next run"
        )
    return None
