"""What the tests of a project came to in earlier runs, as ``target/runs`` of this checkout remembers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from parquetry.compiler.testing.execution import TableUnderTest
from parquetry.compiler.testing.model import Status
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.run_results import RESULTS, RUNS
from parquetry.confined_folder import ConfinedFolder
from parquetry.runtime.spec.codec import Brief, parsed_json

MOST_RUNS: Final = 30
"""Of how many runs the results are shown, the newest ones."""

_MOST_FOLDERS: Final = 1_000
"""How many folders of runs are looked into: most of `run` hold no tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastOutcome:
    """How a test ended in one run; ``values`` are what was measured, by the keys of its limits."""

    run_id: str
    status: Status
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTest:
    """A test that is declared now, and the runs that knew one of its name, oldest first."""

    table: str
    test: str
    runs: tuple[PastOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TestHistory(Brief):
    """The tests of a project at a target, in their order."""

    target: str
    tests: tuple[PastTest, ...]


def history_of(workspace: Workspace, tables: Sequence[TableUnderTest]) -> TestHistory:
    """What results of the newest runs at the workspace's target say of these tests.

    Files that are no results of tests are passed over. LinkInTheWayError where links are in the way.
    """
    project = workspace.project
    names = [(table.name, declared.name) for table in tables for declared in table.tests]
    return history_in(project.root, project.target.name, names)


def history_in(root: Path, target: str, tests: Iterable[tuple[str, str]]) -> TestHistory:
    """The same of tests by table and name, in the project in ``root``."""
    found: dict[tuple[str, str], list[PastOutcome]] = {key: [] for key in tests}
    for run_id, document in _newest(root, target):
        for entry in document["tests"]:
            with suppress(ValueError, KeyError, TypeError, AttributeError):
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
    """The newest results of tests at the target, newest first."""
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
    values = {str(limit["limit"]): limit["value"] for limit in entry["limits"]}
    if not all(value is None or isinstance(value, int | float) for value in values.values()):
        raise TypeError(values)
    outcome = PastOutcome(run_id=run_id, status=Status(entry["status"]), values=values)
    return (entry["table"], entry["test"]), outcome
