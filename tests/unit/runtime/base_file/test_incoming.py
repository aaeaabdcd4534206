from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.base_file.incoming import IncomingRows

SCHEMA = pa.schema([("text", pa.string())])


def batch(positions, text="x" * 100) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "_hoodie_record_key": [f"k{number}" for number in range(len(positions))],
            "__position": pa.array(positions, pa.int64()),
            "__delete": pa.array(np.zeros(len(positions), bool)),
            "__hash": pa.array(np.ones(len(positions), np.int64)),
            "text": [text] * len(positions),
        }
    )


@pytest.mark.parametrize("max_bytes", [1, 200, 400, 10_000])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (3, 3), (2, 0, 3, 1), (6,)])
def test_rows_below_a_bound_are_few_and_all_come(sizes, max_bytes):
    places, batches = [1, 2, 5, 9, 20, None], []
    for size in sizes:
        batches.append(batch(places[:size]))
        places = places[size:]
    incoming = IncomingRows(batches, SCHEMA, place="rows")
    taken, position = [], 0
    while position < 15:
        bound = incoming.next_cut(15, max_bytes)
        assert position < bound <= 15
        rows = incoming.take_below(bound)
        if rows is not None:
            taken.append(rows.column("__position").to_pylist())
        position = bound
    assert list(chain.from_iterable(taken)) == [1, 2, 5, 9]
    if max_bytes == 1:
        assert max(map(len, taken)) <= max(sizes)
    if max_bytes == 10_000:
        assert len(taken) == 1
    assert [rows.column("__position").to_pylist() for rows in incoming.take_rest()] in (
        [[20, None]],
        [[20], [None]],
    )
    assert incoming.consumed_rows == 6


def test_without_rows_the_bound_is_the_position():
    assert IncomingRows([], SCHEMA, place="rows").next_cut(7, 1) == 7


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (3, 3), (2, 0, 3, 1), (6,)])
def test_how_much_lies_below_a_position_does_not_hang_on_batches(sizes):
    places, batches = [1, 2, 5, 9, 20, None], []
    for size in sizes:
        batches.append(batch(places[:size]))
        places = places[size:]
    incoming = IncomingRows(batches, SCHEMA, place="rows")
    least = [next(size for size in range(2000) if incoming.is_within(end, size)) for end in (1, 2, 6, 99)]
    assert least[0] == 0
    assert least[1:] == [count * least[1] for count in (1, 3, 5)]
    assert incoming.take_below(6).num_rows == 3
    assert incoming.is_within(99, 2 * least[1])
