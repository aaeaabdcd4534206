"""Declared tables against what was applied to them: the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from parquetry.compiler.allowing import Allowance, unused
from parquetry.compiler.changes import CODES, IDENTITY_CODES, UNREADABLE_CODES, highest, spec_changes
from parquetry.compiler.drift import Drift
from parquetry.compiler.git import GitWorkTree
from parquetry.compiler.live import restoring, restoring_columns, with_live
from parquetry.compiler.observation import Observation
from parquetry.compiler.plan import (
    Action,
    Blocked,
    Change,
    ChangeClass,
    Debt,
    DueSource,
    Evidence,
    ExcludedFiles,
    Intent,
    JobReference,
    Plan,
    PlanWarning,
    RecipeStep,
    Step,
    TableFigures,
)
from parquetry.compiler.plan_codec import plan_of
from parquetry.compiler.plan_outlook import Outlook
from parquetry.compiler.recipes import REMEDY, copy_recipe, remedy_afresh
from parquetry.compiler.returning import with_returning
from parquetry.runtime.column_paths import ColumnPath
from parquetry.runtime.errors import CorruptTableError, UnsupportedTableError
from parquetry.runtime.former_columns import FormerColumn
from parquetry.runtime.job import Requirements
from parquetry.runtime.spec import Column, TableSpec
from parquetry.version import VERSION

_TABLE_VERSION = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A table as the project declares it for the target, in ``file``. ``allowed`` is by code.

    ``is_written`` says whether a layer of the project gives a path a value of its own; ``jobs`` is
    asked only for tables that change.
    """

    spec: TableSpec
    location: str
    file: str
    origin: Callable[[str], str | None]
    is_written: Callable[[str], bool]
    protected: bool = False
    allowed: Mapping[str, Allowance] = field(default_factory=dict)
    jobs: Callable[[], tuple[JobReference, ...]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    """A table of the project's for which there is no spec any more, and where it is."""

    spec: TableSpec
    location: str
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Where a declared table is instead, and the git commit of the spec that is applied there."""

    location: str
    applied_commit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What all tables of a plan have in common; ``byte_ceiling`` None is no limit to what is rewritten."""

    project: str
    target: str
    tree: GitWorkTree
    now_ms: int
    byte_ceiling: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """How the planner looks at live tables.

    ``observe`` is asked for every table, ``drifts``, what others changed, for those that exist;
    ``find_elsewhere``, which says where a table of that name and project was before, only for those
    that are not there; ``admit``, which raises UnsupportedTableError, ``live_columns`` and
    ``measure``, which lists files, only for tables that exist and change. ``former`` says which of some
    columns the table had once; it is asked when columns are added. ``was_never_written`` is asked of tables
    with a change that is never made in place.
    """

    observe: Callable[[Declared], Observation | None]
    drifts: Callable[[Declared], tuple[Drift, ...]]
    find_elsewhere: Callable[[Declared], Elsewhere | None]
    admit: Callable[[Observation], None]
    live_columns: Callable[[Observation], tuple[Column, ...]]
    former: Callable[[Observation, Collection[ColumnPath]], tuple[FormerColumn, ...]]
    measure: Callable[[Declared, Observation], TableFigures]
    was_never_written: Callable[[Observation], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a run would do, by table: the debt it would pay, and what it would take from sources.

    ``outlooks`` say what its clustering would be good for. ``excluded`` are the files that it would leave,
    None where that was not asked for.
    """

    debts: Mapping[str, Debt]
    outlooks: Mapping[str, Outlook]
    ingest: Mapping[str, tuple[DueSource, ...]]
    excluded: Mapping[str, ExcludedFiles] | None = None


def make_plan(
    declared: Iterable[Declared],
    *,
    context: PlanContext,
    reader: TableReader,
    undeclared: Iterable[Undeclared] = (),
    due: Due | None = None,
    drift: tuple[Change, ...] = (),
) -> Plan:
    """The plan for the tables, in their order; every table that is in the way is named at once.

    ``due`` is there where it was asked for, ``drift`` is what others changed of the tables.
    """
    tables = tuple(declared)
    outcomes: list[Action | Blocked] = []
    figures: dict[str, TableFigures] = {}
    for table in tables:
        try:
            outcome, seen = _planned(table, context, reader)
        except (UnsupportedTableError, CorruptTableError) as error:
            remedy = "do what the message says, then plan again"
            outcome, seen = _blocked(table, "SC503", reason=str(error), remedy=remedy), None
        if seen is not None:
            figures[table.spec.name] = seen
        if outcome is not None:
            outcomes.append(outcome)
    gone = tuple(undeclared)
    outcomes += [_forgotten(table, context) for table in gone]
    intent = Intent(
        project=context.project,
        target=context.target,
        git_commit=context.tree.commit,
        parquetry=VERSION,
        actions=tuple(o for o in outcomes if isinstance(o, Action)),
        blocked=tuple(o for o in outcomes if isinstance(o, Blocked)),
    )
    evidence = Evidence(
        created_ms=context.now_ms,
        tables=len(tables) + len(gone),
        figures=figures,
        due=None if due is None else due.debts,
        outlooks=None if due is None else due.outlooks,
        ingest=None if due is None else due.ingest,
        excluded=None if due is None else due.excluded,
        drift=drift,
        warnings=(
            *_unusable(drift, outcomes),
            *unused(((table.spec.name, table.allowed) for table in tables), outcomes),
        ),
    )
    return plan_of(intent, evidence)


def _unusable(drift: Iterable[Change], outcomes: Iterable[Action | Blocked]) -> Iterator[PlanWarning]:
    """The tables that cannot be read or written as they are, and that nothing else is said of."""
    told = {outcome.table for outcome in outcomes if isinstance(outcome, Blocked)}
    for change in drift:
        table = change.path.rpartition(".")[0]
        if change.code == "DR100" and table not in told:
            message = f"table {table} cannot be read or written as it is now: {change.reason}"
            yield PlanWarning(code=change.code, table=table, message=message)


def _planned(
    table: Declared, context: PlanContext, reader: TableReader
) -> tuple[Action | Blocked | None, TableFigures | None]:
    observation = reader.observe(table)
    if observation is None:
        elsewhere = reader.find_elsewhere(table)
        return (_creation(table, context) if elsewhere is None else _moved(table, elsewhere, context)), None
    outcome = _outcome_of(table, observation, context, reader)
    if isinstance(outcome, Action):
        reader.admit(observation)
    if outcome is not None and outcome.changes:
        live = reader.live_columns(observation)
        changes = with_live(outcome.changes, columns=live, config=observation.handle.config)
        outcome = replace(outcome, changes=changes)
    if isinstance(outcome, Blocked) and outcome.recipe and reader.was_never_written(observation):
        outcome = replace(outcome, remedy=remedy_afresh(table.location))
    return outcome, reader.measure(table, observation) if isinstance(outcome, Action) else None


def _outcome_of(
    table: Declared, observation: Observation, context: PlanContext, reader: TableReader
) -> Action | Blocked | None:
    """What a table that exists needs: an action, a refusal, or nothing."""
    drifts = reader.drifts(table)
    foreign = _foreign(table, observation, context)
    if foreign is not None:
        return foreign
    if observation.spec is None or (observation.spec == table.spec and observation.handle.applied is None):
        return _creation(table, context, observation)
    columns = restoring_columns(drifts, applied=observation.spec, declared=table.spec)
    restored = (*columns, *restoring(observation))
    if observation.spec == table.spec and observation.is_applied:
        if not restored:
            return None
        reach, code = highest(restored), restored[0].code
        return _action(table, observation, restored, context, change_class=reach, code=code)
    changes = spec_changes(observation.spec, table.spec, origin=table.origin, is_written=table.is_written)
    former = partial(reader.former, observation)
    changes = with_returning(changes, applied=observation.spec, declared=table.spec, former=former)
    changes = (*(_with_allowance(change, table) for change in changes), *restored)
    changes = tuple(sorted(changes, key=lambda change: -change.change_class.rank))
    refusal = _would_revert(table, observation, changes, context)
    refusal = refusal or _breaking(table, observation, changes, context)
    if refusal is not None:
        return refusal
    code = changes[0].code if changes else "SC101"
    if observation.is_forgotten:
        code = "SC003"
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
    steps = _steps(observation, table.spec, changes, change_class)
    rewrites = Step.REWRITE in steps
    return Action(
        table=table.spec.name,
        location=table.location,
        change_class=change_class,
        code=code,
        steps=steps,
        changes=changes,
        requirements=replace(_requirements(observation), no_pending_clustering=rewrites),
        spec=table.spec,
        byte_ceiling=context.byte_ceiling if rewrites else 0,
        jobs=table.jobs(),
    )


def _steps(
    observation: Observation | None, spec: TableSpec, changes: tuple[Change, ...], change_class: ChangeClass
) -> tuple[Step, ...]:
    if change_class is ChangeClass.CREATE or observation is None:
        return (Step.CREATE, Step.RECORD)
    first = (Step.RESTORE,) if any(change.code == "SC102" for change in changes) else ()
    classes = {change.change_class for change in changes}
    evolving = (Step.EVOLVE,) if classes & {ChangeClass.EVOLVE, ChangeClass.BREAKING} else ()
    if observation.spec == spec and observation.is_applied:
        return (*first, *evolving)
    rewriting = (Step.REWRITE,) if ChangeClass.REWRITE in classes else ()
    return (*first, *evolving, Step.RECORD, *rewriting)


def _forgotten(table: Undeclared, context: PlanContext) -> Action | Blocked:
    commit = _commit_not_contained(table.observation, context)
    if commit is not None:
        return Blocked(
            table=table.spec.name,
            location=table.location,
            code="SC502",
            reason=f"commit {commit[:12]} declares this table and {_head(context.tree)} does not contain it: "
            "applying would forget it",
            remedy=f"merge or rebase onto {commit[:12]} and plan again, or plan your tables with --select",
        )
    return Action(
        table=table.spec.name,
        location=table.location,
        change_class=ChangeClass.METADATA,
        code="SC002",
        steps=(Step.FORGET,),
        changes=(),
        requirements=_requirements(table.observation),
        spec=table.spec,
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
        table_version=_TABLE_VERSION,
        no_metadata_table=True,
    )


def _foreign(table: Declared, observation: Observation, context: PlanContext) -> Blocked | None:
    if observation.handle.project == context.project:
        return None
    owner = (
        f"project {observation.handle.project!r}" if observation.handle.project else "no parquetry project"
    )
    named = f", or name this project {observation.handle.project!r} as it was"
    adopting = f", or remove {table.file}, run `parquetry adopt LOCATION` and put back from it what you want"
    return _blocked(
        table,
        "SC501",
        reason=f"the table at {table.location} belongs to {owner}",
        remedy=f"give the table another location{named if observation.handle.project else adopting}",
    )


def _moved(table: Declared, elsewhere: Elsewhere, context: PlanContext) -> Blocked:
    move = Change(
        path="location",
        old=elsewhere.location,
        new=table.location,
        code="SC403",
        change_class=ChangeClass.BREAKING,
        live=elsewhere.location,
        origin=table.origin("location"),
        reason=f"the rows are at {elsewhere.location}",
    )
    recipe = copy_recipe(
        table.spec,
        file=table.file,
        location=elsewhere.location,
        applied_commit=_holding(elsewhere.applied_commit, table, context),
    )
    return _blocked(table, move.code, reason=_because(move), remedy=REMEDY, changes=(move,), recipe=recipe)


def _would_revert(
    table: Declared, observation: Observation, changes: tuple[Change, ...], context: PlanContext
) -> Blocked | None:
    applied = _commit_not_contained(observation, context)
    if applied is None:
        return None
    return _blocked(
        table,
        "SC502",
        reason=f"the applied spec comes from commit {applied[:12]}, which {_head(context.tree)} does not "
        "contain: applying would revert it",
        remedy=f"merge or rebase onto {applied[:12]} and plan again",
        changes=changes,
    )


def _commit_not_contained(observation: Observation, context: PlanContext) -> str | None:
    record = observation.handle.applied
    applied = record.git_commit if record else None
    return None if applied is None or context.tree.contains(applied) else applied


def _with_allowance(change: Change, table: Declared) -> Change:
    allowance = table.allowed.get(change.code)
    if allowance is None or change.change_class is not ChangeClass.BREAKING:
        return change
    return change if change.code in IDENTITY_CODES | UNREADABLE_CODES else allowance.granted(change)


def _holding(commit: str | None, table: Declared, context: PlanContext) -> str | None:
    """The commit, where it has the table's file: what was applied may never have been committed."""
    return commit if commit is not None and context.tree.has_file(commit, table.file) else None


def _breaking(
    table: Declared, observation: Observation, changes: tuple[Change, ...], context: PlanContext
) -> Blocked | None:
    breaking = [change for change in changes if change.change_class is ChangeClass.BREAKING]
    for never in (IDENTITY_CODES, UNREADABLE_CODES):
        found = next((change for change in breaking if change.code in never), None)
        if found is not None:
            applied = observation.handle.applied
            recipe = copy_recipe(
                table.spec,
                file=table.file,
                location=table.location,
                applied_commit=_holding(applied.git_commit if applied else None, table, context),
            )
            return _blocked(
                table, found.code, reason=_because(found), remedy=REMEDY, changes=changes, recipe=recipe
            )
    refused = [change for change in breaking if table.protected or change.allowed is None]
    if not refused:
        return None
    code = refused[0].code
    remedy = (
        "the target protects this table: remove it from `protect` in parquetry.yml"
        if table.protected
        else f'add to parquetry.yml: allow: [{{code: {code}, table: {table.spec.name}, reason: "..."}}]'
    )
    return _blocked(table, code, reason=_because(refused[0]), remedy=remedy, changes=changes)


def _because(change: Change) -> str:
    return f"{change.path}: {CODES[change.code]}; {change.reason}"


def _blocked(
    table: Declared,
    code: str,
    *,
    reason: str,
    remedy: str,
    changes: tuple[Change, ...] = (),
    recipe: tuple[RecipeStep, ...] = (),
) -> Blocked:
    return Blocked(
        table=table.spec.name,
        location=table.location,
        code=code,
        reason=reason,
        remedy=remedy,
        changes=changes,
        recipe=recipe,
    )


def _head(tree: GitWorkTree) -> str:
    return (tree.commit or "this directory")[:12]
