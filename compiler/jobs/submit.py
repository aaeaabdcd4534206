"""Execution of jobs by spark-submit: the package is shipped, the process followed, and its result read.

The target's settings are divided into the command line of spark-submit and the job's own settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parquetry.compiler.errors import JobFailedError
from parquetry.compiler.jobs.scripts import render_job
from parquetry.compiler.jobs.shipping import write_package
from parquetry.compiler.security.secrets import references
from parquetry.compiler.workspace.opened import Workspace
from parquetry.confined_folder import ConfinedFolder
from parquetry.errors import UsageError, message_of
from parquetry.message import command, message_from_json, with_commands
from parquetry.project.model.resolved import SparkLaunchSettings
from parquetry.project.validation.interpolate import Secret
from parquetry.runtime.errors import InvalidDataError, NotFoundError
from parquetry.runtime.interruption import ended_by_interruption
from parquetry.runtime.main import RESULT_PREFIX, JobResult, execute, log_rules, report_path
from parquetry.runtime.redaction import secret_options
from parquetry.runtime.spark_environment import spark_environment
from parquetry.runtime.spark_log import NAME, log_hint, log_pipe, open_log
from parquetry.runtime.spec.codec import from_json_value, json_object
from parquetry.runtime.spec.job import JobKind, JobPlan

_PY_FILES = "--py-files"
_CONF = ("--conf", "-c")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSubmit:
    """The launcher of one run. ``folder`` receives the scripts and the zip of the package."""

    workspace: Workspace
    run_id: str
    folder: Path

    def __call__(self, job: JobPlan) -> JobResult:
        """Execute the job. Jobs that read no rows run in this process.

        Raises:
            JobFailedError: If the job fails, with the message and exit code of the job.
        """
        if job.kind not in (JobKind.INGEST, JobKind.CLUSTER, JobKind.TEST):
            return execute(job)
        job = self._with_hidden(job)
        script = self.folder / f"{job.table}.{job.name}.py"
        project_folder = ConfinedFolder(self.workspace.project.root)
        package = write_package(project_folder, self.folder / "parquetry.zip")
        source = render_job(job, file=script.name, package=package.name, report=self._report(job))
        project_folder.write(script, source, private=True)
        returncode, document = self._follow(job, self.command(job, script, package))
        reported = self._reported(job)
        document = _with_commands(document or reported)
        if "error" in document:
            raise _failure(document)
        if returncode != 0:
            raise JobFailedError(
                "spark-submit ended with {exit_status}: {hint}",
                exit_status=returncode,
                hint=log_hint(),
                exit_code=1,
            )
        if not document:
            raise JobFailedError(
                "spark-submit succeeded, but the job left no result: {command} shows what it committed; in "
                "cluster mode, let spark-submit wait for the application",
                command=command("timeline", job.table),
                exit_code=1,
            )
        return from_json_value(JobResult, document, place="result of spark-submit")

    def _with_hidden(self, job: JobPlan) -> JobPlan:
        """Return the job with the settings that its command line must not show, and references to secrets."""
        hidden = submit_arguments(self.workspace.project.target.spark).hidden
        return replace(job, spark=replace(job.spark, conf={**job.spark.conf, **references(hidden)}))

    def command(self, job: JobPlan, script: Path, package: Path) -> list[str]:
        """Return the words of the command, without secrets, because every user of this machine can read them.

        The ``--py-files`` of the target's own arguments are shipped too.
        """
        own = submit_arguments(self.workspace.project.target.spark)
        master = [] if job.spark.master is None else ["--master", job.spark.master]
        packages = ["--packages", ",".join(job.spark.packages)] if job.spark.packages else []
        files = ["--py-files", ",".join([str(package), *own.files])]
        return [_program(), *master, *packages, *own.words, *files, str(script)]

    def _report(self, job: JobPlan) -> str:
        """Return the path beside the table to which a job writes its result."""
        return report_path(f"{self.run_id}.{job.name}")

    def _follow(self, job: JobPlan, command: list[str]) -> tuple[int, Mapping[str, Any]]:
        """Run the command, log its output, and return its exit code and result line."""
        names = (*job.variables, *job.references)
        environment = {"PYSPARK_PYTHON": sys.executable} | spark_environment(names)
        result: Mapping[str, Any] = {}
        file = open_log(self.folder / NAME, root=self.workspace.project.root)
        with log_pipe(file, log_rules(job)) as log:
            try:
                # Output in another encoding must not end the supervision of the job.
                child = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=log.end,
                    encoding="utf-8",
                    errors="backslashreplace",
                    env=environment,
                )
            except OSError as error:
                raise JobFailedError(
                    "{program} cannot be started ({reason}); install Spark or set SPARK_HOME",
                    program=command[0],
                    reason=error.strerror,
                    exit_code=1,
                ) from error
            with child, ended_by_interruption(child.terminate):
                try:
                    for line in child.stdout or ():
                        if line.startswith(RESULT_PREFIX):
                            document = line.removeprefix(RESULT_PREFIX).encode()
                            result = json_object(document, place=RESULT_PREFIX)
                        else:
                            log.write(line, prefix=f"{job.table} {job.name}: ")
                except KeyboardInterrupt:
                    # The signal may have been for this process alone.
                    child.terminate()
                    raise
            log.drain()
        return child.returncode, result

    def _reported(self, job: JobPlan) -> Mapping[str, Any]:
        """Return the result that the job left beside the table, and delete it there.

        In cluster mode the output of the job stays on the cluster, so the result arrives only in this way.
        """
        store = self.workspace.store_at(job.location)
        try:
            document: Mapping[str, Any] = json_object(store.read(self._report(job)), place=self._report(job))
        except NotFoundError:
            return {}
        store.delete(self._report(job))
        return document


def _failure(document: Mapping[str, Any]) -> JobFailedError:
    """Return the failure of a job from its result."""
    try:
        return JobFailedError(
            message_from_json(document["message"]),
            exit_code=document["exit_code"],
            declared=document["declared"],
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidDataError(
            "result of spark-submit: {reason}; read its log", reason=message_of(error)
        ) from error


def _with_commands(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result with those texts that contain commands turned into messages."""
    texts = {key: value for key, value in document.items() if key != "commands"}
    try:
        completed: Mapping[str, Any] = with_commands(texts, document.get("commands", ()))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidDataError("result of spark-submit: {reason}", reason=message_of(error)) from error
    return completed


def _program() -> str:
    """Return the path of spark-submit: in SPARK_HOME, beside Python, or else its name for a search."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return str(Path(home, "bin", "spark-submit"))
    beside = Path(sys.executable).parent / "spark-submit"
    return str(beside) if beside.exists() else "spark-submit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitArguments:
    """The arguments of spark-submit: ``words`` without secrets, ``files`` to ship, ``hidden`` settings."""

    words: tuple[str, ...]
    files: tuple[str, ...]
    hidden: Mapping[str, str | Secret]


def submit_arguments(spark: SparkLaunchSettings) -> SubmitArguments:
    """Return the arguments from ``spark.conf`` and ``submit_args``.

    All ``--py-files`` are collected in ``files``, because spark-submit uses only the last such option.

    Raises:
        UsageError: If a secret is used elsewhere than as the value of a setting.
    """
    words: list[str] = []
    files: list[str] = []
    hidden: dict[str, str | Secret] = {}

    def add_setting(key: str, value: str | Secret) -> None:
        """Add a setting: to the hidden ones if it contains a secret, else to the command line."""
        if isinstance(value, Secret) or secret_options({key: value}):
            hidden[key] = value
        else:
            hidden.pop(key, None)
            words.append(f"--conf={key}={value}")

    for key, value in spark.conf.items():
        add_setting(key, value)
    for option, argument in _options(spark.submit_args):
        if option in _CONF:
            add_setting(*_split(argument))
        elif isinstance(argument, Secret):
            raise _exposed_secret_error(argument)
        elif option == _PY_FILES:
            files += [file for file in argument.split(",") if file]
        else:
            words.append(argument)
    return SubmitArguments(words=tuple(words), files=tuple(files), hidden=hidden)


def _options(arguments: Sequence[str | Secret]) -> Iterator[tuple[str, str | Secret]]:
    """Yield the values of ``--conf`` and ``--py-files`` with their option, other words with an empty one."""
    words = iter(arguments)
    for word in words:
        option, equals, _ = str(word).partition("=")
        if option not in (*_CONF, _PY_FILES):
            yield "", word
        else:
            yield option, _split(word)[1] if equals else next(words, "")


def _split(word: str | Secret) -> tuple[str, str | Secret]:
    """Return the parts before and after the first ``=``; the part before it must not contain a secret."""
    name, _, rest = str(word).partition("=")
    if not isinstance(word, Secret):
        return name, rest
    template, text = word.template.partition("="), word.reveal().partition("=")
    if not name == template[0] == text[0]:
        raise _exposed_secret_error(word)
    return name, Secret(masked=rest, template=template[2], names=word.names, _text=text[2])


def _exposed_secret_error(word: Secret) -> UsageError:
    """Return the error for a secret in ``submit_args`` that would be on the command line."""
    return UsageError(
        "submit_args: {argument} would be on the command line of spark-submit, which every user of the "
        "machine can read; set it under spark.conf, which the job reads itself, or in a file that the "
        "argument names",
        argument=str(word),
    )
