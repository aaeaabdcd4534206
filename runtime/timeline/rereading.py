"""Reads of tables that others write, where an instant may leave the timeline during the read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from parquetry.runtime.errors import StaleTimelineError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_ATTEMPTS = 3


def retry_stale(read: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Return a function that calls ``read`` again, at most twice, if it raises StaleTimelineError.

    The error means that an instant was archived or rolled back while ``read`` read the timeline.
    """

    @functools.wraps(read)
    def repeated(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for _ in range(_ATTEMPTS - 1):
            try:
                return read(*args, **kwargs)
            except StaleTimelineError:
                continue
        return read(*args, **kwargs)

    return repeated
