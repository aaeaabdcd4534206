"""What a plan is made from: what is declared, how live tables are looked at, and what is due."""

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
    """A table as the project declares it for the target, in ``file``. ``allowed`` is by code.

    ``is_written`` says whether a layer of the project gives a path a value of its own; ``jobs`` is
    asked only for tables that change. ``unnamed`` is why the table of an untrusted branch is not looked at;
    then ``base`` is what the base declares, if anything. ``moved_from`` is the name that it had before.
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
        """Why changes are allowed, by code."""
        return {code: allowance.reason for code, allowance in self.allowed.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    """A table of the project's for which there is no spec any more, and where it is."""

    spec: TableSpec
    location: str
    observation: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """Where a declared table is instead, its applied name, and the number of the applied record.

    ``spelled`` is the location as a spec of the target has to say it: from the warehouse, or absolute.
    """

    location: str
    spelled: str
    name: str
    applied: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonPlanInputs:
    """What all tables of a plan have in common; ``max_rewrite_bytes`` None is no limit to what is rewritten.

    ``is_declared_since`` is asked where the applied spec comes from a commit that the checked-out one does
    not contain: whether one that it contains declares the same.
    ``settings`` are those of the target, ``authority`` is what the commit changes of the project's.
    ``owner_of`` says whose a live table has to be. ``signing_keys`` refer to the keys of applied records;
    those of an untrusted branch are not asked for (``checks_signatures``).
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
    """How the planner looks at live tables.

    ``observe`` is asked for every table, ``drifts``, what others changed, for those that exist;
    ``find_elsewhere``, which says where a table of that name and project was before, only for those
    that are not there; ``admit``, which raises UnsupportedTableError, ``live_columns`` and
    ``measure``, which lists files, only for tables that exist and change. ``former`` says which of some
    columns the table had once; it is asked when columns are added. ``was_never_written`` is asked of tables
    with a change that is never made in place.
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
    """What a run would do, by table: the debt it would pay, and what it would take from sources.

    ``forecasts`` say what its clustering would be good for. ``excluded`` are the files that it would leave,
    None where that was not asked for. ``damage`` is why a table could not be measured.
    """

    debts: Mapping[str, DueFigures]
    forecasts: Mapping[str, RunForecast]
    ingest: Mapping[str, tuple[DueSource, ...]]
    excluded: Mapping[str, ExcludedFiles] | None = None
    damage: Mapping[str, str] = field(default_factory=dict)
