"""Sources that are added, removed or renamed, each as one change instead of one per field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from parquetry.compiler.plan.model import Change
from parquetry.text.secret_names import MASK

_PREFIX = "sources."


def grouped_changes(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes, with a single one for each source that is added, removed or renamed.

    Args:
        changes: The changes of one table. If a field of a source is refused, allowed or has a note of its
            own, all fields of the source stay separate.

    """
    others: list[Change] = []
    fields: dict[str, list[Change]] = {}
    for change in changes:
        name = change.path.removeprefix(_PREFIX).split(".", 1)[0] if change.path.startswith(_PREFIX) else None
        (others if name is None else fields.setdefault(name, [])).append(change)
    added: list[Change] = []
    removed: list[Change] = []
    for name, group in fields.items():
        entry = _entry(name, group)
        if entry is None:
            others += group
        else:
            (added if entry.old is None else removed).append(entry)
    for entry in removed:
        same = [other for other in added if other.new == entry.old and MASK not in str(entry.old)]
        if len(same) == 1:
            added.remove(same[0])
            others.append(_renamed(entry, same[0]))
        else:
            others.append(entry)
    return tuple(sorted([*others, *added], key=lambda change: (-change.change_class.rank, change.path)))


def _entry(name: str, group: list[Change]) -> Change | None:
    """Return the change of the whole source, or None if only some of its fields change."""
    first = group[0]
    prefix = f"{_PREFIX}{name}."
    # Every source has a path; the other fields of an added or removed one change the same way.
    comes, goes = (all(getattr(change, side) is None for change in group) for side in ("old", "new"))
    whole = comes != goes and any(change.path == f"{prefix}path" for change in group)
    if not whole or any(change.code != first.code or _has_notes(change) for change in group):
        return None
    values = {
        change.path.removeprefix(prefix): change.new if comes else change.old
        for change in sorted(group, key=lambda change: change.path)
    }
    return replace(first, path=prefix[:-1], old=None if comes else values, new=values if comes else None)


def _has_notes(change: Change) -> bool:
    """Return whether a change has a reason, a permission or a live value to show."""
    return (
        change.needs_allow_entry
        or change.allowed is not None
        or change.live is not None
        or change.reason is not None
    )


def _renamed(removed: Change, added: Change) -> Change:
    """Return the removal and the addition of one source as the change of its name."""
    old, new = (change.path.removeprefix(_PREFIX) for change in (removed, added))
    return replace(added, path=f"{removed.path}.name", old=old, new=new)
