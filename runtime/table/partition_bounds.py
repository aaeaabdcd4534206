"""Bounds of partition columns, parsed from partition paths."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final
from urllib.parse import unquote

import numpy as np

from parquetry.runtime.layout.skipping.files import Types
from parquetry.runtime.layout.skipping.predicate import Bounds
from parquetry.runtime.layout.skipping.statistics import StatisticValue
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.partition_path import NULL_PARTITION

_EPOCH: Final = dt.date(1970, 1, 1)


class PartitionBounds:
    """The values of partition columns in partition paths. ``types`` are those of the table's columns."""

    def __init__(self, table: TableHandle, types: Types) -> None:
        self._config = table.config
        self._paths_hold_values = table.paths_hold_values
        # Other programs may write milliseconds instead of microseconds in timestamp paths.
        self._unparsed_types = frozenset[str]() if table.first_instant else frozenset({"timestamp"})
        self._types = types

    def of(self, partition: str) -> Mapping[str, Bounds]:
        """Return the bounds of the columns in a partition path, without those that cannot be parsed."""
        config, levels = self._config, partition.split("/")
        if not self._paths_hold_values or not config.partition_by or len(levels) != len(config.partition_by):
            return {}
        bounds: dict[str, Bounds] = {}
        for field, level in zip(config.partition_by, levels, strict=True):
            text = level.removeprefix(f"{field}=") if config.hive_style else level
            kind = self._types.get(field)
            if kind is not None and kind not in self._unparsed_types:
                parsed = _bounds_of_text(unquote(text) if config.url_encode else text, kind)
                bounds |= {} if parsed is None else {field: parsed}
        return bounds


def _bounds_of_text(text: str, kind: str) -> Bounds | None:
    if text == NULL_PARTITION:
        # Rows with an empty text or with the folder's own name as text are in the folder of null.
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
            # 0.7 in the path means the nearest float, which SQL compares as a double.
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
