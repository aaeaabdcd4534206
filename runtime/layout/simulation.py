"""Sizing tried on given file sizes, without a table; and a sizing plan as JSON."""

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
    """The plan a write would make for files of these (name, size in bytes) in one partition.

    Its decisions are in the order of ``files``, whose names are their file ids.
    """
    slices = [
        FileSlice(partition="", file_id=name, instant="", path=name, size_bytes=size_bytes)
        for name, size_bytes in files
    ]
    return plan_inserts(slices=slices, inserts=inserts, record_size_bytes=record_size_bytes, policy=policy)


def sizing_json(plan: SizingPlan) -> dict[str, Any]:
    """The plan as plain JSON values: existing files as given, then new ones with file null."""
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
