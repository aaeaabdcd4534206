"""How much a test tries: all of it in the long suites, a part in the short ones."""

from __future__ import annotations

import os

_IN_FULL = "PARQUETRY_IN_FULL"


def in_full() -> bool:
    """Whether this is a run of the long suites, which set PARQUETRY_IN_FULL."""
    return _IN_FULL in os.environ


def examples(count: int) -> int:
    """How many examples of a law to try of the `count` that the long suites try: a third in the short ones."""
    return count if in_full() else max(count // 3, min(count, 10))
