"""Records of runs in ``target/runs/<run id>``: ``run.json`` at the start, ``results.json`` for results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from parquetry.compiler.errors import UnsavedResultsError
from parquetry.confined_folder import ConfinedFolder, LinkInTheWayError
from parquetry.errors import ParquetryError
from parquetry.message import Text, texts
from parquetry.runtime.commit.owner import Owner

RUNS: Final = Path("target") / "runs"
RESULTS: Final = "results.json"
STARTED: Final = "run.json"

KEPT_RUNS: Final = 100
"""The number of runs that are kept with their logs. The start of another run deletes the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The newest run of a table that has ended, and whether it was not killed and all its jobs succeeded."""

    started_ms: int
    succeeded: bool


@contextmanager
def recorded_run(
    root: Path, run_id: str, *, target: str, tables: Sequence[str], started_ms: int
) -> Iterator[None]:
    """Yield while this process is recorded as running, and first delete the folders of the oldest runs.

    If the disk or a link prevents the record, nothing fails here; saving the results reports it.
    """
    project_folder, owner = ConfinedFolder(root), Owner.here()

    def write(process: Owner | None) -> None:
        document = {
            "run_id": run_id,
            "target": target,
            "tables": list(tables),
            "started_ms": started_ms,
            "process": None if process is None else process.to_json(),
        }
        with suppress(OSError, LinkInTheWayError):
            project_folder.write(root / RUNS / run_id / STARTED, json.dumps(document) + "\n", private=True)

    write(owner)
    _delete_oldest(project_folder)
    try:
        yield
    finally:
        owner.finish()
        write(None)


def _delete_oldest(project_folder: ConfinedFolder) -> None:
    with suppress(OSError, LinkInTheWayError):
        for run_id in recorded_runs(project_folder)[KEPT_RUNS:]:
            project_folder.delete_folder(RUNS / run_id)


def recorded_runs(project_folder: ConfinedFolder) -> list[str]:
    """Return the ids of the recorded runs, newest first."""
    names = reversed(project_folder.folders(RUNS))
    return [run_id for run_id in names if STARTED in project_folder.names(RUNS / run_id)]


def save_results(
    root: Path, run_id: str, document: Mapping[str, Any], *, kept: Text
) -> ParquetryError | None:
    """Write the results of a run completely or not at all, and return an error if they cannot be written.

    Args:
        root: The folder of the project.
        run_id: The id of the run.
        document: The results.
        kept: The part of the error's text that says what is not lost.
    """
    file = root / RUNS / run_id / RESULTS
    try:
        ConfinedFolder(root).write(file, json.dumps(texts(document), indent=2) + "\n", private=True)
    except (OSError, LinkInTheWayError) as error:
        why = error.strerror if isinstance(error, OSError) else error.message
        return UnsavedResultsError(
            "{file} cannot be written: {reason}; {consequence}: make room, or make the folder writable, "
            "before the next run",
            file=file,
            reason=why,
            consequence=kept,
        )
    return None
