from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.connect_spark import connect_server
from tests.support.local_spark import local_spark
from tests.support.standalone_spark import standalone_spark


@pytest.fixture(scope="session")
def spark():
    """One small Spark for all tests of this folder; left to the end of the process."""
    return local_spark("parquetry tests")


@pytest.fixture(scope="session")
def standalone(tmp_path_factory) -> Iterator[str]:
    """The master of a standalone cluster with two workers of one core each; one application at a time fits."""
    with standalone_spark(tmp_path_factory.mktemp("standalone")) as master:
        yield master


@pytest.fixture(scope="session")
def connect(tmp_path_factory) -> Iterator[str]:
    """The address of a Spark Connect server with two cores."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address
