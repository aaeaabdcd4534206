"""How many files cover one value: what clustering lowers, and a query for that value has to read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_BEGIN, _END = 0, 1


def overlap_depth(bounds: Iterable[tuple[Any, Any] | None]) -> int:
    """The largest number of closed ranges ``(smallest, largest)`` that share a value.

    None is a file whose bounds are not known: it may hold every value. Files without a value are
    left out by the caller. A sweep over the sorted ends: a range that begins where another one ends
    overlaps it.
    """
    unknown = 0
    ends: list[tuple[Any, int]] = []
    for bound in bounds:
        if bound is None:
            unknown += 1
        else:
            ends += [(bound[0], _BEGIN), (bound[1], _END)]
    ends.sort()
    depth = deepest = 0
    for _, kind in ends:
        depth += 1 if kind == _BEGIN else -1
        deepest = max(deepest, depth)
    return deepest + unknown
