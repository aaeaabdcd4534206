"""Tables: create, open, admit to writing. The face of the modules that know how."""

from __future__ import annotations

from collections.abc import Callable

from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.creation import begin_creation, finish_creation
from parquetry.runtime.table.handle import TableHandle, open_table

__all__ = ["TableHandle", "check_writable", "create_table", "open_table"]


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
