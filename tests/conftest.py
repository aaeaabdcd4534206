"""Options of the test run."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from contextlib import ExitStack

import pytest
from hypothesis import settings

from tests.support.allocations import counted_allocations
from tests.support.effort import examples
from tests.support.fast_java import fast_java
from tests.support.gcs_server import gcs_server
from tests.support.hive_metastore import real_metastore
from tests.support.no_fsync import skip_fsync
from tests.support.plain_values import judge_messages
from tests.support.s3_server import s3_server
from tests.support.table_versions import tables_of_version

# Tests start some hundreds of interpreters. With this variable each of them would compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.update(fast_java())
skip_fsync()
judge_messages()

# No test asserts seconds, and the same examples are tried on every machine.
settings.register_profile("parquetry", deadline=None, derandomize=True, max_examples=examples(100))
settings.load_profile("parquetry")


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the commands say now into tests/golden instead of comparing with it",
    )


def pytest_collection_finish():
    """Have the garbage collector pass over modules and tests, which stay to the end: 7 % of the time of fast tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _s3_counter():
    return Counter()


@pytest.fixture(scope="session")
def s3_options(_s3_counter):
    with s3_server(_s3_counter) as options:
        yield options


@pytest.fixture(scope="session")
def gcs_options():
    with gcs_server() as options:
        yield options


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory):
    """The address of a real Hive Metastore."""
    with real_metastore(tmp_path_factory.mktemp("hive-metastore")) as uri:
        yield uri


@pytest.fixture
def s3_requests(s3_options, _s3_counter):
    """The requests that come to the server over HTTP, by kind."""
    _s3_counter.clear()
    return _s3_counter


@pytest.fixture
def count_allocations():
    """Starts counting what Arrow allocates."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(counted_allocations())


@pytest.fixture(params=[6, pytest.param(9, marks=pytest.mark.long)])
def on_each_version(request):
    """Has the tables of the test made with each table version: 6 in the short suites, both in the long ones."""
    with tables_of_version(request.param):
        yield request.param
