"""The history of a table as a report: applied specs with their authors, and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from parquetry.compiler.reports.timeline import InstantReport, instant_report, write_report
from parquetry.message import Text
from parquetry.runtime.errors import CorruptTableError
from parquetry.runtime.spec.codec import Brief
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.table.applied import AppliedRecord, applied_history
from parquetry.runtime.table.handle import TableHandle, open_table
from parquetry.runtime.timeline.instant import WRITE_ACTIONS, Action, format_instant
from parquetry.runtime.timeline.rereading import retry_stale

_SHOWN = WRITE_ACTIONS | {Action.ROLLBACK, Action.RESTORE}
_UNREAD_LOG = "a file of the archive log cannot be read, or went meanwhile: its commits are missing here"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEntry:
    """A spec that was applied or forgotten at ``time``, in the time zone of the timeline."""

    time: str
    record: AppliedRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """A commit, a rollback or a restore."""

    time: str
    instant: InstantReport


HistoryEntry: TypeAlias = ApplyEntry | CommitEntry


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HistoryReport(Brief):
    """The newest entries of a table's history, newest first; ``has_older`` is True if there are more."""

    table: str
    entries: tuple[HistoryEntry, ...]
    has_older: bool
    warnings: tuple[Text, ...] = ()


@retry_stale
def report_history(store: ObjectStore, *, most: int) -> HistoryReport:
    """Return the newest ``most`` entries of the table in ``store``.

    The function reads only as many records and commits as it shows, and only the files of the archive log
    that contain them.

    Raises:
        TableNotFoundError: if there is no table.

    """
    handle = open_table(store)
    zone = handle.config.timezone
    applies = [
        ApplyEntry(time=format_instant(record.applied_at_ms, zone), record=record)
        for record in islice(applied_history(store), most + 1)
    ]
    faults = (handle.fault, *(apply.record.fault for apply in applies[:most]))
    warnings: list[Text] = list(dict.fromkeys(fault.message for fault in faults if fault is not None))
    commits = list(islice(_commits(handle, warnings), most + 1))
    entries: list[HistoryEntry] = [*applies, *commits]
    entries.sort(key=lambda entry: entry.time, reverse=True)
    report = HistoryReport(
        table=handle.name,
        entries=tuple(entries[:most]),
        has_older=len(entries) > most,
        warnings=tuple(warnings),
    )
    return handle.cleared(report)


def _commits(handle: TableHandle, warnings: list[Text]) -> Iterator[CommitEntry]:
    """Yield the completed writes, rollbacks and restores, newest first, and then archived writes."""
    timeline, zone = handle.timeline(), handle.config.timezone
    shown = [i for i in timeline.instants if i.is_completed and i.action in _SHOWN]
    for instant in sorted(shown, key=lambda i: i.time, reverse=True):
        yield CommitEntry(time=instant.time, instant=instant_report(timeline, instant, zone, None))
    seen = {instant.time for instant in shown}
    for _, log in timeline.layout.archived(handle.store):
        if log is None:
            warnings.append(_UNREAD_LOG)
            continue
        archived = {one.time: one for one in log if one.is_completed_write and one.time not in seen}
        seen |= archived.keys()
        for time, one in sorted(archived.items(), reverse=True):
            try:
                metadata = one.commit_metadata()
            except CorruptTableError as error:
                warnings.append(error.message)
                continue
            bare = InstantReport(time=time, action=one.action, state=one.state, operation=None)
            yield CommitEntry(time=time, instant=write_report(bare, metadata, None))
