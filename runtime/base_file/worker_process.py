"""Maintenance of the Python process that runs a task, which Spark keeps for the next task."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import pyarrow as pa

_SET_THP_DISABLE: Final = 41
_GET_THP_DISABLE: Final = 42
"""The operations of Linux's ``prctl`` for the transparent huge pages of a process."""


@cache
def freeze_loaded_objects() -> None:
    """Exclude all objects loaded so far from garbage collections, once per process.

    Spark runs a collection after every task of a worker. While it includes all modules, it costs more than a
    small task itself.
    """
    gc.freeze()


@contextmanager
def small_pages() -> Iterator[None]:
    """Let the kernel map memory in pages of the usual size while the block runs.

    Arrow's allocator asks for huge pages of 2 MiB. The kernel fills such a page with zeros when its first
    byte is used, so huge pages cost a sort in one piece, which fills much fresh memory here and there, more
    than they save. Tasks that use the same memory again and again are better off with huge pages.
    """
    control = _library_function("prctl")
    if control is None:
        yield
        return
    before = control(_GET_THP_DISABLE, 0, 0, 0, 0)
    control(_SET_THP_DISABLE, 1, 0, 0, 0)
    try:
        yield
    finally:
        control(_SET_THP_DISABLE, before, 0, 0, 0)


def give_back_memory() -> None:
    """Return freed memory to the operating system; otherwise the next task's memory is added to it.

    Arrow keeps freed memory, and so does the C library, which allocates numpy's arrays and what is read from
    sockets.
    """
    pa.default_memory_pool().release_unused()
    if trim := _library_function("malloc_trim"):
        trim(0)


@cache
def _library_function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or None if this library lacks it.

    ``malloc_trim`` is part of glibc, ``prctl`` of all C libraries on Linux.
    """
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function
