from __future__ import annotations

import numpy as np
import pyarrow as pa

from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder
from parquetry.runtime.clustering.rewrite.runs import sort_rows


def test_columns_that_are_the_same_are_moved_once():
    rows = pa.table(
        {
            "key": [f"k{number}" for number in range(100)],
            "n": np.random.default_rng(1).permutation(100),
            "id": [f"k{number}" for number in range(100)],
            "nearly": [f"k{min(number, 98)}" for number in range(100)],
            "binary": pa.array([f"k{number}".encode() for number in range(100)]),
        }
    )
    found = sort_rows(
        rows.to_batches(max_chunksize=30), OrderKeys(RowOrder(strategy="sort", columns=("n",)), rows)
    )
    assert pa.Table.from_batches([found]).equals(rows.sort_by("n").combine_chunks())
    key, alike, other = (found.column(name).buffers()[2].address for name in ("key", "id", "nearly"))
    assert key == alike != other
