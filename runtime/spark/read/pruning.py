"""The files that a condition needs: partitions are excluded first, then files by recorded statistics."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Sequence

from pyspark.sql import SparkSession

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types, columns_of, files_to_read, parse_where
from parquetry.runtime.layout.skipping.predicate import Predicate, Unknown, may_hold
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_bounds import PartitionBounds
from parquetry.runtime.table.statistics import look_up


class Pruner:
    """A condition (SQL) that excludes partitions and files of a table; None excludes nothing.

    Local times in the condition are in the session's time zone, as Spark reads them.
    """

    def __init__(
        self, spark: SparkSession, table: TableHandle, columns: Sequence[Column], where: str | None
    ) -> None:
        self._types = column_types(columns)
        self._bounds = PartitionBounds(table, self._types)
        self._predicate: Predicate = Unknown()
        if where is not None:
            self._predicate = parse_where(where, types=self._types, time_zone=_session_zone(spark))

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


def _session_zone(spark: SparkSession) -> dt.tzinfo | None:
    """Return the session's time zone, or None if only Java knows its name."""
    try:
        return zoneinfo.ZoneInfo(spark.conf.get("spark.sql.session.timeZone") or "")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return None
