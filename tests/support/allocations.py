"""What Arrow allocates while a test looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

# What a pool allocated gives itself back to it, whenever that is: it may be garbage, or another thread's,
# long after the test. A pool that is gone by then ends the process.
_POOLS: list[pa.MemoryPool] = []


@contextmanager
def counted_allocations() -> Iterator[pa.MemoryPool]:
    """A pool that counts what Arrow allocates from here to the end of the block."""
    before = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(before)
    _POOLS.append(counting)
    pa.set_memory_pool(counting)
    try:
        yield counting
    finally:
        pa.set_memory_pool(before)
