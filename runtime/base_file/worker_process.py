"""What tasks do for the Python process that runs them, which Spark keeps for the next task."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from functools import cache

import pyarrow as pa


@cache
def spare_loaded_modules() -> None:
    """Once per process: what is loaded by now is no longer looked at by garbage collections.

    Spark collects after every task of a worker, which costs more than a small task itself as long
    as all modules are looked through.
    """
    gc.freeze()


def give_back_memory() -> None:
    """What a task has freed goes back to the machine: else what the next one takes comes on top of it.

    Arrow keeps freed memory, and so does the C library, which what is read from sockets and arrays of numpy
    come from.
    """
    pa.default_memory_pool().release_unused()
    if trim := _trim():
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """What glibc calls that; None where the C library is another one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
