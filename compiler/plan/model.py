"""The plan: what `apply` would do to each table, and what was seen when it was made.

``Intent`` is the part a reviewer approves: its digest is the plan's id, so that rows ingested
between plan and apply change nothing. ``Evidence`` is what the live tables looked like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parquetry.compiler.evidence.model import DueFigures, DueSource, ExcludedFiles, RunForecast, TableFigures
from parquetry.compiler.evidence.money import PlanCosts
from parquetry.compiler.workspace.authority import AuthorityChange
from parquetry.project.guardrails.model import RuleOutcome
from parquetry.runtime.spec.codec import UNLESS_NONE, Brief
from parquetry.runtime.spec.job import Requirements
from parquetry.runtime.spec.table_spec import TableSpec


class ChangeClass(StrEnum):
    """How far a change reaches; the members are in rising order."""

    METADATA = "metadata"
    POLICY = "policy"
    CREATE = "create"
    EVOLVE = "evolve"
    REWRITE = "rewrite"
    BREAKING = "breaking"
    EXECUTES = "executes"

    @property
    def rank(self) -> int:
        """0 for the mildest."""
        return list(ChangeClass).index(self)


class Step(StrEnum):
    """What applying does to a table; the steps of an action are executed in their order."""

    CREATE = "create"
    RESTORE = "restore"
    EVOLVE = "evolve"
    RECORD = "record"
    REWRITE = "rewrite"
    FORGET = "forget"


TARGET_CODES = frozenset({"SC701", "SC702"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field that differs. ``origin`` is ``file:line:column``; ``live`` is what the table itself says.

    ``reason`` says why a change breaks or executes, or why there is a change that nobody declared;
    ``allowed`` is why the project allows one that breaks or executes.
    """

    path: str
    old: Any
    new: Any
    code: str
    change_class: ChangeClass
    live: Any = None
    origin: str | None = None
    reason: str | None = None
    allowed: str | None = None

    @property
    def needs_leave(self) -> bool:
        """Whether it is refused as long as nobody allows it, or whatever is allowed."""
        return self.change_class in (ChangeClass.BREAKING, ChangeClass.EXECUTES)

    @property
    def undeclared(self) -> str | None:
        """Why there is a change that nobody declared; None for those that are declared."""
        return None if self.needs_leave else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange:
    """A setting of the target that is not what is applied to ``tables``, which are to record it."""

    change: Change
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReference:
    """A job that the plan leads to, by name and digest."""

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailVerdict:
    """A guardrail that an action does not fulfil, and that does not block it: it warns, or is ``allowed``."""

    guardrail: str
    severity: RuleOutcome
    allowed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAction:
    """What is to be done to one table. ``spec`` is recorded whole, so that applying never plans again.

    ``steps`` is the one list that applying walks and every view shows. A table that is forgotten
    keeps the spec it was last applied with. ``max_rewrite_bytes`` is the most that the action may
    rewrite, from the target's budget; None is no limit. ``guardrails`` are those that the action does not
    fulfil and that do not block it, None where there are none.
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
    guardrails: tuple[GuardrailVerdict, ...] | None = field(default=None, metadata=UNLESS_NONE)

    @property
    def is_of_target(self) -> bool:
        """Whether nothing is done but to record changed settings of the target."""
        return self.code in TARGET_CODES and not self.changes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeStep:
    """One step of the way round a change that is not made in place; ``commands`` are typed as they stand."""

    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A table whose changes may not be applied, why, and what to do instead: ``remedy``, by ``recipe``.

    ``targets.NAME`` stands in place of a table, and no location, where settings of the target may not be.
    """

    table: str
    location: str
    code: str
    reason: str
    remedy: str
    changes: tuple[Change, ...] = ()
    recipe: tuple[RecipeStep, ...] = ()

    @property
    def is_of_target(self) -> bool:
        """Whether it is the target that is blocked, no table."""
        return self.code in TARGET_CODES and not self.location


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Intent(Brief):
    """What is to be done, and nothing that ingestion could alter.

    ``settings`` are those of the target by path, which every table of the plan records; ``target_changes``
    say what of them is not applied yet. ``authority`` is what the plan's commit adds to that in force.
    """

    project: str
    target: str
    git_commit: str | None
    parquetry: str
    actions: tuple[TableAction, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    target_changes: tuple[TargetChange, ...] = ()
    authority: tuple[AuthorityChange, ...] = field(default=(), metadata=UNLESS_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWarning:
    """What stops nothing and should be looked at; ``origin`` is the place that causes it."""

    code: str
    table: str
    message: str
    origin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What besides project and target was asked for, so that the same plan can be asked for again.

    Values of ``variables`` are masked where tables of the plan have columns with personal data. ``base`` is
    that of an untrusted branch, as it was given: empty for the default branch.
    """

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen, and when (milliseconds since 1970, UTC).

    ``figures`` are of the tables that change; ``due``, where it was asked for, says what is due for
    every table under its applied policy, ``forecasts`` what the next run's clustering would be good for,
    ``ingest`` what it would take from its sources, and ``excluded`` (asked for by itself) which files
    its clustering would leave. ``unchecked_sql`` names, by table, the SQL of changing tables that no
    ``run`` has read yet: whether its functions exist and its types fit only Spark knows. ``costs`` are those
    of all tables with figures, where the target has prices. ``sources`` are those of changing tables that are
    new or changed, with what they bring. ``options`` are what the plan was asked for with. ``uncommitted``
    are the files of the project that the intent's commit has otherwise, None where that is not known.
    ``base_commit`` is what the intent's commit is to be merged into, as far as that is known.
    """

    created_ms: int
    tables: int
    figures: Mapping[str, TableFigures] = field(default_factory=dict)
    due: Mapping[str, DueFigures] | None = None
    forecasts: Mapping[str, RunForecast] | None = None
    ingest: Mapping[str, tuple[DueSource, ...]] | None = None
    excluded: Mapping[str, ExcludedFiles] | None = None
    unchecked_sql: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sources: Mapping[str, tuple[DueSource, ...]] = field(default_factory=dict)
    costs: PlanCosts | None = field(default=None, metadata=UNLESS_NONE)
    warnings: tuple[PlanWarning, ...] = ()
    drift: tuple[Change, ...] = ()
    options: PlanOptions = field(default_factory=PlanOptions)
    uncommitted: tuple[str, ...] | None = field(default=None, metadata=UNLESS_NONE)
    base_commit: str | None = field(default=None, metadata=UNLESS_NONE)

    @property
    def tables_with_work(self) -> frozenset[str]:
        """The tables for which the next run does something, as far as that was asked for."""
        unpaid = {name for name, debt in (self.due or {}).items() if not debt.is_paid}
        new = {name for name, sources in (self.ingest or {}).items() if any(s.is_due for s in sources)}
        return frozenset(unpaid - self.tables_not_yet_due | new)

    @property
    def tables_not_yet_due(self) -> frozenset[str]:
        """The tables whose clustering starts only after more commits than the next run makes."""
        due = self.due or {}
        return frozenset(name for name, d in due.items() if d.commits_until_due and not d.expired_files)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanDocument(Brief):
    """Intent and evidence. ``plan_id`` is the digest of the intent."""

    intent: Intent
    evidence: Evidence
    plan_id: str

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to do, nothing is in the way, and no authority changed."""
        return not self.intent.actions and not self.intent.blocked and not self.intent.authority


EXPIRES_AFTER_MS = 7 * 86_400_000
