"""File sizing for given file sizes, without a table, and the JSON of a sizing plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.layout.sizing import SizingPlan, plan_inserts
from parquetry.runtime.spec.sizing import SizingPolicy


def simulate_sizing(
    files: Iterable[tuple[str, int]],
    *,
    record_size_bytes: float,
    inserts: int,
    policy: SizingPolicy,
) -> SizingPlan:
    """Return the sizing plan of a write into one partition with these files.

    Args:
        files: The name and the size in bytes of each file. The names serve as file ids, and the decisions of
            the plan keep this order.
        record_size_bytes: The average compressed bytes per row.
        inserts: The number of rows to insert.
        policy: The sizing policy.

    """
    slices = [
        FileSlice(partition="", file_id=name, instant="", path=name, size_bytes=size_bytes)
        for name, size_bytes in files
    ]
    return plan_inserts(slices=slices, inserts=inserts, record_size_bytes=record_size_bytes, policy=policy)


def sizing_json(plan: SizingPlan) -> dict[str, Any]:
    """Return the plan as JSON values: existing files in their order, then new files with ``file`` null."""
    existing = [
        {
            "file": decision.slice.file_id,
            "size_bytes": decision.slice.size_bytes,
            "small": decision.small,
            "inserts": decision.inserts,
            "size_after_bytes": decision.size_after_bytes,
            "reason": decision.reason,
        }
        for decision in plan.decisions
    ]
    new = [
        {
            "file": None,
            "inserts": assignment.inserts,
            "size_after_bytes": assignment.size_after_bytes,
            "reason": assignment.reason,
        }
        for assignment in plan.new_files
    ]
    size = plan.record_size_bytes
    return {
        "files": existing + new,
        "record_size_bytes": int(size) if size == int(size) else size,
    }
