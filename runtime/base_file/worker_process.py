"""Maintenance of the Python process that runs a task, which Spark keeps for the next task."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from functools import cache

import pyarrow as pa


@cache
def freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collections, once per process.

    Spark runs a collection after every task of a worker. While it includes all modules, it costs more than a
    small task itself.
    """
    gc.freeze()


def give_back_memory() -> None:
    """Return freed memory to the operating system; otherwise the next task's memory is added to it.

    Arrow keeps freed memory, and so does the C library, which allocates numpy's arrays and what is read from
    sockets.
    """
    pa.default_memory_pool().release_unused()
    if trim := _trim():
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """Return glibc's ``malloc_trim``, or None if the C library is a different one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
