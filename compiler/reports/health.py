"""The health of a lake: what is wrong with its tables, the worst first, with a command for each line.

The checks read the figures of :mod:`parquetry.compiler.reports.lake` and nothing else. Their limits are the
constants of this module; a healthy table under any policy is far from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import isinf
from typing import Final

from parquetry.compiler.reports.lake import Lake, LakeTable, TableCondition, Unreadable
from parquetry.compiler.spec_words import human_duration
from parquetry.message import Message
from parquetry.runtime.services.archive import ARCHIVE_BATCH
from parquetry.runtime.spec.codec import Brief

_DAY_MS: Final = 86_400_000

SMALL_FILES_PER_PARTITION: Final = 2
SMALL_FILES_SHARE: Final = 0.25
FILES_FACTOR: Final = 2
FILES_MORE: Final = 10
SKEW: Final = 4
DEBT_SHARE: Final = 0.2
DEBT_DAYS: Final = 2
WRITE_AMPLIFICATION: Final = 20
VERSIONS_FACTOR: Final = 2
PENDING_DAYS: Final = 2
COMMITS_TO_CLEAN: Final = 5
ARCHIVE_BATCHES: Final = 3
SAVEPOINT_DAYS: Final = 30
PUBLISH_HOURS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLine:
    """A finding of a check: the reason, and the words of the command that repairs or explains it.

    The program's name is not one of the words.
    """

    check: str
    reason: Message
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """A check of a table. ``limit`` says when it finds something; ``find`` returns that, or None."""

    name: str
    limit: str
    find: Callable[[TableCondition], tuple[Message, tuple[str, ...]] | None]


class HealthStatus(StrEnum):
    """The result for a table, the worst first."""

    UNREADABLE = "unreadable"
    UNHEALTHY = "unhealthy"
    HEALTHY = "healthy"
    NOT_APPLIED = "not_applied"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TableHealth(Brief):
    """The findings about a table. Figures are None if the table cannot be read.

    Attributes:
        table: The name in the project.
        status: The result.
        excess_read_bytes: The bytes a day that declared queries no longer read once the debt is paid.
        debt_bytes: The bytes that are due for clustering; None also if no spec is applied.
        size_bytes: The bytes of the live files.
        files: Their number.
        lines: What the checks found, in their order.
    """

    table: str
    status: HealthStatus
    excess_read_bytes: float | None = None
    debt_bytes: int | None = None
    size_bytes: int | None = None
    files: int | None = None
    lines: tuple[HealthLine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeHealth:
    """The selected tables of a project at a target, the worst first."""

    project: str
    target: str
    tables: tuple[TableHealth, ...]

    def of(self, *statuses: HealthStatus) -> tuple[TableHealth, ...]:
        """Return the tables with one of these results, in their order."""
        return tuple(table for table in self.tables if table.status in statuses)

    @property
    def needing_attention(self) -> tuple[TableHealth, ...]:
        """The tables with a line, the worst first."""
        return self.of(HealthStatus.UNREADABLE, HealthStatus.UNHEALTHY)


def health_of(lake: Lake) -> LakeHealth:
    """Return the health of a lake.

    Tables that cannot be read come first, then tables with lines, by what their debt costs the declared
    queries, by their debt, and by the number of their lines.
    """

    def rank(table: TableHealth) -> tuple[float | int | str, ...]:
        return (
            [*HealthStatus].index(table.status),
            -(table.excess_read_bytes or 0),
            -(table.debt_bytes or 0),
            -len(table.lines),
            table.table,
        )

    tables = tuple(sorted(map(_table_health, lake.tables), key=rank))
    return LakeHealth(project=lake.project, target=lake.target, tables=tables)


def _table_health(table: LakeTable) -> TableHealth:
    if not isinstance(table, TableCondition):
        if table.reason is Unreadable.NOT_APPLIED:
            return TableHealth(table=table.table, status=HealthStatus.NOT_APPLIED)
        line = HealthLine(
            check="readable",
            reason=Message("the table cannot be read: {reason}", reason=table.message),
            command=("doctor", "--select", table.table),
        )
        return TableHealth(table=table.table, status=HealthStatus.UNREADABLE, lines=(line,))
    lines = tuple(health_lines(table))
    return TableHealth(
        table=table.table,
        status=HealthStatus.UNHEALTHY if lines else HealthStatus.HEALTHY,
        excess_read_bytes=table.excess_read_bytes,
        debt_bytes=None if table.debt is None else table.debt.rewrite_bytes,
        size_bytes=table.size_bytes,
        files=table.files,
        lines=lines,
    )


def health_lines(table: TableCondition) -> Iterator[HealthLine]:
    """Yield what the checks find of a table, in the order of :data:`HEALTH_CHECKS`."""
    for check in HEALTH_CHECKS:
        found = check.find(table)
        if found is not None:
            reason, command = found
            yield HealthLine(check=check.name, reason=reason, command=command)


_Found = tuple[Message, tuple[str, ...]] | None


def _rewrite(table: TableCondition) -> tuple[str, ...]:
    """Return the command that merges files, or shows why the policy leaves them as they are."""
    is_due = table.debt is not None and table.debt.rewrite_bytes > 0
    return ("service", "cluster", table.table, *(() if is_due else ("--plan-only", "-v")))


def _last_run(table: TableCondition) -> _Found:
    if table.last_run is None or table.last_run.succeeded:
        return None
    age_ms = max(0, table.now_ms - table.last_run.started_ms)
    reason = Message(
        "the newest run, {age} ago, was killed or a job of it failed", age=human_duration(age_ms / 1000)
    )
    return reason, ("run", "--select", table.table)


def _is_before_clustering(table: TableCondition) -> bool:
    """Return whether files are due and the policy waits for more commits before it rewrites them."""
    return table.debt is not None and table.debt.rewrite_bytes > 0 and table.debt.commits_until_due > 0


def _small_files(table: TableCondition) -> _Found:
    many = table.small_files > SMALL_FILES_PER_PARTITION * table.partitions
    if not many or table.small_files < SMALL_FILES_SHARE * table.files or _is_before_clustering(table):
        return None
    reason = Message(
        "{small:,d} of {files:,d} files are small, in partitions: {partitions:,d}",
        small=table.small_files,
        files=table.files,
        partitions=table.partitions,
    )
    return reason, _rewrite(table)


def _files(table: TableCondition) -> _Found:
    needed = table.files_needed
    if needed is None or table.files < max(FILES_FACTOR * needed, needed + FILES_MORE):
        return None
    if _is_before_clustering(table):
        return None
    reason = Message("{files:,d} files have rows for {needed:,d} files", files=table.files, needed=needed)
    return reason, _rewrite(table)


def _skew(table: TableCondition) -> _Found:
    if table.skew is None or table.skew < SKEW:
        return None
    reason = Message(
        "the largest partition has {skew:.1f} times the bytes of the median one", skew=table.skew
    )
    return reason, ("inspect", table.table)


def _clustering_debt(table: TableCondition) -> _Found:
    if table.debt is None or not table.debt.rewrite_bytes or _is_before_clustering(table):
        return None
    share = table.debt.rewrite_bytes / max(table.size_bytes, 1)
    # What is due after a clustering has become due since then, also if it is older.
    since_ms = max(table.oldest_due_ms or table.now_ms, table.last_clustering_ms or 0)
    age_ms = max(0, table.now_ms - since_ms)
    if share <= DEBT_SHARE and age_ms <= DEBT_DAYS * _DAY_MS:
        return None
    reason = Message(
        "{share:.0%} of the bytes are due for clustering, the oldest for {age}",
        share=share,
        age=human_duration(age_ms / 1000),
    )
    return reason, ("service", "cluster", table.table)


def _write_amplification(table: TableCondition) -> _Found:
    if table.write_amplification is None or table.write_amplification <= WRITE_AMPLIFICATION:
        return None
    reason = Message(
        "the newest writes wrote {factor:,.0f} bytes for each byte of rows that arrived",
        factor=table.write_amplification,
    )
    return reason, ("simulate", "sizing", table.table, "--replay", "7d")


def _file_versions(table: TableCondition) -> _Found:
    kept = table.file_versions_kept
    if kept is None or table.file_versions <= VERSIONS_FACTOR * kept:
        return None
    reason = Message(
        "a file has {versions:,d} versions, and retention keeps {kept:,d}",
        versions=table.file_versions,
        kept=kept,
    )
    return reason, ("service", "clean", table.table)


def _pending_writes(table: TableCondition) -> _Found:
    instant, begun_ms = next(iter(table.pending_writes_ms.items()), ("", table.now_ms))
    if table.now_ms - begun_ms <= PENDING_DAYS * _DAY_MS:
        return None
    reason = Message(
        "the write {instant} began {age} ago and has not ended; cleans and archivals stop at it",
        instant=instant,
        age=human_duration((table.now_ms - begun_ms) / 1000),
    )
    return reason, ("service", "rollback", table.table, instant)


def _clean(table: TableCondition) -> _Found:
    expired = 0 if table.debt is None else table.debt.expired_files
    if not expired + table.orphans or table.commits_to_clean < COMMITS_TO_CLEAN:
        return None
    reason = Message(
        "no clean since {commits:,d} commits passed out of retention; expired files: {expired:,d}, "
        "orphans: {orphans:,d}",
        commits=table.commits_to_clean,
        expired=expired,
        orphans=table.orphans,
    )
    return reason, ("service", "clean", table.table)


def _archive(table: TableCondition) -> _Found:
    if table.archivable_commits <= ARCHIVE_BATCHES * ARCHIVE_BATCH:
        return None
    reason = Message(
        "{archivable:,d} of {commits:,d} commits on the active timeline could be archived",
        archivable=table.archivable_commits,
        commits=table.commits,
    )
    return reason, ("service", "archive", table.table)


def _savepoints(table: TableCondition) -> _Found:
    before_ms = table.now_ms - SAVEPOINT_DAYS * _DAY_MS
    old = [instant for instant, made_ms in table.savepoints_ms.items() if made_ms < before_ms]
    if not old:
        return None
    reason = Message(
        "{old:,d} of {savepoints:,d} savepoints are older than {days:d} days; archivals stop at the oldest",
        old=len(old),
        savepoints=len(table.savepoints_ms),
        days=SAVEPOINT_DAYS,
    )
    return reason, ("service", "savepoint", table.table, old[0], "--delete")


def _publish(table: TableCondition) -> _Found:
    name, seconds = max(table.publish_lag_seconds.items(), key=lambda entry: entry[1], default=("", 0.0))
    if seconds <= PUBLISH_HOURS * 3600:
        return None
    if isinf(seconds):
        reason = Message("the metadata of the published format {format} cannot be read", format=name)
    else:
        reason = Message(
            "the published format {format} does not show a write of {age} ago",
            format=name,
            age=human_duration(seconds),
        )
    return reason, ("publish", table.table)


HEALTH_CHECKS: Final[tuple[HealthCheck, ...]] = (
    HealthCheck(
        name="last_run",
        limit="a newest recorded run that was killed, or in which a job of the table failed",
        find=_last_run,
    ),
    HealthCheck(
        name="small_files",
        limit=f"more than {SMALL_FILES_PER_PARTITION} small files a partition on average, and at least "
        f"{SMALL_FILES_SHARE:.0%} of all files",
        find=_small_files,
    ),
    HealthCheck(
        name="files",
        limit=f"at least {FILES_FACTOR} times as many files as the declared limits make of the rows, and at "
        f"least {FILES_MORE} more",
        find=_files,
    ),
    HealthCheck(
        name="skew", limit=f"a partition of at least {SKEW} times the bytes of the median one", find=_skew
    ),
    HealthCheck(
        name="clustering_debt",
        limit=f"more than {DEBT_SHARE:.0%} of the bytes due for clustering, or a file due for more than "
        f"{DEBT_DAYS} days since the last clustering",
        find=_clustering_debt,
    ),
    HealthCheck(
        name="write_amplification",
        limit=f"more than {WRITE_AMPLIFICATION} bytes written for each byte of rows that arrived",
        find=_write_amplification,
    ),
    HealthCheck(
        name="file_versions",
        limit=f"a file with more than {VERSIONS_FACTOR} times the versions that retention keeps",
        find=_file_versions,
    ),
    HealthCheck(
        name="pending_writes",
        limit=f"a write that began more than {PENDING_DAYS} days ago and has not ended",
        find=_pending_writes,
    ),
    HealthCheck(
        name="clean",
        limit=f"files to clean, and at least {COMMITS_TO_CLEAN} commits that passed out of retention since "
        "the last clean",
        find=_clean,
    ),
    HealthCheck(
        name="archive",
        limit=f"more than {ARCHIVE_BATCHES * ARCHIVE_BATCH} commits that could be archived",
        find=_archive,
    ),
    HealthCheck(name="savepoints", limit=f"a savepoint older than {SAVEPOINT_DAYS} days", find=_savepoints),
    HealthCheck(
        name="publish",
        limit=f"a published format that does not show a write of more than {PUBLISH_HOURS} hours ago, or "
        "whose metadata cannot be read",
        find=_publish,
    ),
)
"""All checks, in the order of their lines."""
