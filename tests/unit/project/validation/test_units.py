from __future__ import annotations

import pytest

from parquetry.project.validation.units import duration_seconds, size_bytes, unit_hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("120MiB", 125_829_120),
        ("120MB", 120_000_000),
        ("1.5 GiB", 1_610_612_736),
        ("0.1GiB", 107_374_182),
        ("512B", 512),
        ("1KiB", 1024),
        ("1KB", 1000),
        ("2TB", 2 * 10**12),
        ("1TiB", 1 << 40),
        ("0", 0),
        (0, 0),
        ("0GiB", 0),
        ("999999999999999TiB", 999_999_999_999_999 << 40),
    ],
)
def test_sizes(text, expected):
    assert size_bytes(text) == expected


@pytest.mark.parametrize(
    "text", ["120", 120, "120M", "120mib", "MiB", "-1MiB", "1e3MiB", "1,5MiB", "", "1MiB1"]
)
def test_not_a_size(text):
    with pytest.raises(ValueError, match="is not a size"):
        size_bytes(text)


def test_durations():
    assert [duration_seconds(text) for text in ("30s", "5m", "36h", "25d", "2w")] == [
        30,
        300,
        129_600,
        2_160_000,
        1_209_600,
    ]
    with pytest.raises(ValueError, match="is not a duration"):
        duration_seconds("25")


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        ("120mb", "a size", "write 120MB"),
        ("120m", "a size", "write 120MiB"),
        ("1.5g", "a size", "write 1.5GiB"),
        ("7x", "a size", None),
        ("25 days", "a duration", "write 25d"),
        ("3 Hours", "a duration", "write 3h"),
        ("soon", "a duration", None),
        ("120mb", "a text", None),
    ],
)
def test_hints(text, expected, hint):
    assert unit_hint(text, expected) == hint
