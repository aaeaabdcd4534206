"""The planner: it compares declared tables with what is applied to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from parquetry.compiler.evidence.model import TableFigures
from parquetry.compiler.plan.actions import action, creation, forgetting, resettings
from parquetry.compiler.plan.allowing import unused, with_allowance
from parquetry.compiler.plan.changes import highest, spec_changes
from parquetry.compiler.plan.codec import plan_of
from parquetry.compiler.plan.inputs import CommonPlanInputs, DeclaredTable, DueWork, TableReader, Undeclared
from parquetry.compiler.plan.live import restoring, restoring_columns, retargeting, with_live
from parquetry.compiler.plan.model import (
    Blocked,
    Change,
    ChangeClass,
    Evidence,
    Intent,
    PlanDocument,
    PlanWarning,
    Step,
    TableAction,
)
from parquetry.compiler.plan.refusals import (
    REMEDY,
    refuse_breaking,
    refuse_faulty,
    refuse_foreign,
    refuse_forgetting,
    refuse_lost_key,
    refuse_move,
    refuse_renamed,
    refuse_reverting,
    refuse_unnamed,
    refuse_unusable,
    remedy_afresh,
)
from parquetry.compiler.plan.returning import with_returning
from parquetry.compiler.plan.signatures import refuse_wrong, resigning, unchecked
from parquetry.compiler.plan.target_changes import CHANGED, AppliedSettings, TargetPlan, target_plan
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.target_settings import recorded_settings, unallowed
from parquetry.message import joined
from parquetry.runtime.errors import CorruptTableError, UnsupportedTableError
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.spec.target_settings import EXECUTES
from parquetry.runtime.storage.parallel import map_each
from parquetry.text import shell
from parquetry.version import VERSION


def make_plan(
    declared: Iterable[DeclaredTable],
    *,
    context: CommonPlanInputs,
    reader: TableReader,
    undeclared: Iterable[Undeclared] = (),
    due: DueWork | None = None,
    drift: tuple[Change, ...] = (),
) -> PlanDocument:
    """Return the plan for the tables in their order. It lists every table that is blocked.

    Args:
        declared: The declared tables.
        context: The inputs that all tables share.
        reader: The access to live tables.
        undeclared: Applied tables of the project that no spec declares.
        due: The due work, None if not requested.
        drift: The changes that other programs made to the tables.
    """
    tables = tuple(declared)
    outcomes: list[TableAction | Blocked] = []
    applied: dict[str, AppliedSettings] = {}
    figures: dict[str, TableFigures] = {}
    unchecked_sql: dict[str, tuple[str, ...]] = {}
    signatures: list[PlanWarning] = []
    for table, (outcome, seen) in zip(tables, _planned(tables, context, reader), strict=True):
        if seen is not None:
            figures[table.spec.name] = seen
        if outcome is not None:
            outcomes.append(outcome)
        observation = None if table.unnamed is not None else _observed(reader, table)
        if observation is not None:
            signatures += unchecked(table, observation, context)
        if not isinstance(outcome, TableAction):
            continue
        if texts := _unchecked_sql(outcome, observation):
            unchecked_sql[table.spec.name] = texts
        if Step.RECORD in outcome.steps:
            applied[table.spec.name] = _applied_settings(observation)
    # Without tables no setting is recorded, but settings that are not allowed are still reported.
    needs_target_plan = tables or unallowed(context.settings)
    target = target_plan(context.target, context.settings, applied) if needs_target_plan else TargetPlan()
    gone = tuple(undeclared)
    outcomes += [refuse_forgetting(table, context) or forgetting(table) for table in gone]
    intent = Intent(
        project=context.project,
        target=context.target,
        git_commit=context.tree.commit,
        parquetry=VERSION,
        actions=tuple(o for o in outcomes if isinstance(o, TableAction)),
        blocked=(
            *((target.blocked,) if target.blocked else ()),
            *(o for o in outcomes if isinstance(o, Blocked)),
        ),
        settings=recorded_settings(context.settings),
        target_changes=target.changes,
        authority=context.authority,
    )
    evidence = Evidence(
        created_ms=context.now_ms,
        tables=len(tables) + len(gone),
        figures=figures,
        due=None if due is None else due.debts,
        forecasts=None if due is None else due.forecasts,
        ingest=None if due is None else due.ingest,
        excluded=None if due is None else due.excluded,
        unchecked_sql=unchecked_sql,
        drift=drift,
        warnings=(
            *_unusable(drift, due, outcomes),
            *signatures,
            *target.warnings,
            *_likely_renamed(outcomes),
            *unused(((table.spec.name, table.allowed) for table in tables), outcomes),
        ),
    )
    return plan_of(intent, evidence)


def _likely_renamed(outcomes: Sequence[TableAction | Blocked]) -> Iterator[PlanWarning]:
    """Yield a warning for each new table whose columns equal those of a table that is forgotten."""
    planned = [outcome for outcome in outcomes if isinstance(outcome, TableAction)]
    forgotten = {each.spec.columns: each.table for each in planned if Step.FORGET in each.steps}
    for made in planned:
        former = forgotten.get(made.spec.columns)
        if former is not None and made.change_class is ChangeClass.CREATE:
            rename = shell.line("parquetry", "rename", former, made.table)
            message = (
                f"{made.table} is made empty, and {former}, with the same columns, is forgotten; if you "
                f"renamed it, put its spec back and run {rename}: it keeps its rows"
            )
            yield PlanWarning(code="SC602", table=made.table, message=message)


def _observed(reader: TableReader, table: DeclaredTable) -> Observation | None:
    with suppress(UnsupportedTableError, CorruptTableError):
        return reader.observe(table)
    return None


def _applied_settings(observation: Observation | None) -> AppliedSettings:
    ref = None if observation is None else observation.handle.applied
    return AppliedSettings(settings=None if ref is None else ref.settings, is_new=ref is None)


def _unchecked_sql(action: TableAction, observation: Observation | None) -> tuple[str, ...]:
    """Return the paths of the SQL that is not part of the applied spec."""
    before = {} if observation is None or observation.spec is None else _sql(observation.spec)
    return tuple(path for path, text in _sql(action.spec).items() if before.get(path) != text)


def _sql(spec: TableSpec) -> dict[str, str]:
    """Return the SQL that a run executes with Spark, by path."""
    texts = {f"columns.{column.name}.generated": column.generated for column in spec.columns}
    for source in spec.sources:
        texts[f"sources.{source.name}.select"] = source.select
        texts[f"sources.{source.name}.delete_when"] = source.delete_when
    return {path: text for path, text in texts.items() if text is not None}


def _unusable(
    drift: Iterable[Change], due: DueWork | None, outcomes: Iterable[TableAction | Blocked]
) -> Iterator[PlanWarning]:
    """Yield a warning for each table that cannot be read or written and is not reported as blocked."""
    blocked_names = {outcome.table for outcome in outcomes if isinstance(outcome, Blocked)}
    drifted = ((change.path.rpartition(".")[0], change.reason) for change in drift if change.code == "DR100")
    for table, reason in (*drifted, *(due.damage.items() if due else ())):
        if table not in blocked_names:
            message = joined("", (f"table {table} cannot be read or written as it is now: ", reason or ""))
            yield PlanWarning(code="DR100", table=table, message=message)


def _planned(
    tables: Sequence[DeclaredTable], context: CommonPlanInputs, reader: TableReader
) -> list[tuple[TableAction | Blocked | None, TableFigures | None]]:
    """Return the outcome of each table, None if it needs nothing, and the figures of those that change.

    Live tables are read in parallel because that mostly takes requests.
    """
    wanted = [_wanted(table, context, reader) for table in tables]

    def completed(number: int) -> tuple[TableAction | Blocked | None, TableFigures | None]:
        table, observation = tables[number], wanted[number].observation
        assert observation is not None, "the table is there"
        try:
            return _completed(table, wanted[number].outcome, observation, reader)
        except (UnsupportedTableError, CorruptTableError) as error:
            return refuse_unusable(table, error), None

    to_complete = [number for number, one in enumerate(wanted) if None not in (one.observation, one.outcome)]
    known = dict(zip(to_complete, map_each(to_complete, completed), strict=True))
    return [known.get(number, (one.outcome, None)) for number, one in enumerate(wanted)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The outcome of a table by its spec. ``observation`` is set if live values have to complete it."""

    outcome: TableAction | Blocked | None
    observation: Observation | None = None


def _wanted(table: DeclaredTable, context: CommonPlanInputs, reader: TableReader) -> _Wanted:
    if table.unnamed is not None:
        return _Wanted(outcome=refuse_unnamed(table, table.unnamed))
    try:
        observation = reader.observe(table)
        if observation is not None:
            return _Wanted(outcome=_outcome_of(table, observation, context, reader), observation=observation)
        elsewhere = reader.find_elsewhere(table)
    except (UnsupportedTableError, CorruptTableError) as error:
        return _Wanted(outcome=refuse_unusable(table, error))
    if elsewhere is None:
        return _Wanted(outcome=creation(table, context))
    return _Wanted(outcome=refuse_move(table, elsewhere))


def _completed(
    table: DeclaredTable,
    outcome: TableAction | Blocked | None,
    observation: Observation,
    reader: TableReader,
) -> tuple[TableAction | Blocked | None, TableFigures | None]:
    """Return the outcome with the live values of its changes, and the figures of the table if it changes."""
    if isinstance(outcome, TableAction):
        reader.admit(observation)
    if outcome is not None and outcome.changes:
        live = reader.live_columns(observation)
        changes = with_live(outcome.changes, columns=live, config=observation.handle.config)
        outcome = replace(outcome, changes=changes)
    if isinstance(outcome, Blocked) and outcome.remedy == REMEDY and reader.was_never_written(observation):
        outcome = replace(outcome, remedy=remedy_afresh(table.location))
    is_measured = isinstance(outcome, TableAction) and not outcome.is_of_target
    return outcome, reader.measure(table, observation) if is_measured else None


def _outcome_of(
    table: DeclaredTable, observation: Observation, context: CommonPlanInputs, reader: TableReader
) -> TableAction | Blocked | None:
    """Return the action or the refusal for a table that exists, or None if it needs nothing."""
    drifts = reader.drifts(table)
    refusal = refuse_foreign(table, observation, context) or refuse_faulty(table, observation)
    refusal = refusal or refuse_wrong(table, observation, context) or refuse_renamed(table, observation)
    if refusal is not None:
        return refusal
    if observation.spec is None or (observation.spec == table.spec and observation.handle.applied is None):
        return creation(table, context, observation)
    columns = restoring_columns(drifts, applied=observation.spec, declared=table.spec)
    restored = (
        *columns,
        *restoring(observation),
        *retargeting(observation, context.target),
        *resigning(observation, context),
    )
    if observation.spec == table.spec and observation.is_applied:
        if not restored:
            return _resetting(table, observation, context)
        reach, code = highest(restored), restored[0].code
        return action(table, observation, restored, context, change_class=reach, code=code)
    changes = spec_changes(observation.spec, table.spec, origin=table.origin, is_written=table.is_written)
    former = partial(reader.former, observation)
    changes = with_returning(changes, applied=observation.spec, declared=table.spec, former=former)
    changes = (*(with_allowance(change, table.reasons) for change in changes), *restored)
    changes = tuple(sorted(changes, key=lambda change: -change.change_class.rank))
    refusal = refuse_reverting(table, observation, changes, context)
    refusal = refusal or refuse_lost_key(table, observation, changes)
    refusal = refusal or refuse_breaking(table, observation, changes)
    if refusal is not None:
        return refusal
    code = changes[0].code if changes else "SC101"
    if observation.is_forgotten:
        code = "SC003"
    return action(table, observation, changes, context, change_class=highest(changes), code=code)


def _resetting(
    table: DeclaredTable, observation: Observation, context: CommonPlanInputs
) -> TableAction | Blocked | None:
    """Return the action that records changed settings of the target, for a table whose spec is applied.

    The result is None if no setting changed, or a refusal if the action would revert a newer commit.
    """
    differences = resettings(observation, context)
    if not differences:
        return None
    executing = any(difference.executes for difference in differences)
    reach, code = (ChangeClass.EXECUTES, EXECUTES) if executing else (ChangeClass.POLICY, CHANGED)
    reverting = refuse_reverting(table, observation, (), context)
    return reverting or action(table, observation, (), context, change_class=reach, code=code)
