"""Options of the test run."""

from __future__ import annotations

import os

from hypothesis import settings

from tests.support.fast_java import fast_java
from tests.support.no_fsync import skip_fsync

os.environ.update(fast_java())
skip_fsync()

# No test asserts seconds, and the same examples are tried on every machine.
settings.register_profile("parquetry", deadline=None, derandomize=True)
settings.load_profile("parquetry")


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the commands say now into tests/golden instead of comparing with it",
    )
