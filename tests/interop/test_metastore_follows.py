"""The laws of `tests/unit/runtime/catalog/test_sync.py`, over a real Hive Metastore."""

from __future__ import annotations

import itertools

import pytest

from tests.support.hive_metastore import CountedHive
from tests.unit.runtime.catalog import test_sync

pytestmark = [pytest.mark.interop, pytest.mark.spark]

_NUMBERS = itertools.count()

globals().update({name: law for name, law in vars(test_sync).items() if name.startswith("test_")})
table = test_sync.table


@pytest.fixture
def catalog(hive_metastore):
    """An entry in the real metastore."""
    return CountedHive(hive_metastore, database=f"followed{next(_NUMBERS)}")
