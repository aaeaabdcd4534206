from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.s3_server import s3_server


@pytest.fixture(scope="session")
def s3_options():
    with s3_server() as options:
        yield options


@pytest.fixture
def count_allocations():
    """Starts counting what Arrow allocates."""
    before = pa.default_memory_pool()
    pools = []  # they have to be there for as long as what they allocated is

    def start():
        pools.append(pa.proxy_memory_pool(before))
        pa.set_memory_pool(pools[-1])
        return pools[-1]

    yield start
    pa.set_memory_pool(before)
