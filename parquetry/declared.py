"""Projects in Python: load, plan, apply.

>>> project = parquetry.load("my_project", target="dev")
>>> project.plan().apply()
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquetry.compiler.applying import ApplyResult, apply_plan
from parquetry.compiler.plan import Intent
from parquetry.compiler.plan import Plan as SavedPlan
from parquetry.compiler.plan_codec import encode, plan_json
from parquetry.compiler.planning import plan_workspace
from parquetry.compiler.workspace import Workspace, open_workspace
from parquetry.runtime.main import execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What applying would do, as planned at one moment; see ``intent`` and :meth:`to_json`."""

    _plan: SavedPlan
    _workspace: Workspace

    @property
    def plan_id(self) -> str:
        """The digest of the intent: equal as long as the same would be done."""
        return self._plan.plan_id

    @property
    def intent(self) -> Intent:
        """The actions, and the tables that are blocked."""
        return self._plan.intent

    @property
    def is_empty(self) -> bool:
        """Whether everything is as declared."""
        return self._plan.is_empty

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, as ``parquetry plan --format json`` prints them."""
        return plan_json(self._plan)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan for ``parquetry apply PLANFILE``."""
        Path(path).write_text(encode(self._plan), encoding="utf-8")

    def apply(self, spark: SparkSession | None = None) -> ApplyResult:
        """Carry the plan out, without planning again.

        ``spark`` is for actions that rewrite data; without it they start a session as the target asks.
        Raises BlockedPlanError before anything is done, and afterwards the error of a table that
        failed: StalePlanError when it changed since the plan was made, PartialFailureError when
        other tables were applied.
        """
        session = None if spark is None else lambda _: spark
        result = apply_plan(self._plan, self._workspace, launch=lambda job: execute(job, session=session))
        if result.failure is not None:
            raise result.failure
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A valid project at one target."""

    _workspace: Workspace

    @property
    def name(self) -> str:
        """The project's name."""
        return self._workspace.project.name

    @property
    def target(self) -> str:
        """The name of the target it was loaded for."""
        return self._workspace.project.target.name

    @property
    def tables(self) -> Mapping[str, str]:
        """The locations of the tables by name."""
        return {table.name: table.location for table in self._workspace.tables}

    def plan(self) -> Plan:
        """What applying would change now; reads the tables and writes nothing."""
        saved = plan_workspace(self._workspace, now_ms=time.time_ns() // 1_000_000)
        return Plan(_plan=saved, _workspace=self._workspace)


def load(
    directory: str | os.PathLike[str],
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    select: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
) -> Project:
    """The project in ``directory`` at a target, by default its default one.

    Raises SpecError, whose ``diagnostics`` are everything that is wrong with the files, and
    UndeclaredVariableError for a variable that they do not declare.
    """
    workspace = open_workspace(
        Path(directory),
        target=target,
        variables=variables or {},
        environment=os.environ,
        select=select,
        exclude=exclude,
    )
    return Project(_workspace=workspace)
