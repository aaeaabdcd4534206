"""What the project allows beyond the ordinary, and entries that allow nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parquetry.compiler.changes import CODES, IDENTITY_CODES, UNREADABLE_CODES
from parquetry.compiler.plan import Action, Blocked, Change, PlanWarning


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """An entry of ``allow``: why, and where it stands."""

    reason: str
    origin: str

    def granted(self, change: Change) -> Change:
        """The change with the reason for which it is allowed."""
        return replace(change, allowed=self.reason)


def unused(
    allowances: Iterable[tuple[str, Mapping[str, Allowance]]], outcomes: Sequence[Action | Blocked]
) -> tuple[PlanWarning, ...]:
    """A warning for each entry about a planned table that no change of the plan needs."""
    needed = {(outcome.table, change.code) for outcome in outcomes for change in outcome.changes}
    return tuple(
        PlanWarning(code="SC601", table=table, message=_message(code, table), origin=entry.origin)
        for table, entries in allowances
        for code, entry in entries.items()
        if code.startswith("SC") and ((table, code) not in needed or _is_never_allowed(code))
    )


def _is_never_allowed(code: str) -> bool:
    return code in IDENTITY_CODES | UNREADABLE_CODES


def _message(code: str, table: str) -> str:
    if code not in CODES:
        return f"allow: there is no code {code}; remove the entry"
    if _is_never_allowed(code):
        return f"allow: {code} ({CODES[code]}) is never made in place; remove the entry"
    return f"allow: no change of {table} needs {code} any more; remove the entry"
