"""The groups of a clustering that may be published, checked at the last moment under the lock.

Writers always win. If a file of a group was changed, or a live writer has announced a change, the group is
left out, and its new files are deleted before the other groups are published. The check only reads the
timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from parquetry.runtime.clustering.forecast.queries import MeasuredQuery, measured_metadata, sum_by_query
from parquetry.runtime.clustering.forecast.work import work_metadata
from parquetry.runtime.clustering.plan.execution import (
    PlannedWork,
    RewrittenGroup,
    UnpublishedGroup,
    description,
    unpublished_group,
)
from parquetry.runtime.clustering.plan.measure import WorkMeasure
from parquetry.runtime.clustering.plan.survey import RUN_KEY, changed_groups, reserved_groups
from parquetry.runtime.clustering.rewrite.task import GroupWork
from parquetry.runtime.commit.abandoned_buckets import abandon
from parquetry.runtime.commit.outcome import WriteOutcome
from parquetry.runtime.commit.transaction import Transaction
from parquetry.runtime.layout.model import FileKey
from parquetry.runtime.storage.parallel import for_each
from parquetry.runtime.table.file_names import files_of_instant
from parquetry.runtime.timeline.active import Timeline


class PublishableGroups:
    """The groups of one plan that may be published, and those left out. A group that is left out stays so.

    ``deferred`` are the groups that did not begin before the time at which the run stops.
    """

    def __init__(self, transaction: Transaction, planned: PlannedWork, *, measure: WorkMeasure) -> None:
        self._transaction = transaction
        self._planned = planned
        self._measure = measure
        self.groups: list[RewrittenGroup] = []
        self.left_out: list[UnpublishedGroup] = list(planned.left_out)
        self.deferred: Sequence[GroupWork] = ()

    @property
    def queries(self) -> tuple[MeasuredQuery, ...]:
        """The reads of declared queries from the groups before and after the rewrite."""
        return sum_by_query(query for group in self.groups for query in group.queries)

    def extra_metadata(self) -> dict[str, str]:
        """Return the extra metadata of the replacecommit of these groups."""
        return {
            RUN_KEY: description(
                self._planned.execution, self.groups, self.left_out, deferred=len(self.deferred)
            ),
            **measured_metadata(self.queries),
            **work_metadata(self._measure.measured(self.groups)),
        }

    def leave_out_changed(self, now: Timeline) -> bool:
        """Leave out the groups that changed since ``transaction.timeline``; return whether there were any.

        The caller holds the lock.
        """
        before = len(self.groups)
        keys = [key for group in self.groups for key in _keys(group)]
        changed = changed_groups(self._transaction.timeline, now, keys)
        timing = self._transaction.session.timing
        reserved = reserved_groups(now, timing=timing, except_instants=[self._transaction.instant])
        publishable = []
        for group in self.groups:
            if not changed.isdisjoint(_keys(group)):
                self.left_out.append(unpublished_group(group, "a writer has changed its files"))
            elif why := next((reserved[key] for key in _keys(group) if key in reserved), None):
                self.left_out.append(unpublished_group(group, f"one of its files is reserved: {why}"))
            else:
                publishable.append(group)
        self.groups = publishable
        return len(publishable) < before

    def delete_left_out_files(self) -> None:
        """Delete the new files of left-out groups, found by listing because a task may have left some.

        The record of abandoned buckets is written first. A task that writes a file later finds the record and
        deletes the file itself.
        """
        store, instant = self._transaction.store, self._transaction.instant
        published = {group.work.index for group in self.groups}
        kept = {file.stat.path for group in self.groups for file in group.files}
        lost = [work for work in self._planned.works if work.index not in published]
        if not lost:
            return
        abandon(store, instant, {number: work.partition for work in lost for number in work.numbers})
        partitions = {work.partition for work in lost}

        def delete_in(partition: str) -> None:
            written = files_of_instant(store, partition, instant)
            if others := [path for path in written if path not in kept]:
                store.delete_all(others)

        for_each(sorted(partitions), delete_in)


def outcome_of_groups(
    outcome: WriteOutcome, groups: Sequence[RewrittenGroup], extra_metadata: dict[str, str]
) -> WriteOutcome:
    """Return the part of an outcome that belongs to these groups.

    The statistics beside the outcome may contain more files.
    """
    kept = {file.stat.path for group in groups for file in group.files}
    stats = {
        partition: tuple(stat for stat in listed if stat.path in kept)
        for partition, listed in outcome.stats.items()
    }
    return replace(
        outcome,
        stats={partition: listed for partition, listed in stats.items() if listed},
        replaced=replaced_by(groups),
        extra={**outcome.extra, **extra_metadata},
    )


def replaced_by(groups: Iterable[RewrittenGroup]) -> dict[str, tuple[str, ...]]:
    """Return the file groups that these groups replace, by partition."""
    replaced: dict[str, list[str]] = {}
    for group in groups:
        replaced.setdefault(group.work.partition, []).extend(part.file_id for part in group.work.slices)
    return {partition: tuple(ids) for partition, ids in replaced.items()}


def _keys(group: RewrittenGroup) -> list[FileKey]:
    return [part.key for part in group.work.slices]
