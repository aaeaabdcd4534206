"""Hostile saved plans, layouts and jobs."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from parquetry.runtime.spec.codec import digest_of
from tests.support.hostile.projects import KINDS, put_instead
from tests.support.hostile.sandbox import Sandbox
from tests.support.hostile.values import NESTED_JSON, changed, changed_bytes

DOCUMENTS = ("plan.json", "due.json", "layout.json")


def mutate(sandbox: Sandbox, rng: Random) -> list[str]:
    """One of the saved documents changed: by value with digests that fit, by byte, or another kind of file."""
    name = rng.choice(DOCUMENTS)
    path = sandbox.project / name
    how = rng.choice(["value", "value", "value", "value", "bytes", "nested", "special"])
    match how:
        case "value":
            document, how = changed(json.loads(path.read_bytes()), rng)
            path.write_bytes(json.dumps(_digested(document)).encode())
        case "bytes":
            content, how = changed_bytes(path.read_bytes(), rng)
            path.write_bytes(content)
        case "nested":
            path.write_bytes(NESTED_JSON.encode())
        case _:
            # A pipe is read by whoever names one: `<(...)` is such a thing.
            how = put_instead(path, sandbox, rng, kinds=[kind for kind in KINDS if kind != "fifo"])
    return [f"{name}: {how}"]


def _digested(document: Any) -> Any:
    if not isinstance(document, dict) or "plan_id" not in document:
        return document
    intent = document.get("intent")
    if isinstance(intent, dict):
        document["plan_id"] = _digest({key: value for key, value in intent.items() if key != "git_commit"})
    document.pop("digest", None)
    return document | {"digest": _digest(document)}


def _digest(value: Any) -> str | None:
    try:
        return digest_of(value)
    except (ValueError, RecursionError):
        return None
