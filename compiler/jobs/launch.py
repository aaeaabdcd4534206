"""The launcher of jobs: this process or spark-submit."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from threading import Lock
from typing import Any

from parquetry.compiler.jobs.submit import SparkSubmit
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import ParquetryError
from parquetry.project.model.resolved import Launcher
from parquetry.runtime.clustering.plan.execution import PartlyClusteredError
from parquetry.runtime.main import JobResult, execute, log_rules, start_spark
from parquetry.runtime.spark_log import NAME, NO_RULES, LogRules, open_log
from parquetry.runtime.spec.job import JobKind, JobPlan, resolve_environment
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.timeline.last_clustering import last_begun

Launch = Callable[[JobPlan], JobResult]


def new_run_id() -> str:
    """Return a new id for a run. Ids sort by time, to the millisecond."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}-{now.microsecond // 1000:03x}{secrets.token_hex(2)[1:]}"


def launcher_for(workspace: Workspace, run_id: str) -> Callable[[tuple[JobPlan, ...]], Launch]:
    """Return the function that prepares the launcher of jobs, by the target's ``spark`` settings.

    Raises:
        LinkInTheWayError: If a link prevents that the run writes its log.
    """
    root = workspace.project.root
    folder = root / "target" / "runs" / run_id
    ConfinedFolder(root).check(folder / NAME)
    if workspace.project.target.spark.launcher is Launcher.SPARK_SUBMIT:
        submit = SparkSubmit(workspace=workspace, run_id=run_id, folder=folder)
        return lambda _: submit
    return partial(in_process, log=folder / NAME, root=root)


def in_process(jobs: tuple[JobPlan, ...], *, log: Path, root: Path) -> Launch:
    """Return a launcher with one Spark session for all jobs, which starts when the first job reads rows.

    ``log`` is a file below ``root``.
    """
    environment = tuple(dict.fromkeys(name for job in jobs for name in job.variables))
    rules = reduce(LogRules.__or__, map(log_rules, jobs), NO_RULES)

    turn = Lock()

    def session(job: JobPlan) -> Any:
        hide_pandas_warnings()
        job = replace(job, spark=replace(job.spark, environment=environment))
        with turn:
            return start_spark(job, log=open_log(log, root=root), rules=rules)

    return lambda job: execute(job, session=session)


def hide_pandas_warnings() -> None:
    """Hide PySpark's warnings about the installed pandas, because users of a command cannot act on them."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")


class BudgetedLauncher:
    """A launcher whose clustering jobs share the budget of the run. ``spent_bytes`` of it are used."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._turn = Lock()
        self.spent_bytes = 0

    def __call__(self, job: JobPlan) -> JobResult:
        """Run a job; a clustering gets what earlier clusterings of the run have left of the budget."""
        if job.kind is not JobKind.CLUSTER:
            return self._launch(job)
        started_at, spent_bytes = time.monotonic(), max(self.spent_bytes, job.spent_bytes or 0)
        job = replace(job, spent_bytes=spent_bytes)
        try:
            result = self._launch(job)
        except PartlyClusteredError as partly:
            self._spend(partly.result.attempted_bytes)
            raise
        except Exception:
            begun_bytes = _begun_bytes(job, seconds=time.monotonic() - started_at)
            if job.budget_bytes is not None:
                # Whoever writes to the table can write this figure.
                begun_bytes = min(begun_bytes, max(job.budget_bytes - spent_bytes, 0))
            self._spend(begun_bytes)
            raise
        if result.clustering is not None:
            self._spend(result.clustering.attempted_bytes)
        return result

    def _spend(self, size_bytes: int) -> None:
        with self._turn:
            self.spent_bytes += size_bytes


def _begun_bytes(job: JobPlan, *, seconds: float) -> int:
    """Return the bytes that a failed clustering was to rewrite, 0 if it did not begin since its launch.

    Nobody knows how many of them it rewrote, so all count. ``seconds`` is the time since the launch.
    """
    try:
        store = open_store(job.location, resolve_environment(job.storage), job.spec.allowed)
        # The clocks of object stores count full seconds.
        begun, launched_ms = last_begun(store), store.now_ms() - round(seconds * 1000) - 1000
    except ParquetryError:
        # The failure of the job is the one to report.
        return 0
    return begun.size_bytes if begun is not None and begun.at_ms >= launched_ms else 0
