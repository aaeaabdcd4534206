"""Creating and opening tables: the public interface of these modules."""

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
    """Create the table of this spec, or finish a creation that was interrupted, and return the table.

    If the process is killed, the next call, or any opener of the table, continues. The errors are those of
    begin_creation.

    Args:
        store: The store of the table.
        spec: The spec of the table.
        project: The project that will own the table.
        clock: Returns ms since the epoch. By default, the clock of the store.

    """
    now_ms = store.now_ms() if clock is None else clock()
    identity = begin_creation(store, spec, project=project, now_ms=now_ms)
    finish_creation(store, identity)
    return open_table(store)
