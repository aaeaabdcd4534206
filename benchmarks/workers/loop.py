"""The worker's side of benchmarks.peer: read a command, run it, answer."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any


def serve(commands: Mapping[str, Callable[..., dict[str, Any] | None]]) -> None:
    """Serve commands from standard input until it ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = commands[request.pop("do")](**request) or {}
        except Exception as error:  # noqa: BLE001 - the answer carries whatever went wrong
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print("ANSWER " + json.dumps(answer), flush=True)
