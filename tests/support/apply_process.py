"""`apply` as a process that SIGKILL ends at one of its storage operations.

``python -m tests.support.apply_process`` reads a task per line: a project's directory, a file for counting,
the number of an operation (0: none) and how far that one gets. For each it forks a process that plans and
applies, and answers how that ended, a signal as a negative number.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parquetry.compiler.plan.apply import apply_plan
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.workspace.opened import open_workspace
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.storage.open import open_store
from tests.support.no_fsync import skip_fsync
from tests.support.processes import die_with_parent
from tests.support.repository import ROOT
from tests.support.stores import FaultyStore, Kind, Stop, Stopped


class KillingStore(FaultyStore):
    """Where a faulty store raises, SIGKILL comes: no handler of anything runs."""

    def before(self, kind: Kind, path: str) -> None:
        try:
            super().before(kind, path)
        except Stopped:
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, kind: Kind, path: str) -> None:
        try:
            super().after(kind, path)
        except Stopped:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Applier:
    """The process that forks those that apply."""

    process: subprocess.Popen[str]

    def apply(self, root: Path, counter: Path, *, number: int = 0, stop: Stop = Stop.AFTER) -> int:
        """How a process ended that applied the project: its exit code, or minus the signal."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        task = {"root": str(root), "counter": str(counter), "stop_at": number, "stop": stop}
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def applier() -> Iterator[Applier]:
    """An applier that does not outlive the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.apply_process"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Applier(process)
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    skip_fsync()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            die_with_parent()
            os._exit(_apply(**json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _apply(*, root: str, counter: str, stop_at: int, stop: str) -> int:
    workspace = open_workspace(Path(root), target=None, variables={}, environment={})
    plan = plan_workspace(workspace, now_ms=0)
    killing = replace(
        workspace,
        open=lambda place, options, allowed: _killing(place, options, allowed, counter, stop_at, stop),
    )
    failure = apply_plan(plan, killing).failure
    return 0 if failure is None else failure.exit_code


def _killing(
    place: str, options: Any, allowed: Allowed, counter: str, stop_at: int, stop: str
) -> KillingStore:
    store = open_store(place, options, allowed)
    return KillingStore(
        store, Path(counter), stop_at=stop_at, stop=Stop(stop), counted=frozenset(Kind), uncounted=()
    )


if __name__ == "__main__":
    main()
