"""How much a test tries: all of it in the long suites, a part in the short ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from typing import Any

_IN_FULL = "PARQUETRY_IN_FULL"


def in_full() -> bool:
    """Whether this is a run of the long suites, which set PARQUETRY_IN_FULL."""
    return _IN_FULL in os.environ


def examples(count: int) -> int:
    """Return the number of examples of a law: `count` in the long suites, a sixth of it in the short ones."""
    return count if in_full() else max(count // 6, min(count, 6))


def each_value_once(*axes: Sequence[Any]) -> list[Any]:
    """Return all combinations of the values as parameters of a test, the fewest that have each value without a mark.

    The others are marked ``long``: they repeat what each value shows alone.
    """
    import pytest  # not where Spark's workers or another Spark's environment import this module

    longest = max(map(len, axes))
    short = {tuple(number % len(axis) for axis in axes) for number in range(longest)}
    places = product(*(range(len(axis)) for axis in axes))
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(axes, combination, strict=True)),
            marks=() if combination in short else pytest.mark.long,
        )
        for combination in places
    ]
