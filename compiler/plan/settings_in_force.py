"""Permission to use a target's settings in jobs: settings that execute code must be allowed and applied."""

from __future__ import annotations

from parquetry.compiler.errors import UnappliedError
from parquetry.compiler.plan.target_changes import setting_change
from parquetry.compiler.workspace.opened import Workspace
from parquetry.compiler.workspace.spec_words import scalar
from parquetry.compiler.workspace.target_settings import check_values_allowed, recorded_settings, unallowed
from parquetry.message import command
from parquetry.project import ResolvedTable
from parquetry.runtime.spec.target_settings import EXECUTES, setting_differences
from parquetry.runtime.table.applied import AppliedRef


def check_allowed(workspace: Workspace) -> None:
    """Check, without reading a table, that the target allows all of its settings that can execute code.

    A setting can redirect reads to another endpoint, so what is read there cannot prove that it may be used.

    Raises:
        UnappliedError: If one of them is not allowed.
    """
    target = workspace.project.target
    check_values_allowed(target.name, target.declared, unallowed(target.declared))


def check_in_force(workspace: Workspace, table: ResolvedTable, applied: AppliedRef | None) -> tuple[str, ...]:
    """Return, for each target setting that the table does not record, a text with both values.

    Such a setting may be used unless it can execute code.

    Raises:
        UnappliedError: If a setting that is not applied can execute code.
    """
    target = workspace.project.target
    recorded = None if applied is None else applied.settings
    harmless = []
    for difference in setting_differences(recorded_settings(target.declared), recorded):
        change = setting_change(difference, target.declared)
        text = f"{change.path} is {_shown(change.new)}, applied is {_shown(change.old)}"
        if difference.executes:
            plan, apply = (command(verb, "--target", target.name) for verb in ("plan", "apply"))
            raise UnappliedError(
                f"{EXECUTES} {change.origin}: {text} to table {table.name}; it can execute other code, "
                "or send rows and credentials elsewhere: review it with " + plan + ", then " + apply
            )
        harmless.append(text)
    return tuple(harmless)


def _shown(value: object) -> str:
    return "nothing" if value is None else scalar(value)
