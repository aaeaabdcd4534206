"""Files that nothing in the table's history stands behind."""

from __future__ import annotations

from pathlib import Path

from parquetry.runtime.storage.open import open_store
from parquetry.runtime.table.handle import open_table

TEMPORARY = (
    ".hoodie/.temp",
    ".hoodie/.heartbeat",
    ".hoodie/.parquetry/breaking",
    ".hoodie/.aux",
    ".hoodie/.parquetry/stage",
)
KEPT = {".hoodie_partition_metadata"}


def leftovers(path: Path | str) -> list[str]:
    """What a table without running writers should not hold after a clean, by relative path, sorted."""
    root = Path(path)
    handle = open_table(open_store(path))
    timeline = handle.timeline()
    view = handle.view(timeline)
    known = {
        version.path
        for partition in view.partitions()
        for group in view.file_groups(partition)
        for version in group.slices
    }
    found = []
    for file in root.rglob("*"):
        relative = file.relative_to(root).as_posix()
        if file.is_dir() or file.name in KEPT:
            continue
        if not relative.startswith(".hoodie/"):
            if relative not in known and not relative.startswith(("_delta_log/", "metadata/")):
                found.append(relative)
        elif (
            relative.startswith(TEMPORARY)
            or relative.endswith(".tmp")
            or (relative.startswith(".hoodie/.parquetry/stats/") and not _stands(timeline, file.stem))
            or (
                (instant := timeline.layout.NAMES.parse(file.name)) is not None
                and not timeline.contains(instant.time, instant.action, state=None)
            )
        ):
            found.append(relative)
    pending = [i.file_name for i in timeline.instants if not i.is_completed]
    return sorted(found + pending)


def _stands(timeline, time: str) -> bool:
    return timeline.is_completed(time) or time < timeline.completed_writes[0].time
