"""Stores in buckets whose conditional puts get lost by a script."""

from __future__ import annotations

import uuid
from typing import Any


class ScriptedPut:
    """The part of a store that sends as a store does, except that the script says what the client sees of it."""

    sent = 0

    def __init__(self, bucket: str, options: dict[str, Any]) -> None:
        super().__init__(bucket, uuid.uuid4().hex, options, patience_seconds=0.5)
        self.script: list[Any] = []

    def _send_put_if(self, key: str, data: bytes, *, tag: str | None) -> str:
        self.sent += 1
        step = self.script.pop(0) if self.script else "answered"
        if step == "answered":
            return super()._send_put_if(key, data, tag=tag)
        takes_effect, error = step
        if takes_effect:
            super()._send_put_if(key, data, tag=tag)
        raise error
