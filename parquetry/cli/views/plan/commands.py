"""The commands that make a saved plan again and apply it, for readers on another machine."""

from __future__ import annotations

from dataclasses import replace

from parquetry.cli.terminal.typed_options import TypedOptions
from parquetry.compiler.plan.model import PlanDocument
from parquetry.text import shell


def typed_options_of(plan: PlanDocument) -> TypedOptions:
    """Return the options that the plan was made with, for commands about it."""
    options = plan.evidence.options
    return TypedOptions(
        target=plan.intent.target,
        select=options.select,
        exclude=options.exclude,
        variables=tuple(options.variables.items()),
        base=options.base,
    )


def with_options(plan: PlanDocument, typed_options: TypedOptions) -> PlanDocument:
    """Return the plan with these options in the commands that its blocked tables and warnings name."""
    blocked = tuple(
        replace(b, reason=typed_options.with_options(b.reason), remedy=typed_options.with_options(b.remedy))
        for b in plan.intent.blocked
    )
    warnings = tuple(
        replace(w, message=typed_options.with_options(w.message)) for w in plan.evidence.warnings
    )
    return replace(
        plan,
        intent=replace(plan.intent, blocked=blocked),
        evidence=replace(plan.evidence, warnings=warnings),
    )


def with_own_options(plan: PlanDocument) -> PlanDocument:
    """Return the plan with the options that it was made with in the commands that it names."""
    return with_options(plan, typed_options_of(plan))


def commands_again(plan: PlanDocument) -> tuple[str, ...]:
    """Return the command that makes the plan again, and the one that applies exactly this plan.

    The second is missing if the plan cannot be applied: nothing to do, a blocked table, or an untrusted
    branch, which is merged first.
    """
    typed_options = typed_options_of(plan)
    again = (typed_options.into("parquetry", "plan"),)
    if not plan.intent.actions or plan.intent.blocked or plan.evidence.options.base is not None:
        return again
    return (*again, f"{typed_options.into('parquetry', 'apply')} {shell.line('--approved', plan.plan_id)}")
