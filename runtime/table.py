"""Tables: create, open, admit to writing. The face of the modules that know how."""

from __future__ import annotations

from collections.abc import Callable

from parquetry.runtime.admission import MAX_CLOCK_SKEW_MS, ahead_ms, check_writable
from parquetry.runtime.applied import (
    AppliedRecord,
    AppliedRef,
    TableIdentity,
    read_applied,
    read_identity,
    write_applied,
)
from parquetry.runtime.creation import begin_creation, finish_creation
from parquetry.runtime.key_generator import KeyEncoding, KeyGenerator
from parquetry.runtime.spec import TableSpec
from parquetry.runtime.storage import ObjectStore
from parquetry.runtime.table_config import TableConfig
from parquetry.runtime.table_handle import TableHandle, open_table

__all__ = [
    "MAX_CLOCK_SKEW_MS",
    "AppliedRecord",
    "AppliedRef",
    "KeyEncoding",
    "KeyGenerator",
    "TableConfig",
    "TableHandle",
    "TableIdentity",
    "ahead_ms",
    "check_writable",
    "create_table",
    "open_table",
    "read_applied",
    "read_identity",
    "write_applied",
]


def create_table(
    store: ObjectStore, spec: TableSpec, *, project: str, clock: Callable[[], int] | None = None
) -> TableHandle:
    """The table of this spec, made if it is not there, finished if somebody began it.

    ``clock`` gives ms since the epoch; the store's by default. Killed anywhere, the next call or
    any opener goes on. Errors as of begin_creation.
    """
    now_ms = store.now_ms() if clock is None else clock()
    identity = begin_creation(store, spec, project=project, now_ms=now_ms)
    finish_creation(store, identity)
    return open_table(store)
