"""The files of a read: of the table as it is now, as of a time, or of the rows written between two times."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from parquetry.runtime.commit.damaged_files import check_read, damaged_files, raise_if_damaged
from parquetry.runtime.errors import CorruptTableError, InvalidDataError
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.read.pruning import Pruner
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.storage.parallel import map_each
from parquetry.runtime.table.consistent_read import read_consistently
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.table.view import FileSystemView, IncrementalSlices
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.instant import Timezone, format_instant

When: TypeAlias = str | dt.date
_DIGITS: Final = re.compile(r"\d{14}(\d{3})?")
_TEXT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,3}))?)?")
_EARLIEST: Final = re.compile(r"0+")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToRead:
    """The files of a read, which contain every row of it.

    ``columns`` are those of the table in the snapshot ``timeline``. An incremental read returns only the rows
    of these files that ``increment`` describes; for other reads it is None.
    """

    timeline: Timeline
    columns: tuple[Column, ...]
    files: tuple[FileSlice, ...]
    increment: IncrementalSlices | None
    pruner: Pruner


def files_to_read(
    handle: TableHandle,
    *,
    as_of: When | None = None,
    since: When | None = None,
    until: When | None = None,
    where: str | None = None,
    time_zone: dt.tzinfo | None,
) -> FilesToRead:
    """Return the files of a read. Files that cannot contain a row of it are not opened.

    Times are instants, texts of the form ``yyyy-MM-dd[ HH:mm:ss[.SSS]]`` in the table's time zone, dates or
    datetimes.

    Args:
        handle: The table.
        as_of: The time of the table's state to read; None for now.
        since: The time after which the rows were written, exclusive; None for the beginning.
        until: The time until which the rows were written, inclusive; None for now. An incremental read
            (``since`` or ``until``) ends before the oldest pending write.
        where: A condition in SQL, which the caller still has to apply to the rows.
        time_zone: The time zone of local times in the condition; without it they exclude no file.

    Raises:
        InvalidDataError: If a time is not valid or its files were cleaned.
        CorruptTableError: If a file is missing, or does not have the size that its commit recorded.

    """
    if as_of is not None and (since is not None or until is not None):
        raise InvalidDataError("as_of and since/until exclude each other; give one of them")
    zone = handle.config.timezone
    is_increment = since is not None or until is not None
    begin = "0" if since is None else instant_of(since, zone, rounds_up=False)
    given = until if is_increment else as_of
    end = None if given is None else instant_of(given, zone, rounds_up=True)

    def read_view(
        view: FileSystemView,
    ) -> tuple[IncrementalSlices, tuple[FileSystemView, tuple[Column, ...], Pruner]]:
        columns = handle.effective_spec(view.timeline).columns
        pruner = Pruner(handle, columns, where, time_zone)
        changes = view.changed_between(begin, end) if is_increment else _all_rows(view, pruner, end)
        return changes, (view, columns, pruner)

    changes, (view, columns, pruner) = read_consistently(handle, read_view)
    return FilesToRead(
        timeline=view.timeline,
        columns=columns,
        files=_files_to_open(handle, view, changes, pruner, where),
        increment=changes if is_increment else None,
        pruner=pruner,
    )


def is_written_in(changes: IncrementalSlices, time: Any) -> Any:
    """Return the condition on the rows of an incremental read.

    Args:
        changes: The increment.
        time: The column of commit times, of Spark or as an expression of Arrow. The condition is of its kind.
    """
    condition = (time > changes.begin) & (time <= changes.end)
    if changes.too_late:
        condition &= ~time.isin(sorted(changes.too_late))
    return condition | time.isin(sorted(changes.earlier)) if changes.earlier else condition


def _files_to_open(
    handle: TableHandle, view: FileSystemView, changes: IncrementalSlices, pruner: Pruner, where: str | None
) -> tuple[FileSlice, ...]:
    """Return the files that the condition does not exclude.

    Raise CorruptTableError if the read needs a damaged file.
    """
    try:
        kept = changes.slices if where is None else tuple(pruner.files(handle.store, changes.slices))
    except CorruptTableError:
        raise_if_damaged(handle, damaged_files(handle, until=changes.as_of, choose=pruner.partitions))
        raise
    check_read(handle, view, kept, after=changes.after, until=changes.as_of, choose=pruner.partitions)
    return kept


def _all_rows(view: FileSystemView, pruner: Pruner, as_of: str | None) -> IncrementalSlices:
    """Return the files as of a time, from the partitions that may contain a wanted row.

    Only these partitions are listed.
    """
    if as_of is not None:
        view.check_time_travel(as_of)
    partitions = pruner.partitions(view.partitions())
    slices = map_each(partitions, lambda partition: view.slices(partition, as_of))
    end = view.newest if as_of is None else min(as_of, view.newest)
    return IncrementalSlices(
        begin="", end=end, slices=tuple(file for part in slices for file in part), as_of=end
    )


def _is_in_calendar(parts: re.Match[str]) -> bool:
    year, month, day, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
    try:
        dt.datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - a wall clock reading
    except ValueError:
        return False
    return True


def instant_of(when: When, zone: Timezone, *, rounds_up: bool) -> str:  # noqa: PLR0911 - a case, an answer
    """Return a time as an instant of a table in ``zone``.

    Texts and datetimes without a zone are in the table's zone, as instants are.

    Args:
        when: The time, as :func:`read_table` accepts it.
        zone: The time zone of the table's instants.
        rounds_up: Whether a time without milliseconds means the last millisecond of its second.

    Raises:
        InvalidDataError: If the text is not a time.

    """
    if isinstance(when, dt.datetime):
        if when.tzinfo is not None:
            return format_instant((when - _EPOCH) // _MILLISECOND, zone)
        return f"{when.year:04}{when:%m%d%H%M%S}{when.microsecond // 1000:03}"
    if isinstance(when, dt.date):
        return f"{when.year:04}{when:%m%d}000000000"
    rest = "999" if rounds_up else "000"
    text = when.strip()
    if found := _DIGITS.fullmatch(text):
        return text if found[1] else text + rest
    if (found := _TEXT.fullmatch(text)) and _is_in_calendar(found):
        year, month, day, hour, minute, second, millis = found.groups()
        if hour is None:
            return f"{year}{month}{day}000000000"
        return f"{year}{month}{day}{hour}{minute}{second}{millis.ljust(3, '0') if millis else rest}"
    if _EARLIEST.fullmatch(text):
        return text
    raise InvalidDataError(
        "{time!r} is not a time; give an instant (yyyyMMddHHmmssSSS), 'yyyy-MM-dd' or 'yyyy-MM-dd "
        "HH:mm:ss[.SSS]'",
        time=when,
    )
