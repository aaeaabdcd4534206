"""How many bytes a row takes in a file, learned from the files there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_NEWEST_FILES = 16
_COMPARABLE_SHARE = 0.25
_TELLING_ROWS = 1_000
_TELLING_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSample:
    """One written file: its rows and its compressed bytes.

    ``data_bytes`` is without the footer where that is known, else the size of the file.
    """

    instant: str
    rows: int
    data_bytes: int


def learn(samples: Iterable[FileSample]) -> float | None:
    """Compressed bytes per row in the newest files, None where they tell too little.

    Of the sixteen newest files those count that have at least a quarter of the largest one's
    rows: in small files headers and dictionaries weigh more than they will in full ones.
    Together they must have a thousand rows or a mebibyte.
    """
    newest = sorted(
        (sample for sample in samples if sample.rows > 0 and sample.data_bytes > 0),
        key=lambda sample: (sample.instant, sample.rows, sample.data_bytes),
        reverse=True,
    )[:_NEWEST_FILES]
    largest = max((sample.rows for sample in newest), default=0)
    counted = [sample for sample in newest if sample.rows >= _COMPARABLE_SHARE * largest]
    rows = sum(sample.rows for sample in counted)
    data_bytes = sum(sample.data_bytes for sample in counted)
    if rows < _TELLING_ROWS and data_bytes < _TELLING_BYTES:
        return None
    return max(1.0, data_bytes / rows)
