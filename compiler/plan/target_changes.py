"""Settings of a target that its tables do not record yet, and settings that the target does not allow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from parquetry.compiler.errors import UnappliedError
from parquetry.compiler.plan.model import Blocked, Change, ChangeClass, PlanWarning, TargetChange
from parquetry.compiler.security.allowed_settings import (
    allow_entry,
    raise_unallowed,
    recorded_settings,
    target_name,
    unallowed,
    unallowed_text,
)
from parquetry.compiler.spec_words import scalar
from parquetry.compiler.workspace.opened import Workspace
from parquetry.message import command
from parquetry.project import ResolvedTable
from parquetry.project.model.resolved import TargetSettings
from parquetry.runtime.spec.target_settings import (
    EXECUTES,
    SettingDifference,
    Settings,
    executes,
    same_setting,
    setting_differences,
)
from parquetry.runtime.table.applied import AppliedRef

CHANGED = "SC701"
"""The code of a change of a setting that executes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSettings:
    """The settings that a table records. ``is_new`` is True for a table that does not exist yet."""

    settings: Settings | None
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlan:
    """The changes of a target's settings that may be applied, the blocked ones, and warnings."""

    changes: tuple[TargetChange, ...] = ()
    blocked: Blocked | None = None
    warnings: tuple[PlanWarning, ...] = ()


def target_plan(name: str, declared: TargetSettings, applied: Mapping[str, AppliedSettings]) -> TargetPlan:
    """Return the changes of a target's settings, with the refusal of those that are not allowed.

    Args:
        name: The name of the target.
        declared: The declared settings with their allow entries.
        applied: The recorded settings by table, for the tables that will record the declared ones.
    """
    found = tuple(_changes(declared, applied))
    refused = {c.change.path: c.change for c in found if _is_refused(c.change)}
    for setting in unallowed(declared):
        # If no record was read, it is unknown which value is applied.
        known = setting.value if applied else None
        unallowed_setting = SettingDifference(path=setting.path, declared=setting.value, applied=known)
        refused.setdefault(setting.path, setting_change(unallowed_setting, declared))
    return TargetPlan(
        changes=tuple(entry for entry in found if entry.change.path not in refused),
        blocked=_refusal(name, declared, refused) if refused else None,
        warnings=tuple(_unused(name, declared, found)),
    )


def setting_change(difference: SettingDifference, declared: TargetSettings) -> Change:
    """Return the difference as a change with its position, its class and the reason that allows it."""
    path = difference.path
    origin = next((setting.origin for setting in declared.settings if setting.path == path), declared.origin)
    change = Change(
        path=path,
        old=difference.applied,
        new=difference.declared,
        code=CHANGED,
        change_class=ChangeClass.POLICY,
        origin=str(origin),
    )
    if not difference.executes:
        return change
    entry = allow_entry(declared, path, difference.declared)
    return replace(
        change,
        code=EXECUTES,
        change_class=ChangeClass.EXECUTES,
        reason="it can execute other code, or send rows and credentials elsewhere",
        allowed=None if entry is None else entry.reason,
    )


def _changes(declared: TargetSettings, applied: Mapping[str, AppliedSettings]) -> Iterator[TargetChange]:
    """Yield each difference once, with its tables. For new tables, only settings that execute code count."""
    tables: dict[str, tuple[SettingDifference, list[str]]] = {}
    for table, before in applied.items():
        for difference in setting_differences(recorded_settings(declared), before.settings):
            if difference.executes or not before.is_new:
                key = json.dumps([difference.path, difference.applied], sort_keys=True)
                tables.setdefault(key, (difference, []))[1].append(table)
    for _, (difference, names) in sorted(tables.items()):
        yield TargetChange(change=setting_change(difference, declared), tables=tuple(names))


def _is_refused(change: Change) -> bool:
    """Return whether a changed setting can execute code and is not allowed."""
    return change.change_class is ChangeClass.EXECUTES and change.allowed is None


def _refusal(name: str, declared: TargetSettings, refused: Mapping[str, Change]) -> Blocked:
    """Return the refusal of settings that can execute code and are not allowed."""
    paths = tuple(sorted(refused))
    they = "it" if len(paths) == 1 else "they"
    return Blocked(
        table=target_name(name),
        location="",
        code=EXECUTES,
        reason=f"{', '.join(paths)}: {they} can execute other code, or send rows and credentials "
        "elsewhere, and no entry of allow has this value",
        remedy=unallowed_text(name, declared, paths),
        changes=tuple(refused[path] for path in paths),
    )


def _unused(name: str, declared: TargetSettings, changes: tuple[TargetChange, ...]) -> Iterator[PlanWarning]:
    """Yield a warning for each allow entry of the target that no setting needs."""
    needed = [(s.path, s.value) for s in declared.settings if executes(s.path, s.value)]
    changed = (entry.change for entry in changes)
    needed += [(c.path, c.new) for c in changed if c.change_class is ChangeClass.EXECUTES]
    for entry in declared.allow:
        if not any(path == entry.setting and same_setting(value, entry.value) for path, value in needed):
            yield PlanWarning(
                code="SC601",
                table=target_name(name),
                message=f"allow: target {name} does not need {entry.setting} allowed with this value; "
                "remove the entry",
                origin=str(entry.origin),
            )


def check_allowed(workspace: Workspace, *, below: str = "") -> None:
    """Check, without reading a table, that the target allows all of its settings that can execute code.

    A setting can redirect reads to another endpoint, so what is read there cannot prove that it may be used.

    Args:
        workspace: The project.
        below: The beginning of the paths of the settings to check, such as ``metrics.``; by default all.

    Raises:
        UnappliedError: If one of them is not allowed.
    """
    target = workspace.project.target
    found = tuple(setting for setting in unallowed(target.declared) if setting.path.startswith(below))
    raise_unallowed(target.name, target.declared, found)


def check_in_force(
    workspace: Workspace, table: ResolvedTable, applied: AppliedRef | None, *, below: str = ""
) -> tuple[str, ...]:
    """Return, for each target setting that the table does not record, a text with both values.

    Such a setting may be used unless it can execute code. ``below`` is as in :func:`check_allowed`.

    Raises:
        UnappliedError: If a setting that is not applied can execute code.
    """
    target = workspace.project.target
    recorded = None if applied is None else applied.settings
    harmless = []
    for difference in setting_differences(recorded_settings(target.declared), recorded):
        if not difference.path.startswith(below):
            continue
        change = setting_change(difference, target.declared)
        text = f"{change.path} is {_shown(change.new)}, but {_shown(change.old)} is applied"
        if difference.executes:
            plan, apply = (command(verb, "--target", target.name) for verb in ("plan", "apply"))
            raise UnappliedError(
                "{code} {origin}: {change} to table {table}; it can execute other code, or send rows and "
                "credentials elsewhere: review it with {plan_command}, then {apply_command}",
                code=EXECUTES,
                origin=change.origin,
                change=text,
                table=table.name,
                plan_command=plan,
                apply_command=apply,
            )
        harmless.append(text)
    return tuple(harmless)


def _shown(value: object) -> str:
    """Return a value of a setting as text."""
    return "nothing" if value is None else scalar(value)
