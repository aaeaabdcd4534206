"""The execution of one job: the last step of `run`, of compiled scripts and of `python -m parquetry.runtime`.

The module also has the services that users start by hand and that need their own Spark session.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parquetry.errors import ParquetryError, message_of
from parquetry.message import (
    Message,
    Text,
    Value,
    commands_of,
    message,
    message_json,
    run,
    texts,
    with_parts,
)
from parquetry.runtime.allowed import Allowed
from parquetry.runtime.apply.requirements import check_requirements
from parquetry.runtime.apply.table_change import ChangeResult, TableChange, apply_change
from parquetry.runtime.catalog.sync import SyncResult
from parquetry.runtime.clustering.plan.due import due_by_statistics
from parquetry.runtime.clustering.plan.execution import ClusteringResult
from parquetry.runtime.clustering.plan.schedule import check_pending
from parquetry.runtime.commit.outcome import CommitResult
from parquetry.runtime.errors import (
    ConflictError,
    ForeignTableError,
    InvalidDataError,
    SourceChangedError,
)
from parquetry.runtime.layout.clustering.run_budget import RunBudget, left_for_later
from parquetry.runtime.publish.publishing import publish_after
from parquetry.runtime.redaction import secrets_of, without_secrets
from parquetry.runtime.services.archive import archive, archive_if_due
from parquetry.runtime.services.clean import clean, clean_if_due
from parquetry.runtime.sources.due import SET_ASIDE, DueBatch, find_due
from parquetry.runtime.spark_environment import key_variables, storage_variables
from parquetry.runtime.spark_log import NO_RULES, LogRules
from parquetry.runtime.spec.codec import OMIT_EMPTY, Brief, parsed_json, to_json_value
from parquetry.runtime.spec.job import JobKind, JobPlan, SparkSettings, resolve_environment
from parquetry.runtime.spec.masking import (
    cleared,
    failures_masked,
    has_personal_columns,
    pii_columns,
)
from parquetry.runtime.spec.row_tests import RowTestsResult
from parquetry.runtime.spec.table_spec import Source
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.applied import check_owned, read_identity
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.table.properties import PROPERTIES_PATH
from parquetry.runtime.timeline.last_clustering import record_begun
from parquetry.runtime.timeline.sidecars import REPORTS_FOLDER
from parquetry.runtime.timing import DEFAULT_TIMING
from parquetry.runtime.write.partition_retention import delete_expired_partitions
from parquetry.text.printable import visible, without_commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from parquetry.runtime.spark.purge import PurgeReport, Survey

RESULT_PREFIX = "parquetry-result: "
_USAGE_CODE = 2
_ROUNDS = 5
_MOST_SET_ASIDE = 100
"""The maximum number of files that are set aside. After each of them, the other files are read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceResult:
    """The result of a clean and an archive, and of the deletion of expired partitions before them."""

    files_cleaned: int = 0
    instants_archived: int = 0
    partitions_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class JobResult(Brief):
    """The result of a job.

    One of ``applied``, ``commit``, ``clustering``, ``services``, ``tested`` and ``synced`` is set, or nothing
    was due. A sync of the entry in a catalog that failed has a warning alone.
    ``warnings`` report missing things that were expected. ``set_aside`` has the reasons for which files of a
    source were left out.
    """

    table: str
    job: str
    files_read: int = 0
    files_changed: int = 0
    applied: ChangeResult | None = None
    commit: CommitResult | None = None
    services: ServiceResult | None = None
    clustering: ClusteringResult | None = None
    warnings: tuple[Text, ...] = ()
    set_aside: tuple[Text, ...] = ()
    tested: RowTestsResult | None = field(default=None, metadata=OMIT_EMPTY)
    synced: SyncResult | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def files_written(self) -> int:
        """The number of base files that a commit or a clustering wrote."""
        commit, clustering = self.commit, self.clustering
        return (0 if commit is None else commit.files) + (0 if clustering is None else clustering.files_after)

    @property
    def bytes_written(self) -> int:
        """The number of bytes of the base files that a commit or a clustering wrote."""
        written = 0 if self.commit is None else self.commit.bytes_written
        return written + (0 if self.clustering is None else self.clustering.bytes_after)

    @property
    def committed(self) -> bool:
        """True if the table's timeline or its applied record changed."""
        if self.commit is not None:
            return self.commit.instant is not None
        if self.clustering is not None:
            return bool(self.clustering.instants)
        return self.applied is not None or self.services not in (None, ServiceResult())


def execute(job: JobPlan, *, session: Callable[[JobPlan], SparkSession] | None = None) -> JobResult:
    """Execute the job.

    In the result and in failures, personal values and secrets are masked.

    Args:
        job: The job.
        session: Returns the Spark session for jobs that read rows. By default, :func:`start_spark`.

    Raises:
        StalePlanError: If the requirements of the job are not met. Nothing is done then.
        ForeignTableError: If the table does not belong to the project and the target of the job. This is
            checked first, and again before a write.

    """
    try:
        with failures_masked(job.spec, location=job.location):
            result = _execute(job, session or start_spark)
        return _without_secrets(cleared(result, job.spec, location=job.location), job.secrets)
    except ParquetryError as failure:
        failure.reword(lambda message: message.changed(partial(without_secrets, values=job.secrets)))
        raise


def _without_secrets(result: JobResult, secrets: Collection[str]) -> JobResult:
    """Return the result without secrets in its messages, warnings, reasons and problems."""
    hide = partial(without_secrets, values=secrets)
    tested = result.tested
    if tested is not None:
        answers = (replace(one, problem=one.problem and message(one.problem)) for one in tested.answers)
        tested = replace(tested, answers=tuple(answers))
    result = replace(
        result,
        warnings=tuple(map(message, result.warnings)),
        set_aside=tuple(map(message, result.set_aside)),
        tested=tested,
    )
    return with_parts(result, lambda part, _: part.changed(hide) if isinstance(part, Message) else part)


def _execute(job: JobPlan, session: Callable[[JobPlan], SparkSession]) -> JobResult:
    storage = resolve_environment(job.storage)
    store = open_store(job.location, storage, job.spec.allowed)
    if job.kind is JobKind.CREATE:
        return _create(job, store)
    if job.kind is JobKind.TEST:
        return _test(job, store, storage, session)
    check_requirements(store, job.requirements, owner=job.owner, settings=job.settings)
    match job.kind:
        case JobKind.CLEAN | JobKind.SERVICES:
            return _services(job, store)
        case JobKind.CLUSTER:
            return _cluster(job, store, session)
        case JobKind.INGEST:
            return _ingest(job, store, storage, session)


def _test(
    job: JobPlan, store: ObjectStore, storage: Mapping[str, Any], session: Callable[[JobPlan], SparkSession]
) -> JobResult:
    """Run the tests of the job, which write nothing. The job fails if a file to read is gone."""
    assert job.tests is not None, "jobs that test have tests"
    owner = job.owner if job.project else None
    handle = open_table(store, owner=owner)
    spark = session(job)
    from parquetry.runtime.spark.testing.execution import execute_row_tests  # noqa: PLC0415  # see start_spark

    tested = execute_row_tests(
        spark,
        handle,
        job.tests,
        personal=pii_columns(job.spec.columns, handle.spec.columns if handle.spec else ()),
        other=lambda table: open_table(
            open_store(table.location, storage, Allowed(keys=frozenset(table.encryption_keys))), owner=owner
        ),
    )
    return JobResult(table=job.table, job=job.name, files_read=tested.files, tested=tested)


def start_spark(job: JobPlan, *, log: Path | None = None, rules: LogRules = NO_RULES) -> SparkSession:
    """Return the running Spark session, or start one with the settings of the job.

    Args:
        job: The job.
        log: The file for the output of Spark. By default, stderr.
        rules: Rules for this output, in addition to those of the job.

    """
    from parquetry.runtime.spark.session.start import start_session  # noqa: PLC0415  # only jobs that read rows need it

    settings = replace(job.spark, environment=job.variables)
    return start_session(
        settings, name=f"parquetry {job.table} {job.name}", log=log, rules=rules | log_rules(job)
    )


def log_rules(job: JobPlan) -> LogRules:
    """Return the rules for the output of Spark during the job."""
    return LogRules(secrets=job.secrets, personal=has_personal_columns(job.spec))


def spark_ended() -> ParquetryError | None:
    """Return the error to report after any failure if the JVM of this process has ended, or None.

    Py4J reports the end of the JVM with many different errors.
    """
    if "pyspark" not in sys.modules:
        return None
    from parquetry.runtime.spark.session.start import ended_error, has_ended  # noqa: PLC0415  # see start_spark

    # A process that has just been killed may still respond for a moment.
    return ended_error() if has_ended(patience_seconds=1.0) else None


def cancel_spark_jobs() -> None:
    """Cancel the Spark jobs of all threads of this process, if it has a session."""
    if "pyspark" in sys.modules:
        from parquetry.runtime.spark.session.start import cancel_jobs  # noqa: PLC0415  # see start_spark

        cancel_jobs()


def _create(job: JobPlan, store: ObjectStore) -> JobResult:
    if read_identity(store) is not None:
        check_owned(store, job.owner)
    change = TableChange(
        spec=job.spec,
        requirements=job.requirements,
        alters_schema=False,
        project=job.project,
        target=job.target,
        settings=job.settings,
        plan_id=job.plan_id,
        git_commit=job.git_commit,
        dirty=job.dirty,
        signing_keys=job.signing_keys,
    )
    return JobResult(table=job.table, job=job.name, applied=apply_change(store, change))


def _services(job: JobPlan, store: ObjectStore) -> JobResult:
    """Delete expired partitions, clean, and archive.

    A replaced group must leave the disk before its replacecommit is archived.
    """
    whole = job.kind is JobKind.CLEAN
    expired = delete_expired_partitions(open_table(store, owner=job.owner))
    handle = open_table(store, owner=job.owner)
    publish_after(handle, "run")
    cleaned = (clean if whole else clean_if_due)(handle)
    archived = (archive if whole else archive_if_due)(open_table(store, owner=job.owner))
    services = ServiceResult(
        files_cleaned=cleaned.files_deleted + cleaned.orphans_deleted if cleaned else 0,
        instants_archived=len(archived.instants) if archived else 0,
        partitions_deleted=len(expired.deleted),
    )
    return JobResult(table=job.table, job=job.name, services=services, warnings=expired.warnings)


def _cluster(job: JobPlan, store: ObjectStore, session: Callable[[JobPlan], SparkSession]) -> JobResult:
    """Cluster due files. Spark starts only if there are some and the budget allows it.

    It is recorded before what begins, so that a job that dies counts as well.
    """
    handle = open_table(store, owner=job.owner)
    budget = RunBudget(
        limit_bytes=job.budget_bytes, spent_bytes=job.spent_bytes or 0, is_strict=bool(job.is_strict)
    )
    due = due_by_statistics(handle, budget)
    if not due.groups:
        reason = left_for_later(due.excluded)
        left = (
            None if reason is None else ClusteringResult(excluded_files=len(due.excluded), warnings=(reason,))
        )
        return JobResult(table=job.table, job=job.name, clustering=left)
    record_begun(store, size_bytes=due.rewritten_bytes)
    spark = session(job)
    from parquetry.runtime.spark.cluster import cluster  # noqa: PLC0415  # see start_spark

    result = cluster(spark, handle, budget=budget, stops_at_ms=job.stops_at_ms)
    return JobResult(table=job.table, job=job.name, clustering=result)


def _ingest(
    job: JobPlan, store: ObjectStore, storage: Mapping[str, Any], session: Callable[[JobPlan], SparkSession]
) -> JobResult:
    """Ingest the due files of the source. If another run ingested them first, list the source again.

    Spark starts only if there is something to ingest.
    """
    extra = {"parquetry.plan_id": job.plan_id} if job.plan_id else {}
    set_aside: dict[str, Text] = {}
    reason: Text = f"source {job.source} of {job.table}: other runs ingested its files first"
    rounds = 0
    while rounds < _ROUNDS:
        handle = open_table(store, owner=job.owner)
        source = _applied_source(job, handle)
        due = find_due(
            handle, source, directory=job.directory, storage=storage, excluded_paths=frozenset(set_aside)
        )
        if due is None or due.consumption is None:
            return _ingest_result(job, due, set_aside)
        spark = session(job)
        from parquetry.runtime.spark.ingest import write_batch  # noqa: PLC0415  # see start_spark

        try:
            commit = write_batch(
                spark,
                handle,
                source,
                due,
                directory=job.directory,
                storage=storage,
                extra=extra,
                clustering_budget_bytes=job.budget_bytes,
            )
        except SourceChangedError as error:
            reason, rounds = error.message, rounds + 1
            continue
        except InvalidDataError as failure:
            bad = due.file_in(failure.in_full()) if source.bad_files == SET_ASIDE else None
            if bad is None or len(set_aside) == _MOST_SET_ASIDE:
                raise
            set_aside[bad] = failure.message
            continue
        if not commit.superseded:
            return replace(_ingest_result(job, due, set_aside), commit=commit)
        rounds += 1
    raise ConflictError("{reason} ({attempts} attempts); run it again", reason=reason, attempts=_ROUNDS)


def _ingest_result(job: JobPlan, due: DueBatch | None, set_aside: Mapping[str, Text]) -> JobResult:
    """Return the result of an ingestion. ``set_aside`` has the reason for each bad file."""
    refused: dict[str, Text] = dict(set_aside)
    if due is None:
        return JobResult(table=job.table, job=job.name, set_aside=tuple(refused.values()))
    refused |= {
        each.path: Message("{file} {reason}", file=Value.uri(each.path), reason=each.reason)
        for each in due.refused
    }
    return JobResult(
        table=job.table,
        job=job.name,
        files_read=len(due.files),
        files_changed=due.changed_files,
        warnings=due.warnings,
        set_aside=tuple(refused.values()),
    )


def _applied_source(job: JobPlan, handle: TableHandle) -> Source:
    declared = handle.spec.sources if handle.spec else ()
    source = next((s for s in declared if s.name == job.source), None)
    if source is None:
        raise InvalidDataError(
            "table {table}: its applied spec has no source {source!r}; apply the spec that has it",
            table=job.table,
            source=job.source,
        )
    return source


def report_path(name: str) -> str:
    """Return the path, relative to the table, of the result of a job that was launched with that name."""
    return f"{REPORTS_FOLDER}/{name}.json"


def run_document(document: Mapping[str, Any], *, folder: str, report: str | None = None) -> int:
    """Run a job given as plain values, print its result as one line on stdout, and return the exit code.

    Scripts that contain their job, and ``python -m parquetry.runtime``, call this function.

    Args:
        document: The JSON values of the job.
        folder: The folder of the job's file, where its relative paths start.
        report: A path, relative to the table, to which the result is also written, for a launcher that cannot
            read the output.

    """
    try:
        job = JobPlan.from_json(document).with_absolute_paths(folder)
    except ParquetryError as error:
        return _print_result(_failure(error))
    try:
        document = _with_commands(to_json_value(execute(job), messages=True))
    except ParquetryError as error:
        document = _failure(error)
        if isinstance(error, ForeignTableError):
            report = None
    if report is not None:
        # The outcome of the job does not depend on the report.
        with suppress(ParquetryError):
            _write_report(open_store(job.location, resolve_environment(job.storage)), report, document)
    return _print_result(document)


def _write_report(store: ObjectStore, report: str, document: Mapping[str, Any]) -> None:
    """Write the result to the folder of the table, if there is a table."""
    if store.stat(PROPERTIES_PATH) is not None:
        store.put(report, json.dumps(document).encode())


def _failure(error: ParquetryError) -> dict[str, Any]:
    text = error.in_full()
    sys.stderr.write(without_commands(visible(f"error: {text}\n")))
    about = {"declared": error.declared, "exit_code": error.exit_code}
    return {"error": text, "message": message_json(error.message), **about}


def _with_commands(document: dict[str, Any]) -> dict[str, Any]:
    """Return the result with the commands in its texts, for the program that prints them."""
    commands = commands_of(document)
    with_texts: dict[str, Any] = texts(document | {"commands": commands} if commands else document)
    return with_texts


def _print_result(document: Mapping[str, Any]) -> int:
    sys.stdout.write(f"{RESULT_PREFIX}{json.dumps(document)}\n")
    code: int = document["exit_code"] if "error" in document else 0
    return code


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m parquetry.runtime JOB.json``, and return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m parquetry.runtime JOB.json\n")
        return _USAGE_CODE
    try:
        document = _read_document(Path(arguments[0]))
    except InvalidDataError as error:
        return _print_result(_failure(error))
    return run_document(document, folder=str(Path(arguments[0]).parent))


def _read_document(path: Path) -> Mapping[str, Any]:
    remedy = Message("{command} and name one of target/jobs/TABLE/*.json", command=run("compile"))
    try:
        document = parsed_json(path.read_bytes())
    except OSError as error:
        raise InvalidDataError(
            "{file}: the job cannot be read: {reason}; {remedy}",
            file=path,
            reason=error.strerror,
            remedy=remedy,
        ) from error
    except ValueError as error:
        raise InvalidDataError(
            "{file}: the job is not JSON: {reason}; {remedy}",
            file=path,
            reason=message_of(error),
            remedy=remedy,
        ) from error
    if not isinstance(document, dict):
        raise InvalidDataError(
            "{file}: a job is an object, not {found:.80}; {remedy}",
            file=path,
            found=repr(document),
            remedy=remedy,
        )
    return document


def survey_in_own_session(
    table: TableHandle,
    settings: SparkSettings,
    *,
    where: str | None,
    keys: Path | None,
    log: Path | None = None,
) -> Survey:
    """Return what a purge would delete.

    The errors are those of :func:`parquetry.runtime.spark.purge.survey`.

    Args:
        table: The table.
        settings: The settings of the Spark session.
        where: The SQL condition of the rows, or None.
        keys: The file with the record keys, or None.
        log: The file for the output of Spark. By default, stderr.

    """
    from parquetry.runtime.spark.purge import PurgeRequest, survey  # noqa: PLC0415 - heavy

    with _own_session(table, settings, "purge", log) as spark:
        return survey(spark, table, PurgeRequest(where=where, keys=keys))


def purge_in_own_session(
    table: TableHandle, settings: SparkSettings, surveyed: Survey, *, log: Path | None = None
) -> PurgeReport:
    """Execute a purge, and return what it deleted and where it still found a value.

    The errors are those of :func:`parquetry.runtime.spark.purge.purge`.

    Args:
        table: The table.
        settings: The settings of the Spark session.
        surveyed: The survey of the purge.
        log: The file for the output of Spark. By default, stderr.

    """
    from parquetry.runtime.spark.purge import purge  # noqa: PLC0415 - heavy

    with _own_session(table, settings, "purge", log) as spark:
        return table.cleared(purge(spark, table, surveyed))


@contextmanager
def _own_session(
    table: TableHandle, settings: SparkSettings, purpose: str, log: Path | None
) -> Iterator[SparkSession]:
    """Yield a Spark session for one service of a table, and mask personal values in failures."""
    from parquetry.runtime.spark.session.start import start_session  # noqa: PLC0415 - heavy

    rules = LogRules(secrets=secrets_of(settings.conf), personal=has_personal_columns(table.spec))
    names = (
        *settings.environment,
        *storage_variables(table.store.uri),
        *key_variables(table.store.allowed.keys),
    )
    settings = replace(settings, environment=names)
    with table.failures_masked():
        yield start_session(settings, name=f"parquetry {table.name} {purpose}", log=log, rules=rules)


def cluster_in_own_session(
    table: TableHandle,
    settings: SparkSettings,
    *,
    instant: str | None,
    budget_bytes: int,
    log: Path | None = None,
) -> ClusteringResult:
    """Cluster a table, and return the result.

    The errors are those of ``cluster`` and ``execute`` in :mod:`parquetry.runtime.spark.cluster`.

    Args:
        table: The table.
        settings: The settings of the Spark session.
        instant: The pending clustering plan to execute, or None to plan and execute what is due.
        budget_bytes: The maximum number of bytes to rewrite if ``instant`` is None.
        log: The file for the output of Spark. By default, stderr.

    """
    if instant is not None:
        check_pending(table, instant, DEFAULT_TIMING)
    from parquetry.runtime.spark.cluster import cluster, execute  # noqa: PLC0415 - heavy

    with _own_session(table, settings, "cluster", log) as spark:
        if instant is not None:
            result = execute(spark, table, instant)
        else:
            result = cluster(spark, table, budget=RunBudget(limit_bytes=budget_bytes))
    return table.cleared(result)
