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
    def empty(self) -> tuple[str, ...]:
        """The meta columns that are null in each row of a new file."""
        filled = {
            MetaColumns.ALL: META_COLUMNS,
            MetaColumns.COMMIT_TIME: (COMMIT_TIME,),
            MetaColumns.NONE: (),
        }
        return tuple(name for name in META_COLUMNS if name not in filled[self])

    def may_become(self, other: MetaColumns) -> bool:
        """Return whether a table may fill these columns from now on, as no row lacks one of them."""
        return {*self.empty} <= {*other.empty}

    @property
    def has_keys(self) -> bool:
        """True if rows store their keys."""
        return self is MetaColumns.ALL

    @property
    def has_commit_times(self) -> bool:
        """True if rows store the time of the commit that wrote them."""
        return self is not MetaColumns.NONE
