"""The rules by which file versions are kept, compatible with Hudi's cleaner.

Source: CleanPlanner and CleanerUtils.getEarliestCommitToRetain of Hudi 0.15. Hudi applies one policy at a
time; here a version stays if any of the rules requires it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spec.table_spec import RetentionPolicy
from parquetry.runtime.table.applied import read_newer
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.view import FileGroup

KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


def retention_of(table: TableHandle) -> RetentionPolicy:
    """Return the applied retention policy, or Hudi's defaults for a table without an applied spec.

    A policy that was applied after the table was opened counts, as deleted files cannot be recovered.
    """
    newer = read_newer(table.store, table.applied, owner=table.owner)
    spec = table.spec if newer is None else newer.spec
    return RetentionPolicy() if spec is None else spec.retention


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The limits of a clean.

    ``earliest`` is the first commit as of which the table stays readable, or None if versions are kept by
    number alone. The newest ``keep_versions`` versions of a file group always stay. If versions are kept by
    number, ``barrier`` is the commit from which versions also stay because of a pending write, or None.
    """

    earliest: str | None
    keep_versions: int
    policy: str
    barrier: str | None = None


def horizon(
    policy: RetentionPolicy, *, completed: Sequence[str], pending: Sequence[str], oldest_age: str | None
) -> Horizon | None:
    """Return the limits of a clean, or None if nothing may be deleted.

    A version from which a pending write may have started is always kept.

    Args:
        policy: The retention policy.
        completed: The instants of completed writes, ascending.
        pending: The instants of pending writes, ascending.
        oldest_age: The instant ``max_age_seconds`` ago, or None if the policy sets no age.
    """
    if is_by_number(policy) and policy.keep_versions is None:
        return None
    limits: list[str | None] = []
    if policy.keep_commits is not None:
        kept = max(policy.keep_commits, 1)
        limits.append(completed[-kept] if len(completed) > kept else None)
    if policy.max_age_seconds is not None:
        limits.append(_first_from(completed, oldest_age))
    if pending:
        limits.append(_last_before(completed, pending[0]))
    limit = None if None in limits else min((time for time in limits if time is not None), default=None)
    if limits and limit is None:
        return None
    return Horizon(
        earliest=None if is_by_number(policy) else limit,
        keep_versions=max(policy.keep_versions or 1, 1),
        policy=_hudi_policy(policy),
        barrier=limit if is_by_number(policy) else None,
    )


def is_by_number(policy: RetentionPolicy) -> bool:
    """Return whether the policy keeps versions by their number alone, and not by commits or their age."""
    return policy.keep_commits is None and policy.max_age_seconds is None


def _hudi_policy(policy: RetentionPolicy) -> str:
    """Return Hudi's name of the corresponding policy."""
    if policy.keep_commits is not None:
        return KEEP_LATEST_COMMITS
    return KEEP_LATEST_FILE_VERSIONS if policy.max_age_seconds is None else KEEP_LATEST_BY_HOURS


def expired(
    groups: Iterable[FileGroup], limits: Horizon, *, protected: Collection[tuple[str, str]] = ()
) -> list[FileSlice]:
    """Return the committed versions that may be deleted, in the order of the groups.

    The newest version of a group that was not replaced is always kept, and so is the version that readers see
    as of ``limits.earliest`` or ``limits.barrier``. ``protected`` are (partition, file name) of files of
    savepoints.
    """
    return [
        version
        for group in groups
        for version in _expired_in(group, limits)
        if (version.partition, version.path.rpartition("/")[2]) not in protected
    ]


def _expired_in(group: FileGroup, limits: Horizon) -> Sequence[FileSlice]:
    earliest = limits.earliest or limits.barrier
    if group.replaced_at is not None:
        return group.slices if earliest is None or group.replaced_at < earliest else ()
    beyond = group.slices[limits.keep_versions :]
    if earliest is None:
        return beyond
    visible = next((version.instant for version in group.slices if version.instant < earliest), None)
    return [version for version in beyond if version.instant < earliest and version.instant != visible]


def _first_from(completed: Sequence[str], time: str | None) -> str | None:
    """Return the first completed instant at or after ``time``, or None."""
    position = len(completed) if time is None else bisect_left(completed, time)
    return completed[position] if position < len(completed) else None


def _last_before(completed: Sequence[str], time: str) -> str | None:
    """Return the last completed instant before ``time``, or None."""
    position = bisect_left(completed, time)
    return completed[position - 1] if position > 0 else None
