"""The inputs of a plan: declared tables, access to live tables, and due work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from parquetry.compiler.evidence.model import DueFigures, DueSource, ExcludedFiles, RunForecast, TableFigures
from parquetry.compiler.plan.allowing import Allowance
from parquetry.compiler.plan.drift import Drift
from parquetry.compiler.plan.model import JobReference
from parquetry.compiler.workspace.authority import AuthorityChange
from parquetry.compiler.workspace.git import GitWorkTree
from parquetry.compiler.workspace.observation import Observation
from parquetry.project.model.resolved import NO_SETTINGS, TargetSettings
from parquetry.runtime.spec.job import TableOwner
from parquetry.runtime.spec.paths import ColumnPath
from parquetry.runtime.spec.table_spec import Column, TableSpec
from parquetry.runtime.table.former_columns import FormerColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTable:
    """A table as the project declares it for the target.

    Attributes:
        file: The file of its spec.
        origin: Returns the position at which a path of the spec is declared.
        is_written: Returns whether a layer of the project sets a value for a path.
        unnamed: The reason why this table of an untrusted branch is not read, None if it is read.
        base: The spec in the base of an untrusted branch, if any.
        moved_from: The former name of the table.
        protected: True if the target refuses every breaking change of the table.
        allowed: The allow entries by code.
        jobs: Returns the jobs of the table. It is only called for tables that change.
    """

    spec: TableSpec
    location: str
    file: str
    origin: Callable[[str], str | None]
    is_written: Callable[[str], bool]
    unnamed: str | None = None
    base: TableSpec | None = None
    moved_from: str | None = None
    protected: bool = False
    allowed: Mapping[str, Allowance] = field(default_factory=dict)
    jobs: Callable[[], tuple[JobReference, ...]] = tuple

    @property
    def reasons(self) -> Mapping[str, str]:
        """The reasons of the allow entries, by code."""
        return {code: allowance.reason for code, allowance in self.allowed.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    """A table of the project that no spec declares any more, and its location."""

    spec: TableSpec
    location: str
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The actual location of a declared table that does not exist at its declared location.

    ``spelled`` is its location as a spec of the target declares it: relative to the warehouse, or absolute.
    ``name`` is its applied name, and ``applied`` the number of its applied record.
    """

    location: str
    spelled: str
    name: str
    applied: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonPlanInputs:
    """The inputs that all tables of a plan share.

    Attributes:
        is_declared_since: Returns whether a commit in the checked-out history declares what is applied. It is
            called if that history does not contain the commit of the applied record.
        owner_of: Returns the project and target that a live table must belong to.
        max_rewrite_bytes: The most bytes that `apply` may rewrite; None means no limit.
        signing_keys: References to the keys that sign applied records.
        checks_signatures: False for an untrusted branch: its keys are not used.
        settings: The settings of the target.
        authority: The changes of authority that the checked-out commit makes.
    """

    project: str
    target: str
    tree: GitWorkTree
    now_ms: int
    is_declared_since: Callable[[Observation], bool]
    owner_of: Callable[[Observation], TableOwner]
    max_rewrite_bytes: int | None = None
    signing_keys: tuple[str, ...] = ()
    checks_signatures: bool = True
    settings: TargetSettings = NO_SETTINGS
    authority: tuple[AuthorityChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReader:
    """The planner's access to live tables.

    Attributes:
        observe: Reads a table; called for every table.
        drifts: Returns the changes of other programs; called for tables that exist.
        find_elsewhere: Returns another place with a table of this name and project; called for tables that do
            not exist at their location.
        admit: Raises UnsupportedTableError if the table cannot be written; called for tables that exist and
            change.
        live_columns: Reads the live schema; called for tables that exist and change.
        former: Returns which of some columns the table had before; called if columns are added.
        measure: Returns the figures of a table and lists its files; called for tables that exist and change.
        was_never_written: Returns whether the table has no rows and no history; called for changes that are
            never made in place.
    """

    observe: Callable[[DeclaredTable], Observation | None]
    drifts: Callable[[DeclaredTable], tuple[Drift, ...]]
    find_elsewhere: Callable[[DeclaredTable], Elsewhere | None]
    admit: Callable[[Observation], None]
    live_columns: Callable[[Observation], tuple[Column, ...]]
    former: Callable[[Observation, Collection[ColumnPath]], tuple[FormerColumn, ...]]
    measure: Callable[[DeclaredTable, Observation], TableFigures]
    was_never_written: Callable[[Observation], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWork:
    """The work that a run would do, by table.

    Attributes:
        debts: The debt that it would pay.
        forecasts: The forecast of its clustering.
        ingest: The sources that it would ingest.
        excluded: The files that its clustering would leave out, None if not requested.
        damage: The reason why a table could not be measured.
    """

    debts: Mapping[str, DueFigures]
    forecasts: Mapping[str, RunForecast]
    ingest: Mapping[str, tuple[DueSource, ...]]
    excluded: Mapping[str, ExcludedFiles] | None = None
    damage: Mapping[str, str] = field(default_factory=dict)
