from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.support.allocations import counted_allocations
from tests.support.s3_server import s3_server


@pytest.fixture(scope="session")
def s3_options():
    with s3_server() as options:
        yield options


@pytest.fixture
def count_allocations():
    """Starts counting what Arrow allocates."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(counted_allocations())
