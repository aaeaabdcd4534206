"""The version of Hudi's table format in plans: whom it shuts out, and the version that a table keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from parquetry.compiler.plan.model import Change, ChangeClass, Step
from parquetry.compiler.workspace.observation import Observation
from parquetry.message import Message
from parquetry.project.readers.matrix import shut_out
from parquetry.runtime.spec.table_spec import NEW_TABLE_VERSIONS, TableSpec

VERSION_PATH: Final = "table_version"
RESTORED: Final = "SC262"

WRITERS: Final[Mapping[int, str]] = {6: "Hudi", 8: "Hudi 1.0 or later", 9: "Hudi 1.1 or later"}
"""The releases of Hudi whose writers make tables of a version; no file of a table names the exact one."""


def effect_on_readers(old: int, new: int) -> str | None:
    """Return who can no longer read a table, or can read it again, when its version changes."""
    before, after = shut_out(old), shut_out(new)
    lost = [reader for reader in after if reader not in before]
    gained = [reader for reader in before if reader not in after]
    if new > old:
        return f"shuts out {_listed(lost)}" if lost else None
    return f"opens the table to {_listed(gained)} again" if gained else None


def restored_version(observation: Observation, declared: TableSpec) -> tuple[Change, ...]:
    """Return the change that gives a table its applied version again, if another program changed it."""
    spec, live = observation.spec, observation.handle.config.version
    if spec is None or not observation.is_applied:
        return ()
    if live in (spec.table_version, declared.table_version) or spec.table_version != declared.table_version:
        return ()
    change = Change(
        path=VERSION_PATH,
        old=live,
        new=declared.table_version,
        code=RESTORED,
        change_class=ChangeClass.FORMAT,
        live=live,
        reason=Message(
            "{writer} changed it; it is changed back, which {effect}",
            writer=WRITERS.get(live, "another program"),
            effect=effect_on_readers(live, declared.table_version) or "changes nothing for readers",
        ),
    )
    return (change,)


def version_step(observation: Observation, declared: TableSpec) -> tuple[Step, ...]:
    """Return the step that gives a table its declared version, or nothing if it has and records that version.

    If only the record lacks it, an earlier step was interrupted, and the same one deletes what it left.
    """
    live, spec = observation.handle.config.version, observation.spec
    applied = live if spec is None else spec.table_version
    before = applied if live == declared.table_version else live
    if before == declared.table_version:
        return ()
    return (Step.UPGRADE if declared.table_version > before else Step.DOWNGRADE,)


def is_possible(version: int, *, live: int | None) -> bool:
    """Return whether a table can get a version. ``live`` is its version, or None for a new table."""
    return version in NEW_TABLE_VERSIONS or (live is not None and version <= live)


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
