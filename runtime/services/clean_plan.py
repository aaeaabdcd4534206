"""The plan of a clean and its execution: the files to delete, and their deletion by any writer.

Source: CleanPlanActionExecutor and CleanActionExecutor of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from parquetry.runtime.errors import ConflictError
from parquetry.runtime.services.clean_progress import BARRIER_KEY, PARTIAL_KEY, SAVEPOINTS_KEY
from parquetry.runtime.services.retention import (
    KEEP_LATEST_FILE_VERSIONS,
    Horizon,
    expired,
    horizon,
    is_by_number,
)
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.config import TableConfig
from parquetry.runtime.table.file_names import relative_path
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.view import FileSystemView
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.clean import CleanedPartition, CleanerPlan, CleanMetadata
from parquetry.runtime.timeline.instant import Action, Instant, State, Timezone, format_instant
from parquetry.runtime.timeline.sidecars import claim_path
from parquetry.runtime.timeline.versions import FileGroupId


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The files that a clean would delete: the limits, and the paths by partition.

    ``is_partial`` is set if these limits let other files expire too, which this clean does not delete.
    """

    limits: Horizon
    files: Mapping[str, tuple[str, ...]]
    is_partial: bool = False

    @property
    def count(self) -> int:
        """The number of files to delete."""
        return sum(len(paths) for paths in self.files.values())


def clean_horizon(
    timeline: Timeline, policy: RetentionPolicy, config: TableConfig, *, now_ms: int
) -> Horizon | None:
    """Return the limits that the policy sets now, or None if nothing may be deleted.

    If versions are kept by number, scheduled clusterings that have not begun do not restrict the clean: their
    plans name the newest versions, which stay. Otherwise every pending write restricts it, as in Hudi. The
    function reads no files except these clustering plans.
    """
    age = policy.max_age_seconds
    not_begun: Collection[str] = timeline.pending_clusterings if is_by_number(policy) else ()
    return horizon(
        policy,
        completed=[instant.time for instant in timeline.completed_writes],
        pending=[
            instant.time
            for instant in timeline.pending_writes
            if instant.time not in not_begun or instant.state is State.INFLIGHT
        ],
        oldest_age=None if age is None else _oldest_since(timeline, now_ms - age * 1000, config.timezone),
    )


def _oldest_since(timeline: Timeline, since_ms: int, zone: Timezone) -> str:
    """Return the instant of a time, or that of the oldest write that was completed at it or later.

    Until such a write was completed, the versions before it were current.
    """
    since = format_instant(since_ms, zone)
    return min(
        [since]
        + [
            write.time
            for write in timeline.completed_writes
            if write.time < since and timeline.completed_ms(write) >= since_ms
        ]
    )


def plan_expiry(view: FileSystemView, limits: Horizon, partitions: Iterable[str]) -> Expiry:
    """List the partitions and return their expired files, without the files of savepoints."""
    protected = protected_files(view.timeline)
    listed = list(partitions)
    view.list_partitions(listed)
    files: dict[str, tuple[str, ...]] = {}
    for partition in listed:
        versions = expired(view.file_groups(partition), limits, protected=protected)
        if versions:
            files[partition] = tuple(version.path for version in versions)
    return Expiry(limits=limits, files=files)


def without_files(expiry: Expiry, kept: Collection[str], timeline: Timeline) -> Expiry:
    """Return the expiry without the files ``kept``; it is partial if one of them had expired.

    Its limits then retain all writes of the timeline. Hudi's archival would else conclude that all files of
    replaced groups are deleted, and archive replacecommits whose groups would count as live again.
    """
    rest = {
        partition: tuple(path for path in paths if path not in kept)
        for partition, paths in expiry.files.items()
    }
    files = {partition: paths for partition, paths in rest.items() if paths}
    return expiry if files == dict(expiry.files) else _partial(expiry.limits, files, timeline)


def _partial(limits: Horizon, files: Mapping[str, tuple[str, ...]], timeline: Timeline) -> Expiry:
    """Return an expiry of some of the files, whose limits retain all writes of the timeline."""
    limits = replace(limits, earliest=None, barrier=timeline.completed_writes[0].time)
    return Expiry(limits=limits, files=files, is_partial=True)


def protected_files(timeline: Timeline) -> frozenset[tuple[str, str]]:
    """Return (partition, file name) of every file that a savepoint protects."""
    return frozenset(
        (partition, name)
        for time in timeline.savepoints
        for partition, names in timeline.savepoint_metadata(time).files.items()
        for name in names
    )


def check_no_writes(timeline: Timeline) -> None:
    """Raise ConflictError if an unfinished write may have started from old versions of files."""
    for pending in timeline.pending_writes:
        if pending.time not in timeline.pending_clusterings or pending.state is State.INFLIGHT:
            raise ConflictError(
                "{table}: the write {instant} is unfinished and may need old versions of files; run "
                "again when it has ended",
                table=timeline.store.uri,
                instant=pending.time,
            )


def superseded_versions(view: FileSystemView, groups: Collection[FileGroupId]) -> Expiry:
    """Return all versions of the file groups except the current ones, regardless of the retention.

    The files of savepoints are left out.

    Raises:
        ConflictError: As in :func:`check_no_writes`.

    """
    timeline = view.timeline
    check_no_writes(timeline)
    limits = Horizon(earliest=None, keep_versions=1, policy=KEEP_LATEST_FILE_VERSIONS)
    expiry = plan_expiry(view, limits, sorted({partition for partition, _ in groups}))
    kept = {
        partition: tuple(path for path in paths if (partition, _file_id(path)) in groups)
        for partition, paths in expiry.files.items()
    }
    files = {partition: paths for partition, paths in kept.items() if paths}
    return _partial(limits, files, timeline)


def _file_id(path: str) -> str:
    return path.rpartition("/")[2].partition("_")[0]


def cleaner_plan(store: ObjectStore, timeline: Timeline, expiry: Expiry) -> CleanerPlan:
    """Return the plan in Hudi's format, with absolute paths.

    If a pending write holds back versions, the plan names the commit from which they stay, also if versions
    are kept by number. Without it, Hudi's archival would conclude that all replaced files are deleted.
    """
    earliest = expiry.limits.earliest or expiry.limits.barrier
    retained = None if earliest is None else timeline.write_at(earliest)
    extra = {SAVEPOINTS_KEY: ",".join(timeline.savepoints), BARRIER_KEY: expiry.limits.barrier or ""}
    if expiry.is_partial:
        extra[PARTIAL_KEY] = "true"
    return CleanerPlan(
        policy=expiry.limits.policy,
        earliest_commit_to_retain=earliest,
        earliest_action=str(Action.COMMIT if retained is None else retained.action),
        last_completed_commit=timeline.completed_writes[-1].time,
        files={
            partition: tuple(f"{_scheme_root(store)}/{path}" for path in paths)
            for partition, paths in expiry.files.items()
        },
        extra={key: value for key, value in extra.items() if value},
    )


def execute_clean(table: TableHandle, clean: Instant, plan: CleanerPlan) -> int:
    """Delete the files that the plan names, complete the clean, and return the number of files deleted.

    The call may be repeated, and several processes may execute the same plan at once. A file stays if it has
    become the newest version of its group since the plan was made, or if a savepoint protects it.
    """
    store = table.store
    started_ms = store.now_ms()
    layout = table.config.timeline_layout
    store.put_if_absent(clean.inflight.path, layout.inflight_clean(plan))
    timeline = table.timeline()
    view = table.view(timeline)
    view.list_partitions(plan.files)
    protected = protected_files(timeline)
    partitions: dict[str, CleanedPartition] = {}
    deleted: list[str] = []
    for partition, named in plan.files.items():
        newest = {version.path for version in view.slices(partition)}
        paths = [_relative_path(store, partition, name) for name in named]
        deletable = [
            path
            for path in paths
            if path not in newest and (partition, path.rpartition("/")[2]) not in protected
        ]
        deleted += deletable
        partitions[partition] = CleanedPartition(
            policy=plan.policy, deleted=tuple(path.rpartition("/")[2] for path in deletable)
        )
    store.delete_all(deleted)
    metadata = CleanMetadata(
        start_time=clean.time,
        time_taken_ms=max(store.now_ms() - started_ms, 0),
        # Held-back versions do not limit time travel: that depends on the versions that exist.
        earliest_commit_to_retain=None if BARRIER_KEY in plan.extra else plan.earliest_commit_to_retain,
        last_completed_commit=plan.last_completed_commit,
        partitions=partitions,
        extra=plan.extra,
    )
    layout.complete(store, clean, metadata.encode())
    return len(deleted)


def finish_cleans(table: TableHandle, timeline: Timeline) -> int:
    """Execute all requested cleans of this project, and return the number of files deleted.

    The caller holds the lock. It does no harm if another writer executes the same clean at the same time. A
    clean of another program is left alone, because that program may be alive.
    """
    files = 0
    for clean in pending_cleans(timeline, ours=True):
        files += execute_clean(table, clean, timeline.cleaner_plan(clean.time))
    return files


def pending_cleans(timeline: Timeline, *, ours: bool) -> list[Instant]:
    """Return the requested cleans that are not completed, of this project or else of other programs."""
    pending = [clean for clean in timeline.of(Action.CLEAN) if not clean.is_completed]
    return [c for c in pending if (timeline.store.stat(claim_path(c.time)) is not None) == ours]


def check_no_foreign_clean(timeline: Timeline, time: str) -> None:
    """Raise ConflictError if another program may be cleaning files that readers saw at that time."""
    for clean in pending_cleans(timeline, ours=False):
        retained = timeline.cleaner_plan(clean.time).earliest_commit_to_retain
        if retained is None or time < retained:
            raise ConflictError(
                "{table}: another program is executing the clean {clean}, which may delete files of "
                "{instant}; try again when it has ended",
                table=timeline.store.uri,
                clean=clean.time,
                instant=time,
            )


def _relative_path(store: ObjectStore, partition: str, name: str) -> str:
    """Return the relative path of a file that a plan names by path, or by file name as older versions do."""
    if "/" in name:
        return relative_path(store, name)
    return f"{partition}/{name}" if partition else name


def _scheme_root(store: ObjectStore) -> str:
    """Return the table's root as Hudi writes it in plans: ``file:/data/t``, ``s3a://bucket/t``."""
    scheme, _, rest = store.uri.partition("://")
    return {"file": f"file:{rest}", "s3": f"s3a://{rest}"}.get(scheme, store.uri)
