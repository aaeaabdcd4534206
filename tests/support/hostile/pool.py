"""Runs cases in processes of their own, which a case may hang or kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.support.hostile.corpus import Fault
from tests.support.repository import ROOT

FAULTY = 9
"""The exit code of a process that found faults; that of one that broke off is another."""

AT_ONCE = 100
"""Cases that one process runs before another takes over: what they leave in memory goes with it."""


@dataclass
class Result:
    """What many cases did."""

    cases: int = 0
    commands: int = 0
    slowest: float = 0.0
    faults: list[Fault] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.cases += other.cases
        self.commands += other.commands
        self.slowest = max(self.slowest, other.slowest)
        self.faults += other.faults


def run(numbers: range, *, processes: int, commands: int) -> Result:
    """The faults of these cases, in their order."""
    pieces = [numbers[at : at + AT_ONCE] for at in range(0, len(numbers), AT_ONCE)]
    total = Result()
    with ThreadPoolExecutor(processes) as pool:
        for result in pool.map(lambda piece: _piece(piece, commands), pieces):
            total.add(result)
    return total


def _piece(numbers: Sequence[int], commands: int) -> Result:
    result = Result()
    left = list(numbers)
    while left:
        ended, said = _process(left, commands, result)
        if ended is None:
            break
        # A machine that does other work stops a process for seconds: what is slow is slow again, alone.
        again = Result()
        once_more, said = _process([ended], commands, again)
        result.faults += again.faults
        if once_more is not None:
            result.faults.append(Fault(ended, "?", "no answer, or the end of the process", said))
        left = [number for number in left if number > ended]
    result.cases = len(numbers)
    return result


def _process(numbers: Sequence[int], commands: int, result: Result) -> tuple[int | None, str]:
    """The case that ended the process, None when all ran; and what was on stderr."""
    command = [sys.executable, "-m", "tests.support.hostile", "--commands", str(commands)]
    command += ["--numbers", *map(str, numbers)]
    with tempfile.TemporaryFile("w+") as errors:
        # stdin would be the terminal's; a command that asks gets no answer.
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # A module that is compiled when a command needs it would be a file written in a place of nobody's.
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        begun: int | None = None
        ran = 0
        assert process.stdout is not None
        for line in _lines(process.stdout):
            match line:
                case {"fault": dict(fault)}:
                    result.faults.append(Fault(**fault))
                case {"begins": number, "commands": int(count), "slowest": slowest}:
                    begun, ran = number, count
                    result.slowest = max(result.slowest, slowest)
        code = process.wait()
        result.commands += ran
        errors.seek(0)
        said = errors.read()[-6000:]
    return (None, said) if code in (0, FAULTY) else (begun if begun is not None else numbers[0], said)


def _lines(stream: Iterator[str]) -> Iterator[dict]:
    for line in stream:
        try:
            yield json.loads(line)
        except ValueError:
            continue
