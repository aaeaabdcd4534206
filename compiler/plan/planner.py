"""The plan of a workspace. Live tables are read in parallel, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from parquetry.compiler.errors import UnnamedPlaceError
from parquetry.compiler.evidence.due_rewrites import next_order
from parquetry.compiler.evidence.figures import (
    MeasuredDebt,
    MeasuredTable,
    due_figures,
    figures_of,
    with_shared_runs,
)
from parquetry.compiler.evidence.model import (
    DueFigures,
    DueSource,
    ExcludedFiles,
    RunForecast,
    TableFigures,
)
from parquetry.compiler.evidence.money import PlanCosts, PlanPrices, plan_costs
from parquetry.compiler.evidence.next_run import (
    due_sources,
    new_partition_expiry,
    new_sources,
    next_deletions,
    next_partition_expiry,
)
from parquetry.compiler.evidence.run_forecast import NextClustering, next_clustering
from parquetry.compiler.evidence.run_order import RunOrder
from parquetry.compiler.plan.actions import creation, forgetting, outcome_of, with_sync
from parquetry.compiler.plan.catalog_entries import ReadEntry, changes_entry, preview_of, read_entry
from parquetry.compiler.plan.codec import plan_of
from parquetry.compiler.plan.drift import (
    Drift,
    entry_drifts,
    observed_drift,
    unusable_drift,
    with_live_values,
)
from parquetry.compiler.plan.forgetting import Undeclared, find_undeclared
from parquetry.compiler.plan.guarding import changed_authority, guarded
from parquetry.compiler.plan.model import (
    Blocked,
    Change,
    ChangeClass,
    Evidence,
    Intent,
    PlanDocument,
    PlanOptions,
    PlanWarning,
    Step,
    TableAction,
)
from parquetry.compiler.plan.reader_effects import reader_warnings
from parquetry.compiler.plan.refusals import (
    REMEDY,
    MovedTable,
    refuse_forgetting,
    refuse_move,
    refuse_unread,
    refuse_unusable,
    remedy_never_written,
    unused_allow_entries,
)
from parquetry.compiler.plan.signatures import unchecked_signature
from parquetry.compiler.plan.target_changes import AppliedSettings, TargetPlan, target_plan
from parquetry.compiler.security.allowed_settings import recorded_settings, unallowed
from parquetry.compiler.security.authority import AuthorityChange
from parquetry.compiler.workspace.committed import uncommitted_files
from parquetry.compiler.workspace.known_locations import former_locations
from parquetry.compiler.workspace.observation import Measuring, Observation, admit, check_files, observe
from parquetry.compiler.workspace.opened import Workspace
from parquetry.errors import ParquetryError
from parquetry.message import Message, Text
from parquetry.project import ResolvedTable
from parquetry.runtime.catalog.sync import SyncPreview
from parquetry.runtime.clustering.rewrite.strategies import are_allowed
from parquetry.runtime.errors import CatalogError, CorruptTableError, UnsupportedTableError
from parquetry.runtime.layout.clustering.run_budget import RunBudget, by_last_clustering
from parquetry.runtime.services.deletions import Deletions
from parquetry.runtime.spec.masking import cleared, pii_columns
from parquetry.runtime.spec.source_paths import join_base
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.write.partition_retention import PartitionExpiry
from parquetry.text import shell
from parquetry.text.secret_names import MASK
from parquetry.version import VERSION

_Found = TypeVar("_Found")


def plan_workspace(
    workspace: Workspace, *, now_ms: int, due: bool = False, excluded: bool = False
) -> PlanDocument:
    """Return the plan for the selected tables. It lists every table that is blocked.

    A bounded sample of rows predicts what the declared queries of changing tables will read. Of an untrusted
    branch, only what its base names is read. If a storage option is not allowed, no table is read and the
    plan only reports that. Errors of the stores are raised.

    Args:
        workspace: The project with its selected tables.
        now_ms: The time of the plan, in milliseconds since 1970 (UTC).
        due: Also measure the debt of every applied table under its applied policy, predict the effect of its
            next clustering, and list its sources and the files that services would delete.
        excluded: Also list the files that clustering would leave out; needs ``due``.
    """
    is_open = workspace.base is not None or not workspace.unallowed_storage
    workspace = workspace if is_open else replace(workspace, tables=())
    live = _read_tables(workspace, with_undeclared=is_open and workspace.is_whole)
    base_commit, authority = changed_authority(workspace)
    prices = None if workspace.prices is None else PlanPrices.of(workspace.prices)
    work = _due_work(workspace, live, now_ms=now_ms, excluded=excluded) if due else None
    planned = _with_entries(workspace, live, _planned_tables(workspace, live, prices))
    forgotten = [
        table.observation.handle.cleared(refuse_forgetting(workspace, table) or forgetting(table))
        for table in _without_moved(live.undeclared, live.observations)
    ]
    outcomes = [*(entry.outcome for entry in planned.values() if entry.outcome is not None), *forgotten]
    target = _target_plan(workspace, live, planned)
    drifts = {name: (*found, *entry_drifts(planned[name].entry)) for name, found in live.drifts.items()}
    drift = _drift_lines(live.cleared_by_table(drifts))
    evidence = Evidence(
        created_ms=now_ms,
        tables=len(planned) + len(forgotten),
        figures=_figures(workspace, planned, work),
        due=None if work is None else work.debts,
        forecasts=None if work is None else work.forecasts,
        ingest=None if work is None else work.ingest,
        deletions=None if work is None else work.deletions,
        partitions=None if work is None else work.partitions or None,
        order=None if work is None else work.order,
        excluded=None if work is None else work.excluded,
        unchecked_sql=_unchecked_sql(live, planned),
        drift=drift,
        warnings=(
            *_unusable_warnings(drift, work, outcomes),
            *_signature_warnings(workspace, live),
            *target.warnings,
            *_likely_renamed(outcomes),
            *_reader_warnings(live, planned),
            *_entry_warnings(live, planned),
            *unused_allow_entries(workspace, outcomes),
        ),
        uncommitted=uncommitted_files(workspace),
        base_commit=base_commit,
    )
    intent = _intent(workspace, outcomes, target, authority)
    intent, evidence = guarded(intent, evidence, workspace=workspace, now_ms=now_ms)
    evidence = replace(
        evidence,
        options=_options(workspace, intent),
        sources=_new_sources(workspace, intent, live),
        expiring=live.cleared_by_table(
            {name: entry.expiry for name, entry in planned.items() if entry.expiry is not None}
        )
        or None,
        catalogs={name: entry.sync for name, entry in planned.items() if entry.sync is not None} or None,
        costs=None if prices is None else _costs(intent, evidence, prices),
    )
    return plan_of(intent, evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObservationOrError:
    """An observation, or the error that prevented it. The error is raised when the table is planned."""

    observation: Observation | None = None
    error: UnsupportedTableError | CorruptTableError | None = None

    def get(self) -> Observation | None:
        """Return the table, or None if there is none; raise the error with which the read failed."""
        if self.error is not None:
            raise self.error
        return self.observation


@dataclass(frozen=True, slots=True, kw_only=True)
class _LiveTables:
    """The live tables as they were read for the plan, by name.

    Attributes:
        observations: The tables that were read.
        tables: The tables as they are declared.
        unread: The reasons why tables of an untrusted branch are not used.
        own: The tables that exist, may be used and belong to the project.
        drifts: The changes that other programs made to the tables that were read.
        undeclared: Applied tables of the project that no spec declares.
    """

    observations: Mapping[str, _ObservationOrError]
    tables: Mapping[str, ResolvedTable]
    unread: Mapping[str, Text]
    own: Mapping[str, Observation]
    drifts: Mapping[str, tuple[Drift, ...]]
    undeclared: tuple[Undeclared, ...]

    def observation(self, name: str) -> Observation | None:
        """Return the table if it exists and may be used, else None."""
        return None if name in self.unread else self.observations[name].observation

    def may_ask_catalog(self, name: str) -> bool:
        """Return whether the table does not exist yet, or exists and belongs to the project."""
        is_new = name not in self.unread and self.observations[name] == _ObservationOrError()
        return is_new or name in self.own

    def cleared(self, name: str, found: _Found) -> _Found:
        """Return what the plan shows about a table, with personal values masked."""
        entry = self.observations.get(name)
        if entry is not None and entry.observation is not None:
            return entry.observation.handle.cleared(found)
        table = self.tables[name]
        return cleared(found, table.spec, location=table.location)

    def cleared_by_table(self, found: Mapping[str, _Found]) -> dict[str, _Found]:
        """Return what the plan shows about tables by name, with personal values masked."""
        return {name: self.cleared(name, each) for name, each in found.items()}


def _read_tables(workspace: Workspace, *, with_undeclared: bool) -> _LiveTables:
    """Read the tables of the workspace and their drift, in parallel."""
    unread = _unread_reasons(workspace)
    read = [table for table in workspace.tables if table.name not in unread]
    stores = [(workspace.store(table), table.spec) for table in read]
    observations = dict(
        zip(
            (table.name for table in read),
            map_each(stores, lambda each: _try_observe(each[0], declared=each[1])),
            strict=True,
        )
    )
    unread |= _unread_by_records(workspace, observations)
    own = {
        name: entry
        for name, entry in observations.items()
        if name not in unread and _is_own(workspace, entry)
    }
    tables = {table.name: table for table in workspace.tables}
    drifts = dict(zip(own, map_each(own, lambda name: _drifts(own[name])), strict=True))
    return _LiveTables(
        observations=observations,
        tables=tables,
        unread=unread,
        own={name: entry.observation for name, entry in own.items() if entry.observation is not None},
        drifts=drifts,
        undeclared=find_undeclared(workspace) if with_undeclared else (),
    )


def _planned_tables(
    workspace: Workspace, live: _LiveTables, prices: PlanPrices | None
) -> dict[str, _PlannedTable]:
    """Return the outcome of each table by name, and the figures of those that change.

    Live tables are read in parallel because that mostly takes requests.
    """
    compared = [_compared(workspace, table, live) for table in workspace.tables]
    changing = [entry for entry in compared if None not in (entry.observation, entry.outcome)]
    completed = map_each(changing, lambda entry: _completed(workspace, entry, prices))
    planned = {entry.table.name: entry for entry in (*compared, *completed)}
    return {
        name: replace(entry, outcome=live.cleared(name, entry.outcome)) for name, entry in planned.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedTable:
    """A table with what the plan does to it.

    Attributes:
        table: The declared table.
        outcome: The action or refusal, None if the table needs nothing.
        observation: The live table that was compared, None if there is none or it cannot be used.
        measured: The figures of a table that changes.
        expiry: The partitions that the next run deletes by a new or changed rule, None without one.
        entry: The entry in the catalog that the spec names, None if it names none.
        sync: What a sync after the action changes there, None if nothing.
        unread: The error because of which that is not known.
    """

    table: ResolvedTable
    outcome: TableAction | Blocked | None
    observation: Observation | None = None
    measured: MeasuredTable | None = None
    expiry: PartitionExpiry | None = None
    entry: ReadEntry | None = None
    sync: SyncPreview | None = None
    unread: ParquetryError | None = None


def _with_entries(
    workspace: Workspace, live: _LiveTables, planned: Mapping[str, _PlannedTable]
) -> dict[str, _PlannedTable]:
    """Read the entries of tables in catalogs, in parallel, and add the step that changes them."""
    named = [
        entry
        for name, entry in planned.items()
        if entry.table.spec.extra.catalog is not None and live.may_ask_catalog(name)
    ]
    outages: dict[str | None, CatalogError] = {}
    done = map_each(named, lambda entry: _with_entry(workspace, live, entry, outages))
    return {**planned, **{entry.table.name: entry for entry in done}}


def _with_entry(
    workspace: Workspace,
    live: _LiveTables,
    planned: _PlannedTable,
    outages: dict[str | None, CatalogError],
) -> _PlannedTable:
    """Return the plan of a table with that of its entry in the catalog.

    If the entry cannot be read, only a change of the spec shows whether it changes.
    """
    table, action = planned.table, planned.outcome
    observation = live.observation(table.name)
    entry = read_entry(workspace, table, observation, outages)
    if isinstance(action, Blocked) or entry is None:
        return replace(planned, entry=entry if isinstance(entry, ReadEntry) else None)
    sync = preview_of(entry, table.spec, observation, action) if isinstance(entry, ReadEntry) else entry
    planned = replace(
        planned,
        entry=entry if isinstance(entry, ReadEntry) else None,
        sync=sync if isinstance(sync, SyncPreview) else None,
        unread=sync if isinstance(sync, ParquetryError) else None,
    )
    before = None if observation is None else observation.spec
    changes = planned.sync is not None and not planned.sync.is_empty
    if not changes and (action is None or not changes_entry(before, table.spec)):
        return replace(planned, sync=None)
    action = with_sync(workspace, table, observation, action)
    return replace(planned, outcome=live.cleared(table.name, action))


def _entry_warnings(live: _LiveTables, planned: Mapping[str, _PlannedTable]) -> Iterator[PlanWarning]:
    """Yield a warning for each table whose entry in a catalog cannot be read, or is that of another table."""
    for name, entry in planned.items():
        if entry.unread is not None:
            message = Message(
                "the plan does not show what changes in the catalog: {reason}", reason=entry.unread.message
            )
            yield live.cleared(name, PlanWarning(code="DR500", table=name, message=message))


def _compared(workspace: Workspace, table: ResolvedTable, live: _LiveTables) -> _PlannedTable:
    """Return what the plan does with a table: the action, a refusal, or nothing."""
    if table.name in live.unread:
        return _PlannedTable(table=table, outcome=refuse_unread(workspace, table, live.unread[table.name]))
    try:
        observation = live.observations[table.name].get()
        if observation is not None:
            outcome = outcome_of(workspace, table, observation, live.drifts.get(table.name, ()))
            return _PlannedTable(table=table, outcome=outcome, observation=observation)
        moved = _moved(workspace, table, live.undeclared)
    except (UnsupportedTableError, CorruptTableError) as error:
        return _PlannedTable(table=table, outcome=refuse_unusable(table, error))
    outcome = creation(workspace, table) if moved is None else refuse_move(table, moved)
    return _PlannedTable(table=table, outcome=outcome)


def _completed(workspace: Workspace, compared: _PlannedTable, prices: PlanPrices | None) -> _PlannedTable:
    """Return the outcome with the live values of its changes, and the figures of the table if it changes."""
    table, outcome, observation = compared.table, compared.outcome, compared.observation
    assert observation is not None, "only tables that exist are completed"
    try:
        if isinstance(outcome, TableAction):
            admit(observation, drops_metadata_table=Step.DROP_METADATA_TABLE in outcome.steps)
        if outcome is not None and outcome.changes:
            columns = observation.live_columns(observation.handle.timeline())
            changes = with_live_values(outcome.changes, columns=columns, config=observation.handle.config)
            outcome = replace(outcome, changes=changes)
        if (
            isinstance(outcome, Blocked)
            and outcome.remedy == REMEDY
            and observation.was_never_written(observation.handle.timeline())
        ):
            outcome = replace(outcome, remedy=remedy_never_written(table.location_declared))
        if not isinstance(outcome, TableAction) or outcome.only_records_settings:
            return replace(compared, outcome=outcome)
        measured = figures_of(
            observation.handle,
            observation.spec or table.spec,
            table.spec,
            budget_bytes=workspace.project.target.services_bytes,
            prices=prices,
        )
        expiry = new_partition_expiry(observation, table.spec)
    except (UnsupportedTableError, CorruptTableError) as error:
        return replace(compared, outcome=refuse_unusable(table, error))
    return replace(compared, outcome=outcome, measured=measured, expiry=expiry)


def _intent(
    workspace: Workspace,
    outcomes: Sequence[TableAction | Blocked],
    target: TargetPlan,
    authority: tuple[AuthorityChange, ...],
) -> Intent:
    """Return what the plan does: the actions, the refusals, and the changes of settings and authority."""
    return Intent(
        project=workspace.project.name,
        target=workspace.project.target.name,
        git_commit=workspace.tree.commit,
        parquetry=VERSION,
        actions=tuple(outcome for outcome in outcomes if isinstance(outcome, TableAction)),
        blocked=(
            *((target.blocked,) if target.blocked else ()),
            *(outcome for outcome in outcomes if isinstance(outcome, Blocked)),
        ),
        settings=recorded_settings(workspace.project.target.declared),
        target_changes=target.changes,
        authority=authority,
    )


def _target_plan(workspace: Workspace, live: _LiveTables, planned: Mapping[str, _PlannedTable]) -> TargetPlan:
    """Return the changes of the target's settings that the tables of the plan record."""
    target = workspace.project.target
    # Without tables no setting is recorded, but settings that are not allowed are still reported.
    if not workspace.tables and not unallowed(target.declared):
        return TargetPlan()
    applied = {
        name: _applied_settings(live.observation(name))
        for name, entry in planned.items()
        if isinstance(entry.outcome, TableAction) and Step.RECORD in entry.outcome.steps
    }
    return target_plan(target.name, target.declared, applied)


def _applied_settings(observation: Observation | None) -> AppliedSettings:
    """Return the target's settings that a table records; none for a table that is not applied."""
    ref = None if observation is None else observation.handle.applied
    return AppliedSettings(settings=None if ref is None else ref.settings, is_new=ref is None)


def _figures(
    workspace: Workspace, planned: Mapping[str, _PlannedTable], work: _DueWork | None
) -> dict[str, TableFigures]:
    """Return the figures of tables that change.

    The number of runs that they need takes into account that tables share the budget of a run.
    """
    measured = {name: entry.measured for name, entry in planned.items() if entry.measured is not None}
    debts = {} if work is None else dict(work.measured)
    shared = with_shared_runs(
        debts | {name: table.debt for name, table in measured.items()},
        budget_bytes=workspace.project.target.services_bytes,
        next_commits=_next_commits({} if work is None else work.ingest),
    )
    return {
        name: replace(table.figures, debt=None if table.figures.debt is None else shared[name])
        for name, table in measured.items()
    }


def _next_commits(ingest: Mapping[str, tuple[DueSource, ...]]) -> dict[str, int]:
    """Return how many commits the next run's ingestion makes by table: one for each source with files."""
    return {name: sum(source.is_due for source in sources) for name, sources in ingest.items()}


def _unchecked_sql(live: _LiveTables, planned: Mapping[str, _PlannedTable]) -> dict[str, tuple[str, ...]]:
    """Return the paths of the SQL that is not part of the applied spec, by table that changes."""
    unchecked = {}
    for name, entry in planned.items():
        if isinstance(entry.outcome, TableAction):
            observation = live.observation(name)
            applied = {} if observation is None or observation.spec is None else _sql(observation.spec)
            declared = _sql(entry.outcome.spec).items()
            unchecked[name] = tuple(path for path, text in declared if applied.get(path) != text)
    return {name: paths for name, paths in unchecked.items() if paths}


def _sql(spec: TableSpec) -> dict[str, str]:
    """Return the SQL that a run executes with Spark, by path."""
    texts = {f"columns.{column.name}.generated": column.generated for column in spec.columns}
    for source in spec.sources:
        texts[f"sources.{source.name}.select"] = source.select
        texts[f"sources.{source.name}.delete_when"] = source.delete_when
    return {path: text for path, text in texts.items() if text is not None}


def _unusable_warnings(
    drift: Iterable[Change], work: _DueWork | None, outcomes: Iterable[TableAction | Blocked]
) -> Iterator[PlanWarning]:
    """Yield a warning for each table that cannot be read or written and is not reported as blocked."""
    blocked_names = {outcome.table for outcome in outcomes if isinstance(outcome, Blocked)}
    drifted = ((change.path.rpartition(".")[0], change.reason) for change in drift if change.code == "DR100")
    for table, reason in (*drifted, *(work.damage.items() if work else ())):
        if table not in blocked_names:
            message = Message(
                "table {table} cannot be read or written as it is now: {reason}",
                table=table,
                reason=reason or "",
            )
            yield PlanWarning(code="DR100", table=table, message=message)


def _signature_warnings(workspace: Workspace, live: _LiveTables) -> Iterator[PlanWarning]:
    """Yield a warning for each table whose signature cannot be checked here."""
    for table in workspace.tables:
        observation = live.observation(table.name)
        if observation is not None:
            yield from unchecked_signature(workspace, table, observation)


def _likely_renamed(outcomes: Sequence[TableAction | Blocked]) -> Iterator[PlanWarning]:
    """Yield a warning for each new table whose columns equal those of a table that is forgotten."""
    planned = [outcome for outcome in outcomes if isinstance(outcome, TableAction)]
    forgotten = {each.spec.columns: each.table for each in planned if Step.FORGET in each.steps}
    for made in planned:
        former = forgotten.get(made.spec.columns)
        if former is not None and made.change_class is ChangeClass.CREATE:
            rename = shell.line("parquetry", "rename", former, made.table)
            message = (
                f"{made.table} is created empty, and {former}, which has the same columns, is forgotten; if "
                f"you renamed the table, restore its spec and run {rename}, which keeps the rows"
            )
            yield PlanWarning(code="SC602", table=made.table, message=message)


def _reader_warnings(live: _LiveTables, planned: Mapping[str, _PlannedTable]) -> Iterator[PlanWarning]:
    """Yield a warning for each declared reader that fails at a change of its table."""
    for name, entry in planned.items():
        observation = live.observation(name)
        applied = None if observation is None else observation.spec
        for warning in reader_warnings(entry.table, entry.outcome, applied):
            yield live.cleared(name, warning)


def _new_sources(workspace: Workspace, intent: Intent, live: _LiveTables) -> dict[str, tuple[DueSource, ...]]:
    """Return the files of new and changed sources, for tables whose spec the plan records."""
    recorded = [action for action in intent.actions if Step.RECORD in action.steps]
    found = map_each(
        recorded,
        lambda action: new_sources(
            live.observations[action.table].observation if action.table in live.observations else None,
            action.spec,
            directory=str(workspace.project.root),
            storage=workspace.storage,
            check=None if workspace.base is None else workspace.base.check_source,
        ),
    )
    return live.cleared_by_table(
        {action.table: sources for action, sources in zip(recorded, found, strict=True) if sources}
    )


def _costs(intent: Intent, evidence: Evidence, prices: PlanPrices) -> PlanCosts | None:
    """Return the total costs of the tables that the plan acts on, or None if none of them has costs."""
    figures = (evidence.figures.get(action.table) for action in intent.actions)
    tables = tuple(found.costs for found in figures if found is not None and found.costs is not None)
    return plan_costs(tables, prices) if tables else None


def _options(workspace: Workspace, intent: Intent) -> PlanOptions:
    """Return the options of the plan.

    A variable may be a value of a column, so if any table has personal columns, all variables are masked.
    """
    hides = any(column.pii for table in workspace.tables for column in table.spec.columns) or any(
        pii_columns(action.spec.columns) for action in intent.actions
    )
    return PlanOptions(
        select=workspace.select,
        exclude=workspace.exclude,
        variables={name: MASK if hides else str(value) for name, value in workspace.variables.items()},
        base=None if workspace.base is None else workspace.base.given,
    )


def _unread_reasons(workspace: Workspace) -> dict[str, Text]:
    """Return the reasons, by table name, why tables of an untrusted branch are not read."""
    reasons: dict[str, Text] = {}
    for table in workspace.tables:
        try:
            workspace.check_named(table)
        except UnnamedPlaceError as unnamed:
            reasons[table.name] = unnamed.message
    return reasons


def _unread_by_records(
    workspace: Workspace, observations: Mapping[str, _ObservationOrError]
) -> dict[str, Text]:
    """Return, by table name, why the applied record forbids that a table of an untrusted branch is read.

    A record can name a plug-in, which would be loaded, or mark other columns as personal than the branch
    does.
    """
    reasons: dict[str, Text] = {}
    for table in workspace.tables:
        observation = observations[table.name].observation if table.name in observations else None
        if workspace.base is None or observation is None or observation.spec is None:
            continue
        try:
            workspace.base.check_guesses(table.spec, observation.spec)
            workspace.base.check_plug_ins(observation.spec)
        except UnnamedPlaceError as unnamed:
            reasons[table.name] = Message("{reason} (by the record of the table)", reason=unnamed.message)
    return reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class _DueWork:
    """The work that a run would do, by table.

    Attributes:
        measured: The debt that it would pay, with what is needed to share the budget of runs.
        debts: The figures of that debt.
        forecasts: The forecast of its clustering.
        ingest: The sources that it would ingest.
        deletions: The files that its services would delete.
        partitions: The partitions that it would delete.
        order: The order in which it rewrites tables, None without operations of the target.
        excluded: The files that its clustering would leave out, None if not requested.
        damage: The reason why a table could not be measured.
    """

    measured: Mapping[str, MeasuredDebt]
    debts: Mapping[str, DueFigures]
    forecasts: Mapping[str, RunForecast]
    ingest: Mapping[str, tuple[DueSource, ...]]
    deletions: Mapping[str, Deletions]
    partitions: Mapping[str, PartitionExpiry]
    order: RunOrder | None
    excluded: Mapping[str, ExcludedFiles] | None
    damage: Mapping[str, Text]


def _due_work(workspace: Workspace, live: _LiveTables, *, now_ms: int, excluded: bool) -> _DueWork:
    """Return the work of the next run for all tables that are applied and can be read."""
    target = workspace.project.target
    budget_bytes, operations = target.services_bytes, target.operations
    applied = {
        name: observation
        for name, observation in live.own.items()
        if observation.is_applied and not _is_unusable(live.drifts[name])
    }
    directory, storage = str(workspace.project.root), workspace.storage
    measuring = Measuring(applied)
    measuring.each(lambda _, observation: check_files(observation))
    debts = measuring.each(
        lambda _, observation: _debt(observation, budget_bytes, with_gain=operations is not None)
    )
    ingest = map_each(
        applied,
        lambda name: due_sources(
            applied[name],
            directory=directory,
            storage=storage,
            check=None if workspace.base is None else workspace.base.check_source,
        ),
    )
    sources_of = live.cleared_by_table(
        {name: sources for name, sources in zip(applied, ingest, strict=True) if sources}
    )
    next_commits = _next_commits(sources_of)
    order = None
    if operations is not None:
        starting = {
            name: debt
            for name, debt in debts.items()
            if debt.is_paid_by_runs and not debt.commits_until_due(next_commits.get(name, 0))
        }
        order = next_order(target, operations, starting, workspace.tables, now_ms=now_ms)
    ranked = {} if order is None else {one.table: one for one in order.tables}
    budget = RunBudget(limit_bytes=budget_bytes)

    def next_in_budget(name: str, observation: Observation) -> NextClustering | None:
        nonlocal budget
        if not debts[name].is_paid_by_runs:
            return next_clustering(observation, budget=RunBudget(limit_bytes=budget_bytes))
        if name in ranked:
            return next_clustering(observation, budget=ranked[name].budget(budget_bytes))
        clustering = next_clustering(observation, budget=budget)
        if clustering is not None:
            budget = budget.left_after(clustering.forecast.rewrite_bytes)
        return clustering

    # In sequence like a run, and because the samples of many tables would need too much memory at once.
    clusterings = measuring.each(
        next_in_budget, in_order=by_last_clustering({name: debt.clustered for name, debt in debts.items()})
    )
    clusterings = live.cleared_by_table({name: clusterings[name] for name in applied if name in clusterings})
    deletions = measuring.each(lambda _, observation: next_deletions(observation))
    partitions = measuring.each(lambda _, observation: next_partition_expiry(observation))
    return _DueWork(
        measured=debts,
        debts=with_shared_runs(
            debts, budget_bytes=budget_bytes, next_commits=next_commits, in_order=tuple(ranked)
        ),
        forecasts={name: clustering.forecast for name, clustering in clusterings.items()},
        ingest=sources_of,
        deletions=live.cleared_by_table(deletions),
        partitions=live.cleared_by_table(partitions),
        order=order,
        excluded={name: clustering.excluded for name, clustering in clusterings.items()}
        if excluded
        else None,
        damage=live.cleared_by_table({name: error.message for name, error in measuring.damage.items()}),
    )


def _is_unusable(drifts: tuple[Drift, ...]) -> bool:
    """Return whether the drift already reports that the table cannot be read or written."""
    return any(drift.code == "DR100" for drift in drifts)


def _debt(observation: Observation, budget_bytes: int, *, with_gain: bool) -> MeasuredDebt | None:
    """Return the debt under the applied policy, or None if the policy uses undeclared strategies."""
    spec = observation.spec
    if spec is None or not are_allowed(spec.clustering, observation.handle.store.allowed):
        return None
    return due_figures(observation.handle, spec, budget_bytes=budget_bytes, with_gain=with_gain)


def _is_own(workspace: Workspace, entry: _ObservationOrError) -> bool:
    """Return whether the project owns the table. Tables of others are not measured.

    A table that does not exist or cannot be read counts as the project's own.
    """
    observation = entry.observation
    return observation is None or observation.foreign_to(workspace.owner_of(observation)) is None


def _drifts(entry: _ObservationOrError) -> tuple[Drift, ...]:
    """Return the drift of a table. If the table cannot be read, this is its only drift (DR100)."""
    if entry.error is not None:
        return (unusable_drift(entry.error),)
    if entry.observation is None:
        return ()
    try:
        return observed_drift(entry.observation)
    except CorruptTableError as error:
        return (unusable_drift(error),)


def _drift_lines(drifts: Mapping[str, tuple[Drift, ...]]) -> tuple[Change, ...]:
    """Return the drift of the selected tables as changes with the path ``TABLE.PATH``."""
    return tuple(
        Change(
            path=f"{table}.{drift.path}",
            old=drift.applied,
            new=drift.applied,
            live=drift.live,
            code=drift.code,
            change_class=ChangeClass.METADATA,
            reason=drift.remedy,
        )
        for table, changes in drifts.items()
        for drift in changes
    )


def _without_moved(
    undeclared: Iterable[Undeclared], observations: Mapping[str, _ObservationOrError]
) -> tuple[Undeclared, ...]:
    """Return the undeclared tables without those whose name is declared at a location that contains no table.

    Such a table has moved, which is refused elsewhere (SC403).
    """
    return tuple(
        table
        for table in undeclared
        if (declared := observations.get(table.spec.name)) is None or declared.observation is not None
    )


def _moved(workspace: Workspace, table: ResolvedTable, undeclared: Sequence[Undeclared]) -> MovedTable | None:
    """Return another location at which the project has a table with this name or its former name, else None.

    The candidates are the default location, the last known location, and all locations below the warehouse.
    """
    root, target = workspace.project.root, workspace.project.target
    names = tuple(filter(None, (table.name, table.moved_from)))
    candidates = [
        location
        for name in names
        for location in (f"{target.warehouse.rstrip('/')}/{name}", *former_locations(root, target.name, name))
    ]
    candidates += [former.location for former in undeclared if former.spec.name in names]
    declared = join_base(str(root), table.location_declared)
    for candidate in candidates:
        absolute = join_base(str(root), candidate)
        if absolute == declared or not workspace.may_open(absolute):
            continue
        other = _try_observe(workspace.store_at(absolute), declared=table.spec).observation
        if other is None or other.is_forgotten or other.foreign_to(workspace.owner_of(other)):
            continue
        if (name := _name_of(other)) in names:
            applied = other.handle.applied
            warehouse = join_base(str(root), target.warehouse).rstrip("/")
            return MovedTable(
                location=absolute.removeprefix(f"{root}/"),
                declared_location=absolute.removeprefix(f"{warehouse}/"),
                name=name,
                applied=applied.number if applied else None,
            )
    return None


def _name_of(observation: Observation) -> str:
    """Return the applied name of a table. hoodie.properties keep the name with which it was created."""
    return observation.handle.config.name if observation.spec is None else observation.spec.name


def _try_observe(store: ObjectStore, *, declared: TableSpec) -> _ObservationOrError:
    """Return the table in a store, or the error that prevents its use."""
    try:
        return _ObservationOrError(observation=observe(store, declared=declared))
    except (UnsupportedTableError, CorruptTableError) as error:
        return _ObservationOrError(error=error)
