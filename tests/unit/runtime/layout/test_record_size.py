"""The record size: learned from what was written, and bounded."""

from __future__ import annotations

import pytest

from parquetry.runtime.layout.record_size import FileSample, estimate_record_size


def sample(instant, rows, data_bytes):
    return FileSample(instant=str(instant), rows=rows, data_bytes=data_bytes)


def test_it_is_bytes_per_row_of_the_files_together():
    assert estimate_record_size([sample(1, 1000, 50_000), sample(2, 3000, 170_000)]) == 55.0


def test_small_commits_teach_too():
    """Hudi learns only from commits above 100 MB, and so never learns from small ones."""
    assert estimate_record_size([sample(1, 1000, 60_123)]) == pytest.approx(60.123)


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [sample(1, 3, 5000)],
        [sample(1, 0, 5000)],
        [sample(1, 10, 0)],
        [sample(1, 400, 9000), sample(2, 500, 9000)],
    ],
)
def test_too_little_teaches_nothing(samples):
    assert estimate_record_size(samples) is None


def test_a_few_wide_rows_are_enough():
    assert estimate_record_size([sample(1, 4, 4_000_000)]) == 1_000_000.0


def test_the_newest_files_count():
    old = [sample(1, 10_000, 10_000_000)] * 5
    new = [sample(2, 10_000, 1_000_000)] * 16
    assert estimate_record_size(old + new) == 100.0
    assert estimate_record_size(new + old) == 100.0


def test_files_much_smaller_than_the_largest_do_not_count():
    assert estimate_record_size([sample(1, 100_000, 6_000_000), sample(2, 2_000, 900_000)]) == 60.0


def test_it_is_at_least_one_byte():
    assert estimate_record_size([sample(1, 10_000_000, 4_000)]) == 1.0
