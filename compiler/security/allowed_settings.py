"""The settings of a target as its tables record them, and the settings that the target does not allow."""

from __future__ import annotations

import json

from parquetry.compiler.errors import UnappliedError
from parquetry.message import command
from parquetry.project.model.resolved import AllowedSetting, TargetSetting, TargetSettings
from parquetry.runtime.spec.target_settings import (
    EXECUTES,
    executes,
    same_setting,
)
from parquetry.text.printable import quoted


def target_name(name: str) -> str:
    """Return the name of a target in plans, where tables are named; no table can have such a name."""
    return f"targets.{name}"


def recorded_settings(declared: TargetSettings) -> dict[str, object]:
    """Return the settings as a table records them, by path."""
    return {setting.path: setting.value for setting in declared.settings}


def unallowed(declared: TargetSettings) -> tuple[TargetSetting, ...]:
    """Return the declared settings that execute code and whose value no entry of ``allow`` permits."""
    return tuple(
        setting
        for setting in declared.settings
        if executes(setting.path, setting.value)
        and allow_entry(declared, setting.path, setting.value) is None
    )


def raise_unallowed(name: str, declared: TargetSettings, settings: tuple[TargetSetting, ...]) -> None:
    """Raise UnappliedError if ``settings``, the settings that are not allowed, is not empty."""
    if not settings:
        return
    positions = ", ".join(f"{setting.origin} {setting.path}" for setting in settings)
    paths = tuple(setting.path for setting in settings)
    raise UnappliedError(
        "{code} {settings}: it can execute other code, or send rows and credentials elsewhere, and is not "
        "allowed; {remedy}, then {plan_command} and {apply_command}",
        code=EXECUTES,
        settings=positions,
        remedy=unallowed_text(name, declared, paths),
        plan_command=command("plan"),
        apply_command=command("apply"),
    )


def unallowed_text(name: str, declared: TargetSettings, paths: tuple[str, ...]) -> str:
    """Return the text that explains how to allow the settings in the project file."""
    written = {setting.path: setting.written for setting in declared.settings}
    pairs = ((_yaml(path), _yaml(written.get(path))) for path in paths)
    entries = (f'{{setting: {path}, value: {value}, reason: "..."}}' for path, value in pairs)
    return (
        f"remove them from parquetry.yml, or ask the owner of target {name} to allow these values, under "
        f"{target_name(name)}: allow: [{', '.join(entries)}]"
    )


def allow_entry(declared: TargetSettings, path: str, value: object) -> AllowedSetting | None:
    """Return the entry of ``allow`` for the setting with this value, or None."""
    return next((e for e in declared.allow if e.setting == path and same_setting(e.value, value)), None)


def _yaml(value: object) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
