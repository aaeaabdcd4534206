"""Run the suites side by side, print a line of progress every ten seconds and the output of each suite at its end.

With ``--long`` it runs the long suites; ``--minutes N`` lets no test begin after N minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools import test_progress

ROOT = Path(__file__).resolve().parent.parent
PROGRESS = ROOT / "build" / "tests"
_EVERY_SECONDS = 10

_OWN = (
    "tests/spark/jobs",
    "tests/spark/prepare/test_determinism.py",
    "tests/spark/test_cluster_crashes.py",
)
SHARED_SPARK = ("tests/spark", *(f"--ignore={path}" for path in _OWN))
OWN_SPARK = (*_OWN, "tests/crash", "tests/packaging")
UNIT = ("tests/unit", "tests/golden")
FAST = ("tests", *(f"--ignore={path}" for path in (*UNIT, "tests/spark")))
INTEROP = ("tests/interop",)


@dataclass(frozen=True)
class Phase:
    """Tests that one pytest process runs."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def progress_file(self) -> Path:
        """The file in which pytest notes each ended test."""
        return PROGRESS / f"{self.name.replace(' ', '_')}.jsonl"

    def progress(self) -> str:
        """Return how many tests of how many have ended, and how many of them failed."""
        total, outcomes = self._ended()
        failed = f" ({outcomes['failed']} failed)" if outcomes["failed"] else ""
        return f"{self.name} {outcomes.total():,} of {total:,}{failed}" if total else f"{self.name} starts"

    def _ended(self) -> tuple[int, Counter[str]]:
        outcomes: Counter[str] = Counter()
        total = 0
        if self.progress_file.exists():
            for line in self.progress_file.read_text(encoding="utf-8").splitlines(keepends=True):
                if line.endswith("\n"):
                    outcome, number, *_ = json.loads(line)
                    if outcome == "collected":
                        total = number
                    else:
                        outcomes[outcome] += 1
        return total, outcomes


@dataclass(frozen=True)
class Outcome:
    """The end of a phase: exit code, seconds, CPU seconds of all its processes and the counts of pytest."""

    phase: Phase
    code: int
    seconds: float
    cpu_seconds: float
    counts: str

    def __str__(self) -> str:
        how = "passed" if self.code == 0 else f"exit code {self.code}"
        return f"{self.phase.name:13} {self.seconds:7.0f} s {self.cpu_seconds:7.0f} CPU s   {how}   {self.counts}"


# All run at the same time: tests on Spark wait for their JVMs most of the time, the fast ones use what is left. Those
# whose tests start sessions of their own are a phase apart from those that share one, so that no core waits at the end.
# No phase has workers of xdist, each of which would collect all tests again. The fast tests are two phases of equal
# size: as one, they ended long after the others, which have several threads, and left a core idle.
# A phase with folders collects no more than these (tests/packaging/test_phases.py).
PHASES = [
    Phase("unit", (*UNIT, "-m", "not spark and not interop and not long")),
    Phase("fast", (*FAST, "-m", "not spark and not interop and not long")),
    Phase("spark", (*SHARED_SPARK, "-m", "spark and not interop and not long")),
    Phase("jobs", (*OWN_SPARK, "-m", "spark and not interop and not long")),
    Phase("interop", (*INTEROP, "-m", "interop and not long")),
]
FULL = {"PARQUETRY_IN_FULL": "1"}
# A long test takes longer than the 900 seconds in which every other one has to end.
LONG = [
    Phase("long", ("-n", "2", "--timeout", "7200", "-m", "long and not spark and not interop"), FULL),
    Phase("long spark", ("--timeout", "7200", "-m", "long and (spark or interop)"), FULL),
    # Tests of the short suites that try a part there (tests/support/effort.py): here they try everything.
    Phase("laws in full", ("--timeout", "7200", "-m", "not long and not spark and not interop"), FULL),
    Phase("spark in full", ("--timeout", "7200", "-m", "(spark or interop) and not long"), FULL),
]


def main() -> int:
    """Run every phase and return the exit code of the first that failed, or 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--minutes", type=float)
    arguments = parser.parse_args()
    PROGRESS.mkdir(parents=True, exist_ok=True)
    limit = {test_progress.UNTIL: str(time.time() + 60 * arguments.minutes)} if arguments.minutes else {}
    phases = LONG if arguments.long else PHASES
    started = time.monotonic()
    outcomes = _together(phases, limit)
    print("== phases, side by side", *outcomes, sep="\n")
    cpu_seconds = sum(outcome.cpu_seconds for outcome in outcomes)
    print(f"{'all':13} {time.monotonic() - started:7.0f} s {cpu_seconds:7.0f} CPU s")
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


def _together(phases: Sequence[Phase], environment: Mapping[str, str]) -> list[Outcome]:
    for phase in phases:
        phase.progress_file.unlink(missing_ok=True)
    ended = threading.Event()
    reporter = threading.Thread(target=_report, args=(phases, ended))
    reporter.start()
    try:
        with ThreadPoolExecutor(len(phases)) as pool:
            return list(pool.map(lambda phase: _run(phase, environment), phases))
    finally:
        ended.set()
        reporter.join()


def _report(phases: Sequence[Phase], ended: threading.Event) -> None:
    started = time.monotonic()
    while not ended.wait(_EVERY_SECONDS):
        line = " · ".join(phase.progress() for phase in phases)
        print(f"{time.monotonic() - started:6.0f} s   {line}", flush=True)


def _run(phase: Phase, environment: Mapping[str, str]) -> Outcome:
    started = time.monotonic()
    cpu_file = phase.progress_file.with_suffix(".cpu")
    cpu_file.unlink(missing_ok=True)
    measured = [sys.executable, "-m", "tools.cpu_seconds", str(cpu_file)]
    command = [*measured, sys.executable, "-m", "pytest", "-q", "--durations=5", "-p", "tools.test_progress"]
    # What a phase prints appears when it ends, so that two at once do not mix.
    done = subprocess.run(
        [*command, *phase.arguments],
        cwd=ROOT,
        env={**os.environ, **phase.environment, **environment, test_progress.FILE: str(phase.progress_file)},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    counts = done.stdout.strip().splitlines()[-1:] or [""]
    cpu_seconds = float(cpu_file.read_text(encoding="utf-8")) if cpu_file.exists() else 0.0
    outcome = Outcome(phase, done.returncode, time.monotonic() - started, cpu_seconds, counts[0].strip("= "))
    print(f"== {outcome}", done.stdout, sep="\n", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
