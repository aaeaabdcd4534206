"""Columns that are added again under a name that existing files contain: their old values would reappear."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from parquetry.compiler.plan.changes import UNREADABLE_CODES
from parquetry.compiler.plan.columns import column_changes
from parquetry.compiler.plan.model import Change, ChangeClass
from parquetry.runtime.spec.paths import ColumnPath, types_by_path
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.spec.types import ColumnType
from parquetry.runtime.table.former_columns import FormerColumn

RETURNS = "SC316"


def with_returning(
    changes: tuple[Change, ...],
    *,
    applied: TableSpec,
    declared: TableSpec,
    former: Callable[[Collection[ColumnPath]], Iterable[FormerColumn]],
) -> tuple[Change, ...]:
    """Return the changes, with those that add a dropped column again turned into breaking changes.

    The code is SC311 if files contain the column in a type that cannot be read as the new one, else SC316.

    Args:
        changes: The changes from the applied to the declared spec.
        applied: The applied spec.
        declared: The declared spec.
        former: Returns which of some columns the table had before. It is only called if a column is added.
    """
    if not any(change.code == "SC301" for change in changes):
        return changes
    wanted = types_by_path(declared.columns)
    known = types_by_path(applied.columns)
    added = {path: kind for path, kind in wanted.items() if path not in known}
    found = sorted(former(added), key=lambda one: _is_readable(one, added[one.path]))
    return tuple(_returning(change, found, added) for change in changes)


def _returning(change: Change, found: Iterable[FormerColumn], added: dict[ColumnPath, ColumnType]) -> Change:
    if change.code != "SC301":
        return change
    own = (one for one in found if f"columns.{'.'.join(one.path)}.".startswith(f"{change.path}."))
    first = next(own, None)
    if first is None:
        return change
    files = f"{first.files} file{'' if first.files == 1 else 's'}"
    place = f"{files} from before {'.'.join(first.path)} was dropped (instant {first.dropped_at})"
    ways = "let clustering rewrite them first (`then: [prune]`), or take another name"
    if not _is_readable(first, added[first.path]):
        reason = f"{place} hold it as {first.type}, not {added[first.path]}; {ways}"
        return replace(change, code="SC311", change_class=ChangeClass.BREAKING, reason=reason)
    reason = f"{place} still hold its values, which would be back; {ways}"
    return replace(change, code=RETURNS, change_class=ChangeClass.BREAKING, reason=reason)


def _is_readable(former: FormerColumn, wanted: ColumnType) -> bool:
    """Return whether files with the former type can be read as the new type."""
    name = former.path[-1]
    old, new = (Column(name=name, type=str(kind)) for kind in (former.type, wanted))
    return not any(change.code in UNREADABLE_CODES for change in column_changes((old,), (new,)))
