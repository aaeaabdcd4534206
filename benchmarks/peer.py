"""One peer as a long-lived process: commands come in as JSON lines, answers go out the same way."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.measure import Measured, measured

HERE = Path(__file__).resolve().parent


class PeerFailedError(RuntimeError):
    """The peer could not do what it was told; its last lines are the message."""


class Peer:
    """A worker process with its own interpreter; ``do`` returns the answer and what it cost."""

    def __init__(self, name: str, worker: str, python: Path, log: Path, arguments: Mapping[str, str]) -> None:
        self.name = name
        environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(HERE.parent)}
        command = [str(python), str(HERE / "workers" / worker), json.dumps(dict(arguments))]
        self._log = log.open("w")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )
        self._lock = threading.Lock()

    def do(self, command: str, **arguments: Any) -> tuple[dict[str, Any], Measured]:
        """Run one command to its end."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with self._lock, measured(process.pid) as cost:
            with suppress(BrokenPipeError):  # it ended earlier, so that no answer comes
                process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
                process.stdin.flush()
            for line in process.stdout:
                if line.startswith("ANSWER "):
                    answer = json.loads(line[7:])
                    break
            else:
                raise PeerFailedError(f"{self.name} ended during {command}; see {self._log.name}")
        if "error" in answer:
            raise PeerFailedError(f"{self.name}: {command}: {answer['error']}")
        return answer, cost

    def close(self) -> None:
        """End the process."""
        if self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait(timeout=60)
        self._log.close()
