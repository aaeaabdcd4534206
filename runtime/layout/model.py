"""The value that layout decisions are made of: one base file, as far as it is known without reading it."""

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
