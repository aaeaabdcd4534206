"""The stored bytes of columns of a table, by the footers of some of its files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.parquet.footer import column_chunks, read_metadata
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
    footers = map_each(chosen, lambda file: read_metadata(store, file.path))
    found = sum(chunk.total_compressed_size for footer in footers for chunk in column_chunks(footer, names))
    sampled = sum(file.size_bytes for file in chosen)
    return found * sum(file.size_bytes for file in files) // sampled if sampled else 0
