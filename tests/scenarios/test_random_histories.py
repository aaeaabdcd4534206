"""Random histories, some steps of which die: hudi-rs and our view read after each step what the model holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.random_history import RandomHistory


@pytest.mark.parametrize(
    ("seed", "table_version"),
    [
        (0, 6),
        *((seed, 9) for seed in range(3)),
        *(
            pytest.param(seed, version, marks=pytest.mark.long)
            for version in (6, 9)
            for seed in range(3, 200)
        ),
    ],
)
def test_two_judges_read_after_each_step_what_the_model_holds(
    seed: int, table_version: int, tmp_path: Path
) -> None:
    history = RandomHistory(path=tmp_path / "t", seed=seed, table_version=table_version)
    history.run(steps=14)
    print(
        f"seed {seed}: {len(history.writes)} writes, done {dict(history.done)}, refused {dict(history.refused)}"
    )
