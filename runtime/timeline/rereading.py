"""Reads of tables that others write, where an instant may leave the timeline during the read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from parquetry.runtime.errors import StaleTimelineError

_Given = ParamSpec("_Given")
_Report = TypeVar("_Report")

_ATTEMPTS = 3


def read_again(report: Callable[_Given, _Report]) -> Callable[_Given, _Report]:
    """Return a function that calls ``report`` again, at most twice, if it raises StaleTimelineError.

    The error means that an instant was archived or rolled back while ``report`` read the timeline.
    """

    @functools.wraps(report)
    def repeated(*args: _Given.args, **kwargs: _Given.kwargs) -> _Report:
        for _ in range(_ATTEMPTS - 1):
            try:
                return report(*args, **kwargs)
            except StaleTimelineError:
                continue
        return report(*args, **kwargs)

    return repeated
