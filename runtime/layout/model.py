"""The file slice that layout decisions use: the facts about a base file that need no read of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from parquetry.message import FILE_FIELD, PARTITION_FIELD, RECORD_KEY_FIELD

FileKey = tuple[str, str]
"""A file group: partition and file id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """One base file: a version of a file group.

    ``path`` is relative to the table. ``rows`` and the key range are None if neither the footer nor the
    recorded statistics were read. For ``encrypted`` files they say nothing about keys.
    """

    partition: str = field(metadata=PARTITION_FIELD)
    file_id: str
    instant: str
    path: str = field(metadata=FILE_FIELD)
    size_bytes: int
    rows: int | None = None
    min_key: str | None = field(default=None, metadata=RECORD_KEY_FIELD)
    max_key: str | None = field(default=None, metadata=RECORD_KEY_FIELD)
    encrypted: bool = False

    @property
    def key(self) -> FileKey:
        """The file group."""
        return self.partition, self.file_id
