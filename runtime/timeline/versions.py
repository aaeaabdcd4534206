"""The file slices that readers saw at an earlier time, according to the writes of the active timeline.

After a clean, the remaining files do not show which slices are missing; the commits do.
"""

from __future__ import annotations

from collections.abc import Collection

from parquetry.runtime.storage.parallel import growing_batches, map_each
from parquetry.runtime.timeline.active import Timeline
from parquetry.runtime.timeline.commit import CommitMetadata

FileGroupId = tuple[str, str]
"""A file group: partition and file id."""


def slices_as_of(timeline: Timeline, time: str) -> dict[FileGroupId, str | None]:
    """Return the instants of the file slices that readers saw at that time, by file group.

    If the commit of a slice was archived, its instant comes from the later write that merged the slice. The
    instant is None if only a later replacement shows that the slice existed. A file group that no write of
    the active timeline wrote or replaced is left out: its slice of that time is its newest slice, which no
    clean deletes.
    """
    times = [instant.time for instant in timeline.completed_writes]
    instants: dict[FileGroupId, str | None] = {}
    resolved: set[FileGroupId] = set()
    for instant, metadata in zip(times, map_each(times, timeline.commit_metadata), strict=True):
        written, replaced = _written(metadata), _replaced(metadata)
        if instant <= time:
            instants |= dict.fromkeys(written, instant)
            for group in replaced:
                instants.pop(group, None)
            resolved.update(written, replaced)
            continue
        for group, before in written.items():
            if group not in resolved and before is not None and before <= time:
                instants[group] = before
        resolved.update(written)
        instants |= dict.fromkeys(group for group in replaced if group not in resolved)
        resolved.update(replaced)
    return instants


def cleanable_slices_as_of(timeline: Timeline, time: str) -> dict[FileGroupId, str | None]:
    """Return the slices of :func:`slices_as_of` that a clean may delete, by file group.

    These are the slices that a later write superseded or replaced; no clean deletes the newest slice of a
    group. The function reads only the writes after that time, and as many older ones as are needed to find
    the slices of replaced groups. If writes have left the timeline or were rolled back in between, it
    reads all writes, as :func:`slices_as_of` does.
    """
    if timeline.has_rollbacks or time < (timeline.first_contiguous_write or ""):
        return slices_as_of(timeline, time)
    times = [instant.time for instant in timeline.completed_writes]
    instants: dict[FileGroupId, str | None] = {}
    resolved: set[FileGroupId] = set()
    replaced_only: set[FileGroupId] = set()
    for metadata in map_each([later for later in times if later > time], timeline.commit_metadata):
        written, replaced = _written(metadata), _replaced(metadata)
        instants |= {
            group: before
            for group, before in written.items()
            if group not in resolved and before is not None and before <= time
        }
        resolved.update(written)
        replaced_only.update(group for group in replaced if group not in resolved)
        resolved.update(replaced)
    return instants | _last_written(timeline, [before for before in times if before <= time], replaced_only)


def _last_written(
    timeline: Timeline, times: list[str], groups: Collection[FileGroupId]
) -> dict[FileGroupId, str | None]:
    """Return the last of the writes at ``times`` that wrote each group, or None if none of them did.

    A group that one of the writes replaced, and none wrote afterwards, is left out.
    """
    instants: dict[FileGroupId, str | None] = {}
    unresolved = set(groups)
    for batch in growing_batches(times[::-1]):
        if not unresolved:
            break
        for instant, metadata in zip(batch, map_each(batch, timeline.commit_metadata), strict=True):
            unresolved.difference_update(_replaced(metadata))
            instants |= dict.fromkeys(unresolved.intersection(_written(metadata)), instant)
            unresolved.difference_update(instants)
    return instants | dict.fromkeys(unresolved)


def _written(metadata: CommitMetadata) -> dict[FileGroupId, str | None]:
    """Return the file groups that a write wrote, with the instants of the slices that it superseded."""
    return {(s.partition_path, s.file_id): s.prev_commit for s in metadata.all_stats() if s.path}


def _replaced(metadata: CommitMetadata) -> list[FileGroupId]:
    """Return the file groups that a write replaced."""
    return [(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids]
