"""Runs cases of the corpus in this process: one with ``--case N``, or many, a line of JSON for what each does."""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from tests.support.hostile.base import build
from tests.support.hostile.corpus import MEMORY_BYTES, Runner
from tests.support.hostile.pool import FAULTY
from tests.support.hostile.sandbox import Sandbox
from tests.support.small_table import FAST


def impatient() -> None:
    """Let commands wait for locks and other writers for moments: whoever holds them in here is made up."""
    for name in Timing.__dataclass_fields__:
        object.__setattr__(DEFAULT_TIMING, name, getattr(FAST, name))


def main() -> int:
    """0, or `FAULTY`."""
    options = argparse.ArgumentParser()
    options.add_argument("--case", type=int)
    options.add_argument("--numbers", type=int, nargs="+")
    options.add_argument("--commands", type=int, default=4)
    options.add_argument("--base", type=Path)
    options.add_argument("--keep", action="store_true")
    chosen = options.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    faulthandler.enable()
    impatient()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
        base = Sandbox(chosen.base) if chosen.base else build(Path(scratch, "base"))
        runner = Runner(base, Path(scratch))
        alone = chosen.case is not None
        numbers = [chosen.case] if alone else chosen.numbers
        bad = False
        for number in numbers:
            print(
                json.dumps({"begins": number, "commands": runner.commands, "slowest": runner.slowest}),
                flush=True,
            )
            for fault in runner.run(number, at_most=chosen.commands, verbose=alone):
                bad = True
                print(fault if alone else json.dumps({"fault": asdict(fault)}), flush=True)
        print(
            json.dumps({"begins": None, "commands": runner.commands, "slowest": runner.slowest}), flush=True
        )
    return FAULTY if bad else 0


if __name__ == "__main__":
    sys.exit(main())
