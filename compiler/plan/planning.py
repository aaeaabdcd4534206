"""The plan of a workspace: live tables are read, side by side, and nothing is written."""

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
from parquetry.runtime.storage.open import ObjectStore
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.former_columns import former_columns
from parquetry.secret_names import MASK


def plan_workspace(
    workspace: Workspace, *, now_ms: int, due: bool = False, excluded: bool = False
) -> PlanDocument:
    """The plan for the selected tables; raises what reading their stores raises.

    What the declared queries of tables that change will read is predicted from a bounded sample of rows.
    With ``due`` the debt of every applied table under its applied policy is measured, what paying that is
    good for is predicted in the same way, and its sources are listed;
    with ``excluded`` besides, the files that clustering would leave. Of an untrusted branch nothing is
    looked at that its base does not name; of storage options that are not allowed the plan says so alone.
    """
    is_open = workspace.base is not None or not workspace.unallowed_storage
    workspace = workspace if is_open else replace(workspace, tables=())
    unnamed = _unnamed(workspace)
    looked_at = [table for table in workspace.tables if table.name not in unnamed]
    stores = {table.name: workspace.store(table) for table in looked_at}
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
    """The plan whose tables, as far as they are measured, share the budget of each run."""
    shared = with_shared_runs(debts, budget_bytes=budget_bytes, coming=_coming(plan.evidence.ingest or {}))
    figures = {
        name: replace(found, debt=None if found.debt is None else shared[name])
        for name, found in plan.evidence.figures.items()
    }
    return replace(plan, evidence=replace(plan.evidence, figures=figures))


def _coming(ingest: Mapping[str, tuple[DueSource, ...]]) -> dict[str, int]:
    """Return how many commits the next run's ingestion makes, by table: one for each source with files."""
    return {name: sum(source.is_due for source in sources) for name, sources in ingest.items()}


def _new_sources(
    workspace: Workspace, plan: PlanDocument, seen: Mapping[str, _Seen]
) -> dict[str, tuple[DueSource, ...]]:
    """Return what new and changed sources bring, of the tables whose spec the plan records."""
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
    """The sums over the tables that the plan acts on; None where none of them has costs."""
    figures = (plan.evidence.figures.get(action.table) for action in plan.intent.actions)
    tables = tuple(found.costs for found in figures if found is not None and found.costs is not None)
    return plan_costs(tables, prices) if tables else None


def _options(workspace: Workspace, plan: PlanDocument) -> PlanOptions:
    """What was asked for. A variable may be a value of a column, so personal columns hide them all."""
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
    """Why tables of an untrusted branch are not looked at, by name."""
    found = {}
    for table in workspace.tables:
        try:
            workspace.check_named(table)
        except UnnamedPlaceError as unnamed:
            found[table.name] = str(unnamed)
    return found


def _unnamed_by_records(workspace: Workspace, seen: Mapping[str, _Seen]) -> dict[str, str]:
    """The same by what is recorded in the tables: plug-ins, which would be loaded, and personal columns."""
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
    """The table as the planner wants it, with why it is not looked at."""
    base = None if workspace.base is None else workspace.base.specs.get(table.name)
    return replace(declared(workspace, table), unnamed=unnamed.get(table.name), base=base)


def declared(workspace: Workspace, table: ResolvedTable) -> DeclaredTable:
    """The table as the planner wants it, alike in every checkout of the project."""
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
    """The table's jobs with digests that are alike in every checkout and commit."""
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
    """What a run would do for the tables that have an applied spec and can be read, and their debts."""
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

    # One after the other, as a run does, and so that the samples of many tables are not in memory at once.
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
    """Whether it is told already that the table cannot be read or written."""
    return any(drift.code == "DR100" for drift in drifts)


def _shown(error: CorruptTableError, observation: Observation, declared: TableSpec) -> str:
    """What is wrong with a table, without values of its personal columns."""
    shown_by = masked_by(observation.spec, declared)
    return masked_message(error.message, shown_by, location=observation.handle.store.uri)


def _debt(observation: Observation, budget_bytes: int) -> MeasuredDebt | None:
    """The debt of the table under its applied policy; None where strategies of that are not declared too."""
    spec = observation.spec
    if spec is None or not are_allowed(spec.clustering, observation.handle.store.allowed):
        return None
    return due_figures(observation.handle, spec, budget_bytes=budget_bytes)


def _is_ours(workspace: Workspace, seen: _Seen) -> bool:
    """Whether a table, if there is one that can be read, is the project's: of others nothing is measured."""
    observation = seen.observation
    return observation is None or observation.foreign_to(workspace.owner_of(observation)) is None


def _drifts(seen: _Seen) -> tuple[Drift, ...]:
    """What others changed of a table; of one that cannot be read any more, that."""
    if seen.refusal is not None:
        return (unusable(seen.refusal),)
    if seen.observation is None:
        return ()
    try:
        return observed_drift(seen.observation)
    except CorruptTableError as error:
        return (unusable(error),)


def _drift_lines(drifts: Mapping[str, tuple[Drift, ...]]) -> tuple[Change, ...]:
    """What others changed of the selected tables, by table and path."""
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
    """Return the tables that no spec declares, less those whose spec names a place where no table is."""
    return tuple(
        found
        for found in undeclared
        if (declared := seen.get(found.spec.name)) is None or declared.observation is not None
    )


def _elsewhere(
    workspace: Workspace, table: DeclaredTable, undeclared: Sequence[Undeclared]
) -> Elsewhere | None:
    """Return where else the project has a table of that name, or of its former one.

    That is the default location, the last known one, or any below the warehouse.
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
    """The name that was applied last; hoodie.properties keep the one that the table was made with."""
    return observation.handle.config.name if observation.spec is None else observation.spec.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """An observation, or the reason why there is none: it is raised where the table is planned."""

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
