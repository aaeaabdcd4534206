"""What is suggested for random tables and queries is near the best of all layouts, each really clustered by."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from parquetry.compiler.reports import suggestion
from parquetry.compiler.reports.simulate_clustering import CandidateLayouts
from parquetry.compiler.reports.suggestion import Suggestion, suggest
from parquetry.runtime.clustering.forecast.dry_run import DryRun
from parquetry.runtime.clustering.forecast.queries import DeclaredQueries
from parquetry.runtime.clustering.plan.survey import FurtherSteps, clustering_file
from parquetry.runtime.errors import StaleTimelineError
from parquetry.runtime.spec.clustering import ExecutionPolicy
from tests.support.layout_search import TARGET, RandomTable, all_layouts, measured_bytes, random_table
from tests.support.stores import ReadOnlyStore

NEAR = 1.05


def measured(table: RandomTable, found: Suggestion) -> tuple[float, float]:
    """What queries read under the suggestion, and under the best layout of all; without one as it is."""
    now = weighted_now(found.candidates)
    every = {
        layout: measured_bytes(table, layout) for layout in (ExecutionPolicy(), *all_layouts(table.asked))
    }
    least = min(now, *every.values())
    if found.best is None:
        return now, least
    layout = found.best.execution
    return every[ExecutionPolicy(strategy=layout.strategy, columns=layout.columns)], least


def weighted_now(candidates: CandidateLayouts) -> float:
    return sum(
        query.weight * now.data_bytes for query, now in zip(candidates.queries, candidates.now, strict=True)
    )


def check(seed: int, *, rows: int, columns: int) -> tuple[float, float]:
    """By which factor the suggestion reads more than the best, and how far off it was predicted."""
    with TemporaryDirectory() as folder:
        table = random_table(Path(folder), seed, rows=rows, columns=columns)
        found = suggest(table.store)
        read, least = measured(table, found)
        now = weighted_now(found.candidates)
        predicted = read if found.best is None else found.best.share * now
        return read / least, predicted / read


@pytest.mark.parametrize(
    ("seed", "rows"),
    [
        (1, 5000),
        pytest.param(123, 6000, marks=pytest.mark.long),
        *(
            pytest.param(seed, rows, marks=pytest.mark.long)
            for seed, rows in [(3, 5000), (12, 5000), (116, 6000)]
        ),
    ],
)
def test_a_suggestion_reads_little_more_than_the_best_of_all_layouts(seed, rows):
    factor, predicted = check(seed, rows=rows, columns=3)
    assert factor <= NEAR
    assert 0.99 <= predicted <= 1.01


@pytest.mark.long
@pytest.mark.parametrize(("rows", "columns"), [(6000, 3), (20_000, 4), (60_000, 3), (12_000, 6)])
def test_a_suggestion_reads_little_more_than_the_best_for_every_seed(rows, columns):
    found = {seed: check(seed, rows=rows, columns=columns) for seed in range(100, 125)}
    factors = sorted(factor for factor, _ in found.values())
    print(f"{rows} rows, {columns} columns: the worst {factors[-1]:.3f}, the median {factors[12]:.3f}")
    assert {seed: factor for seed, (factor, _) in found.items() if factor > NEAR} == {}
    assert {seed: predicted for seed, (_, predicted) in found.items() if not 0.99 <= predicted <= 1.01} == {}


def test_the_columns_of_every_query_are_tried_alone(tmp_path, monkeypatch):
    """However many there are, and however little their queries weigh."""
    for limit in ("_CROSSED", "_DRY_RUN_BYTES", "_FINALISTS", "_SHOWN"):
        monkeypatch.setattr(suggestion, limit, 1)
    table = random_table(tmp_path, 5, rows=4000, columns=7)
    alone = {
        candidate.execution.columns
        for candidate in suggest(table.store).candidates.candidates
        if candidate.execution.strategy == "sort" and len(candidate.execution.columns) == 1
    }
    assert alone == {(name,) for name in table.asked}


def test_rehearsals_write_nothing_and_notice_files_that_are_gone(tmp_path):
    table = random_table(tmp_path, 5, rows=600, columns=2)
    assert suggest(ReadOnlyStore(table.store)).candidates.candidates
    table.store.delete(table.slices[0].path)
    dry_run = DryRun(table.store, table.spec, DeclaredQueries.of(table.spec))
    files = [clustering_file(part, None, FurtherSteps()) for part in table.slices]
    with pytest.raises(StaleTimelineError, match=table.slices[0].path):
        dry_run.forecast([files], {}, ExecutionPolicy(), target_bytes=TARGET)
