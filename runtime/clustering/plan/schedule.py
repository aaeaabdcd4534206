"""Clustering plans on the timeline: created under the lock, then executed by this or another process.

A plan is the file ``T.replacecommit.requested``. Once it exists, writers of this project no longer fill the
small files that it names. Writers that change rows of these files continue, and win. A plan contains the
forecast of each group, and a sidecar the samples behind the forecasts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from parquetry.message import command
from parquetry.runtime.clustering.forecast.by_sample import PredictedGroups, predict
from parquetry.runtime.clustering.forecast.queries import (
    GroupForecast,
    QueryForecast,
    prediction_metadata,
    sum_by_query,
)
from parquetry.runtime.clustering.forecast.sample import SampleLimits
from parquetry.runtime.clustering.plan.avro import avro_plan
from parquetry.runtime.clustering.plan.survey import (
    changed_groups,
    reserved_groups,
)
from parquetry.runtime.clustering.rewrite.kept_sample import SAMPLE_KEY, encode_samples
from parquetry.runtime.commit.claims import Claim, Heartbeat, Session, is_alive, open_session, read_claim
from parquetry.runtime.commit.lock import TableLock
from parquetry.runtime.commit.owner import Owner
from parquetry.runtime.commit.recovery import SCHEDULED, recovered, recovered_timeline
from parquetry.runtime.commit.table_lock import table_lock
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.layout.clustering.model import PlannedGroup
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.spec.clustering import ClusteringSpec
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import logging_failures
from parquetry.runtime.table.admission import check_writable
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clustering_plan import (
    CLUSTER,
    ClusteringGroup,
    ClusteringPlan,
    RequestedReplace,
)
from parquetry.runtime.timeline.instant import Action, Instant, State
from parquetry.runtime.timeline.rereading import retry_stale
from parquetry.runtime.timeline.sidecars import claim_path, sample_path
from parquetry.runtime.timing import DEFAULT_TIMING, Timing

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledPlan:
    """A pending plan on the timeline: its instant, its groups and their forecasts."""

    instant: str
    groups: tuple[PlannedGroup, ...]
    queries: tuple[QueryForecast, ...]


def applied_policy(table: TableHandle) -> ClusteringSpec:
    """Return the clustering policy of the applied spec, or the default one without an applied spec."""
    return ClusteringSpec() if table.spec is None else table.spec.clustering


@contextmanager
def begin_clustering(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    predicted: PredictedGroups | None = None,
    known: Timeline | None = None,
    timing: Timing,
) -> Iterator[Transaction | None]:
    """Yield a transaction whose plan is on the timeline, for execution by this process.

    Groups that have changed since they were planned, or that a live writer has announced, are left out of the
    plan. If no group remains, yield None. If the process dies, the next writer rolls the plan back.

    Args:
        table: The table.
        groups: The groups of the plan.
        predicted: Predictions from the choice of scope. Rows of these groups are not read again.
        known: A timeline that the caller has listed, on which the files of the groups are current, or None.
        timing: The time limits of sessions and locks.

    Raises:
        UnsupportedTableError: If the table must not be written to.
        ConflictError: If a pending write of another program may be alive, see
            :func:`~parquetry.runtime.commit.recovery.recover`.
        LockHeldError: If another process does not release the lock.

    """
    forecasts = predict_groups(table, groups, predicted=predicted, known=known)
    timeline, current = _current_now(table, groups, known=known, timing=timing)
    with _session(table, timeline, purpose=CLUSTER, timing=timing) as session:
        if _write_plan(table, session, timeline, current, forecasts) is None:
            session.acknowledge()
            yield None
            return
        yield _transaction(table, session, timeline)


def schedule(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    predicted: PredictedGroups | None = None,
    known: Timeline | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> ScheduledPlan | None:
    """Put a plan on the timeline for :func:`begin_scheduled`; return None if no group of it remains.

    After ``timing.plan_expires_seconds`` the next writer rolls the plan back. The arguments and errors are
    those of :func:`begin_clustering`.
    """
    forecasts = predict_groups(table, groups, predicted=predicted, known=known)
    timeline, current = _current_now(table, groups, known=known, timing=timing)
    with _session(table, timeline, purpose=SCHEDULED, timing=timing) as session:
        requested = _write_plan(table, session, timeline, current, forecasts)
        if requested is None:
            session.acknowledge()
            return None
        session.withdraw()
        first_files = (group.files[0].key for group in requested)
        queries = sum_by_query(
            query for key in first_files if key in forecasts for query in forecasts[key].queries
        )
        return ScheduledPlan(instant=session.instant, groups=requested, queries=queries)


@contextmanager
def begin_scheduled(table: TableHandle, instant: str, *, timing: Timing) -> Iterator[Transaction]:
    """Yield the transaction of a pending plan, also of Hudi's, which this process executes from now on.

    It also raises the errors of :func:`begin_clustering`.

    Raises:
        InvalidDataError: If no plan of that instant is pending.
        ConflictError: If another process is executing it.

    """
    store = table.store
    owner = Owner.here()
    claim = Claim(instant=instant, purpose=CLUSTER, run=instant, attempt=0, owner=owner)
    heartbeat = Heartbeat(store, instant, timing)
    try:
        timeline = recovered_timeline(table, timing=timing)
        with _session(table, timeline, purpose="take up a clustering plan", timing=timing) as session:
            with table_lock(table, session):
                check_pending(table, instant, timing)
                heartbeat.start()
                store.put(claim_path(instant), claim.to_bytes())
            session.acknowledge()
        session = Session(store=store, claim=claim, heartbeat=heartbeat, timing=timing)
        yield _transaction(table, session, timeline)
    finally:
        heartbeat.stop()
        owner.finish()


@contextmanager
def _session(table: TableHandle, timeline: Timeline, *, purpose: str, timing: Timing) -> Iterator[Session]:
    """Yield a session on an instant that is newer than the timeline."""
    after, zone = timeline.last_instant, table.config.timezone
    with open_session(table.store, purpose=purpose, after=after, zone=zone, timing=timing) as session:
        yield session


@retry_stale
def _current_now(
    table: TableHandle, groups: Sequence[PlannedGroup], *, known: Timeline | None, timing: Timing
) -> tuple[Timeline, tuple[PlannedGroup, ...]]:
    """Return the timeline after recovery from dead writes, and the groups whose files are current on it."""
    timeline = recovered(table, table.timeline(known), timing=timing)
    return timeline, _current(table, groups, since=known, now=timeline)


def _transaction(table: TableHandle, session: Session, known: Timeline) -> Transaction:
    # The table may have been opened long ago, before Spark started, and another spec applied since.
    table = table.reopen()
    return Transaction(session, table, table.timeline(known), action=Action.REPLACECOMMIT, operation=CLUSTER)


@retry_stale
def _write_plan(
    table: TableHandle,
    session: Session,
    timeline: Timeline,
    groups: Sequence[PlannedGroup],
    predicted: Mapping[FileKey, GroupForecast],
) -> tuple[PlannedGroup, ...] | None:
    """Put the plan on the timeline under the lock; return its groups, or None if nothing remains to plan.

    The files of the groups are current on the ``timeline``.
    """
    if not groups:
        return None
    store, policy = table.store, applied_policy(table)
    wanted = {group.files[0].key for group in groups}
    predicted = {key: forecast for key, forecast in predicted.items() if key in wanted}
    samples = keep_samples(store, session.instant, predicted)
    requested: tuple[PlannedGroup, ...] | None = None
    try:
        with table_lock(table, session, validates=True) as lock:
            now = timeline.reload()
            current = replace(table, config=table.config_under_lock())
            check_writable(current, now, store.now_ms())
            groups = _current(table, groups, since=timeline, now=now)
            publishable = _not_reserved(groups, now, timing=session.timing)
            if publishable:
                plan = with_forecast(
                    avro_plan(store, publishable, policy), session.instant, predicted, samples
                )
                instant = now.layout.requested(session.instant, Action.REPLACECOMMIT, is_clustering=True)
                requested = publishable if _put_plan(session, lock, instant, plan) else None
    finally:
        if samples and requested is None:
            with logging_failures(store.uri, f"the sample of the plan {session.instant} was not deleted"):
                store.delete(sample_path(session.instant))
    return requested


def _put_plan(session: Session, lock: TableLock, requested: Instant, plan: ClusteringPlan) -> bool:
    """Write the requested file, release the lock, and return whether it was held meanwhile.

    If not, the plan is withdrawn.
    """
    store = session.store
    request = RequestedReplace(operation=CLUSTER, plan=plan)
    if store.put_if_absent(requested.path, request.encode()) is PutOutcome.LOST:
        _LOG.warning("%s: another program has created %s first; plan again", store.uri, requested.file_name)
        return False
    is_held = True
    with logging_failures(
        store.uri, f"the plan {session.instant} is written, but the lock could not be read again"
    ):
        is_held = lock.is_held()
        if is_held:
            lock.release(is_confirmed=True)
    if not is_held:
        # Another process took the lock while this one slept. It may have published or planned the same files.
        store.delete(requested.path)
        _LOG.warning(
            "%s: the lock was lost while the clustering %s was planned; plan again",
            store.uri,
            session.instant,
        )
    return is_held


def _current(
    table: TableHandle, groups: Sequence[PlannedGroup], *, since: Timeline | None, now: Timeline
) -> tuple[PlannedGroup, ...]:
    """Return the groups whose files are all current on the timeline ``now``.

    ``since`` is an older timeline on which they all were, or None if there is none.
    """
    if since is not None and _keeps_writes(since, now):
        changed = changed_groups(since, now, [file.key for group in groups for file in group.files])
        return tuple(group for group in groups if changed.isdisjoint(file.key for file in group.files))
    # A write was rolled back or archived, so only the listings show which files are current.
    view = table.view(now)
    partitions = sorted({group.partition for group in groups})
    view.list_partitions(partitions)
    current = {part.path for partition in partitions for part in view.slices(partition)}
    return tuple(group for group in groups if all(file.path in current for file in group.files))


def _keeps_writes(since: Timeline, now: Timeline) -> bool:
    """Return whether no write of the timeline ``since`` has left it: by a rollback, or into the archive.

    A write that was pending may have been completed and archived meanwhile.
    """
    return all(now.is_completed(write.time) for write in since.completed_writes) and all(
        now.contains(write.time) for write in since.pending_writes
    )


def _not_reserved(
    groups: Sequence[PlannedGroup], now: Timeline, *, timing: Timing
) -> tuple[PlannedGroup, ...]:
    """Return the groups that no live writer has announced and no pending plan names."""
    reserved = reserved_groups(now, timing=timing)
    return tuple(group for group in groups if not any(file.key in reserved for file in group.files))


def check_pending(table: TableHandle, instant: str, timing: Timing) -> None:
    """Check that a plan of that instant is pending and that no process is executing it.

    Raises:
        InvalidDataError: If no plan of that instant is pending.
        ConflictError: If another process is executing it.

    """
    store = table.store
    now = table.timeline()
    if instant not in now.pending_clusterings:
        raise InvalidDataError(
            "{table}: the clustering plan {instant} is not pending; pending plans: {pending}",
            table=store.uri,
            instant=instant,
            pending=sorted(now.pending_clusterings) or None,
        )
    claim = read_claim(store, instant)
    write = now.write_at(instant)
    has_begun = write is not None and write.state is State.INFLIGHT
    if has_begun or (claim is not None and claim.purpose != SCHEDULED and is_alive(store, claim, timing)):
        raise ConflictError(
            "{table}: {owner} is executing the clustering {instant}; wait until it ends, or roll it back "
            "with {command}",
            table=store.uri,
            owner="another program" if claim is None else str(claim.owner),
            instant=instant,
            command=command("service", "rollback", table.name, instant),
        )


@retry_stale
def predict_groups(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    predicted: PredictedGroups | None,
    known: Timeline | None = None,
    limits: SampleLimits | None = None,
) -> Mapping[FileKey, GroupForecast]:
    """Return the forecast of each group under the applied policy, by its first file.

    Call it before taking a lock, because it reads rows.

    Args:
        table: The table.
        groups: The groups of the plan.
        predicted: Predictions from the choice of scope. Rows of these groups are not read again.
        known: A timeline that the caller has listed, or None.
        limits: The limits of the sample.

    Returns:
        The forecasts, empty if no query is declared and rows are not ranked by a sample.

    """
    spec = table.effective_spec(known or table.timeline())
    return predict(table.store, spec, groups, known=predicted, limits=limits)


def keep_samples(
    store: ObjectStore, instant: str, predicted: Mapping[FileKey, GroupForecast]
) -> Mapping[FileKey, int]:
    """Store the samples of the predictions in a sidecar, and return the number of each, by first file.

    This happens before the lock is taken, so the sidecar may contain groups that do not get into the plan.
    """
    samples = encode_samples([forecast.sample for forecast in predicted.values()])
    if samples is None:
        return {}
    store.put(sample_path(instant), samples)
    return {
        key: number for number, (key, forecast) in enumerate(predicted.items()) if forecast.sample is not None
    }


def with_forecast(
    plan: ClusteringPlan,
    instant: str,
    predicted: Mapping[FileKey, GroupForecast],
    samples: Mapping[FileKey, int],
) -> ClusteringPlan:
    """Return the plan with the forecast of each group and the reference to its sample.

    Args:
        plan: The plan.
        instant: The instant of the plan, which names the sidecar of samples.
        predicted: The forecasts, by first file.
        samples: The numbers of the samples in the sidecar, by first file.

    """
    extra = {**plan.extra, SAMPLE_KEY: sample_path(instant)} if samples else plan.extra
    groups = tuple(_predicted_group(group, predicted, samples) for group in plan.groups)
    return replace(plan, extra=extra, groups=groups)


def _predicted_group(
    group: ClusteringGroup, predicted: Mapping[FileKey, GroupForecast], samples: Mapping[FileKey, int]
) -> ClusteringGroup:
    key = group.slices[0].key
    metadata = prediction_metadata(predicted[key]) if key in predicted else {}
    if key in samples:
        metadata[SAMPLE_KEY] = str(samples[key])
    return replace(group, extra={**group.extra, **metadata})
