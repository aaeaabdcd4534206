"""Who carries jobs out: this process, or spark-submit."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parquetry.compiler.errors import JobFailedError
from parquetry.compiler.running import Launch
from parquetry.compiler.scripts import render_job
from parquetry.compiler.workspace import Workspace
from parquetry.project.interpolate import Secret
from parquetry.project.model import Launcher
from parquetry.runtime.codec import from_json_value
from parquetry.runtime.job import JobKind, JobPlan
from parquetry.runtime.main import RESULT_PREFIX, JobResult, execute, start_spark


def new_run_id() -> str:
    """A name for a run's folder, in the order of time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def launcher_for(workspace: Workspace, run_id: str) -> Callable[[tuple[JobPlan, ...]], Launch]:
    """What prepares the launching of jobs, as the target's ``spark`` asks."""
    if workspace.project.target.spark.launcher is Launcher.SPARK_SUBMIT:
        folder = workspace.project.root / "target" / "runs" / run_id
        return lambda _: lambda job: _submit(job, workspace, folder)
    return _in_process


def _in_process(jobs: tuple[JobPlan, ...]) -> Launch:
    """One session for all jobs, started when the first one has rows to read."""
    packages = tuple(dict.fromkeys(package for job in jobs for package in job.spark.packages))

    def session(job: JobPlan) -> Any:
        # PySpark warns of the pandas it finds; whoever runs a command cannot do anything about it.
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\.")
        return start_spark(replace(job, spark=replace(job.spark, packages=packages)))

    return lambda job: execute(job, session=session)


def _submit(job: JobPlan, workspace: Workspace, folder: Path) -> JobResult:
    if job.kind not in (JobKind.INGEST, JobKind.CLUSTER):
        return execute(job)
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"{job.table}.{job.name}.py"
    script.write_text(render_job(job), encoding="utf-8")
    command = _command(job, workspace, script)
    environment = {"PYSPARK_PYTHON": sys.executable} | dict(os.environ)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    except OSError as error:
        raise JobFailedError(
            f"{command[0]} cannot be started ({error.strerror}); install Spark or set SPARK_HOME", exit_code=1
        ) from error
    return _result(job, done.stdout, done.returncode)


def _command(job: JobPlan, workspace: Workspace, script: Path) -> list[str]:
    home = os.environ.get("SPARK_HOME")
    beside = Path(sys.executable).parent / "spark-submit"
    program = (
        str(Path(home, "bin", "spark-submit"))
        if home
        else (str(beside) if beside.exists() else "spark-submit")
    )
    spark = workspace.project.target.spark
    master = [] if job.spark.master is None else ["--master", job.spark.master]
    packages = ["--packages", ",".join(job.spark.packages)] if job.spark.packages else []
    conf = [f"--conf={key}={value}" for key, value in spark.conf.items() if not isinstance(value, Secret)]
    arguments = [a.reveal() if isinstance(a, Secret) else a for a in spark.submit_args]
    return [program, *master, *packages, *conf, *arguments, str(script)]


def _result(job: JobPlan, stdout: str, returncode: int) -> JobResult:
    lines = [line for line in stdout.splitlines() if line.startswith(RESULT_PREFIX)]
    document: Mapping[str, Any] = json.loads(lines[-1].removeprefix(RESULT_PREFIX)) if lines else {}
    if "error" in document:
        raise JobFailedError(document["error"], exit_code=document["exit_code"])
    if returncode != 0:
        raise JobFailedError(f"spark-submit ended with {returncode}; its output above says why", exit_code=1)
    if not document:
        # In cluster mode the driver's output stays on the cluster.
        return JobResult(table=job.table, job=job.name)
    return from_json_value(JobResult, document, place="result of spark-submit")
