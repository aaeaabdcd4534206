"""Dropped columns and fields, whose values may still be in files written before the drop."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from parquetry.runtime.spec.paths import ColumnPath, types_by_path
from parquetry.runtime.spec.types import ColumnType
from parquetry.runtime.table.applied import applied_history
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.instant import format_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerColumn:
    """A column or field that was dropped when a later spec was applied.

    ``dropped_at`` is the time of that apply, an instant in the table's time zone. ``files`` is the number of
    current files that were written before.
    """

    path: ColumnPath
    type: ColumnType
    dropped_at: str
    files: int


def former_columns(table: TableHandle, paths: Collection[ColumnPath]) -> tuple[FormerColumn, ...]:
    """Return each drop of one of the paths for which there are older files, the newest drop first.

    Names are compared without case, as in Spark. Each applied record takes one read. The partitions are
    listed only if one of the paths was dropped.
    """
    drops: list[tuple[ColumnPath, ColumnType, str]] = []
    next_record: tuple[int, Collection[ColumnPath]] | None = None
    for record in applied_history(table.store):
        types = {_folded(path): kind for path, kind in types_by_path(record.spec.columns).items()}
        if next_record is not None:
            dropped_at = format_instant(next_record[0], table.config.timezone)
            dropped = (
                path for path in paths if _folded(path) in types and _folded(path) not in next_record[1]
            )
            drops += [(path, types[_folded(path)], dropped_at) for path in dropped]
        next_record = record.applied_at_ms, types
    if not drops:
        return ()
    written = [part.instant for part in table.view(table.timeline()).all_slices()]
    candidates = (
        FormerColumn(
            path=path,
            type=kind,
            dropped_at=dropped_at,
            files=sum(instant <= dropped_at for instant in written),
        )
        for path, kind, dropped_at in drops
    )
    return tuple(column for column in candidates if column.files)


def _folded(path: ColumnPath) -> ColumnPath:
    return tuple(name.lower() for name in path)
