"""Run the test suites and print the time of each phase; with ``--long``, run and record the long ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "soak"
KEPT = ROOT / "tests" / "LONG_RUN.md"

_OWN = (
    "tests/spark/jobs",
    "tests/spark/prepare/test_determinism.py",
    "tests/spark/test_cluster_crashes.py",
)
SHARED_SPARK = ("tests/spark", *(f"--ignore={path}" for path in _OWN))
OWN_SPARK = (*_OWN, "tests/crash", "tests/packaging")
INTEROP = ("tests/interop",)


@dataclass(frozen=True)
class Phase:
    """Tests that run in one pytest process."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def report(self) -> Path:
        """The file to which pytest writes the output of the tests."""
        return REPORTS / f"{self.name.replace(' ', '_')}.xml"


@dataclass(frozen=True)
class Outcome:
    """The result of a phase."""

    phase: Phase
    code: int
    seconds: float
    counts: str

    def __str__(self) -> str:
        how = "passed" if self.code == 0 else f"exit code {self.code}"
        return f"{self.phase.name:13} {self.seconds:7.0f} s   {how}   {self.counts}"


# All phases run at the same time: tests on Spark mostly wait for their JVMs, and the fast ones use the rest. Tests that
# start their own Spark sessions are in another phase than those that share one, so that no core is idle at the end.
# A phase with folders collects only tests in them (tests/packaging/test_phases.py).
PHASES = [
    Phase("fast", ("-n", "2", "-m", "not spark and not interop and not soak")),
    Phase("spark", (*SHARED_SPARK, "-m", "spark and not interop and not soak")),
    Phase("jobs", (*OWN_SPARK, "-m", "spark and not interop and not soak")),
    Phase("interop", (*INTEROP, "-m", "interop and not soak")),
]
FULL = {"PARQUETRY_IN_FULL": "1"}
# A long test may take longer than the 900 seconds that all others are limited to.
LONG = [
    Phase("long", ("-n", "2", "--timeout", "7200", "-m", "soak and not spark and not interop"), FULL),
    Phase("long spark", ("--timeout", "7200", "-m", "soak and (spark or interop)"), FULL),
    # Tests that try only some cases in the short suites (tests/support/effort.py) try all of them here.
    Phase("laws in full", ("--timeout", "7200", "-m", "not soak and not spark and not interop"), FULL),
    Phase("spark in full", ("--timeout", "7200", "-m", "(spark or interop) and not soak"), FULL),
]


def main() -> int:
    """Run every phase, and return the exit code of the first failing one, or 0."""
    long = "--long" in sys.argv[1:]
    commit = _git("rev-parse", "--short", "HEAD") if long else ""
    REPORTS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    outcomes = _together(LONG if long else PHASES)
    print("== phases, side by side", *outcomes, sep="\n")
    print(f"{'all':13} {time.monotonic() - started:7.0f} s")
    if long:
        KEPT.write_text(_page(commit, outcomes), encoding="utf-8")
        print(f"written: {KEPT.relative_to(ROOT)}")
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


def _together(phases: Sequence[Phase]) -> list[Outcome]:
    with ThreadPoolExecutor(len(phases)) as pool:
        return list(pool.map(_run, phases))


def _run(phase: Phase) -> Outcome:
    started = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "--durations=5", *phase.arguments]
    command += [f"--junitxml={phase.report}", "-o", "junit_logging=system-out"]
    # The output of a phase is printed when it ends, so that the outputs of two phases do not mix.
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | phase.environment,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    counts = done.stdout.strip().splitlines()[-1:] or [""]
    outcome = Outcome(phase, done.returncode, time.monotonic() - started, counts[0].strip("= "))
    print(f"== {outcome}", done.stdout, sep="\n", flush=True)
    return outcome


def _page(commit: str, outcomes: Sequence[Outcome]) -> str:
    day = datetime.now(UTC).date().isoformat()
    dirty = " with uncommitted changes" if _git("status", "--porcelain") else ""
    lines = [
        "# The last run of the long suites",
        "",
        f"Commit {commit}{dirty}, {day}.",
        "`make soak` runs `make test`, then the long suites, and writes this page.",
        "",
        "```",
        *map(str, outcomes),
        "```",
        "",
        "Output of the long tests:",
        "",
    ]
    for phase in LONG:
        lines += _outputs(phase)
    return "\n".join(lines) + "\n"


def _outputs(phase: Phase) -> Iterator[str]:
    """Yield the lines of a fenced block for each test that printed something or failed."""
    for case in ET.parse(phase.report).iter("testcase"):
        printed = (case.findtext("system-out") or "").strip().splitlines()
        output = [line for line in printed if line and not line.startswith("---")]
        failed = case.find("failure") is not None or case.find("error") is not None
        if output or failed:
            yield from [f"`{case.get('name')}`{' FAILED' if failed else ''}", ""]
        if output:
            yield from ["```", *output, "```", ""]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, text=True, capture_output=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
