"""The declared limits of the sizes of files that writes create."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_FILE_SIZE_BYTES: Final = 120 * 1024 * 1024
"""The default of ``sizing.max_file_size``. A test compares it with the default in the JSON Schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingPolicy:
    """The limits of write-time sizing.

    ``insert_split_size`` is in rows; None means as many as fill ``max_file_size_bytes``. If
    ``record_size_bytes`` is None, it is learned from earlier commits. ``min_fill`` is the share of a small
    file's size that the file must at least receive to be rewritten; 0 means always.
    """

    max_file_size_bytes: int = MAX_FILE_SIZE_BYTES
    small_file_limit_bytes: int = 100 * 1024 * 1024
    insert_split_size: int | None = None
    record_size_bytes: int | None = None
    min_fill: float = 0.0
