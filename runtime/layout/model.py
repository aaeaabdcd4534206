"""The values that layout decisions are made of: slices of files and the limits they are held to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """One base file: a version of a file group.

    ``path`` is relative to the table. ``rows`` and the key range are None where nobody has
    read the footer or its recorded statistics yet; neither says anything of keys in ``encrypted`` files.
    """

    partition: str
    file_id: str
    instant: str
    path: str
    size_bytes: int
    rows: int | None = None
    min_key: str | None = None
    max_key: str | None = None
    encrypted: bool = False


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
