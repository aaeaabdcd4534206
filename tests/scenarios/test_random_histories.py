"""Random histories, some steps of which die: hudi-rs and our view read after each step what the model holds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from parquetry.runtime.spec.meta_columns import MetaColumns
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


@pytest.mark.parametrize(
    ("meta_columns", "seed"),
    [
        pytest.param(columns, seed, marks=[pytest.mark.long] if seed else [])
        for columns in (MetaColumns.COMMIT_TIME, MetaColumns.NONE)
        for seed in range(50)
    ],
)
def test_it_is_so_without_meta_columns(meta_columns: MetaColumns, seed: int, tmp_path: Path) -> None:
    version = 9 if seed % 2 else 6
    RandomHistory(path=tmp_path / "t", seed=seed, table_version=version, meta_columns=meta_columns).run(14)


@pytest.mark.parametrize(
    ("before", "after", "seed"),
    [
        pytest.param(before, after, seed, marks=[pytest.mark.long] if seed else [])
        for before, after in pairwise(MetaColumns)
        for seed in range(50)
    ],
)
def test_it_is_so_when_meta_columns_become_fewer(
    before: MetaColumns, after: MetaColumns, seed: int, tmp_path: Path
) -> None:
    history = RandomHistory(
        path=tmp_path / "t", seed=seed, table_version=9 if seed % 2 else 6, meta_columns=before, fewer=after
    )
    history.run(14)
