"""Declared tables against what was applied to them: the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from parquetry.compiler.changes import CODES, IDENTITY_CODES, UNREADABLE_CODES, highest, spec_changes
from parquetry.compiler.git import GitWorkTree
from parquetry.compiler.observation import Observation
from parquetry.compiler.plan import (
    Action,
    Blocked,
    Change,
    ChangeClass,
    Evidence,
    Intent,
    JobReference,
    Plan,
    TableFigures,
)
from parquetry.compiler.plan_codec import plan_of
from parquetry.runtime.errors import UnsupportedTableError
from parquetry.runtime.job import Requirements
from parquetry.runtime.spec import TableSpec
from parquetry.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A table as the project declares it for the target. ``allowed`` maps codes to reasons."""

    spec: TableSpec
    location: str
    origin: Callable[[str], str | None]
    protected: bool = False
    allowed: Mapping[str, str]
    jobs: tuple[JobReference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What all tables of a plan have in common."""

    project: str
    target: str
    tree: GitWorkTree
    now_ms: int
    byte_ceiling: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """How the planner looks at live tables.

    ``observe`` is asked for every table; ``find_elsewhere``, which says where a table of that name
    and project was before, only for those that are not there; ``admit``, which raises
    UnsupportedTableError, and
    ``measure``, which lists files, only for tables that exist and change.
    """

    observe: Callable[[Declared], Observation | None]
    find_elsewhere: Callable[[Declared], str | None]
    admit: Callable[[Observation], None]
    measure: Callable[[Declared, Observation], TableFigures]


def make_plan(declared: Iterable[Declared], *, context: PlanContext, reader: TableReader) -> Plan:
    """The plan for the tables, in their order; every table that is in the way is named at once."""
    actions: list[Action] = []
    blocked: list[Blocked] = []
    figures: dict[str, TableFigures] = {}
    count = 0
    for table in declared:
        count += 1
        try:
            observation = reader.observe(table)
            outcome = outcome_of(table, observation, context)
            elsewhere = reader.find_elsewhere(table) if observation is None else None
            if elsewhere is not None:
                outcome = _moved(table, elsewhere)
            elif isinstance(outcome, Action) and observation is not None:
                reader.admit(observation)
                figures[table.spec.name] = reader.measure(table, observation)
        except UnsupportedTableError as error:
            outcome = _blocked(
                table, "SC503", reason=str(error), remedy="do what the message says, then plan again"
            )
        match outcome:
            case Action():
                actions.append(outcome)
            case Blocked():
                blocked.append(outcome)
    intent = Intent(
        project=context.project,
        target=context.target,
        git_commit=context.tree.commit,
        parquetry=VERSION,
        actions=tuple(actions),
        blocked=tuple(blocked),
    )
    return plan_of(intent, Evidence(created_ms=context.now_ms, tables=count, figures=figures))


def outcome_of(
    table: Declared, observation: Observation | None, context: PlanContext
) -> Action | Blocked | None:
    """What one table needs: an action, a refusal, or nothing."""
    if observation is None:
        return _creation(table, context)
    refusal = _foreign(table, observation, context)
    if refusal is not None:
        return refusal
    if observation.spec == table.spec:
        return None if observation.is_applied else _creation(table, context, observation)
    if observation.spec is None:
        return _creation(table, context, observation)
    changes = spec_changes(observation.spec, table.spec, origin=table.origin)
    refusal = _would_revert(table, observation, changes, context) or _breaking(table, changes)
    if refusal is not None:
        return refusal
    code = changes[0].code if changes else "SC101"
    return _action(table, observation, changes, context, change_class=highest(changes), code=code)


def _creation(table: Declared, context: PlanContext, observation: Observation | None = None) -> Action:
    return _action(table, observation, (), context, change_class=ChangeClass.CREATE, code="SC001")


def _action(
    table: Declared,
    observation: Observation | None,
    changes: tuple[Change, ...],
    context: PlanContext,
    *,
    change_class: ChangeClass,
    code: str,
) -> Action:
    return Action(
        table=table.spec.name,
        location=table.location,
        change_class=change_class,
        code=code,
        changes=changes,
        requirements=_requirements(observation),
        spec=table.spec,
        byte_ceiling=context.byte_ceiling,
        jobs=table.jobs,
    )


def _requirements(observation: Observation | None) -> Requirements:
    if observation is None:
        return Requirements(exists=False, minimum_parquetry=VERSION)
    applied = observation.handle.applied
    return Requirements(
        exists=True,
        table_id=observation.handle.table_id,
        applied_number=applied.number if applied else 0,
        applied_digest=applied.digest if applied else None,
        minimum_parquetry=VERSION,
    )


def _foreign(table: Declared, observation: Observation, context: PlanContext) -> Blocked | None:
    if observation.handle.project == context.project:
        return None
    owner = (
        f"project {observation.handle.project!r}" if observation.handle.project else "no parquetry project"
    )
    return _blocked(
        table,
        "SC501",
        reason=f"the table at {table.location} belongs to {owner}",
        remedy="give the table another location",
    )


def _moved(table: Declared, elsewhere: str) -> Blocked:
    move = Change(
        path="location",
        old=elsewhere,
        new=table.location,
        code="SC403",
        change_class=ChangeClass.BREAKING,
        origin=table.origin("location"),
        reason=f"the rows are at {elsewhere}",
    )
    remedy = recipe(table.spec.name)
    return _blocked(table, move.code, reason=_because(move), remedy=remedy, changes=(move,))


def _would_revert(
    table: Declared, observation: Observation, changes: tuple[Change, ...], context: PlanContext
) -> Blocked | None:
    record = observation.handle.applied
    applied = record.git_commit if record else None
    if applied is None or context.tree.contains(applied):
        return None
    return _blocked(
        table,
        "SC502",
        reason=f"the applied spec comes from commit {applied[:12]}, which {_head(context.tree)} does not "
        "contain: applying would revert it",
        remedy=f"merge or rebase onto {applied[:12]} and plan again",
        changes=changes,
    )


def _breaking(table: Declared, changes: tuple[Change, ...]) -> Blocked | None:
    breaking = [change for change in changes if change.change_class is ChangeClass.BREAKING]
    identity = [change for change in breaking if change.code in IDENTITY_CODES]
    if identity:
        return _blocked(
            table,
            identity[0].code,
            reason=_because(identity[0]),
            remedy=recipe(table.spec.name),
            changes=changes,
        )
    unreadable = [change for change in breaking if change.code in UNREADABLE_CODES]
    if unreadable:
        return _blocked(
            table,
            unreadable[0].code,
            reason=_because(unreadable[0]),
            remedy=recipe(table.spec.name),
            changes=changes,
        )
    refused = [c for c in breaking if table.protected or c.code not in table.allowed]
    if not refused:
        return None
    code = refused[0].code
    remedy = (
        "the target protects this table: remove it from `protect` in parquetry.yml"
        if table.protected
        else f'add to parquetry.yml: allow: [{{code: {code}, table: {table.spec.name}, reason: "..."}}]'
    )
    return _blocked(table, code, reason=_because(refused[0]), remedy=remedy, changes=changes)


def recipe(table: str) -> str:
    """How a table gets another key, partitioning or type: by a new table beside it."""
    return (
        f"this never changes in place. Recipe: (1) restore tables/{table}.yml; (2) declare a new table, such "
        f"as {table}_v2, with the wanted layout and the source {{name: old, format: hudi, path: <location of "
        f"{table}>, operation: bulk_insert}}; (3) apply and run; (4) let readers and sources use {table}_v2, "
        f"then remove {table}"
    )


def _because(change: Change) -> str:
    return f"{change.path}: {CODES[change.code]}; {change.reason}"


def _blocked(
    table: Declared, code: str, *, reason: str, remedy: str, changes: tuple[Change, ...] = ()
) -> Blocked:
    return Blocked(
        table=table.spec.name,
        location=table.location,
        code=code,
        reason=reason,
        remedy=remedy,
        changes=changes,
    )


def _head(tree: GitWorkTree) -> str:
    return (tree.commit or "this directory")[:12]
