"""The size of the next row group, chosen so that a file ends near its maximum size and never above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.layout.packing import FILL_SHARE, LAST_ROWS_SHARE

MIB: Final = 1024 * 1024

STRETCHED_SHARE: Final = 0.99
"""The share of its maximum size up to which a file may grow if that avoids a rollover for a few rows."""

HARD_LIMIT_SHARE: Final = 0.999
"""The share of its maximum size that no file exceeds. The page index of written rows is known exactly."""

FULL_SHARE: Final = 0.99
"""A file that has reached this share of its goal gets no further row group."""

SMALL_REST_FACTOR: Final = 1.25
"""Up to this factor more than a row group is written as one, rather than as one and a small one."""

_LARGEST_ROW_GROUP = 16 * MIB
_SMALLEST_ROW_GROUP = MIB
_TINY_ROW_GROUP = 128 * 1024


def default_row_group_bytes(max_file_size_bytes: int) -> int:
    """Return an eighth of a file, between 1 and 16 MiB: small enough to skip, and to end a file precisely."""
    return min(max(max_file_size_bytes // 8, _SMALLEST_ROW_GROUP), _LARGEST_ROW_GROUP)


def kept_row_groups(small_bytes: Sequence[int], following_bytes: float) -> int:
    """Return how many of the small row groups, counted from the first, stay as they are.

    The others become one row group with the rows that follow. A row group stays if it is larger than
    everything after it, and not tiny. So the number of small row groups grows only with the logarithm of the
    number of rows, and a row is encoded again at most that often, not by every write.

    Args:
        small_bytes: The sizes of consecutive small row groups.
        following_bytes: The size of the rows that are written after them.
    """
    following = following_bytes
    kept = len(small_bytes)
    for number, size in reversed(list(enumerate(small_bytes))):
        if size <= max(following, _TINY_ROW_GROUP):
            kept = number
        following += size
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizer:
    """Size decisions for one file. All sizes are in bytes; ``file_bytes`` includes the footer so far.

    ``remaining_bytes`` is the estimate of what the bucket still has to write. ``replaced_bytes`` is the size
    of the base file that this file replaces. Its rows may stay in one file, as long as that is below the
    maximum.
    """

    max_bytes: int
    row_group_bytes: int
    row_group_arrow_bytes: int
    replaced_bytes: int = 0

    @property
    def hard_limit_bytes(self) -> float:
        """The size that no file exceeds, except a file of a single row."""
        return HARD_LIMIT_SHARE * self.max_bytes

    def goal_bytes(self, file_bytes: int, remaining_bytes: float) -> float:
        """Return the size up to which the file should grow."""
        kept_bytes = min(self.replaced_bytes, self.hard_limit_bytes)
        fits = file_bytes + remaining_bytes <= max(LAST_ROWS_SHARE * self.max_bytes, kept_bytes)
        return max(STRETCHED_SHARE * self.max_bytes, kept_bytes) if fits else FILL_SHARE * self.max_bytes

    def is_full(self, file_bytes: int, remaining_bytes: float) -> bool:
        """Return whether the remaining rows go to another file."""
        return file_bytes >= FULL_SHARE * self.goal_bytes(file_bytes, remaining_bytes)

    def is_allowed(self, file_bytes: float) -> bool:
        """Return whether a file of this size stays below the hard limit."""
        return file_bytes <= self.hard_limit_bytes

    def next_arrow_bytes(
        self, file_bytes: int, remaining_bytes: float, *, ratio: float, guessed: bool
    ) -> int:
        """Return the number of Arrow bytes for the next row group.

        Args:
            file_bytes: The present size of the file.
            remaining_bytes: The estimate of what the bucket still has to write.
            ratio: The expected number of file bytes per Arrow byte.
            guessed: The ratio is a guess. The row group then has at most half the maximum file size in Arrow
                bytes, because no encoding makes rows much larger.
        """
        room = self.goal_bytes(file_bytes, remaining_bytes) - file_bytes
        wanted = min(min(self.row_group_bytes, room) / ratio, self.row_group_arrow_bytes)
        return max(int(min(wanted, self.max_bytes / 2) if guessed else wanted), 1)

    def smaller_arrow_bytes(self, arrow_bytes: int, *, file_bytes: int, encoded_bytes: int) -> int:
        """Return how many Arrow bytes to try next, after ``arrow_bytes`` were too many for the file."""
        room = max(FILL_SHARE * self.max_bytes - file_bytes, 0)
        return max(int(arrow_bytes * min(room / encoded_bytes, 0.9)), 1)
