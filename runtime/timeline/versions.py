"""Which versions of files readers saw at a time, by what the writes of the active timeline say.

The files themselves cannot tell what is missing of them once a clean has been there; commits can.
"""

from __future__ import annotations

from collections.abc import Collection

from parquetry.runtime.storage.parallel import growing_batches, map_each
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import CommitMetadata

FileGroupId = tuple[str, str]
"""A file group: partition and file id."""


def versions_as_of(timeline: Timeline, time: str) -> dict[FileGroupId, str | None]:
    """The instant of the version that readers saw at that time, by file group.

    Of a version whose own commit was archived the later write tells that merged it; None where a
    later replacement tells no more than that there was one. A group that no write on the active timeline
    touched is left out: its version of that time is its newest, which no clean takes.
    """
    times = [instant.time for instant in timeline.completed_writes]
    found: dict[FileGroupId, str | None] = {}
    decided: set[FileGroupId] = set()
    for instant, metadata in zip(times, map_each(times, timeline.commit_metadata), strict=True):
        written, replaced = _written(metadata), _replaced(metadata)
        if instant <= time:
            found |= dict.fromkeys(written, instant)
            for group in replaced:
                found.pop(group, None)
            decided.update(written, replaced)
            continue
        for group, before in written.items():
            if group not in decided and before is not None and before <= time:
                found[group] = before
        decided.update(written)
        found |= dict.fromkeys(group for group in replaced if group not in decided)
        decided.update(replaced)
    return found


def cleanable_as_of(timeline: Timeline, time: str) -> dict[FileGroupId, str | None]:
    """The same of the file groups that writes after that time changed or replaced, whatever was cleaned.

    The version of any other is its newest, which no clean takes. Only those writes are read, and of older
    ones as many as it takes to tell the versions of groups that were replaced at once; all where writes
    have left the timeline or were undone in between.
    """
    if timeline.has_rollbacks or time < (timeline.unbroken_since or ""):
        return versions_as_of(timeline, time)
    times = [instant.time for instant in timeline.completed_writes]
    found: dict[FileGroupId, str | None] = {}
    decided: set[FileGroupId] = set()
    unsure: set[FileGroupId] = set()
    for metadata in map_each([later for later in times if later > time], timeline.commit_metadata):
        written, replaced = _written(metadata), _replaced(metadata)
        found |= {
            group: before
            for group, before in written.items()
            if group not in decided and before is not None and before <= time
        }
        decided.update(written)
        unsure.update(group for group in replaced if group not in decided)
        decided.update(replaced)
    return found | _last_written(timeline, [before for before in times if before <= time], unsure)


def _last_written(
    timeline: Timeline, times: list[str], groups: Collection[FileGroupId]
) -> dict[FileGroupId, str | None]:
    """The last of these writes that wrote each group; None where none did, no entry where one replaced it."""
    found: dict[FileGroupId, str | None] = {}
    left = set(groups)
    for batch in growing_batches(times[::-1]):
        if not left:
            break
        for instant, metadata in zip(batch, map_each(batch, timeline.commit_metadata), strict=True):
            left.difference_update(_replaced(metadata))
            found |= dict.fromkeys(left.intersection(_written(metadata)), instant)
            left.difference_update(found)
    return found | dict.fromkeys(left)


def _written(metadata: CommitMetadata) -> dict[FileGroupId, str | None]:
    """The file groups that a write wrote, with the instants of the versions that it merged."""
    return {(s.partition_path, s.file_id): s.prev_commit for s in metadata.all_stats() if s.path}


def _replaced(metadata: CommitMetadata) -> list[FileGroupId]:
    """The file groups that a write did away with."""
    return [(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids]
