"""Which of the two real Hudis a test meets in the short suite; the long one adds the other."""

from __future__ import annotations

import pytest


def _mostly(version: str, other: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "hudi", [version, pytest.param(other, marks=pytest.mark.long)], indirect=True
    )


MOSTLY_0_15_0 = _mostly("0.15.0", "1.2.0")
MOSTLY_1_2_0 = _mostly("1.2.0", "0.15.0")
