"""Clustering on Spark: plan it and execute it.

One task rewrites a small group; several tasks together rewrite a large one by key ranges.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from parquetry.errors import ParquetryError
from parquetry.message import Message, Text, command
from parquetry.runtime.base_file.model import WriteContext
from parquetry.runtime.base_file.result import (
    FileResult,
    WriteResults,
    concerns_bucket_only,
    read_independent_results,
)
from parquetry.runtime.clustering.plan.due import due_clustering
from parquetry.runtime.clustering.plan.execution import (
    ClusteringResult,
    PartlyClusteredError,
    RewrittenGroup,
    UnpublishedGroup,
    plan_result,
    planned_work,
)
from parquetry.runtime.clustering.plan.history import record_unpublished
from parquetry.runtime.clustering.plan.measure import QueryMeasure, WorkMeasure
from parquetry.runtime.clustering.plan.publishable import PublishableGroups, outcome_of_groups, replaced_by
from parquetry.runtime.clustering.plan.schedule import begin_clustering, begin_scheduled
from parquetry.runtime.clustering.rewrite.task import GroupWork, group_rewriter
from parquetry.runtime.commit.outcome import CommitResult, WriteOutcome
from parquetry.runtime.commit.publish import run_once
from parquetry.runtime.commit.table_state import TableState
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.interruption import is_interrupted
from parquetry.runtime.layout.clustering.debt import in_batches
from parquetry.runtime.layout.clustering.model import PlannedGroup
from parquetry.runtime.layout.clustering.run_budget import NO_LIMIT, RunBudget
from parquetry.runtime.services.after_write import run_due_services
from parquetry.runtime.spark.attempt.write_attempt import Attempt
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.numbered import run_numbered
from parquetry.runtime.spark.session.settings import parallelism, reachable_parallelism
from parquetry.runtime.spark.shuffle import rewrite_by_ranges
from parquetry.runtime.spark_log import LogRules, add_rules
from parquetry.runtime.spec.masking import has_personal_columns
from parquetry.runtime.table.file_names import BaseFileName
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.task_failures import Task
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import CLUSTER, ClusteringPlan
from parquetry.runtime.timeline.instant import Action
from parquetry.runtime.timeline.markers import MarkerKind
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_MOST_BATCHES: Final = 4
_TASKS_PER_CORE: Final = 2


def cluster(
    spark: SparkSession,
    table: TableHandle,
    *,
    budget: RunBudget = NO_LIMIT,
    stops_at_ms: int | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> ClusteringResult:
    """Cluster the files that are due by the applied spec, and return what was done.

    The group with the oldest file comes first, then the best benefit per byte. The run executes in up to four
    batches. Each batch is a replacecommit of its own, so its result stays published if the run is stopped
    later. A group whose files a writer changes meanwhile is left out; this is not an error. A group that
    cannot be rewritten is left out as well, with the reason. Any other failure ends the run. It is raised as
    it is if nothing was published.

    If there is a time at which the run stops, no group begins from then on. The groups that have begun are
    completed and published, and the others wait for the next run.

    Args:
        spark: The session.
        table: The table.
        budget: The limit of the bytes that the run may rewrite.
        stops_at_ms: The time from which no group begins, in milliseconds since 1970 (UTC); None if there is
            none.
        timing: The periods of the commit protocol.

    Raises:
        PartlyClusteredError: If something was published and something failed. It contains the result.

    """
    add_rules(LogRules(personal=has_personal_columns(table.spec)))
    due = due_clustering(table, budget=budget, timing=timing)
    chosen = due.debt
    batches = _batches(chosen.groups, reachable_parallelism(spark))
    deferred = 0
    timeline: Timeline | None = None
    parts: list[ClusteringResult] = []
    failures: list[Exception] = []
    begun: Sequence[PlannedGroup] = ()
    try:
        for number, groups in enumerate(batches):
            if any(part.excluded_files for part in parts) or _must_stop(stops_at_ms):
                deferred = sum(len(group.files) for batch in batches[number:] for group in batch)
                break
            table = table.reopen() if parts else table
            known = None if parts else due.timeline
            timeline, begun = None, groups
            with begin_clustering(
                table, groups, predicted=due.predicted, known=known, timing=timing
            ) as transaction:
                if transaction is not None:
                    part, failed, timeline = _execute(spark, transaction, stops_at_ms=stops_at_ms)
                    parts.append(part)
                    failures += failed
            begun = ()
    except (ParquetryError, PySparkException, Py4JJavaError) as failure:
        failures.append(failure)
    deferred += sum(part.excluded_files for part in parts)
    lost_bytes = sum(group.size_bytes for group in begun)
    result = sum(parts, start=ClusteringResult(attempted_bytes=lost_bytes))
    result = replace(result, excluded_files=len(chosen.excluded) + deferred)
    if deferred:
        result = replace(result, warnings=(*result.warnings, _stopped(deferred)))
    return _finish(table, result, failures, timeline=timeline, timing=timing)


def _batches(groups: Sequence[PlannedGroup], cores: int) -> Sequence[Sequence[PlannedGroup]]:
    """Return the batches of a run: at most four, each with enough groups for all cores."""
    return in_batches(groups, max(min(len(groups) // (_TASKS_PER_CORE * cores), _MOST_BATCHES), 1))


def _must_stop(stops_at_ms: int | None) -> bool:
    """Return whether nothing may begin, as the time has come or the run was interrupted."""
    return is_interrupted() or (stops_at_ms is not None and time.time() * 1000 >= stops_at_ms)


def _stopped(files: int) -> Text:
    if is_interrupted():
        return Message(
            "the run was interrupted with {files:,d} due files left; a later run goes on with them",
            files=files,
        )
    return Message(
        "the time for services ended with {files:,d} due files left; a later run goes on with them",
        files=files,
    )


def execute(
    spark: SparkSession, table: TableHandle, instant: str, *, timing: Timing = DEFAULT_TIMING
) -> ClusteringResult:
    """Execute the pending clustering plan of an instant, made by this project or by Hudi.

    Errors are those of :func:`~parquetry.runtime.clustering.plan.schedule.begin_scheduled`, and for groups
    that cannot be rewritten those of :func:`cluster`.
    """
    add_rules(LogRules(personal=has_personal_columns(table.spec)))
    with begin_scheduled(table, instant, timing=timing) as transaction:
        result, failures, timeline = _execute(spark, transaction)
    return _finish(table, result, failures, timeline=timeline, timing=timing)


def _finish(
    table: TableHandle,
    result: ClusteringResult,
    failures: Sequence[Exception],
    *,
    timeline: Timeline | None,
    timing: Timing,
) -> ClusteringResult:
    """Run the services that are due, and return the result of the run or raise its first failure.

    ``timeline`` is the one that shows the commit of the last part, or None if it has to be listed.

    Raises:
        PartlyClusteredError: If something was published and something failed.

    """
    if result.instants:
        last = CommitResult(instant=result.instants[-1], action=Action.REPLACECOMMIT, operation=CLUSTER)
        services = run_due_services(table, last, timeline, timing=timing)
        result = replace(result, warnings=result.warnings + services.warnings)
    if not failures:
        return result
    if result.instants:
        raise PartlyClusteredError(table.store.uri, failures, result) from failures[0]
    raise failures[0]


def _execute(
    spark: SparkSession, transaction: Transaction, *, stops_at_ms: int | None = None
) -> tuple[ClusteringResult, Sequence[ParquetryError], Timeline | None]:
    """Execute one plan.

    Returns:
        Its result, whose excluded files are those of groups that did not begin in time, the failures of
        groups, which are also left out, and the timeline that shows its commit, if it was listed.

    """
    plans: list[ClusteringPlan] = []
    runs: list[_Run] = []

    def rewrite(transaction: Transaction) -> WriteOutcome | None:
        # The plan is read here because run_once rolls it back if this function fails.
        plans.append(_plan_of(transaction))
        runs.append(_Run(spark, transaction, plans[0], stops_at_ms=stops_at_ms))
        return runs[0].rewrite()

    def narrow(outcome: WriteOutcome, now: Timeline) -> WriteOutcome | None:
        return runs[0].narrow(outcome, now)

    commit, timeline = run_once(transaction, body=rewrite, narrow=narrow)
    file_groups = {part.key for plan in plans for group in plan.groups for part in group.slices}
    deferred = sum(len(work.slices) for run in runs for work in run.publishable.deferred)
    if commit.instant is None and file_groups and not deferred:
        # Groups that did not begin in time must not wait because of that.
        record_unpublished(transaction.timeline, transaction.instant, file_groups)
    if not runs:
        return plan_result(commit, (), (), ()), (), timeline
    publishable = runs[0].publishable
    result = plan_result(commit, publishable.groups, publishable.left_out, publishable.queries)
    result = replace(result, excluded_files=deferred, attempted_bytes=runs[0].attempted_bytes)
    return result, runs[0].failures, timeline


def _plan_of(transaction: Transaction) -> ClusteringPlan:
    """Return the plan of the transaction.

    Raises:
        InvalidDataError: If the instant has no plan.

    """
    plan = transaction.timeline.requested_replace(transaction.instant).plan
    if plan is None:
        raise InvalidDataError(
            "{table}: {instant} is not a clustering plan; see {command}",
            table=transaction.store.uri,
            instant=transaction.instant,
            command=command("timeline", transaction.table.name),
        )
    return plan


class _Run:
    """The execution of one clustering plan up to its replacecommit.

    ``failures`` are the errors of groups that cannot be rewritten.
    """

    def __init__(
        self, spark: SparkSession, transaction: Transaction, plan: ClusteringPlan, *, stops_at_ms: int | None
    ) -> None:
        self._spark = spark
        self._stops_at_ms = stops_at_ms
        self._transaction = transaction
        self._plan = plan
        self._planned = planned_work(transaction, plan)
        self._work = WorkMeasure(
            transaction.table,
            transaction.timeline,
            plan,
            planned=self._planned,
            cores=parallelism(spark),
        )
        self.publishable = PublishableGroups(transaction, self._planned, measure=self._work)
        self.failures: list[ParquetryError] = []

    @property
    def attempted_bytes(self) -> int:
        """The bytes of the groups whose rewrite began."""
        return self._work.attempted_bytes

    def rewrite(self) -> WriteOutcome | None:
        """Rewrite the groups that can still be rewritten; return None if none was."""
        works, transaction = self._planned.works, self._transaction
        if not works:
            return None
        attempt = self._attempt(transaction.timeline)
        measure = QueryMeasure(attempt.state.spec, self._plan)
        measure.read_statistics_before(transaction.store, [part for work in works for part in work.slices])
        buckets = [work.bucket(transaction.instant, task) for work in works for task in range(work.tasks)]
        first = (
            BaseFileName(partition=b.partition, file_id=b.file_id, instant=transaction.instant).path
            for b in buckets
        )
        transaction.put_markers({MarkerKind.CREATE: first})
        context = replace(attempt.context(ordering=None), clustering=self._planned.digest)
        with self._work.rewriting():
            results = _rewrite(self._spark, context, works, self._stops_at_ms)
        begun = [work for work in works if work.index not in results.deferred]
        self._work.attempted_bytes = sum(work.size_bytes for work in begun)
        self.publishable.deferred = [work for work in works if work.index in results.deferred]
        self._sort_out(begun, results, measure)
        return self._outcome(attempt) if self.publishable.groups else None

    def narrow(self, outcome: WriteOutcome, now: Timeline) -> WriteOutcome | None:
        """Return the part of the outcome that may be published on the table as it is now, or None.

        ``run_once`` calls this under the lock. Groups that other writers have changed are left out.
        """
        has_changes = self.publishable.leave_out_changed(now)
        if not self.publishable.groups:
            return None
        self.publishable.delete_left_out_files()
        if has_changes:
            outcome = outcome_of_groups(outcome, self.publishable.groups, self.publishable.extra_metadata())
        if now.completed_writes == self._transaction.timeline.completed_writes:
            return outcome
        schema = self._attempt(now).state.schema_json
        return outcome if schema == outcome.schema_json else replace(outcome, schema_json=schema)

    def _attempt(self, timeline: Timeline) -> Attempt:
        state = TableState(handle=self._transaction.table, timeline=timeline)
        return Attempt(spark=self._spark, transaction=self._transaction, state=state)

    def _sort_out(self, works: Sequence[GroupWork], results: WriteResults, measure: QueryMeasure) -> None:
        files: dict[int, list[FileResult]] = {}
        for file in results.files:
            files.setdefault(file.bucket, []).append(file)
        for work in works:
            if all(number in results.buckets for number in work.numbers):
                group = RewrittenGroup(
                    work=work, files=tuple(file for number in work.numbers for file in files.get(number, ()))
                )
                self.publishable.groups.append(replace(group, queries=measure.measured([group])))
                continue
            reason: Text = "a clean deleted one of its files during the clustering"
            failed = (results.failures[number] for number in work.numbers if number in results.failures)
            if failure := next(failed, None):
                self.failures.append(failure)
                reason = Message("it cannot be rewritten: {reason}", reason=failure.message)
            left = UnpublishedGroup(partition=work.partition, files=len(work.slices), reason=reason)
            self.publishable.left_out.append(left)

    def _outcome(self, attempt: Attempt) -> WriteOutcome:
        files = tuple(file for group in self.publishable.groups for file in group.files)
        outcome = attempt.outcome(
            CLUSTER,
            results=WriteResults(files=files, buckets={}),
            replaced=replaced_by(self.publishable.groups),
        )
        return replace(outcome, extra={**outcome.extra, **self.publishable.extra_metadata()})


def _rewrite(
    spark: SparkSession, context: WriteContext, works: Sequence[GroupWork], stops_at_ms: int | None = None
) -> WriteResults:
    """Rewrite the groups: those of several tasks by ranges, then the others by one task each."""
    parts = [
        # Each of these groups uses all cores.
        _deferred([work]) if _must_stop(stops_at_ms) else _rewrite_by_ranges(spark, context, work)
        for work in works
        if work.tasks > 1
    ]
    alone = [work for work in works if work.tasks == 1]
    if alone:
        is_past = _must_stop(stops_at_ms)
        parts.append(_deferred(alone) if is_past else _rewrite_each(spark, context, alone, stops_at_ms))
    files = (file for part in parts for file in part.files)
    return WriteResults(
        files=tuple(sorted(files, key=lambda file: file.stat.path)),
        buckets={number: bucket for part in parts for number, bucket in part.buckets.items()},
        failures={number: failure for part in parts for number, failure in part.failures.items()},
        deferred=frozenset(number for part in parts for number in part.deferred),
    )


def _deferred(works: Sequence[GroupWork]) -> WriteResults:
    """Return the results of groups that did not begin."""
    return WriteResults(
        files=(), buckets={}, deferred=frozenset(number for work in works for number in work.numbers)
    )


def _rewrite_by_ranges(spark: SparkSession, context: WriteContext, work: GroupWork) -> WriteResults:
    try:
        return rewrite_by_ranges(spark, context, work)
    except ParquetryError as failure:
        if not concerns_bucket_only(failure):
            raise
        return WriteResults(files=(), buckets={}, failures=dict.fromkeys(work.numbers, failure))


def _rewrite_each(
    spark: SparkSession, context: WriteContext, works: Sequence[GroupWork], stops_at_ms: int | None
) -> WriteResults:
    """Rewrite groups by one task each: the largest first, or in their order if the run stops at some time."""
    ordered = works if stops_at_ms is not None else sorted(works, key=lambda work: -work.size_bytes)
    task = group_rewriter(context, ordered)
    if stops_at_ms is not None:
        task = _begun_before(stops_at_ms, task)
    with failures_translated("the rows to cluster", of_table=True):
        rows = run_numbered(spark, task, len(ordered))
        answered = {row["bucket"] for row in rows}
        deferred = _deferred([work for work in works if work.index not in answered]).deferred
        return replace(read_independent_results(rows), deferred=deferred)


def _begun_before(stops_at_ms: int, task: Task) -> Task:
    """Return a task that yields nothing if it begins at that time or later.

    Each task checks this itself, because Spark starts it when a core is free. Further attempts of a task that
    has begun in time go on.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        is_first = context is None or context.attemptNumber() == 0
        if not (is_first and _must_stop(stops_at_ms)):
            yield from task(batches)

    return run
