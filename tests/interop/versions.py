"""Which of the two real Hudis, and which table version, a test meets in the short suite; the long one adds the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.judges import Judge


def _mostly(version: str, other: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "hudi", [version, pytest.param(other, marks=pytest.mark.long)], indirect=True
    )


def able(judges: Sequence[Judge], table_version: int) -> list[Judge]:
    """Return those that read a table of that version: Hudi 0.15 knows version 6 alone."""
    return [judge for judge in judges if table_version == 6 or "0.15" not in judge.name]


BOTH_TABLE_VERSIONS = pytest.mark.parametrize("table_version", [6, pytest.param(9, marks=pytest.mark.long)])
"""The table versions that we write; the short suite tries version 9 in test_turns.py."""

HUDIS_OF_BOTH_TABLE_VERSIONS = pytest.mark.parametrize(
    ("hudi", "table_version"),
    [
        ("1.2.0", 6),
        pytest.param("0.15.0", 6, marks=pytest.mark.long),
        pytest.param("1.2.0", 9, marks=pytest.mark.long),
    ],
    indirect=["hudi"],
)
MOSTLY_0_15_0 = _mostly("0.15.0", "1.2.0")
MOSTLY_1_2_0 = _mostly("1.2.0", "0.15.0")
