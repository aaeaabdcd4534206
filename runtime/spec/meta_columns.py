"""The five columns that Hudi adds before the columns of a table. Source: HoodieRecord of Hudi 0.15."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

COMMIT_TIME: Final = "_hoodie_commit_time"
COMMIT_SEQNO: Final = "_hoodie_commit_seqno"
RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
FILE_NAME: Final = "_hoodie_file_name"

META_COLUMNS: Final = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)


class MetaColumns(StrEnum):
    """The meta columns that new files fill. The schema of each file has all five; the others are null."""

    ALL = "all"
    COMMIT_TIME = "commit_time"
    NONE = "none"

    @property
    def has_keys(self) -> bool:
        """True if rows store their keys."""
        return self is MetaColumns.ALL

    @property
    def has_commit_times(self) -> bool:
        """True if rows store the time of the commit that wrote them."""
        return self is not MetaColumns.NONE
