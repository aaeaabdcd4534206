"""The outcomes of a project's tests in earlier runs, from the results in ``target/runs`` of this checkout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from parquetry.compiler.testing.model import Status
from parquetry.compiler.testing.tables import TableUnderTest
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.run_results import RESULTS, RUNS
from parquetry.confined_folder import ConfinedFolder
from parquetry.runtime.spec.codec import Brief, parsed_json

MOST_RUNS: Final = 30
"""The number of runs whose results are shown, the newest ones."""

_MOST_FOLDERS: Final = 1_000
"""The number of run folders that are searched; most runs have no tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastOutcome:
    """The outcome of a test in one run; ``values`` has the measured values by limit."""

    run_id: str
    status: Status
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTest:
    """A declared test, and the earlier runs of tests with its name, oldest first."""

    table: str
    test: str
    runs: tuple[PastOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TestHistory(Brief):
    """The tests of a project at a target, in order."""

    target: str
    tests: tuple[PastTest, ...]


def history_of(workspace: Workspace, tables: Sequence[TableUnderTest]) -> TestHistory:
    """Return the outcomes of these tests in the newest runs at the workspace's target.

    Files that are not test results are ignored.

    Raises:
        LinkInTheWayError: if a link is in the way.

    """
    project = workspace.project
    names = [(table.name, declared.name) for table in tables for declared in table.tests]
    return history_in(project.root, project.target.name, names)


def history_in(root: Path, target: str, tests: Iterable[tuple[str, str]]) -> TestHistory:
    """Return the outcomes of tests, given as pairs of table and name, of the project in ``root``."""
    found: dict[tuple[str, str], list[PastOutcome]] = {key: [] for key in tests}
    for run_id, document in _newest(root, target):
        for entry in document["tests"]:
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # not an outcome of this version
                key, outcome = _past(run_id, entry)
                if key in found:
                    found[key].append(outcome)
    return TestHistory(
        target=target,
        tests=tuple(
            PastTest(table=table, test=test, runs=tuple(reversed(runs)))
            for (table, test), runs in found.items()
        ),
    )


def _newest(root: Path, target: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the run id and document of test results at the target, newest first."""
    folder = ConfinedFolder(root)
    count = 0
    for run_id in reversed(folder.folders(RUNS)[-_MOST_FOLDERS:]):
        try:
            document = parsed_json(folder.read(RUNS / run_id / RESULTS))
        except (OSError, ValueError):
            continue
        if not isinstance(document, dict) or document.get("target") != target:
            continue
        if isinstance(document.get("tests"), list):
            yield run_id, document
            count += 1
            if count == MOST_RUNS:
                return


def _past(run_id: str, entry: Any) -> tuple[tuple[str, str], PastOutcome]:
    """Return the table and the name of a test, with its outcome in an earlier run."""
    values = {str(limit["limit"]): limit["value"] for limit in entry["limits"]}
    if not all(value is None or isinstance(value, int | float) for value in values.values()):
        raise TypeError(values)
    outcome = PastOutcome(run_id=run_id, status=Status(entry["status"]), values=values)
    return (entry["table"], entry["test"]), outcome
