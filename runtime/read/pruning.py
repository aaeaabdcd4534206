"""The files that a condition needs: partitions are excluded first, then files by recorded statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo

import pyarrow.parquet as pq

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import (
    column_types,
    columns_of,
    files_to_read,
    parse_where,
    row_groups_to_read,
    rows_to_read,
)
from parquetry.runtime.layout.skipping.predicate import Predicate, Unknown, may_hold
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.assembly import ParquetParts
from parquetry.runtime.parquet.page_index import UNREADABLE, pages_of_parts
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_bounds import PartitionBounds
from parquetry.runtime.table.statistics import look_up


class Pruner:
    """A condition (SQL) that excludes partitions and files of a table; None excludes nothing.

    Local times in the condition are in ``time_zone``; without it they exclude nothing.
    """

    def __init__(
        self, table: TableHandle, columns: Sequence[Column], where: str | None, time_zone: tzinfo | None
    ) -> None:
        self._types = column_types(columns)
        self._bounds = PartitionBounds(table, self._types)
        self._predicate: Predicate = Unknown()
        if where is not None:
            self._predicate = parse_where(where, types=self._types, time_zone=time_zone)

    @property
    def compares(self) -> bool:
        """True if the condition has a part that statistics can answer."""
        return bool(columns_of(self._predicate))

    def partitions(self, paths: Sequence[str]) -> list[str]:
        """Return the partitions that may contain a row for which the condition is true."""
        return [path for path in paths if may_hold(self._predicate, self._bounds.of(path))]

    def files(self, store: ObjectStore, files: Sequence[FileSlice]) -> list[FileSlice]:
        """Return the files that may contain a row for which the condition is true.

        Only the statistics of the condition's columns are read.
        """
        inside = set(self.partitions(sorted({file.partition for file in files})))
        kept = [file for file in files if file.partition in inside]
        names = columns_of(self._predicate)
        if not names or not kept:
            return kept
        known = look_up(store, kept, columns=names)
        bounds = {file.path: self._bounds.of(file.partition) for file in kept}
        wanted = files_to_read(known.values(), self._predicate, self._types, partitions=bounds)
        paths = {statistics.path for statistics in wanted}
        return [file for file in kept if file.path in paths]

    def rows_by_group(
        self, parts: ParquetParts, metadata: pq.FileMetaData, file: FileStatistics, numbers: Sequence[int]
    ) -> dict[int, tuple[range, ...]]:
        """Return the rows that the page index does not exclude, by number of the row group.

        Row groups without a page index, and all if it is damaged, are left out.

        Args:
            parts: The open file.
            metadata: Its footer.
            file: Its statistics.
            numbers: The numbers of the row groups.
        """
        try:
            pages = pages_of_parts(parts, metadata, file, numbers, columns_of(self._predicate))
        except UNREADABLE:
            return {}
        groups = {number: replace(file.row_groups[number], pages=found) for number, found in pages.items()}
        return {n: rows_to_read(group, self._predicate, self._types).ranges for n, group in groups.items()}

    def row_groups(self, file: FileStatistics, partition: str) -> list[int]:
        """Return the numbers of the file's row groups that the condition does not exclude."""
        return row_groups_to_read(file, self._predicate, self._types, self._bounds.of(partition))
