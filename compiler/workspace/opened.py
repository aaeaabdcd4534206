"""A loaded project at one target, the starting point of every command that reads tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parquetry import project
from parquetry.compiler.errors import SpecError, UnappliedError, UnknownTableError, UnnamedPlaceError
from parquetry.compiler.git.repository import GitWorkTree, work_tree
from parquetry.compiler.security.allowed_settings import raise_unallowed, recorded_settings, unallowed
from parquetry.compiler.security.secrets import references, revealed
from parquetry.compiler.security.untrusted import Base, masked_environment
from parquetry.compiler.workspace.observation import Observation
from parquetry.compiler.workspace.selecting import changed_since, changed_state
from parquetry.message import run
from parquetry.project import AllowEntry, ResolvedProject, ResolvedTable
from parquetry.project.diagnostics.model import one_of
from parquetry.project.guardrails.model import Guardrail
from parquetry.project.model.prices import Prices
from parquetry.project.model.resolved import Target, TargetSetting
from parquetry.runtime.allowed import NOTHING_ALLOWED, Allowed
from parquetry.runtime.catalog.model import Catalog
from parquetry.runtime.catalog.open import open_catalog
from parquetry.runtime.spec.codec import digest_of
from parquetry.runtime.spec.job import JobKind, JobPlan, Requirements, SparkSettings, TableOwner, rules_digest
from parquetry.runtime.spec.source_paths import join_base
from parquetry.runtime.spec.table_spec import Source, TableSpec
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.version import VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A valid project with the selected tables.

    Attributes:
        project: The resolved project.
        tables: The selected tables.
        tree: The work tree of the project's folder.
        select: The selectors that the user gave.
        exclude: The selectors of excluded tables that the user gave.
        variables: The variables that the user gave.
        contents: The files that the project was read from, by path.
        base: For an untrusted branch, its base, which decides what every store of the workspace may open.
        open: Opens the store of a location.
    """

    project: ResolvedProject
    tables: tuple[ResolvedTable, ...]
    tree: GitWorkTree
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    variables: Mapping[str, str]
    contents: Mapping[str, bytes] = field(repr=False)
    base: Base | None = None
    open: Callable[[str, Mapping[str, Any], Allowed], ObjectStore] = open_store

    @property
    def is_whole(self) -> bool:
        """True if no table was selected or excluded."""
        return not self.select and not self.exclude

    def table(self, name: str) -> ResolvedTable:
        """Return the table of that name.

        Raises:
            UnknownTableError: If there is none; the message names the most similar one.
        """
        return table_named(self.project, name)

    @property
    def storage(self) -> dict[str, Any]:
        """The target's storage options with secrets as plain text, for opening stores and never for writing.

        Raises UnappliedError if an option that could redirect requests is not allowed.
        """
        target = self.project.target
        if self.base is None:
            raise_unallowed(target.name, target.declared, self.unallowed_storage)
        return revealed(self.project.target.storage) if self.base is None else self.base.storage

    @property
    def unallowed_storage(self) -> tuple[TargetSetting, ...]:
        """The storage options that could redirect requests and that the target does not allow."""
        found = unallowed(self.project.target.declared)
        return tuple(setting for setting in found if setting.path.startswith("storage."))

    def catalog(self, spec: TableSpec) -> Catalog | None:
        """Return the entry of a table in the catalog that its spec names, or None if it names none.

        Raises:
            CatalogError: If the catalog cannot be used here, or the target does not declare it.
            UnappliedError: If an option that could redirect requests is not allowed.
            UnnamedPlaceError: If an untrusted branch names another entry, or other options, than its base.
        """
        target, name = self.project.target, spec.extra.catalog
        if name is None:
            return None
        if self.base is not None:
            self.base.check_catalog(self.project, spec)
            assert self.base.project is not None, "the base names the catalog"
            target = self.base.project.target
        found = unallowed(target.declared)
        mine = tuple(setting for setting in found if setting.path.startswith(f"catalogs.{name}."))
        raise_unallowed(target.name, target.declared, mine)
        options = revealed(target.catalogs.get(name, {}))
        return open_catalog(name, options, database=spec.extra.database or "", table=spec.name)

    def store(self, table: ResolvedTable) -> ObjectStore:
        """Return the store at the table's location with the permissions of its declared spec."""
        return self.store_at(table.location, table.spec.allowed)

    @property
    def owner(self) -> TableOwner:
        """The owner that the tables of this project must have."""
        return TableOwner(project=self.project.name, target=self.project.target.name, keys=self.signing_keys)

    @property
    def signing_keys(self) -> tuple[str, ...]:
        """References to the keys that sign applied records; the first one signs new records."""
        return self.project.target.signing_keys

    def writing_owner(self, table: ResolvedTable) -> TableOwner:
        """Return the owner that a table must have to be changed, with the digest of its declared rules."""
        return replace(self.owner, rules=rules_digest(table.spec))

    def owner_of(self, observation: Observation) -> TableOwner:
        """Return the owner that a table must have to be planned.

        If the table is applied for a target that the project no longer declares, the target was probably
        renamed, and any target is accepted.
        """
        applied = observation.handle.applied
        is_declared = applied is not None and applied.target in self.project.targets
        return self.owner if is_declared else replace(self.owner, target=None)

    def unapplied_error(self, table: ResolvedTable) -> UnappliedError:
        """Return the error for a table without an applied record at this target."""
        return UnappliedError(
            "table {table} is not applied at {location}; {command}",
            table=table.name,
            location=table.location,
            command=run("apply", "--target", self.project.target.name),
        )

    def store_at(self, location: str, allowed: Allowed = NOTHING_ALLOWED) -> ObjectStore:
        """Return the store at a declared location; a relative one starts at the project's root.

        Raises:
            UnnamedPlaceError: If the location comes from an untrusted branch.
        """
        if self.base is None:
            return self.open(join_base(str(self.project.root), location), self.storage, allowed)
        self.base.check_storage(self.project)
        return self.open(self.base.named_location(location), self.storage, allowed)

    def may_open(self, location: str) -> bool:
        """Return whether :meth:`store_at` permits the location."""
        try:
            self.store_at(location)
        except UnnamedPlaceError:
            return False
        return True

    def check_named(self, table: ResolvedTable) -> None:
        """Raise UnnamedPlaceError if a table of an untrusted branch uses what its base does not name."""
        if self.base is not None:
            self.base.check_plug_ins(table.spec)
            self.base.check_guesses(table.spec)
            self.store(table)

    def allowed(self, table: ResolvedTable) -> Mapping[str, AllowEntry]:
        """Return the allow entries of the table, by code."""
        entries = (entry for entry in self.project.allow if entry.guardrail is None)
        return {entry.code: entry for entry in entries if entry.table == table.name}

    @property
    def guardrails(self) -> tuple[Guardrail, ...]:
        """The rules for plans. An untrusted branch cannot loosen them: those of its base apply."""
        if self.base is None:
            return self.project.guardrails
        return () if self.base.project is None else self.base.project.guardrails

    @property
    def prices(self) -> Prices | None:
        """The prices of the target. Guardrails may use them, so an untrusted branch has those of its base."""
        project = self.project if self.base is None else self.base.project
        return None if project is None else project.target.prices

    def is_protected(self, table: ResolvedTable) -> bool:
        """Return whether the target refuses every breaking change of the table."""
        return self.project.target.protects(table.name)


def open_workspace(
    directory: Path,
    *,
    target: str | None,
    variables: Mapping[str, str],
    environment: Mapping[str, str] | None,
    select: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    base: Base | None = None,
) -> Workspace:
    """Return the project in ``directory`` with its selected tables.

    Args:
        directory: The folder of the project.
        target: The name of the target, None for the default one.
        variables: The variables given by the user.
        environment: The environment variables, None if none may be read.
        select: Selectors of tables.
        exclude: Selectors of tables to leave out.
        base: The base of an untrusted branch (:mod:`parquetry.compiler.security.untrusted`), else None.

    Raises:
        SpecError: If the project is not valid; the error contains its diagnostics.
    """
    declared = None
    if base is not None and environment is not None:
        environment, declared = masked_environment(environment, base.declared), base.declared
        target = target if base.project is None else base.project.target.name
    result = project.load(
        directory, target=target, variables=variables, environment=environment, declared=declared
    )
    if result.project is None:
        raise SpecError(result.diagnostics, files=result.files)
    whole = Workspace(
        project=result.project,
        tables=result.project.tables,
        tree=work_tree(result.project.root),
        variables=variables,
        contents=result.contents,
        base=base,
    )
    return selected(whole, select=select, exclude=exclude) if select or exclude else whole


def selected(
    workspace: Workspace, *, select: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
) -> Workspace:
    """Return the workspace with only the tables that the selectors choose."""
    root, target = workspace.project.root, workspace.project.target
    methods = {
        "state": changed_state(
            workspace.tables, workspace.store, workspace.owner, recorded_settings(target.declared)
        ),
        "git": changed_since(root, target=target.name, variables=workspace.variables),
    }
    chosen = project.select(workspace.tables, select=select, exclude=exclude, methods=methods, root=root)
    return replace(workspace, tables=chosen, select=select, exclude=exclude)


def table_named(project: ResolvedProject, name: str) -> ResolvedTable:
    """Return the table of that name.

    Raises:
        UnknownTableError: If there is none; the message names the most similar one, or all.
    """
    found = {table.name: table for table in project.tables}
    if name not in found:
        raise UnknownTableError(
            "there is no table {table!r}; {hint}", table=name, hint=one_of("table", name, found)
        )
    return found[name]


def jobs_of(workspace: Workspace, table: ResolvedTable) -> tuple[JobPlan, ...]:
    """Return the jobs of a table: create, one ingest per source, cluster unless its trigger is off, clean."""
    spec = table.spec
    verbs: list[tuple[JobKind, Source | None]] = [
        (JobKind.CREATE, None),
        *((JobKind.INGEST, source) for source in spec.sources),
        *([(JobKind.CLUSTER, None)] if table.spec.clustering.trigger != "off" else []),
        (JobKind.CLEAN, None),
    ]
    return tuple(job(workspace, table, spec, kind=kind, source=source) for kind, source in verbs)


def job(
    workspace: Workspace,
    table: ResolvedTable,
    spec: TableSpec,
    *,
    kind: JobKind,
    source: Source | None = None,
    requirements: Requirements | None = None,
) -> JobPlan:
    """Return one job of a table.

    Args:
        workspace: The project.
        table: The table.
        spec: The spec that the job uses.
        kind: The kind of the job.
        source: The source of an ingest job.
        requirements: The requirements of the job; by default, exactly this spec must be the applied one.
    """
    target = workspace.project.target
    if requirements is None:
        digest = None if kind is JobKind.CREATE else digest_of(spec.to_json())
        requirements = Requirements(
            exists=kind is not JobKind.CREATE, applied_digest=digest, minimum_parquetry=VERSION
        )
    return JobPlan(
        kind=kind,
        project=workspace.project.name,
        target=target.name,
        table=table.name,
        location=table.location,
        directory=str(workspace.project.root),
        requirements=requirements,
        spec=spec,
        source=source.name if source else None,
        storage=references(target.storage),
        spark=SparkSettings(
            master=None if target.spark.master is None else str(target.spark.master),
            conf=_pools(target) | references(target.spark.conf),
            packages=target.spark.packages,
            environment=tuple(sorted(workspace.project.environment)),
        ),
        git_commit=workspace.tree.commit,
        budget_bytes=_budget(target, kind),
        signing_keys=target.signing_keys,
        settings=recorded_settings(target.declared),
    )


def _pools(target: Target) -> dict[str, Any]:
    """Return the setting by which Spark shares its cores among tables that run at the same time."""
    parallel = 1 if target.operations is None else target.operations.parallel
    return {"spark.scheduler.mode": "FAIR"} if parallel > 1 else {}


def _budget(target: Target, kind: JobKind) -> int | None:
    """Return the bytes that the job's clustering may rewrite: by itself, or after a commit."""
    match kind:
        case JobKind.CLUSTER:
            return target.services_bytes
        case JobKind.INGEST:
            return target.budget.per_commit_bytes
    return None
