"""Which versions of files readers saw at a time, by what the writes of the active timeline say.

The files themselves cannot tell what is missing of them once a clean has been there; commits can.
"""

from __future__ import annotations

from parquetry.runtime.parallel import map_each
from parquetry.runtime.timeline.timeline import Timeline

Group = tuple[str, str]
"""A file group: partition and file id."""


def versions_as_of(timeline: Timeline, time: str) -> dict[Group, str | None]:
    """The instant of the version that readers saw at that time, by file group.

    Of a version whose own commit was archived the later write tells that merged it; None where a
    later replacement tells no more than that there was one. A group that no write on the active timeline
    touched is left out: its version of that time is its newest, which no clean takes.
    """
    times = [instant.time for instant in timeline.completed_writes]
    found: dict[Group, str | None] = {}
    decided: set[Group] = set()
    for instant, metadata in zip(times, map_each(times, timeline.commit_metadata), strict=True):
        written = {(s.partition_path, s.file_id): s.prev_commit for s in metadata.all_stats() if s.path}
        replaced = [(partition, file_id) for partition, ids in metadata.replaced.items() for file_id in ids]
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
