"""Warnings of a plan about declared readers for which a change is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from parquetry.compiler.plan.model import Blocked, PlanWarning, Step, TableAction
from parquetry.message import Message
from parquetry.project import ResolvedTable
from parquetry.project.readers.effects import READERS_PATH, effects
from parquetry.runtime.spec.table_spec import TableSpec

WRONG = "SC603"
REFUSES = "SC604"


def reader_warnings(
    table: ResolvedTable, outcome: TableAction | Blocked | None, applied: TableSpec | None
) -> Iterator[PlanWarning]:
    """Yield a warning for each declared reader that fails at what the plan changes.

    Args:
        table: The declared table.
        outcome: What the plan does with it.
        applied: The applied spec, or None if the table is new.
    """
    if not isinstance(outcome, TableAction) or Step.RECORD not in outcome.steps:
        return
    for effect in effects(table.spec, table.readers, since=applied):
        path = effect.trait.path if effect.trait.path in table.origins else READERS_PATH
        message = Message(
            "{table}: {effect}; {remedy}",
            table=table.name,
            effect=effect.message,
            remedy=effect.remedy,
        )
        code = WRONG if effect.is_wrong else REFUSES
        yield PlanWarning(code=code, table=table.name, message=message, origin=str(table.origin(path)))
