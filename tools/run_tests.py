"""Run the suites one after the other and print how long each phase took."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FAST = ["-n", "2", "-m", "not spark and not interop and not soak"]
PHASES = {
    "fast": FAST,
    "spark": ["-m", "spark and not interop and not soak"],
    "interop": ["-m", "interop and not soak"],
}
SOAK = {
    "fast": ["-n", "2", "-m", "not spark and not interop"],
    "spark": ["-m", "spark and not interop"],
    "interop": ["-m", "interop"],
}


def main() -> int:
    """Return the first failing phase's exit code, 0 when all pass; every phase runs in any case."""
    phases = SOAK if "--soak" in sys.argv[1:] else PHASES
    timings: list[tuple[str, float, int]] = []
    for name, arguments in phases.items():
        started = time.monotonic()
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "--durations=5", *arguments]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        timings.append((name, time.monotonic() - started, code))
    print("== phases")
    for name, seconds, code in timings:
        print(f"{name:10} {seconds:7.0f} s   {'passed' if code == 0 else f'exit code {code}'}")
    return next((code for _, _, code in timings if code), 0)


if __name__ == "__main__":
    sys.exit(main())
