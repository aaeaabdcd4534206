"""The average size of a row in a file, estimated from the existing files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_NEWEST_FILES = 16
_COMPARABLE_SHARE = 0.25
_ENOUGH_ROWS = 1_000
_ENOUGH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSample:
    """The rows and compressed bytes of one written file.

    ``data_bytes`` excludes the footer if that is known; otherwise it is the size of the file.
    """

    instant: str
    rows: int
    data_bytes: int


def estimate_record_size(samples: Iterable[FileSample]) -> float | None:
    """Return the compressed bytes per row of the newest files, or None if they hold too little data.

    Of the sixteen newest files, those with at least a quarter of the rows of the largest one count, because
    headers and dictionaries weigh more in small files than in full ones. Together they need at least a
    thousand rows or a mebibyte.
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
    if rows < _ENOUGH_ROWS and data_bytes < _ENOUGH_BYTES:
        return None
    return max(1.0, data_bytes / rows)
