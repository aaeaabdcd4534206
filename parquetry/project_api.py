"""Projects in Python: load, plan, apply, run.

>>> project = parquetry.load("my_project", target="dev")
>>> project.plan().apply()
>>> project.run()
>>> project.table("orders").read()
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquetry.compiler.errors import UnexpectedError
from parquetry.compiler.jobs.launch import launcher_for, new_run_id
from parquetry.compiler.jobs.results import JobOutcome, RunResult
from parquetry.compiler.jobs.run import run_tables
from parquetry.compiler.jobs.table_jobs import Only
from parquetry.compiler.plan.apply import ApplyResult, apply_plan
from parquetry.compiler.plan.codec import encode, plan_json
from parquetry.compiler.plan.model import Intent, PlanDocument
from parquetry.compiler.plan.planner import plan_workspace
from parquetry.compiler.plan.target_changes import check_allowed, check_in_force
from parquetry.compiler.workspace.observation import table_exists
from parquetry.compiler.workspace.opened import Workspace, open_workspace
from parquetry.errors import ParquetryError, UsageError, message_of
from parquetry.in_python import in_python, python_messages
from parquetry.runtime.main import execute, spark_ended
from parquetry.runtime.spec.job import JobPlan
from parquetry.runtime.table.applied import check_owned, read_applied
from parquetry.table import Table
from parquetry.text.html import html_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The changes that apply would make, as planned at one moment; see ``intent`` and :meth:`to_json`."""

    _plan: PlanDocument
    _workspace: Workspace

    def __repr__(self) -> str:
        intent = self.intent
        counts = [
            f"{count} {kind}"
            for kind, count in Counter(str(action.change_class) for action in intent.actions).items()
        ]
        blocked = [f"{len(intent.blocked)} blocked"] if intent.blocked else []
        done = ", ".join([*counts, *blocked]) or "nothing to do"
        return f"Plan({intent.project!r}, target={intent.target!r}, plan_id={self.plan_id!r}: {done})"

    def _repr_html_(self) -> str:
        actions = (
            (action.table, str(action.change_class), ", ".join(change.path for change in action.changes))
            for action in self.intent.actions
        )
        blocked = ((one.table, f"blocked {one.code}", in_python(one.reason)) for one in self.intent.blocked)
        return html_table(repr(self), [*actions, *blocked], header=("table", "change", "what"))

    @property
    def plan_id(self) -> str:
        """The digest of the intent. Plans with equal digests do the same."""
        return self._plan.plan_id

    @property
    def intent(self) -> Intent:
        """The actions, and the tables that are blocked."""
        return self._plan.intent

    @property
    def is_empty(self) -> bool:
        """True if nothing differs from the declaration and no authority changed."""
        return self._plan.is_empty

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values, as ``parquetry plan --format json`` prints it."""
        return plan_json(self._plan)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan for ``parquetry apply PLANFILE``."""
        Path(path).write_text(encode(self._plan), encoding="utf-8")

    def apply(self, spark: SparkSession | None = None) -> ApplyResult:
        """Execute the plan without planning again.

        Args:
            spark: The session for actions that rewrite data; None to start one as the target asks.

        Raises:
            BlockedPlanError: The plan has blocked tables. Nothing was done.
            StalePlanError: A table changed since the plan was made. Other tables may have been applied.
            PartialFailureError: Some tables were applied, and one failed.

        """
        session = None if spark is None else lambda _: spark
        with python_messages():
            result = apply_plan(self._plan, self._workspace, launch=lambda job: execute(job, session=session))
            if result.failure is not None:
                raise result.failure
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A valid project at one target."""

    _workspace: Workspace

    def __repr__(self) -> str:
        root = str(self._workspace.project.root)
        return (
            f"Project({self.name!r}, target={self.target!r}, tables={len(self.tables)}, directory={root!r})"
        )

    @property
    def name(self) -> str:
        """The project's name."""
        return self._workspace.project.name

    @property
    def target(self) -> str:
        """The name of the target that the project was loaded for."""
        return self._workspace.project.target.name

    @property
    def tables(self) -> Mapping[str, str]:
        """The locations of the tables by name."""
        return {table.name: table.location for table in self._workspace.tables}

    def plan(self) -> Plan:
        """Return the changes that apply would make now; reads the tables and writes nothing."""
        with python_messages():
            saved = plan_workspace(self._workspace, now_ms=time.time_ns() // 1_000_000)
        return Plan(_plan=saved, _workspace=self._workspace)

    def table(self, name: str, *, applied: bool = False) -> Table:
        """Return a table of the project by its name.

        Reads use the applied spec. Methods that change the table raise StalePlanError if the applied spec
        differs from the declared one.

        Args:
            name: The name of the table.
            applied: Let methods that change the table use the applied spec, even if the declared one differs.

        Raises:
            UnknownTableError: The project declares no such table; the error names the most similar one.
            UnappliedError: No spec is applied at the table's location. Or settings of the target that can
                execute other code or send rows elsewhere are not allowed, or not applied.
            ForeignTableError: The table belongs to another project, or was applied for another target. Any
                method of the table may raise this error too.

        """
        with python_messages():
            declared = self._workspace.table(name)
            check_allowed(self._workspace)
            store = self._workspace.store(declared)
            if not table_exists(store):
                raise self._workspace.unapplied_error(declared)
            check_owned(store, self._workspace.owner)
            record = read_applied(store)
            check_in_force(self._workspace, declared, None if record is None else record.ref)
            owner = self._workspace.owner if applied else self._workspace.writing_owner(declared)
        return Table(store, owner=owner)

    def run(
        self,
        *,
        only: str | None = None,
        applied: bool = False,
        spark: SparkSession | None = None,
        check: bool = True,
    ) -> RunResult:
        """Ingest what is due, then cluster, clean and archive what is due, as ``parquetry run`` does.

        If the applied spec of a table differs from the declared one, the run skips the table unless
        ``applied`` is True. If a job fails, the other tables continue; then the job's error is raised. At the
        end, the metrics of all tables are emitted as the target declares.

        Args:
            only: ``ingest`` or ``services`` to do only this part, None for both.
            applied: Use the applied specs, even if the declared ones differ.
            spark: The session for jobs that read rows; None to start a session or to call spark-submit, as
                the target asks.
            check: Raise the error of a failed job. With False, the result is returned and its ``failure`` is
                that error.

        Returns:
            One outcome per job, in order.

        Raises:
            UsageError: ``only`` has another value.
            PartialFailureError: A job failed after something was committed.

        """
        if only is not None and only not in set(Only):
            parts = " or ".join(repr(str(part)) for part in Only)
            raise UsageError("only= is {only}; give {expected}", only=repr(only), expected=parts)
        run_id = new_run_id()
        with python_messages():
            result = run_tables(
                self._workspace,
                only=None if only is None else Only(only),
                run_id=run_id,
                prepare=launcher_for(self._workspace, run_id)
                if spark is None
                else lambda _: lambda job: execute(job, session=lambda _: spark),
                observer=NoProgress(),
                diagnose=unexpected_error,
                applied=applied,
            )
            if self._workspace.project.target.metrics is not None:
                from parquetry.cli.requests.emission import emit_metrics_of  # noqa: PLC0415  # needs click

                emit_metrics_of(self._workspace, warn=lambda reason: _LOG.warning("%s", in_python(reason)))
            if check and result.failure is not None:
                raise result.failure
        return result


def load(
    directory: str | os.PathLike[str],
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Project:
    """Load, validate and return the project in ``directory`` at a target.

    Args:
        directory: The folder with `parquetry.yml`.
        target: The name of the target; None for the project's default target.
        variables: The values of the project's variables.
        select: Selectors of the tables to use, as on the command line.
        exclude: Selectors of the tables not to use.

    Raises:
        SpecError: The files have errors. ``diagnostics`` has all of them, and the message lists them.
        UndeclaredVariableError: The project does not declare one of the variables.
        SelectionError: A selector is not valid.
        UsageError: A selector is a text instead of a list, or the target is not a text.

    """
    for name, given in (("select", select), ("exclude", exclude)):
        if isinstance(given, str):
            raise UsageError(
                "{parameter}= is one selector, {selector!r}; give a list of them: [{selector!r}]",
                parameter=name,
                selector=given,
            )
    if not isinstance(target, str | None):
        raise UsageError("target= is {target}; give the name of a target", target=repr(target))
    with python_messages():
        workspace = open_workspace(
            Path(directory),
            target=target,
            variables=variables or {},
            environment=os.environ,
            select=tuple(select),
            exclude=tuple(exclude),
        )
    return Project(_workspace=workspace)


class NoProgress:
    """An observer that shows nothing, as the result of the run has every outcome."""

    def planned(self, jobs: tuple[JobPlan, ...]) -> None:
        """Ignore the jobs that will run."""

    def started(self, job: JobPlan) -> None:
        """Ignore the start of a job."""

    def ended(self, outcome: JobOutcome) -> None:
        """Ignore the end of a job."""


def unexpected_error(failure: Exception) -> ParquetryError:
    """Return the error to raise for a job's unexpected exception, which becomes its cause."""
    if (ended := spark_ended()) is not None:
        ended.__cause__ = failure
        return ended
    error = UnexpectedError(
        "a bug of parquetry ({error}: {reason}); please report it",
        error=type(failure).__name__,
        reason=message_of(failure),
    )
    error.__cause__ = failure
    return error
