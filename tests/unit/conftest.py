from __future__ import annotations

import pytest

from tests.support.s3_server import s3_server


@pytest.fixture(scope="session")
def s3_options():
    with s3_server() as options:
        yield options
