"""How much goes into the next row group, so that a file ends near its maximum and never above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from parquetry.runtime.layout.packing import AIM, FITS

MIB: Final = 1024 * 1024

STRETCHED: Final = 0.99
"""A file may grow to its maximum times this when that spares a roll-over for a few rows."""

CERTAIN: Final = 0.999
"""No file is planned above its maximum times this: the page index is known when its rows are in the file."""

FULL: Final = 0.99
"""A file this near its goal is not worth another row group."""

SLACK: Final = 1.25
"""So much more than a row group is written as one rather than with a small one behind it."""

_LARGEST_ROW_GROUP = 16 * MIB
_SMALLEST_ROW_GROUP = MIB
_TINY_ROW_GROUP = 128 * 1024


def default_row_group_bytes(max_file_size_bytes: int) -> int:
    """An eighth of a file, between 1 and 16 MiB: fine enough to skip by, and to end a file with."""
    return min(max(max_file_size_bytes // 8, _SMALLEST_ROW_GROUP), _LARGEST_ROW_GROUP)


def kept_row_groups(small_bytes: Sequence[int], behind_bytes: float) -> int:
    """How many of neighbouring small row groups stay as they are, from the first on.

    The others become one with the ``behind_bytes`` of rows that come behind them. Each that stays is
    larger than all that follows, and not tiny: their number grows with the logarithm of the rows, and
    a row is encoded again as many times at most, not by every write.
    """
    following = behind_bytes
    kept = len(small_bytes)
    for number, size in reversed(list(enumerate(small_bytes))):
        if size <= max(following, _TINY_ROW_GROUP):
            kept = number
        following += size
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizer:
    """Decides about one file. All sizes are in bytes; ``file_bytes`` include the footer so far.

    ``remaining_bytes`` is the estimate of all that is still to come for the bucket. The version that is
    replaced has ``replaced_bytes``: its rows may stay together, below the maximum.
    """

    max_bytes: int
    row_group_bytes: int
    row_group_arrow_bytes: int
    replaced_bytes: int = 0

    @property
    def hard_limit_bytes(self) -> float:
        """What no file exceeds but for one of a single row."""
        return CERTAIN * self.max_bytes

    def goal_bytes(self, file_bytes: int, remaining_bytes: float) -> float:
        """What the file should grow to at most."""
        kept_bytes = min(self.replaced_bytes, self.hard_limit_bytes)
        fits = file_bytes + remaining_bytes <= max(FITS * self.max_bytes, kept_bytes)
        return max(STRETCHED * self.max_bytes, kept_bytes) if fits else AIM * self.max_bytes

    def is_full(self, file_bytes: int, remaining_bytes: float) -> bool:
        """Whether what is left goes to another file."""
        return file_bytes >= FULL * self.goal_bytes(file_bytes, remaining_bytes)

    def is_allowed(self, file_bytes: float) -> bool:
        """Whether the file may have this size."""
        return file_bytes <= self.hard_limit_bytes

    def next_arrow_bytes(
        self, file_bytes: int, remaining_bytes: float, *, ratio: float, guessed: bool
    ) -> int:
        """How many Arrow bytes the next row group has, when they shrink by ``ratio`` in the file.

        With a ``guessed`` ratio at most half a file of them, which no encoding makes many more.
        """
        room = self.goal_bytes(file_bytes, remaining_bytes) - file_bytes
        wanted = min(min(self.row_group_bytes, room) / ratio, self.row_group_arrow_bytes)
        return max(int(min(wanted, self.max_bytes / 2) if guessed else wanted), 1)

    def smaller_arrow_bytes(self, arrow_bytes: int, *, file_bytes: int, encoded_bytes: int) -> int:
        """How many Arrow bytes to try after ``arrow_bytes`` came out as too many."""
        room = max(AIM * self.max_bytes - file_bytes, 0)
        return max(int(arrow_bytes * min(room / encoded_bytes, 0.9)), 1)
