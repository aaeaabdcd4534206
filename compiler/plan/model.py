"""The plan: the changes that `apply` would make to each table, and the evidence that was read for it.

``Intent`` is the part that a reviewer approves. Its digest is the plan id, so rows that are ingested between
plan and apply do not change the id. ``Evidence`` is the state of the live tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parquetry.compiler.evidence.model import DueFigures, DueSource, ExcludedFiles, RunForecast, TableFigures
from parquetry.compiler.evidence.money import PlanCosts
from parquetry.compiler.evidence.run_order import RunOrder
from parquetry.compiler.security.authority import AuthorityChange
from parquetry.message import Text
from parquetry.project.guardrails.model import RuleOutcome
from parquetry.runtime.catalog.sync import SyncPreview
from parquetry.runtime.services.deletions import Deletions
from parquetry.runtime.spec.codec import OMIT_EMPTY, Brief
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import TableSpec
from parquetry.runtime.write.partition_retention import PartitionExpiry


class ChangeClass(StrEnum):
    """The reach of a change; the members are in rising order."""

    METADATA = "metadata"
    POLICY = "policy"
    CREATE = "create"
    EVOLVE = "evolve"
    REWRITE = "rewrite"
    FORMAT = "format"
    BREAKING = "breaking"
    EXECUTES = "executes"

    @property
    def rank(self) -> int:
        """The position in the rising order; 0 for the mildest class."""
        return list(ChangeClass).index(self)


class Step(StrEnum):
    """A step of an action on a table. `apply` executes the steps of an action in their order."""

    CREATE = "create"
    RESTORE = "restore"
    DROP_METADATA_TABLE = "drop_metadata_table"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    EVOLVE = "evolve"
    RECORD = "record"
    REWRITE = "rewrite"
    FORGET = "forget"
    SYNC = "sync"


TARGET_CODES = frozenset({"SC701", "SC702"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that differs between the declared spec and the applied one.

    ``origin`` is the position of the declaration as ``file:line:column``. ``live`` is the value in the live
    table. ``reason`` says why a change breaks or executes, what a changed table version means for readers,
    what a run deletes by it, or why a change exists that no spec declares. ``allowed`` is the reason of the
    allow entry that permits a breaking or executing change.
    """

    path: str
    old: Any
    new: Any
    code: str
    change_class: ChangeClass
    live: Any = None
    origin: str | None = None
    reason: Text | None = None
    allowed: str | None = None

    @property
    def needs_allow_entry(self) -> bool:
        """True if the change is blocked unless an allow entry permits it; some codes cannot be permitted."""
        return self.change_class in (ChangeClass.BREAKING, ChangeClass.EXECUTES)

    @property
    def note(self) -> Text | None:
        """The reason of a change that needs no allow entry, or None."""
        return None if self.needs_allow_entry else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange:
    """A changed setting of the target. ``tables`` are the tables that do not record its new value yet."""

    change: Change
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReference:
    """The name and digest of a job that the plan leads to."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailVerdict:
    """A violated guardrail that does not block its action: it only warns, or an allow entry overrides it.

    ``allowed`` is the reason of that entry.
    """

    guardrail: str
    severity: RuleOutcome
    allowed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAction:
    """The action of a plan on one table. It contains the whole ``spec``, so that `apply` does not plan again.

    `apply` executes ``steps``, and every view shows the same list. For a table that is forgotten, ``spec`` is
    the applied one. ``max_rewrite_bytes`` limits the bytes that the action may rewrite, by the target's
    budget; None means no limit. ``guardrails`` are the guardrails that the action violates without being
    blocked, None if there are none.
    """

    table: str
    location: str
    change_class: ChangeClass
    code: str
    steps: tuple[Step, ...]
    changes: tuple[Change, ...]
    requirements: Requirements
    spec: TableSpec
    max_rewrite_bytes: int | None = 0
    jobs: tuple[JobReference, ...] = ()
    guardrails: tuple[GuardrailVerdict, ...] | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def only_records_settings(self) -> bool:
        """True if the action only records changed settings of the target."""
        return self.code in TARGET_CODES and not self.changes and Step.SYNC not in self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeStep:
    """One step of the recipe for a change that cannot be made in place; users can paste its ``commands``."""

    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A table whose changes must not be applied, with the reason, the ``remedy`` and perhaps a ``recipe``.

    If settings of the target are blocked, ``table`` is ``targets.NAME`` and ``location`` is empty.
    """

    table: str
    location: str
    code: str
    reason: Text
    remedy: Text
    changes: tuple[Change, ...] = ()
    recipe: tuple[RecipeStep, ...] = ()

    @property
    def blocks_target(self) -> bool:
        """True if settings of the target are blocked instead of a table."""
        return self.code in TARGET_CODES and not self.location


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Intent(Brief):
    """The actions of a plan, without anything that an ingestion could change.

    ``settings`` are the target's settings by path, which every table of the plan records. ``target_changes``
    are the settings that are not applied yet. ``authority`` lists the changes of authority that the plan's
    commit makes.
    """

    project: str
    target: str
    git_commit: str | None
    parquetry: str
    actions: tuple[TableAction, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    target_changes: tuple[TargetChange, ...] = ()
    authority: tuple[AuthorityChange, ...] = field(default=(), metadata=OMIT_EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWarning:
    """A finding that blocks nothing but needs attention. ``origin`` is the position that causes it."""

    code: str
    table: str
    message: Text
    origin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options of the plan besides project and target, with which the same plan can be made again.

    Values of ``variables`` are masked if tables of the plan have columns with personal data. ``base`` is the
    base of an untrusted branch as the user gave it; an empty string means the default branch.
    """

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The figures that were read for a plan. They do not belong to its plan id.

    Attributes:
        created_ms: The time of the plan, in milliseconds since 1970 (UTC).
        tables: The number of planned tables.
        figures: The figures of each table that changes.
        due: The due work of every table under its applied policy, if requested.
        forecasts: The forecast of the next run's clustering by table, if due work was requested.
        ingest: The sources that the next run would ingest by table, if due work was requested.
        deletions: The files that the next run's services would delete by table, if due work was requested.
        partitions: The partitions that the next run would delete by table, if due work was requested.
        order: The order in which the next run rewrites tables, if due work was requested and the target has
            operations.
        excluded: The files that the next run's clustering would leave out by table, if requested separately.
        unchecked_sql: The paths of SQL that no ``run`` has executed yet, by table that changes. Only Spark
            knows if its functions exist and its types fit.
        sources: The new and changed sources of tables that change, with the files that they add.
        expiring: The partitions that the next run after `apply` deletes by a new or changed rule, by table.
        catalogs: What a sync changes in the catalog by table, for actions with that step.
        costs: The costs of all tables with figures, if the target has prices.
        warnings: Findings that block nothing.
        drift: The changes that other programs made to the tables.
        options: The options of the plan.
        uncommitted: The files of the project that differ from the intent's commit, None if unknown.
        base_commit: The commit into which the intent's commit will be merged, None if unknown.
    """

    created_ms: int
    tables: int
    figures: Mapping[str, TableFigures] = field(default_factory=dict)
    due: Mapping[str, DueFigures] | None = None
    forecasts: Mapping[str, RunForecast] | None = None
    ingest: Mapping[str, tuple[DueSource, ...]] | None = None
    deletions: Mapping[str, Deletions] | None = None
    partitions: Mapping[str, PartitionExpiry] | None = field(default=None, metadata=OMIT_EMPTY)
    order: RunOrder | None = field(default=None, metadata=OMIT_EMPTY)
    excluded: Mapping[str, ExcludedFiles] | None = None
    unchecked_sql: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sources: Mapping[str, tuple[DueSource, ...]] = field(default_factory=dict)
    expiring: Mapping[str, PartitionExpiry] | None = field(default=None, metadata=OMIT_EMPTY)
    catalogs: Mapping[str, SyncPreview] | None = field(default=None, metadata=OMIT_EMPTY)
    costs: PlanCosts | None = field(default=None, metadata=OMIT_EMPTY)
    warnings: tuple[PlanWarning, ...] = ()
    drift: tuple[Change, ...] = ()
    options: PlanOptions = field(default_factory=PlanOptions)
    uncommitted: tuple[str, ...] | None = field(default=None, metadata=OMIT_EMPTY)
    base_commit: str | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def tables_with_work(self) -> frozenset[str]:
        """The tables for which the next run has work, as far as due work was requested.

        Tables whose clustering is not yet due are not among them, unless they have files to ingest or to
        delete.
        """
        unpaid = {name for name, debt in (self.due or {}).items() if not debt.is_paid}
        new = {name for name, sources in (self.ingest or {}).items() if any(s.is_due for s in sources)}
        new |= {name for name, deletions in (self.deletions or {}).items() if deletions.files}
        new |= {name for name, expiry in (self.partitions or {}).items() if expiry.deleted}
        return frozenset(unpaid - self.tables_not_yet_due | new)

    @property
    def tables_not_yet_due(self) -> frozenset[str]:
        """The tables whose clustering starts only after more commits than the next run makes."""
        due = self.due or {}
        return frozenset(name for name, d in due.items() if d.commits_until_due and not d.expired_files)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanDocument(Brief):
    """The intent and the evidence of a plan. ``plan_id`` is the digest of the intent."""

    intent: Intent
    evidence: Evidence
    plan_id: str

    @property
    def is_empty(self) -> bool:
        """True if the plan has no actions, no blocked tables and no changes of authority."""
        return not self.intent.actions and not self.intent.blocked and not self.intent.authority


EXPIRES_AFTER_MS = 7 * 86_400_000
