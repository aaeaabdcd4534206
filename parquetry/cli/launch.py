"""Who carries jobs out: this process, or spark-submit."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from parquetry.cli.output import Output
from parquetry.cli.progress import working
from parquetry.cli.submit import SparkSubmit
from parquetry.compiler.running import Launch
from parquetry.compiler.workspace import Workspace
from parquetry.project.model import Launcher
from parquetry.runtime.job import JobPlan
from parquetry.runtime.main import JobResult, execute, start_spark


def new_run_id() -> str:
    """A name for a run's folder, in the order of time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def launcher_for(workspace: Workspace, run_id: str) -> Callable[[tuple[JobPlan, ...]], Launch]:
    """What prepares the launching of jobs, as the target's ``spark`` asks."""
    if workspace.project.target.spark.launcher is Launcher.SPARK_SUBMIT:
        folder = workspace.project.root / "target" / "runs" / run_id
        submit = SparkSubmit(workspace=workspace, run_id=run_id, folder=folder)
        return lambda _: submit
    return _in_process


def one_by_one(prepare: Callable[[tuple[JobPlan, ...]], Launch], output: Output) -> Launch:
    """What carries out jobs that are not known beforehand, each shown while it runs."""

    def launch(job: JobPlan) -> JobResult:
        with working(output, f"{job.table} {job.name}"):
            return prepare((job,))(job)

    return launch


def _in_process(jobs: tuple[JobPlan, ...]) -> Launch:
    """One session for all jobs, started when the first one has rows to read."""
    packages = tuple(dict.fromkeys(package for job in jobs for package in job.spark.packages))

    def session(job: JobPlan) -> Any:
        hide_pandas_warnings()
        return start_spark(replace(job, spark=replace(job.spark, packages=packages)))

    return lambda job: execute(job, session=session)


def hide_pandas_warnings() -> None:
    """PySpark's warnings of the pandas it finds are not shown: who runs a command can do nothing about it."""
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
