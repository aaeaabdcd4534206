"""The workload profiles that pending writes announce, so that other writers can avoid conflicts in advance.

Hudi keeps the profile in the inflight file (BaseCommitActionExecutor.saveWorkloadProfileMetadataToInflight of
Hudi 0.15): per partition one entry for new rows, and one for each file group that will get a new slice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from parquetry.runtime.commit.conflicts import WriteEffects, may_insert_same_key
from parquetry.runtime.commit.outcome import Footprint, KeyRange
from parquetry.runtime.spec.codec import parsed_json
from parquetry.runtime.timeline.commit import CommitMetadata, WriteStat


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file slice to rewrite: the number of rows to update or delete in it, and of new rows to add."""

    base_instant: str
    updates: int = 0
    inserts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProfile:
    """The planned changes of one partition: its number of new rows, and the files to rewrite by file id."""

    inserts: int = 0
    files: Mapping[str, PlannedFile] = field(default_factory=dict)


Profile = Mapping[str, PartitionProfile]
"""The workload profile of a write, by partition."""


KeyRanges = Mapping[str, KeyRange]
"""The range of the keys that a write inserts, by partition; absent if it is unknown."""

INSERTED_KEYS: Final = "parquetry.inserted_keys"


def profile_metadata(operation: str, profile: Profile, inserted_keys: KeyRanges) -> CommitMetadata:
    """Return the content of the inflight file."""
    ranges = {path: [keys.smallest, keys.largest] for path, keys in inserted_keys.items()}
    return CommitMetadata(
        operation=operation,
        extra={INSERTED_KEYS: json.dumps(ranges)} if ranges else {},
        stats={
            partition: (
                WriteStat(file_id="", partition_path=partition, num_inserts=planned.inserts),
                *(
                    WriteStat(
                        file_id=file_id,
                        partition_path=partition,
                        prev_commit=file.base_instant,
                        num_update_writes=file.updates,
                        num_inserts=file.inserts,
                    )
                    for file_id, file in planned.files.items()
                ),
            )
            for partition, planned in profile.items()
        },
    )


def announced_file_ids(announced: CommitMetadata) -> frozenset[str]:
    """Return the ids of the file groups that a pending write has announced it will rewrite."""
    return frozenset(stat.file_id for stat in announced.all_stats() if stat.file_id)


def filled_file_ids(profile: Profile) -> frozenset[str]:
    """Return the ids of the small files that get new rows but no update under the profile."""
    return frozenset(
        file_id
        for planned in profile.values()
        for file_id, file in planned.files.items()
        if file.updates == 0
    )


def effects_of_profile(
    instant: str, operation: str, profile: Profile, inserted_keys: KeyRanges
) -> WriteEffects:
    """Return the effects of the announced write that are certain: filling small files is not."""
    return WriteEffects(
        instant=instant,
        operation=operation,
        merged=frozenset(
            (partition, file_id)
            for partition, planned in profile.items()
            for file_id, file in planned.files.items()
            if file.updates > 0
        ),
        partitions=frozenset(profile),
        inserted=frozenset(partition for partition, planned in profile.items() if planned.inserts > 0),
        inserted_keys=inserted_keys,
    )


def will_conflict_with(mine: WriteEffects, announced: CommitMetadata, footprint: Footprint) -> bool:
    """Return whether the two writes cannot both be published if they are based on the same state."""
    if not {file_id for _, file_id in mine.merged}.isdisjoint(announced_file_ids(announced)):
        return True
    theirs = WriteEffects(
        instant="",
        operation=announced.operation,
        inserted=frozenset(stat.partition_path for stat in announced.all_stats() if stat.num_inserts > 0),
        inserted_keys=_announced_keys(announced),
    )
    return footprint.looks_up_keys and may_insert_same_key(mine, theirs, footprint.key_scope)


def _announced_keys(announced: CommitMetadata) -> KeyRanges:
    """Return the key ranges that the write has announced; empty if they are missing or unreadable."""
    try:
        ranges = parsed_json(announced.extra.get(INSERTED_KEYS, "{}"))
        return {path: KeyRange(smallest=str(keys[0]), largest=str(keys[1])) for path, keys in ranges.items()}
    except (ValueError, TypeError, AttributeError, IndexError, KeyError):
        # Another program used this name for other content: the key ranges are unknown.
        return {}
