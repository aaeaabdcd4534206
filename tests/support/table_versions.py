"""The version of the tables that tests make without naming one: ``on_each_version`` of conftest chooses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parquetry.runtime.spec.table_spec import DEFAULT_TABLE_VERSION

_chosen = [DEFAULT_TABLE_VERSION]


def table_version() -> int:
    """Return the version of new tables."""
    return _chosen[-1]


@contextmanager
def tables_of_version(version: int) -> Iterator[None]:
    """Make tables of this version inside the block."""
    _chosen.append(version)
    try:
        yield
    finally:
        _chosen.pop()
