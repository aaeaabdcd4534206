"""Which files a condition needs: partitions answer first, then recorded statistics."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final
from urllib.parse import unquote

import numpy as np
from pyspark.sql import SparkSession

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types, columns_of, files_to_read, parse_where
from parquetry.runtime.layout.skipping.predicate import Bounds, Predicate, Unknown, may_hold
from parquetry.runtime.layout.skipping.statistics import StatisticValue
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.table.open import TableHandle
from parquetry.runtime.table.partition_path import NULL_PARTITION
from parquetry.runtime.table.statistics import look_up

_EPOCH: Final = dt.date(1970, 1, 1)


class Pruner:
    """What a condition (SQL) leaves of a table's partitions and files. None leaves all.

    Local times in the condition are in the session's zone, as Spark reads them.
    """

    def __init__(
        self, spark: SparkSession, table: TableHandle, columns: Sequence[Column], where: str | None
    ) -> None:
        self._config = table.config
        self._paths_hold_values = table.paths_hold_values
        # Other programs may count milliseconds there.
        self._unread = frozenset[str]() if table.first_instant else frozenset({"timestamp"})
        self._types = column_types(columns)
        self._predicate: Predicate = Unknown()
        if where is not None:
            self._predicate = parse_where(where, types=self._types, time_zone=_session_zone(spark))

    def partitions(self, paths: Sequence[str]) -> list[str]:
        """The partitions that may have a row for which the condition is true."""
        return [path for path in paths if may_hold(self._predicate, self.bounds(path))]

    def files(self, store: ObjectStore, files: Sequence[FileSlice]) -> list[FileSlice]:
        """The files that may have such a row; statistics are read of the columns asked about only."""
        inside = set(self.partitions(sorted({file.partition for file in files})))
        kept = [file for file in files if file.partition in inside]
        names = columns_of(self._predicate)
        if not names or not kept:
            return kept
        known = look_up(store, kept, columns=names)
        bounds = {file.path: self.bounds(file.partition) for file in kept}
        wanted = files_to_read(known.values(), self._predicate, self._types, partitions=bounds)
        paths = {statistics.path for statistics in wanted}
        return [file for file in kept if file.path in paths]

    def bounds(self, partition: str) -> Mapping[str, Bounds]:
        """What a partition's path says of its columns; nothing where it cannot be read back."""
        config, levels = self._config, partition.split("/")
        if not self._paths_hold_values or not config.partition_by or len(levels) != len(config.partition_by):
            return {}
        found: dict[str, Bounds] = {}
        for field, level in zip(config.partition_by, levels, strict=True):
            text = level.removeprefix(f"{field}=") if config.hive_style else level
            kind = self._types.get(field)
            if kind is not None and kind not in self._unread:
                bounds = _bounds_of_text(unquote(text) if config.url_encode else text, kind)
                found |= {} if bounds is None else {field: bounds}
        return found


def _session_zone(spark: SparkSession) -> dt.tzinfo | None:
    """The session's time zone; None for names that only Java knows."""
    try:
        return zoneinfo.ZoneInfo(spark.conf.get("spark.sql.session.timeZone") or "")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return None


def _bounds_of_text(text: str, kind: str) -> Bounds | None:
    if text == NULL_PARTITION:
        # Empty text lies in the same folder as null, and so does the folder's own name.
        return Bounds(type=kind, minimum="", maximum=NULL_PARTITION, has_values=kind == "string")
    read = _reader(kind)
    try:
        value = read(text)
    except (ValueError, InvalidOperation):
        return None
    return Bounds(type=kind, minimum=value, maximum=value, has_nulls=False, nan_free=True)


def _reader(kind: str) -> Callable[[str], StatisticValue]:  # noqa: PLR0911 - a case, an answer
    match kind:
        case "string":
            return str
        case "boolean":
            return _boolean
        case "date":
            return lambda text: (dt.date.fromisoformat(text) - _EPOCH).days
        case "float":
            # 0.7 in the path is the float next to it, which SQL compares as a double.
            return lambda text: float(np.float32(text))
        case "double":
            return float
        case _ if kind.startswith("decimal"):
            return Decimal
        case _:
            return int


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"
