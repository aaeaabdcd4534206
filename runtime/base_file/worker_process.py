"""Maintenance of the Python process that runs a task, which Spark keeps for the next task."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

import pyarrow as pa

_SET_THP_DISABLE: Final = 41
"""The operation ``PR_SET_THP_DISABLE`` of Linux's ``prctl``."""


@cache
def freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collections, once per process.

    Spark runs a collection after every task of a worker. While it includes all modules, it costs more than a
    small task itself.
    """
    gc.freeze()


@cache
def use_small_pages() -> None:
    """Let the kernel map memory in pages of the usual size, once per process.

    Arrow's allocator asks for huge pages of 2 MiB, and the kernel fills each one with zeros when its first
    byte is used. A task takes fresh memory and gives it back when it ends, so it pays this each time: for a
    sort, 10 % of its CPU time, and for pages that it needs only in part, memory.
    """
    with suppress(AttributeError, OSError, TypeError):  # not Linux
        ctypes.CDLL(None).prctl(_SET_THP_DISABLE, 1, 0, 0, 0)


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
