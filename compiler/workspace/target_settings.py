"""The settings of a target as its tables record them, and which of them it does not allow."""

from __future__ import annotations

import json

from parquetry.compiler.errors import UnappliedError
from parquetry.message import command
from parquetry.printable import quoted
from parquetry.project.model.resolved import AllowedSetting, TargetSetting, TargetSettings
from parquetry.runtime.spec.target_settings import (
    EXECUTES,
    executes,
    same_setting,
)


def target_name(name: str) -> str:
    """What plans call a target where they have the name of a table: none is named so."""
    return f"targets.{name}"


def recorded_settings(declared: TargetSettings) -> dict[str, object]:
    """What a table records of the settings, by path."""
    return {setting.path: setting.value for setting in declared.settings}


def unallowed(declared: TargetSettings) -> tuple[TargetSetting, ...]:
    """The declared settings that execute and that no entry of ``allow`` has with this value."""
    return tuple(
        setting
        for setting in declared.settings
        if executes(setting.path, setting.value) and allowing(declared, setting.path, setting.value) is None
    )


def check_values_allowed(name: str, declared: TargetSettings, found: tuple[TargetSetting, ...]) -> None:
    """UnappliedError that names what is ``found`` of settings that execute and are not allowed."""
    if not found:
        return
    places = ", ".join(f"{setting.origin} {setting.path}" for setting in found)
    paths = tuple(setting.path for setting in found)
    raise UnappliedError(
        f"{EXECUTES} {places}: it can execute other code, or send rows and credentials elsewhere, "
        f"and is not allowed; {unallowed_text(name, declared, paths)}, then "
        + command("plan")
        + " and "
        + command("apply")
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


def allowing(declared: TargetSettings, path: str, value: object) -> AllowedSetting | None:
    """The entry of ``allow`` that has the setting with this value."""
    return next((e for e in declared.allow if e.setting == path and same_setting(e.value, value)), None)


def _yaml(value: object) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
