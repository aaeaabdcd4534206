"""Curves over skewed columns and columns of different magnitude: how many files a point filter opens.

The bounds are those of a simulation with 64 files of 1,000,000 rows that ordered the rows along the Z
curve over exact quantiles: on average so many files can hold a value of the first and of the second column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parquetry.runtime.clustering.rewrite.order import SAMPLE_ROWS, OrderKeys, RowOrder

FILES = 64
DAY_MICROSECONDS = 86_400_000_000


def zipf_beside_uniform(random, rows):
    skewed = np.minimum(random.zipf(1.3, rows), 2**40)
    return pa.table({"a": skewed, "b": random.integers(0, 1_000_000, rows)})


def small_number_beside_timestamp(random, rows):
    at = random.integers(0, 30 * DAY_MICROSECONDS, rows)
    return pa.table({"a": random.integers(0, 10_000, rows), "b": pa.array(at, pa.timestamp("us"))})


SIMULATED = {zipf_beside_uniform: (14.8, 12.1), small_number_beside_timestamp: (10.0, 12.1)}

CASES = [
    pytest.param(seed, rows, id=f"{rows}-{seed}", marks=marks)
    for seed, rows, marks in [
        (1, 250_000, ()),
        *((seed, 1_000_000, pytest.mark.long) for seed in range(1, 6)),
    ]
]


def files_opened(rows, strategy):
    """The average number of files whose bounds cover a value, over the distinct values of each column."""
    order = RowOrder(strategy=strategy, columns=("a", "b"))
    stride = max(rows.num_rows // SAMPLE_ROWS, 1)
    keys = OrderKeys(order, rows.take(pa.array(np.arange(0, rows.num_rows, stride)))).of(rows)
    ordered = rows.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))
    boundaries = np.linspace(0, rows.num_rows, FILES + 1).astype(int)
    opened = []
    for name in rows.column_names:
        column = ordered.column(name).combine_chunks().cast(pa.int64()).to_numpy()
        parts = [column[first:last] for first, last in zip(boundaries[:-1], boundaries[1:], strict=True)]
        low = np.array([part.min() for part in parts])
        high = np.array([part.max() for part in parts])
        values = np.unique(column)
        # Of all files those are missed that begin above the value or end below it.
        above = FILES - np.searchsorted(np.sort(low), values, side="right")
        below = np.searchsorted(np.sort(high), values, side="left")
        opened.append(float((FILES - above - below).mean()))
    return tuple(opened)


@pytest.mark.parametrize("make", SIMULATED)
@pytest.mark.parametrize(("seed", "count"), CASES)
def test_point_filters_on_skewed_columns_open_few_files(make, seed, count):
    rows = make(np.random.default_rng(seed), count)
    z_curve, hilbert = (files_opened(rows, strategy) for strategy in ("zorder", "hilbert"))
    print(f"{make.__name__}, seed {seed}: zorder {z_curve}, hilbert {hilbert}")
    for by_z, by_hilbert, simulated in zip(z_curve, hilbert, SIMULATED[make], strict=True):
        assert by_z <= 1.2 * simulated
        assert by_hilbert <= 1.1 * by_z


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_the_bound_tells_raw_values_from_quantiles(strategy):
    """A sort by one column, which is what raw values of other magnitudes come to, opens all files for the other."""
    rows = small_number_beside_timestamp(np.random.default_rng(3), 100_000)
    plain = files_opened(rows, "sort")
    assert plain[1] > 5 * SIMULATED[small_number_beside_timestamp][1]
    assert max(files_opened(rows, strategy)) < plain[1] / 3
