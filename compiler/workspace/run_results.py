"""``target/runs/<run id>``: ``run.json`` records that a run began, ``results.json`` what it came to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from parquetry.compiler.errors import UnsavedResultsError
from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.errors import ParquetryError
from parquetry.message import joined
from parquetry.runtime.commit.owner import Owner

RUNS: Final = Path("target") / "runs"
RESULTS: Final = "results.json"
BEGUN: Final = "run.json"

KEPT_RUNS: Final = 100
"""So many runs are kept, with their logs; the oldest go when another one begins."""


@contextmanager
def recorded_run(root: Path, run_id: str, *, target: str, started_ms: int) -> Iterator[None]:
    """Record that this process runs as long as the block lasts, and delete the folders of the oldest runs.

    A disk or a link that is in the way stops nothing here: saving the results reports it.
    """
    place, owner = ConfinedFolder(root), Owner.here()

    def write(process: Owner | None) -> None:
        document = {
            "run_id": run_id,
            "target": target,
            "started_ms": started_ms,
            "process": None if process is None else process.to_json(),
        }
        with suppress(OSError, LinkInTheWayError):
            place.write(root / RUNS / run_id / BEGUN, json.dumps(document) + "\n", private=True)

    write(owner)
    _delete_oldest(place)
    try:
        yield
    finally:
        owner.finish()
        write(None)


def _delete_oldest(place: ConfinedFolder) -> None:
    with suppress(OSError, LinkInTheWayError):
        for run_id in begun_runs(place)[KEPT_RUNS:]:
            place.delete_folder(RUNS / run_id)


def begun_runs(place: ConfinedFolder) -> list[str]:
    """Return the ids of the runs that are recorded, the newest first."""
    names = reversed(place.folders(RUNS))
    return [run_id for run_id in names if BEGUN in place.names(RUNS / run_id)]


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
