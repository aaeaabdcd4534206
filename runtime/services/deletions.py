"""The files that a service would delete now, and the reason for each.

The service itself runs, on a store that keeps every change in memory. So the list has what the service would
delete if it began at this moment, with what it deletes first to finish the work of dead writers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from threading import get_ident

from parquetry.message import FILE_FIELD, Text
from parquetry.runtime.commit import recovery
from parquetry.runtime.commit.table_lock import lock_method_of
from parquetry.runtime.services.archive import archive, archive_if_due
from parquetry.runtime.services.clean import clean, clean_if_due
from parquetry.runtime.services.retention import retention_of
from parquetry.runtime.spec.codec import OMIT_EMPTY, Brief
from parquetry.runtime.storage.dry_run import DryRunStore
from parquetry.runtime.storage.model import ObjectInfo
from parquetry.runtime.storage.paths import finished_name
from parquetry.runtime.table.file_names import instant_of_file
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.metadata_table import METADATA_FOLDER
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import TIMELINE_FOLDER, Action, State
from parquetry.runtime.timeline.layout import LAYOUTS
from parquetry.runtime.timeline.sidecars import (
    METADATA_DROP_PATH,
    QUARANTINE_FOLDER,
    STATISTICS_FOLDER,
    VERSION_CHANGE_PATH,
    quarantined_file,
)
from parquetry.runtime.timing import DEFAULT_TIMING, Timing


class DeletionReason(StrEnum):
    """The reason for which a file is deleted. ``instant`` is that of its :class:`Deletion`."""

    SUPERSEDED = "superseded"
    """Retention no longer keeps this version: the write ``instant`` wrote the next one of its file group."""
    REPLACED = "replaced"
    """Retention no longer keeps this file: the write ``instant`` replaced or removed its file group."""
    DEAD_WRITE = "dead_write"
    """The writer of ``instant`` has ended without a commit, so that the write is rolled back first."""
    ROLLED_BACK = "rolled_back"
    """An orphan: the write ``instant`` was rolled back, and the file appeared afterwards."""
    ABANDONED = "abandoned"
    """An orphan: the clustering ``instant`` has abandoned the file group."""
    QUARANTINE = "quarantine"
    """An orphan of the write ``instant`` whose time in the quarantine is over."""
    LEFTOVER = "leftover"
    """A small file of a writer that has ended, such as a marker, a claim or an unfinished file."""
    STATISTICS = "statistics"
    """Statistics of a write that has no data file left."""
    ARCHIVED = "archived"
    """A state of the completed ``instant``, which is in the archive from then on."""
    ARCHIVE = "archive"
    """A file of the archive whose instants other files of the archive contain."""
    CHANGE = "change"
    """A part of an interrupted change of the table, which is finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A file that would be deleted. ``instant`` is the write in the reason's description, if it has one."""

    path: str = field(metadata=FILE_FIELD)
    size_bytes: int
    reason: DeletionReason
    instant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """An orphan that is in the quarantine after the services. ``path`` is its path in the table before.

    The first clean from ``until_ms`` on, in milliseconds since 1970, deletes it. ``is_new`` means that the
    services would move it there.
    """

    path: str = field(metadata=FILE_FIELD)
    size_bytes: int
    until_ms: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Deletions(Brief):
    """The files that services would delete if they began now, by path.

    ``quarantine`` are the orphans that come into the quarantine, also by the rollback of a dead writer's
    write, and those that a clean leaves there. ``earliest_retained`` is the earliest commit as of which
    retention then keeps the table readable, None if versions are kept by number. ``problem`` is the reason
    why the services would fail.
    """

    files: tuple[Deletion, ...] = ()
    earliest_retained: str | None = None
    problem: Text | None = field(default=None, metadata=OMIT_EMPTY)
    quarantine: tuple[Quarantined, ...] = field(default=(), metadata=OMIT_EMPTY)

    @property
    def is_empty(self) -> bool:
        """True if nothing would be deleted or is in the quarantine, and nothing would fail."""
        return not self.files and not self.quarantine and self.problem is None

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def by_reason(self) -> Mapping[DeletionReason, tuple[Deletion, ...]]:
        """The files by reason, in the order of the reasons, without reasons that no file has."""
        found = {reason: tuple(f for f in self.files if f.reason is reason) for reason in DeletionReason}
        return {reason: files for reason, files in found.items() if files}


def clean_deletions(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> Deletions:
    """Return what :func:`~parquetry.runtime.services.clean.clean` would delete now.

    Nothing is written. Errors are those of the service.
    """
    return _deletions(table, [clean], timing)


def archive_deletions(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> Deletions:
    """Return what :func:`~parquetry.runtime.services.archive.archive` would delete now.

    Nothing is written. Errors are those of the service.
    """
    return _deletions(table, [archive], timing)


def due_deletions(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> Deletions:
    """Return what the clean and the archival of a run would delete now, as far as they are due.

    A run that writes or clusters first makes a commit more, after which more may be due. Nothing is written.
    Errors are those of the services.
    """
    return _deletions(table, [clean_if_due, archive_if_due], timing)


@with_masked_failures
def _deletions(table: TableHandle, services: Sequence[Callable[..., object]], timing: Timing) -> Deletions:
    """Execute the services in memory, one after the other, and return what they deleted there.

    The lock of a living writer or of another program does not delay this, because nothing is changed. Its
    pending write restricts the services as always.
    """
    held = lock_method_of(table).read(table.store)
    is_dead = held is not None and held.is_dead(table.store, timing)
    store = DryRunStore(table.store, hidden=() if held is None or is_dead else (held.path,))
    in_memory = replace(table, store=store)
    # Another program's rollback in progress is reported at once: waiting for it would change the answer.
    at_once = replace(timing, foreign_lock_seconds=0.0)
    known: dict[str, Deletion] = {}
    after = before = table.timeline()
    for service in services:
        with _without_recovery_log():
            service(in_memory, timing=at_once)
        found = {info.path: info for info in store.deleted}
        known = {path: deletion for path, deletion in known.items() if path in found}
        after = in_memory.timeline()
        new = [info for path, info in found.items() if path not in known]
        is_archival = service in (archive, archive_if_due)
        reasons = _Reasons(table, before, after, [info.path for info in new], is_archival=is_archival)
        known |= {info.path: reasons.deletion(info) for info in new}
    return Deletions(
        files=tuple(known[path] for path in sorted(known)),
        earliest_retained=after.earliest_retained,
        quarantine=tuple(_quarantined(table, store, also_old=services != [archive])),
    )


def _quarantined(table: TableHandle, store: DryRunStore, *, also_old: bool) -> Iterator[Quarantined]:
    """Yield the orphans that come into the quarantine by path, with ``also_old`` also those that stay."""
    seconds = retention_of(table).quarantine_seconds
    if seconds is None:
        return
    for info in store.list(QUARANTINE_FOLDER, recursive=True):
        former, is_new = quarantined_file(info.path), info.path in store.moved
        if former is not None and (is_new or also_old):
            yield Quarantined(
                path=former,
                size_bytes=info.size_bytes,
                until_ms=info.modified_ms + seconds * 1000,
                is_new=is_new,
            )


class _Reasons:
    """The reasons for which a service deleted these files in memory."""

    def __init__(
        self,
        table: TableHandle,
        before: Timeline,
        after: Timeline,
        paths: Iterable[str],
        *,
        is_archival: bool,
    ) -> None:
        self._is_archival = is_archival
        self._before = before
        self._after = after
        self._layout = after.layout
        # Which versions were committed shows in the timeline behind the recovery; the files are still there.
        view = table.view(after)
        folders = sorted({_folder(path) for path in paths if not path.startswith(f"{TIMELINE_FOLDER}/")})
        view.list_partitions(folders)
        self._versions: dict[str, tuple[DeletionReason, str]] = {}
        for group in (group for partition in folders for group in view.file_groups(partition)):
            newer: str | None = None
            for version in group.slices:
                if newer is not None:
                    self._versions[version.path] = DeletionReason.SUPERSEDED, newer
                elif group.replaced_at is not None:
                    self._versions[version.path] = DeletionReason.REPLACED, group.replaced_at
                newer = version.instant

    def deletion(self, info: ObjectInfo) -> Deletion:
        """Return the file with its reason."""
        reason, instant = self._reason(info.path)
        return Deletion(path=info.path, size_bytes=info.size_bytes, reason=reason, instant=instant)

    def _reason(self, path: str) -> tuple[DeletionReason, str | None]:
        if not path.startswith(f"{TIMELINE_FOLDER}/"):
            return self._reason_of_data(path)
        if path in (METADATA_DROP_PATH, VERSION_CHANGE_PATH):
            return DeletionReason.CHANGE, None
        state = self._layout.NAMES.parse(path.rpartition("/")[2])
        if state is not None and _folder(path) == self._layout.NAMES.folder:
            is_archived = self._is_archived(state.time, state.action)
            return DeletionReason.ARCHIVED if is_archived else DeletionReason.LEFTOVER, state.time
        if (former := quarantined_file(path)) is not None:
            return DeletionReason.QUARANTINE, instant_of_file(former)
        return self._reason_of_small_file(path), None

    def _is_archived(self, time: str, action: Action) -> bool:
        """Return whether the instant was completed, and the archival has moved it to the archive."""
        was_completed = self._before.contains(time, action, state=State.COMPLETED)
        return self._is_archival and was_completed and not self._after.was_rolled_back(time)

    def _reason_of_data(self, path: str) -> tuple[DeletionReason, str | None]:
        if path in self._versions:
            return self._versions[path]
        time = instant_of_file(path)
        if time is None or finished_name(path) is not None:
            return DeletionReason.LEFTOVER, time
        if self._before.is_completed(time):
            return DeletionReason.ABANDONED, time
        is_pending = any(write.time == time for write in self._before.pending_writes)
        return DeletionReason.DEAD_WRITE if is_pending else DeletionReason.ROLLED_BACK, time

    def _reason_of_small_file(self, path: str) -> DeletionReason:
        time = path.rpartition("/")[2].partition(".")[0]
        if _folder(path) == STATISTICS_FOLDER and finished_name(path) is None:
            is_valid = self._before.is_completed(time) or self._before.counts_as_archived(time)
            return DeletionReason.STATISTICS if is_valid else DeletionReason.LEFTOVER
        if _folder(path).startswith(self._layout.archive_folder) and self._is_archival:
            return DeletionReason.ARCHIVE
        others = (layout.NAMES.folder for layout in LAYOUTS.values())
        is_changed = path.startswith(f"{METADATA_FOLDER}/") or (
            _folder(path) in others and _folder(path) != self._layout.NAMES.folder
        )
        return DeletionReason.CHANGE if is_changed else DeletionReason.LEFTOVER


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


@contextmanager
def _without_recovery_log() -> Iterator[None]:
    """Suppress, in this thread, the log lines about work that a recovery in memory rolls back."""
    thread = get_ident()

    def passes(_: logging.LogRecord) -> bool:
        return get_ident() != thread

    logger = logging.getLogger(recovery.__name__)
    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)
