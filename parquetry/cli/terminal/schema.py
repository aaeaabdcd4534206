"""The JSON Schemas of answers. A minor version adds keys and keeps those that are required."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

ANSWERS = (
    "init",
    "fmt",
    "validate",
    "ls",
    "explain",
    "rename",
    "learn",
    "compile",
    "plan",
    "review-post",
    "review-diff",
    "review-approved",
    "review-follow-up",
    "review-unplanned",
    "guardrails-test",
    "diff",
    "apply",
    "run",
    "runs",
    "test",
    "test-history",
    "simulate-sizing",
    "simulate-replay",
    "simulate-clustering",
    "publish",
    "sync",
    "inspect",
    "inspect-files",
    "inspect-view",
    "health",
    "metrics",
    "head",
    "timeline",
    "history",
    "service-clean",
    "service-archive",
    "service-purge",
    "service-cluster",
    "source-list",
    "source-accept",
    "source-skip",
    "source-forget",
    "source-move",
    "drift",
    "adopt",
    "unlock",
    "doctor",
)
"""The commands whose JSON has a schema, with their words joined by '-'."""


@cache
def answer_schema(command: str) -> dict[str, Any]:
    """Return the schema of what a command of :data:`ANSWERS` prints with ``--format json``."""
    text = resources.files("parquetry.cli.schemas").joinpath(f"{command}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
