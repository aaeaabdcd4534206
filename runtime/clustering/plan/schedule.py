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
from parquetry.runtime.commit.recovery import SCHEDULED, recovered_timeline
from parquetry.runtime.commit.table_lock import table_lock
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.errors import ConflictError, InvalidDataError
from parquetry.runtime.layout.clustering.model import PlannedGroup
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.storage.model import ObjectStore, PutOutcome
from parquetry.runtime.storage.os_errors import logging_failures
from parquetry.runtime.storage.parallel import map_each
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


@contextmanager
def begin_clustering(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    predicted: PredictedGroups | None = None,
    timing: Timing,
) -> Iterator[Transaction | None]:
    """Yield a transaction whose plan is on the timeline, for execution by this process.

    Groups that have changed since they were planned, or that a live writer has announced, are left out of the
    plan. If no group remains, yield None. If the process dies, the next writer rolls the plan back.

    Args:
        table: The table.
        groups: The groups of the plan.
        predicted: Predictions from the choice of scope. Rows of these groups are not read again.
        timing: The time limits of sessions and locks.

    Raises:
        UnsupportedTableError: If the table must not be written to.
        ConflictError: If a pending write of another program may be alive, see
            :func:`~parquetry.runtime.commit.recovery.recover`.
        LockHeldError: If another process does not release the lock.

    """
    known = predict_groups(table, groups, known=predicted)
    with _session(table, timing, purpose=CLUSTER) as session:
        if _write_plan(table, session, groups, known) is None:
            session.acknowledge()
            yield None
            return
        yield _transaction(table, session)


def schedule(
    table: TableHandle,
    groups: Sequence[PlannedGroup],
    *,
    predicted: PredictedGroups | None = None,
    timing: Timing = DEFAULT_TIMING,
) -> ScheduledPlan | None:
    """Put a plan on the timeline for :func:`begin_scheduled`; return None if no group of it remains.

    After ``timing.plan_expires_seconds`` the next writer rolls the plan back. The arguments and errors are
    those of :func:`begin_clustering`.
    """
    known = predict_groups(table, groups, known=predicted)
    with _session(table, timing, purpose=SCHEDULED) as session:
        requested = _write_plan(table, session, groups, known)
        if requested is None:
            session.acknowledge()
            return None
        session.withdraw()
        forecasts = (known[group.files[0].key] for group in requested if group.files[0].key in known)
        queries = sum_by_query(query for forecast in forecasts for query in forecast.queries)
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
        with _session(table, timing, purpose="take up a clustering plan") as session:
            with table_lock(table, session):
                check_pending(table, instant, timing)
                heartbeat.start()
                store.put(claim_path(instant), claim.to_bytes())
            session.acknowledge()
        yield _transaction(table, Session(store=store, claim=claim, heartbeat=heartbeat, timing=timing))
    finally:
        heartbeat.stop()
        owner.finish()


@contextmanager
def _session(table: TableHandle, timing: Timing, *, purpose: str) -> Iterator[Session]:
    """Yield a session on a new instant, after the rollback of writes of dead processes."""
    after = recovered_timeline(table, timing=timing).last_instant
    zone = table.config.timezone
    with open_session(table.store, purpose=purpose, after=after, zone=zone, timing=timing) as session:
        yield session


def _transaction(table: TableHandle, session: Session) -> Transaction:
    # The table may have been opened long ago, before Spark started, and another spec applied since.
    table = table.reopen()
    return Transaction(session, table, table.timeline(), action=Action.REPLACECOMMIT, operation=CLUSTER)


@retry_stale
def _write_plan(
    table: TableHandle,
    session: Session,
    groups: Sequence[PlannedGroup],
    predicted: Mapping[FileKey, GroupForecast],
) -> tuple[PlannedGroup, ...] | None:
    """Put the plan on the timeline under the lock; return its groups, or None if nothing remains to plan."""
    store = table.store
    timeline = table.timeline()
    spec = table.effective_spec(timeline)
    policy = spec.clustering
    groups = _current(table, timeline, groups)
    if not groups:
        return None
    wanted = {group.files[0].key for group in groups}
    predicted = {key: forecast for key, forecast in predicted.items() if key in wanted}
    samples = keep_samples(store, session.instant, predicted)
    requested: tuple[PlannedGroup, ...] | None = None
    try:
        with table_lock(table, session, validates=True) as lock:
            now = timeline.reload()
            current = replace(table, config=table.config_under_lock())
            check_writable(current, now, store.now_ms())
            publishable = _publishable(table, timeline, now, groups, timing=session.timing)
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
    """Write the requested file, and return whether the lock was held meanwhile.

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
    table: TableHandle, timeline: Timeline, groups: Sequence[PlannedGroup]
) -> tuple[PlannedGroup, ...]:
    """Return the groups whose files are all current on that timeline."""
    view = table.view(timeline)
    partitions = sorted({group.partition for group in groups})
    current = {part.path for slices in map_each(partitions, view.slices) for part in slices}
    return tuple(group for group in groups if all(file.path in current for file in group.files))


def _publishable(
    table: TableHandle, before: Timeline, now: Timeline, groups: Sequence[PlannedGroup], *, timing: Timing
) -> tuple[PlannedGroup, ...]:
    """Return the groups that were current ``before``, still are, and are not reserved."""
    if not all(now.is_completed(write.time) for write in before.completed_writes):
        # A write was rolled back or archived, so only the listings show which files are current.
        groups = _current(table, now, groups)
    keys = [file.key for group in groups for file in group.files]
    gone = {*changed_groups(before, now, keys), *reserved_groups(now, timing=timing)}
    return tuple(group for group in groups if gone.isdisjoint(file.key for file in group.files))


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
    known: PredictedGroups | None,
    limits: SampleLimits | None = None,
) -> Mapping[FileKey, GroupForecast]:
    """Return the forecast of each group under the applied policy, by its first file.

    Call it before taking a lock, because it reads rows.

    Args:
        table: The table.
        groups: The groups of the plan.
        known: Predictions from the choice of scope. Rows of these groups are not read again.
        limits: The limits of the sample.

    Returns:
        The forecasts, empty if no query is declared.

    """
    spec = table.effective_spec(table.timeline())
    return predict(table.store, spec, groups, known=known, limits=limits)


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
