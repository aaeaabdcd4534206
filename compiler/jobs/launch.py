"""Who carries jobs out: this process, or spark-submit."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import Any

from parquetry.compiler.jobs.run import Launch
from parquetry.compiler.jobs.submit import SparkSubmit
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.project.model.resolved import Launcher
from parquetry.runtime.main import execute, log_rules, start_spark
from parquetry.runtime.spark_log import ANYTHING, NAME, LogRules, keep_log
from parquetry.runtime.spec.job import JobPlan


def new_run_id() -> str:
    """A name for a run's folder, in the order of time to the millisecond."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}-{now.microsecond // 1000:03x}{secrets.token_hex(2)[1:]}"


def launcher_for(workspace: Workspace, run_id: str) -> Callable[[tuple[JobPlan, ...]], Launch]:
    """What prepares the launching of jobs, as the target's ``spark`` asks.

    LinkInTheWayError where nothing can be left about the run.
    """
    root = workspace.project.root
    folder = root / "target" / "runs" / run_id
    ConfinedFolder(root).check(folder / NAME)
    if workspace.project.target.spark.launcher is Launcher.SPARK_SUBMIT:
        submit = SparkSubmit(workspace=workspace, run_id=run_id, folder=folder)
        return lambda _: submit
    return partial(in_process, log=folder / NAME, root=root)


def in_process(jobs: tuple[JobPlan, ...], *, log: Path, root: Path) -> Launch:
    """One session for all jobs, started when the first one has rows to read. ``log`` is below ``root``."""
    environment = tuple(dict.fromkeys(name for job in jobs for name in job.variables))
    rules = reduce(LogRules.__or__, map(log_rules, jobs), ANYTHING)

    def session(job: JobPlan) -> Any:
        hide_pandas_warnings()
        job = replace(job, spark=replace(job.spark, environment=environment))
        return start_spark(job, log=keep_log(log, root=root), rules=rules)

    return lambda job: execute(job, session=session)


def hide_pandas_warnings() -> None:
    """PySpark's warnings of the pandas it finds are not shown: who runs a command can do nothing about it."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
