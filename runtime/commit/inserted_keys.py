"""The ranges of the keys that a completed write inserted, according to its statistics."""

from __future__ import annotations

from collections.abc import Mapping

from parquetry.runtime.commit.outcome import KeyRange
from parquetry.runtime.errors import UNUSABLE
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.regular_file import MOST_BYTES
from parquetry.runtime.table.statistics import decode_statistics
from parquetry.runtime.timeline.commit import CommitMetadata
from parquetry.runtime.timeline.sidecars import statistics_path


def inserted_keys_of(store: ObjectStore, instant: str, metadata: CommitMetadata) -> Mapping[str, KeyRange]:
    """Return the range of the keys that a write inserted, by partition. Unknown ranges are left out.

    A range covers all rows of the files that received new rows, so it may be wider than the inserted keys.
    """
    path = statistics_path(instant)
    try:
        files = decode_statistics(
            store.read(path, most_bytes=MOST_BYTES), location=f"{store.uri}/{path}", columns=()
        )
    except UNUSABLE:
        # Statistics are derived data: without them the ranges are unknown, and nothing is lost.
        return {}
    known = {file.path: file for file in files}
    ranges: dict[str, KeyRange] = {}
    unknown: set[str] = set()
    for stat in metadata.all_stats():
        if stat.num_inserts == 0 and stat.prev_commit is not None:
            continue
        partition = stat.partition_path
        file = known.get(stat.path)
        if file is None or file.min_key is None or file.max_key is None:
            unknown.add(partition)
            continue
        found = KeyRange(smallest=file.min_key, largest=file.max_key)
        ranges[partition] = found.hull(ranges[partition]) if partition in ranges else found
    return {partition: keys for partition, keys in ranges.items() if partition not in unknown}
