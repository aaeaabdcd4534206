"""The limits that a table declares for the sizes of the files that writes make."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingPolicy:
    """The limits of write-time sizing.

    ``insert_split_size`` is in rows, None means as many as fill ``max_file_size_bytes``.
    ``record_size_bytes`` None means learned. ``min_fill`` is the share of a small file's size
    that it must at least receive to be worth a rewrite; 0 always fills.
    """

    max_file_size_bytes: int = 120 * 1024 * 1024
    small_file_limit_bytes: int = 100 * 1024 * 1024
    insert_split_size: int | None = None
    record_size_bytes: int | None = None
    min_fill: float = 0.0
