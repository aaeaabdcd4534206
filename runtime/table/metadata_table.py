"""The drop of a table's metadata table, Hudi's index of its files below ``.hoodie/metadata``.

parquetry lists files instead. It does not write the index, so that readers of the index would miss rows of
its writes. Hudi drops the index in the same order if ``hoodie.metadata.enable`` is false, and builds it again
from a listing if the setting is true (HoodieTableMetadataUtil.deleteMetadataTable of Hudi 0.15 and 1.2).
"""

from __future__ import annotations

from typing import Final

from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.admission import metadata_table_problem
from parquetry.runtime.table.config import METADATA_TABLE_KEYS, TableConfig
from parquetry.runtime.table.properties import read_table_properties, update_table_properties
from parquetry.runtime.timeline.sidecars import METADATA_DROP_PATH

METADATA_FOLDER: Final = ".hoodie/metadata"


def check_no_metadata_table(config: TableConfig, *, uri: str) -> None:
    """Raise UnsupportedTableError if the properties of the table declare a metadata table.

    ``uri`` is the URI of the table, for messages.
    """
    problem = metadata_table_problem(config)
    if problem is not None:
        raise UnsupportedTableError("{table}: {reason}", table=uri, reason=problem)


def drop_metadata_table(store: ObjectStore) -> None:
    """Drop the metadata table, if the properties declare one, or finish a drop that was interrupted.

    The caller must hold the lock of the table. The properties are changed first: from then on no reader uses
    the metadata table, so that an interrupted drop leaves an unused folder. The definitions of indexes
    (``.hoodie/.index_defs`` and the property that names it) stay, as after a drop by Hudi: readers use them
    only for partitions that the properties declare, and Hudi builds the same indexes again by them.
    """
    config = TableConfig.from_properties(read_table_properties(store), location=store.uri)
    if config.metadata_partitions:
        store.put(METADATA_DROP_PATH, f"{','.join(config.metadata_partitions)}\n".encode())
        comment = "metadata table dropped by parquetry"
        update_table_properties(store, {}, remove=METADATA_TABLE_KEYS, comment=comment)
    _delete_dropped(store)


def finish_drop(store: ObjectStore) -> bool:
    """Finish a drop that was interrupted, and return whether there was one.

    The caller must hold the lock of the table. A metadata table that the properties declare stays: the drop
    was interrupted before it changed them, or Hudi has built the metadata table again.
    """
    if store.stat(METADATA_DROP_PATH) is None:
        return False
    config = TableConfig.from_properties(read_table_properties(store), location=store.uri)
    if config.metadata_partitions:
        store.delete(METADATA_DROP_PATH)
    else:
        _delete_dropped(store)
    return True


def _delete_dropped(store: ObjectStore) -> None:
    """Delete the folder of a dropped metadata table. A folder of which no drop was begun stays.

    Hudi may be building a metadata table: its properties declare it when it is complete.
    """
    if store.stat(METADATA_DROP_PATH) is not None:
        store.delete_folder(METADATA_FOLDER)
        store.delete(METADATA_DROP_PATH)
