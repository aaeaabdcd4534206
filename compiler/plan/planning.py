"""The plan of a workspace. Live tables are read in parallel, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from parquetry.compiler.errors import UnnamedPlaceError
from parquetry.compiler.evidence.figures import MeasuredDebt, due_figures, figures_of, with_shared_runs
from parquetry.compiler.evidence.model import DueSource, TableFigures
from parquetry.compiler.evidence.money import PlanCosts, PlanPrices, plan_costs
from parquetry.compiler.evidence.next_run import due_sources, new_sources
from parquetry.compiler.evidence.run_forecast import NextClustering, next_clustering
from parquetry.compiler.plan.allowing import Allowance
from parquetry.compiler.plan.drift import Drift, observed_drift, unusable
from parquetry.compiler.plan.forgetting import find_undeclared
from parquetry.compiler.plan.guarding import changed_authority, guarded
from parquetry.compiler.plan.inputs import (
    CommonPlanInputs,
    DeclaredTable,
    DueWork,
    Elsewhere,
    TableReader,
    Undeclared,
)
from parquetry.compiler.plan.model import (
    Change,
    ChangeClass,
    JobReference,
    PlanDocument,
    PlanOptions,
    Step,
)
from parquetry.compiler.plan.planner import make_plan
from parquetry.compiler.workspace.known_locations import former_locations
from parquetry.compiler.workspace.masking import masked_by
from parquetry.compiler.workspace.observation import Measuring, Observation, admit, check_files, observe
from parquetry.compiler.workspace.opened import Workspace, jobs_of
from parquetry.compiler.workspace.squashed import is_declared_since
from parquetry.compiler.workspace.uncommitted import uncommitted_files
from parquetry.project import ResolvedTable
from parquetry.runtime.clustering.rewrite.strategies import are_allowed
from parquetry.runtime.errors import CorruptTableError, UnsupportedTableError
from parquetry.runtime.layout.clustering.run_budget import RunBudget, by_last_clustering
from parquetry.runtime.spec.masking import masked_message, pii_columns
from parquetry.runtime.spec.source_paths import join_base
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.former_columns import former_columns
from parquetry.text.secret_names import MASK


def plan_workspace(
    workspace: Workspace, *, now_ms: int, due: bool = False, excluded: bool = False
) -> PlanDocument:
    """Return the plan for the selected tables.

    A bounded sample of rows predicts what the declared queries of changing tables will read. Of an untrusted
    branch, only what its base names is read. If a storage option is not allowed, no table is read and the
    plan only reports that. Errors of the stores are raised.

    Args:
        workspace: The project with its selected tables.
        now_ms: The time of the plan, in milliseconds since 1970 (UTC).
        due: Also measure the debt of every applied table under its applied policy, predict the effect of its
            next clustering, and list its sources.
        excluded: Also list the files that clustering would leave out; needs ``due``.
    """
    is_open = workspace.base is not None or not workspace.unallowed_storage
    workspace = workspace if is_open else replace(workspace, tables=())
    unnamed = _unnamed(workspace)
    readable = [table for table in workspace.tables if table.name not in unnamed]
    stores = {table.name: workspace.store(table) for table in readable}
    seen = dict(zip(stores, map_each(stores.values(), _try_observe), strict=True))
    unnamed |= _unnamed_by_records(workspace, seen)
    ours = {
        name: table if name not in unnamed and _is_ours(workspace, table) else _Seen()
        for name, table in seen.items()
    }
    drifts = dict(zip(stores, map_each(ours.values(), _drifts), strict=True))
    undeclared = find_undeclared(workspace) if is_open and workspace.is_whole else ()
    target = workspace.project.target
    base_commit, authority = changed_authority(workspace)
    context = CommonPlanInputs(
        project=workspace.project.name,
        target=target.name,
        tree=workspace.tree,
        now_ms=now_ms,
        is_declared_since=partial(is_declared_since, workspace),
        owner_of=workspace.owner_of,
        max_rewrite_bytes=target.budget.per_apply_bytes,
        signing_keys=workspace.signing_keys,
        checks_signatures=workspace.base is None,
        settings=target.declared,
        authority=authority,
    )
    budget_bytes = target.budget.services_bytes
    prices = None if workspace.prices is None else PlanPrices.of(workspace.prices)
    debts: dict[str, MeasuredDebt] = {}

    def measure(table: DeclaredTable, observation: Observation) -> TableFigures:
        measured = figures_of(
            observation.handle,
            observation.spec or table.spec,
            table.spec,
            budget_bytes=budget_bytes,
            prices=prices,
        )
        debts[table.spec.name] = measured.debt
        return measured.figures

    work, due_debts = _due(workspace, ours, drifts, excluded=excluded) if due else (None, {})
    reader = TableReader(
        observe=lambda table: seen[table.spec.name].get(),
        drifts=lambda table: drifts[table.spec.name],
        find_elsewhere=lambda table: _elsewhere(workspace, table, undeclared),
        admit=admit,
        live_columns=lambda observation: observation.live_columns(observation.handle.timeline()),
        former=lambda observation, paths: former_columns(observation.handle, paths),
        measure=measure,
        was_never_written=lambda observation: observation.was_never_written(observation.handle.timeline()),
    )
    plan = make_plan(
        (_declared(workspace, table, unnamed) for table in workspace.tables),
        context=context,
        reader=reader,
        undeclared=_gone(undeclared, seen),
        due=work,
        drift=_drift_lines(drifts),
    )
    plan = _with_shared_runs(plan, {**due_debts, **debts}, budget_bytes=budget_bytes)
    plan = guarded(plan, workspace, now_ms=now_ms)
    evidence = replace(
        plan.evidence,
        options=_options(workspace, plan),
        sources=_new_sources(workspace, plan, seen),
        costs=None if prices is None else _costs(plan, prices),
        uncommitted=uncommitted_files(workspace),
        base_commit=base_commit,
    )
    return replace(plan, evidence=evidence)


def _with_shared_runs(
    plan: PlanDocument, debts: Mapping[str, MeasuredDebt], *, budget_bytes: int
) -> PlanDocument:
    """Return the plan with the number of runs computed for tables that share the budget of each run."""
    shared = with_shared_runs(debts, budget_bytes=budget_bytes, coming=_coming(plan.evidence.ingest or {}))
    figures = {
        name: replace(found, debt=None if found.debt is None else shared[name])
        for name, found in plan.evidence.figures.items()
    }
    return replace(plan, evidence=replace(plan.evidence, figures=figures))


def _coming(ingest: Mapping[str, tuple[DueSource, ...]]) -> dict[str, int]:
    """Return how many commits the next run's ingestion makes by table: one for each source with files."""
    return {name: sum(source.is_due for source in sources) for name, sources in ingest.items()}


def _new_sources(
    workspace: Workspace, plan: PlanDocument, seen: Mapping[str, _Seen]
) -> dict[str, tuple[DueSource, ...]]:
    """Return the files of new and changed sources, for tables whose spec the plan records."""
    recorded = [action for action in plan.intent.actions if Step.RECORD in action.steps]
    found = map_each(
        recorded,
        lambda action: new_sources(
            seen[action.table].observation if action.table in seen else None,
            action.spec,
            directory=str(workspace.project.root),
            storage=workspace.storage,
            check=None if workspace.base is None else workspace.base.check_source,
        ),
    )
    return {action.table: sources for action, sources in zip(recorded, found, strict=True) if sources}


def _costs(plan: PlanDocument, prices: PlanPrices) -> PlanCosts | None:
    """Return the total costs of the tables that the plan acts on, or None if none of them has costs."""
    figures = (plan.evidence.figures.get(action.table) for action in plan.intent.actions)
    tables = tuple(found.costs for found in figures if found is not None and found.costs is not None)
    return plan_costs(tables, prices) if tables else None


def _options(workspace: Workspace, plan: PlanDocument) -> PlanOptions:
    """Return the options of the plan.

    A variable may be a value of a column, so if any table has personal columns, all variables are masked.
    """
    hides = any(column.pii for table in workspace.tables for column in table.spec.columns) or any(
        pii_columns(action.spec.columns) for action in plan.intent.actions
    )
    return PlanOptions(
        select=workspace.select,
        exclude=workspace.exclude,
        variables={name: MASK if hides else str(value) for name, value in workspace.variables.items()},
        base=None if workspace.base is None else workspace.base.given,
    )


def _unnamed(workspace: Workspace) -> dict[str, str]:
    """Return the reasons, by table name, why tables of an untrusted branch are not read."""
    found = {}
    for table in workspace.tables:
        try:
            workspace.check_named(table)
        except UnnamedPlaceError as unnamed:
            found[table.name] = str(unnamed)
    return found


def _unnamed_by_records(workspace: Workspace, seen: Mapping[str, _Seen]) -> dict[str, str]:
    """Return further reasons, which follow from the applied records of the tables of an untrusted branch.

    A record can name a plug-in, which would be loaded, or mark other columns as personal than the branch
    does.
    """
    found = {}
    for table in workspace.tables:
        observation = seen[table.name].observation if table.name in seen else None
        if workspace.base is None or observation is None or observation.spec is None:
            continue
        try:
            workspace.base.check_guesses(table.spec, observation.spec)
            workspace.base.check_plug_ins(observation.spec)
        except UnnamedPlaceError as unnamed:
            found[table.name] = f"{unnamed} (by the record of the table)"
    return found


def _declared(workspace: Workspace, table: ResolvedTable, unnamed: Mapping[str, str]) -> DeclaredTable:
    """Return the table as the planner needs it, with the limits that apply to an untrusted branch.

    These are the reason why the table is not read, and its spec in the base.
    """
    base = None if workspace.base is None else workspace.base.specs.get(table.name)
    return replace(declared(workspace, table), unnamed=unnamed.get(table.name), base=base)


def declared(workspace: Workspace, table: ResolvedTable) -> DeclaredTable:
    """Return the table as the planner needs it, equal in every checkout of the project."""
    return DeclaredTable(
        spec=table.spec,
        location=table.location_declared,
        file=table.file,
        origin=lambda path: str(table.origin(path)),
        is_written=lambda path: path in table.settings,
        moved_from=table.moved_from,
        protected=workspace.is_protected(table),
        allowed={
            code: Allowance(reason=entry.reason, origin=str(entry.origin))
            for code, entry in workspace.allowed(table).items()
        },
        jobs=lambda: job_references(workspace, table),
    )


def job_references(workspace: Workspace, table: ResolvedTable) -> tuple[JobReference, ...]:
    """Return the table's jobs with digests that are equal in every checkout and commit."""
    jobs = (
        replace(job, location=table.location_declared, directory=".", git_commit=None)
        for job in jobs_of(workspace, table)
    )
    return tuple(JobReference(name=job.name, digest=job.digest) for job in jobs)


def _due(
    workspace: Workspace,
    seen: Mapping[str, _Seen],
    drifts: Mapping[str, tuple[Drift, ...]],
    *,
    excluded: bool,
) -> tuple[DueWork, dict[str, MeasuredDebt]]:
    """Return the work of the next run, and the debts, of all tables that are applied and can be read."""
    budget_bytes = workspace.project.target.budget.services_bytes
    usable = {name: table.observation for name, table in seen.items() if not _is_unusable(drifts[name])}
    applied = {name: o for name, o in usable.items() if o is not None and o.is_applied}
    specs = {table.name: table.spec for table in workspace.tables}
    directory, storage = str(workspace.project.root), workspace.storage
    measuring = Measuring(applied)
    measuring.each(lambda name, observation: check_files(observation, specs[name]))
    debts = measuring.each(lambda _, observation: _debt(observation, budget_bytes))
    budget = RunBudget(limit_bytes=budget_bytes)

    def next_of(name: str, observation: Observation) -> NextClustering | None:
        nonlocal budget
        if not debts[name].is_paid_by_runs:
            return next_clustering(observation, specs[name], budget=RunBudget(limit_bytes=budget_bytes))
        found = next_clustering(observation, specs[name], budget=budget)
        if found is not None:
            budget = budget.left_after(found.forecast.rewrite_bytes)
        return found

    # In sequence like a run, and because the samples of many tables would need too much memory at once.
    found = measuring.each(
        next_of, in_order=by_last_clustering({name: debt.clustered for name, debt in debts.items()})
    )
    clusterings = {name: found[name] for name in applied if name in found}
    ingest = map_each(
        applied,
        lambda name: due_sources(
            applied[name],
            specs[name],
            directory=directory,
            storage=storage,
            check=None if workspace.base is None else workspace.base.check_source,
        ),
    )
    sources_of = {name: sources for name, sources in zip(applied, ingest, strict=True) if sources}
    work = DueWork(
        debts=with_shared_runs(debts, budget_bytes=budget_bytes, coming=_coming(sources_of)),
        forecasts={name: one.forecast for name, one in clusterings.items()},
        ingest=sources_of,
        excluded={name: one.excluded for name, one in clusterings.items()} if excluded else None,
        damage={name: _shown(error, applied[name], specs[name]) for name, error in measuring.damage.items()},
    )
    return work, debts


def _is_unusable(drifts: tuple[Drift, ...]) -> bool:
    """Return whether the drift already reports that the table cannot be read or written."""
    return any(drift.code == "DR100" for drift in drifts)


def _shown(error: CorruptTableError, observation: Observation, declared: TableSpec) -> str:
    """Return the text of an error about a table, with values of its personal columns masked."""
    shown_by = masked_by(observation.spec, declared)
    return masked_message(error.message, shown_by, location=observation.handle.store.uri)


def _debt(observation: Observation, budget_bytes: int) -> MeasuredDebt | None:
    """Return the debt under the applied policy, or None if the policy uses undeclared strategies."""
    spec = observation.spec
    if spec is None or not are_allowed(spec.clustering, observation.handle.store.allowed):
        return None
    return due_figures(observation.handle, spec, budget_bytes=budget_bytes)


def _is_ours(workspace: Workspace, seen: _Seen) -> bool:
    """Return whether the project owns the table. Tables of others are not measured.

    A table that does not exist or cannot be read counts as the project's own.
    """
    observation = seen.observation
    return observation is None or observation.foreign_to(workspace.owner_of(observation)) is None


def _drifts(seen: _Seen) -> tuple[Drift, ...]:
    """Return the drift of a table. If the table cannot be read, this is its only drift (DR100)."""
    if seen.refusal is not None:
        return (unusable(seen.refusal),)
    if seen.observation is None:
        return ()
    try:
        return observed_drift(seen.observation)
    except CorruptTableError as error:
        return (unusable(error),)


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
        for table, found in drifts.items()
        for drift in found
    )


def _gone(undeclared: Iterable[Undeclared], seen: Mapping[str, _Seen]) -> tuple[Undeclared, ...]:
    """Return the undeclared tables without those whose name is declared at a location that contains no table.

    Such a table has moved, which is refused elsewhere (SC403).
    """
    return tuple(
        found
        for found in undeclared
        if (declared := seen.get(found.spec.name)) is None or declared.observation is not None
    )


def _elsewhere(
    workspace: Workspace, table: DeclaredTable, undeclared: Sequence[Undeclared]
) -> Elsewhere | None:
    """Return another place where the project has a table with this name or its former name, else None.

    The candidates are the default location, the last known location, and all places below the warehouse.
    """
    root, target = workspace.project.root, workspace.project.target
    names = tuple(filter(None, (table.spec.name, table.moved_from)))
    candidates = [
        place
        for name in names
        for place in (f"{target.warehouse.rstrip('/')}/{name}", *former_locations(root, target.name, name))
    ]
    candidates += [found.location for found in undeclared if found.spec.name in names]
    here = join_base(str(root), table.location)
    for candidate in candidates:
        there = join_base(str(root), candidate)
        if there == here or not workspace.may_open(there):
            continue
        found = _try_observe(workspace.store_at(there)).observation
        if found is None or found.is_forgotten or found.foreign_to(workspace.owner_of(found)):
            continue
        if (name := _name_of(found)) in names:
            applied = found.handle.applied
            return Elsewhere(
                location=there.removeprefix(f"{root}/"),
                spelled=there.removeprefix(f"{join_base(str(root), target.warehouse).rstrip('/')}/"),
                name=name,
                applied=applied.number if applied else None,
            )
    return None


def _name_of(observation: Observation) -> str:
    """Return the applied name of a table. hoodie.properties keep the name with which it was created."""
    return observation.handle.config.name if observation.spec is None else observation.spec.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """An observation, or the error that prevented it. The error is raised when the table is planned."""

    observation: Observation | None = None
    refusal: UnsupportedTableError | CorruptTableError | None = None

    def get(self) -> Observation | None:
        if self.refusal is not None:
            raise self.refusal
        return self.observation


def _try_observe(store: ObjectStore) -> _Seen:
    try:
        return _Seen(observation=observe(store))
    except (UnsupportedTableError, CorruptTableError) as refusal:
        return _Seen(refusal=refusal)
