"""The commands that make a saved plan again, and that apply it, for whoever reads it somewhere else."""

from __future__ import annotations

from parquetry.cli.carried import Carried
from parquetry.compiler.plan import Plan


def carried_by(plan: Plan) -> Carried:
    """The options that the plan was made with, to be put into commands about it."""
    options = plan.evidence.options
    return Carried(
        target=plan.intent.target,
        select=options.select,
        exclude=options.exclude,
        variables=tuple(options.variables.items()),
    )


def commands_again(plan: Plan) -> tuple[str, ...]:
    """What plans the same tables again and, where there is something to apply, what applies just that."""
    carried = carried_by(plan)
    again = (carried.into("parquetry plan"),)
    if plan.is_empty:
        return again
    return (*again, f"{carried.into('parquetry apply')} --approved {plan.plan_id}")
