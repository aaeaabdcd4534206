from __future__ import annotations

import pytest

from tests.support.local_spark import local_spark


@pytest.fixture(scope="session")
def spark():
    """One small Spark for all tests of this folder; left to the end of the process."""
    return local_spark("parquetry tests")
