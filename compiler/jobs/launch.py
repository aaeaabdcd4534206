"""The launcher of jobs: this process or spark-submit."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from threading import Lock
from typing import Any

from parquetry.compiler.jobs.run import Launch
from parquetry.compiler.jobs.submit import SparkSubmit
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.project.model.resolved import Launcher
from parquetry.runtime.main import execute, log_rules, start_spark
from parquetry.runtime.spark_log import NAME, NO_RULES, LogRules, open_log
from parquetry.runtime.spec.job import JobPlan


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
