"""Allow entries of the project: the changes that they permit, and entries that permit nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parquetry.compiler.plan.changes import CODES, IDENTITY_CODES, UNREADABLE_CODES
from parquetry.compiler.plan.model import Blocked, Change, PlanWarning, TableAction
from parquetry.compiler.workspace.opened import Workspace
from parquetry.project import AllowEntry


def is_never_in_place(code: str) -> bool:
    """Return whether a change with this code always needs a new table beside the old one.

    No allow entry can permit such a change.
    """
    return code in IDENTITY_CODES | UNREADABLE_CODES | {"SC403"}


def with_allow_reason(change: Change, entries: Mapping[str, AllowEntry]) -> Change:
    """Return the change with the reason of the allow entry for its code; ``entries`` are by code.

    A change that needs no permission, or that no entry can permit, is returned as it is.
    """
    if not change.needs_allow_entry or is_never_in_place(change.code):
        return change
    entry = entries.get(change.code)
    return replace(change, allowed=None if entry is None else entry.reason)


def unused_allow_entries(
    workspace: Workspace, outcomes: Sequence[TableAction | Blocked]
) -> tuple[PlanWarning, ...]:
    """Return a warning for each allow entry about a planned table that no change of the plan needs."""
    needed = {(outcome.table, change.code) for outcome in outcomes for change in outcome.changes}
    return tuple(
        PlanWarning(
            code="SC601", table=table.name, message=_unused_text(code, table.name), origin=str(entry.origin)
        )
        for table in workspace.tables
        for code, entry in workspace.allowed(table).items()
        if code.startswith("SC") and ((table.name, code) not in needed or is_never_in_place(code))
    )


def _unused_text(code: str, table: str) -> str:
    if code not in CODES:
        return f"allow: there is no code {code}; remove the entry"
    if is_never_in_place(code):
        return f"allow: {code} ({CODES[code]}) is never made in place; remove the entry"
    return f"allow: no change of {table} needs {code} any more; remove the entry"
