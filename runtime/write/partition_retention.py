"""The deletion of partitions that retention no longer keeps, by the day in their partition path.

A partition is aged against the newest day of the table that has live files and is not to come. So a clock
that is ahead deletes nothing early, nor does a row of a far day, and a table without new data loses nothing
more.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from parquetry.message import PARTITION_FIELD, Message, Text, Value
from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.skipping.files import column_types
from parquetry.runtime.layout.skipping.predicate import Bounds
from parquetry.runtime.services.retention import retention_of
from parquetry.runtime.spec.codec import OMIT_EMPTY, Brief
from parquetry.runtime.spec.table_spec import PartitionRetention, RetentionPolicy
from parquetry.runtime.table.handle import TableHandle, with_masked_failures
from parquetry.runtime.table.partition_bounds import PartitionBounds
from parquetry.runtime.timing import DEFAULT_TIMING, Timing
from parquetry.runtime.write.partition_deletion import delete_partitions

_EPOCH: Final = dt.date(1970, 1, 1)
_DAY_SECONDS: Final = 86_400
_DAY_MICROS: Final = _DAY_SECONDS * 1_000_000
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{8}")
_ISO_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredPartition:
    """A partition that retention no longer keeps, with its live files."""

    partition: str = field(metadata=PARTITION_FIELD)
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PartitionExpiry(Brief):
    """The partitions that retention deletes now, by path.

    ``unread`` are partitions whose value is no day: they are kept. ``withheld`` is the reason why nothing is
    deleted although ``partitions`` have expired.
    """

    partitions: tuple[ExpiredPartition, ...] = ()
    unread: tuple[str, ...] = field(default=(), metadata=PARTITION_FIELD)
    withheld: Text | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def deleted(self) -> tuple[ExpiredPartition, ...]:
        """The partitions that are deleted."""
        return self.partitions if self.withheld is None else ()

    @property
    def warnings(self) -> tuple[Text, ...]:
        """The reason why partitions were not deleted."""
        if not self.unread:
            return () if self.withheld is None else (self.withheld,)
        unread = Message(
            "{partitions} partitions have no day in the column of retention.partitions and are kept, such as "
            "{partition}",
            partitions=len(self.unread),
            partition=Value.partition(self.unread[0]),
        )
        return (unread,) if self.withheld is None else (self.withheld, unread)


@with_masked_failures
def delete_expired_partitions(table: TableHandle, *, timing: Timing = DEFAULT_TIMING) -> PartitionExpiry:
    """Delete the partitions that retention no longer keeps, in one commit, and return them.

    Their files stay until they are cleaned, those of savepoints as long as these. Errors are those of
    :func:`~parquetry.runtime.write.partition_deletion.delete_partitions`.
    """
    expiry = expired_partitions(table)
    if expiry.deleted:
        delete_partitions(table, [each.partition for each in expiry.deleted], timing=timing)
    return expiry


@with_masked_failures
def expired_partitions(table: TableHandle, *, policy: RetentionPolicy | None = None) -> PartitionExpiry:
    """Return the partitions that :func:`delete_expired_partitions` would delete now; nothing is written.

    With ``policy`` they are those that it would delete if that policy were applied.

    Without a rule for partitions there are none. Folders without live files, such as those of writes that
    were rolled back, count as no partitions.
    """
    rule = (retention_of(table) if policy is None else policy).partitions
    if rule is None:
        return PartitionExpiry()
    timeline = table.timeline()
    view = table.view(timeline)
    bounds = PartitionBounds(table, column_types(table.effective_spec(timeline).columns))
    partitions = [_with_size(path, slices) for path in view.partitions() if (slices := view.slices(path))]
    days = {each.partition: day_of(bounds.of(each.partition).get(rule.column)) for each in partitions}
    today = _EPOCH + dt.timedelta(days=table.store.now_ms() // 1000 // _DAY_SECONDS)
    first = first_kept_day([day for day in days.values() if day is not None], rule, today=today)
    old = {path for path, day in days.items() if day is not None and first is not None and day < first}
    return PartitionExpiry(
        partitions=tuple(each for each in partitions if each.partition in old),
        unread=tuple(path for path, day in days.items() if day is None),
        withheld=too_many(len(old), len(partitions), rule),
    )


def day_of(bounds: Bounds | None) -> dt.date | None:
    """Return the day of a partition: a date, a timestamp, a number as yyyymmdd, or a text as yyyy-mm-dd.

    The day of a timestamp is that in UTC. Other values, and null, have none.
    """
    if bounds is None or bounds.minimum is None or bounds.minimum != bounds.maximum:
        return None
    value, text, day = bounds.minimum, str(bounds.minimum), None
    with suppress(ValueError, OverflowError):
        if bounds.type == "date" and isinstance(value, int):
            day = _EPOCH + dt.timedelta(days=value)
        elif bounds.type == "timestamp" and isinstance(value, int):
            day = _EPOCH + dt.timedelta(days=value // _DAY_MICROS)
        elif bounds.type in ("int", "bigint") and _WHOLE_NUMBER.fullmatch(text):
            day = dt.date(int(text[:4]), int(text[4:6]), int(text[6:]))
        elif bounds.type == "string" and _ISO_DAY.fullmatch(text):
            day = dt.date.fromisoformat(text)
    return day


def first_kept_day(days: Collection[dt.date], rule: PartitionRetention, *, today: dt.date) -> dt.date | None:
    """Return the oldest day that the rule keeps: ``keep_days`` before the newest day that is not to come.

    Return None if no day has come yet.
    """
    newest = max((day for day in days if day <= today), default=None)
    if newest is None or newest.toordinal() <= rule.keep_days:
        return None
    return newest - dt.timedelta(days=rule.keep_days)


def too_many(expired: int, partitions: int, rule: PartitionRetention) -> Message | None:
    """Return the reason why so many partitions are not deleted at once, or None. One always may go."""
    if expired <= 1 or expired / partitions <= rule.at_most:
        return None
    # Rounded up to hundredths.
    needed = -(-expired * 100 // partitions) / 100
    return Message(
        "{expired} of {partitions} partitions have expired, and retention.partitions.at_most lets "
        "{at_most} of them go at once, so none is deleted; check their days, then raise at_most to {needed} "
        "until a run has deleted them, or delete the oldest with {call}",
        expired=expired,
        partitions=partitions,
        at_most=str(rule.at_most),
        needed=str(needed),
        call="Table.delete_partition",
    )


def _with_size(partition: str, slices: Sequence[FileSlice]) -> ExpiredPartition:
    """Return a partition with the number and size of its live files."""
    return ExpiredPartition(
        partition=partition, files=len(slices), size_bytes=sum(part.size_bytes for part in slices)
    )
