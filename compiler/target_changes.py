"""What of a target's settings is not applied to its tables, and what it does not allow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from parquetry.compiler.errors import UnappliedError
from parquetry.compiler.plan import Blocked, Change, ChangeClass, PlanWarning, TargetChange
from parquetry.printable import quoted
from parquetry.project.model import AllowedSetting, Setting, TargetSettings
from parquetry.runtime.target_settings import (
    EXECUTES,
    SettingDifference,
    Settings,
    executes,
    same_setting,
    setting_differences,
)

CHANGED = "SC701"
"""The code of a change of a setting that executes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSettings:
    """The settings that are applied to a table; those of a table that is not there yet are ``new``."""

    settings: Settings | None
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlan:
    """The changes of a target's settings that may be applied, those that may not, and warnings."""

    changes: tuple[TargetChange, ...] = ()
    blocked: Blocked | None = None
    warnings: tuple[PlanWarning, ...] = ()


def target_name(name: str) -> str:
    """What plans call a target where they have the name of a table: none is named so."""
    return f"targets.{name}"


def recorded_settings(declared: TargetSettings) -> dict[str, object]:
    """What a table records of the settings, by path."""
    return {setting.path: setting.value for setting in declared.settings}


def target_plan(name: str, declared: TargetSettings, applied: Mapping[str, AppliedSettings]) -> TargetPlan:
    """What to do about a target's settings; ``applied`` are those of the tables that are to record them."""
    found = tuple(_changes(declared, applied))
    refused = {c.change.path: c.change for c in found if _is_refused(c.change)}
    for setting in unallowed(declared):
        # Where no record was looked at, nothing is known to be applied.
        known = setting.value if applied else None
        standing = SettingDifference(path=setting.path, declared=setting.value, applied=known)
        refused.setdefault(setting.path, setting_change(standing, declared))
    return TargetPlan(
        changes=tuple(entry for entry in found if entry.change.path not in refused),
        blocked=_refusal(name, declared, refused) if refused else None,
        warnings=tuple(_unused(name, declared, found)),
    )


def unallowed(declared: TargetSettings) -> tuple[Setting, ...]:
    """The declared settings that execute and that no entry of ``allow`` has with this value."""
    return tuple(
        setting
        for setting in declared.settings
        if executes(setting.path, setting.value) and _allowing(declared, setting.path, setting.value) is None
    )


def check_values_allowed(name: str, declared: TargetSettings, found: tuple[Setting, ...]) -> None:
    """UnappliedError that names what is ``found`` of settings that execute and are not allowed."""
    if not found:
        return
    places = ", ".join(f"{setting.origin} {setting.path}" for setting in found)
    paths = tuple(setting.path for setting in found)
    raise UnappliedError(
        f"{EXECUTES} {places}: it can have other code carried out, or rows and credentials sent "
        f"somewhere else, and is not allowed; {unallowed_text(name, declared, paths)}, "
        "then `parquetry plan` and `parquetry apply`"
    )


def setting_change(difference: SettingDifference, declared: TargetSettings) -> Change:
    """The difference as a change: where it is declared, how far it reaches, and why it is allowed."""
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
    entry = _allowing(declared, path, difference.declared)
    return replace(
        change,
        code=EXECUTES,
        change_class=ChangeClass.EXECUTES,
        reason="it can have other code carried out, or rows and credentials sent somewhere else",
        allowed=None if entry is None else entry.reason,
    )


def unallowed_text(name: str, declared: TargetSettings, paths: tuple[str, ...]) -> str:
    """What to write into the project file so that the settings may be used."""
    written = {setting.path: setting.written for setting in declared.settings}
    pairs = ((_yaml(path), _yaml(written.get(path))) for path in paths)
    entries = (f'{{setting: {path}, value: {value}, reason: "..."}}' for path, value in pairs)
    return (
        f"take them out of parquetry.yml, or let whoever answers for target {name} allow these values, under "
        f"{target_name(name)}: allow: [{', '.join(entries)}]"
    )


def _changes(declared: TargetSettings, applied: Mapping[str, AppliedSettings]) -> Iterator[TargetChange]:
    """Each difference once, with the tables that it is in; of new tables what executes nothing is no news."""
    tables: dict[str, tuple[SettingDifference, list[str]]] = {}
    for table, before in applied.items():
        for difference in setting_differences(recorded_settings(declared), before.settings):
            if difference.executes or not before.is_new:
                key = json.dumps([difference.path, difference.applied], sort_keys=True)
                tables.setdefault(key, (difference, []))[1].append(table)
    for _, (difference, names) in sorted(tables.items()):
        yield TargetChange(change=setting_change(difference, declared), tables=tuple(names))


def _is_refused(change: Change) -> bool:
    return change.change_class is ChangeClass.EXECUTES and change.allowed is None


def _allowing(declared: TargetSettings, path: str, value: object) -> AllowedSetting | None:
    return next((e for e in declared.allow if e.setting == path and same_setting(e.value, value)), None)


def _refusal(name: str, declared: TargetSettings, refused: Mapping[str, Change]) -> Blocked:
    paths = tuple(sorted(refused))
    they = "it" if len(paths) == 1 else "they"
    return Blocked(
        table=target_name(name),
        location="",
        code=EXECUTES,
        reason=f"{', '.join(paths)}: {they} can have other code carried out, or rows and credentials sent "
        "somewhere else, and no entry of allow has this value",
        remedy=unallowed_text(name, declared, paths),
        changes=tuple(refused[path] for path in paths),
    )


def _unused(name: str, declared: TargetSettings, changes: tuple[TargetChange, ...]) -> Iterator[PlanWarning]:
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


def _yaml(value: object) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
