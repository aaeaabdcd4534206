"""The stored bytes of columns of a table, by the footers of some of its files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.footer import read_metadata
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each

MOST_FOOTERS: Final = 16
"""The largest number of footers that are read. Each is one request."""


def column_bytes(store: ObjectStore, files: Sequence[FileSlice], names: Collection[str]) -> int:
    """Return about how many bytes some columns have in all files, compressed.

    Up to :data:`MOST_FOOTERS` files, evenly spread by path, stand for all.

    Args:
        store: The store of the table.
        files: The files.
        names: The names of the columns.
    """
    ordered = sorted(files, key=lambda file: file.path)
    chosen = ordered[:: -(-len(ordered) // MOST_FOOTERS) or 1]
    found = 0
    for footer in map_each(chosen, lambda file: read_metadata(store, file.path)):
        groups = map(footer.row_group, range(footer.num_row_groups))
        chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
        found += sum(c.total_compressed_size for c in chunks if c.path_in_schema.split(".")[0] in names)
    sampled = sum(file.size_bytes for file in chosen)
    return found * sum(file.size_bytes for file in files) // sampled if sampled else 0
