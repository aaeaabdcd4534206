"""Allow entries of the project: the changes that they permit, and entries that permit nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parquetry.compiler.plan.changes import CODES, IDENTITY_CODES, UNREADABLE_CODES
from parquetry.compiler.plan.model import Blocked, Change, PlanWarning, TableAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """An allow entry: its reason and its position."""

    reason: str
    origin: str


def is_never_in_place(code: str) -> bool:
    """Return whether a change with this code always needs a new table beside the old one.

    No allow entry can permit such a change.
    """
    return code in IDENTITY_CODES | UNREADABLE_CODES | {"SC403"}


def with_allowance(change: Change, reasons: Mapping[str, str]) -> Change:
    """Return the change with the reason of the allow entry for its code; ``reasons`` maps codes to reasons.

    A change that needs no permission, or that no entry can permit, is returned as it is.
    """
    if not change.needs_leave or is_never_in_place(change.code):
        return change
    return replace(change, allowed=reasons.get(change.code))


def unused(
    allowances: Iterable[tuple[str, Mapping[str, Allowance]]], outcomes: Sequence[TableAction | Blocked]
) -> tuple[PlanWarning, ...]:
    """Return a warning for each allow entry about a planned table that no change of the plan needs."""
    needed = {(outcome.table, change.code) for outcome in outcomes for change in outcome.changes}
    return tuple(
        PlanWarning(code="SC601", table=table, message=_message(code, table), origin=entry.origin)
        for table, entries in allowances
        for code, entry in entries.items()
        if code.startswith("SC") and ((table, code) not in needed or is_never_in_place(code))
    )


def _message(code: str, table: str) -> str:
    if code not in CODES:
        return f"allow: there is no code {code}; remove the entry"
    if is_never_in_place(code):
        return f"allow: {code} ({CODES[code]}) is never made in place; remove the entry"
    return f"allow: no change of {table} needs {code} any more; remove the entry"
