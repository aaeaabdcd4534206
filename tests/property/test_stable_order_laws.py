"""Laws of the order of rows by sort keys: it is Arrow's, and rows with equal keys stay as they are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.clustering.rewrite.stable_order import stable_order

BOUNDS = {
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint64(): (0, 2**64 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int8(): (-128, 127),
    pa.date32(): (-(2**31), 2**31 - 1),
    pa.timestamp("us"): (-(2**63), 2**63 - 1),
}


@st.composite
def key_columns(draw):
    """One to four columns of so many rows: few values, values next to the bounds of their type, any, and null."""
    rows = draw(st.integers(0, 40))
    columns = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.integers(0, 5)) == 0:
            values = st.one_of(st.none(), st.text(max_size=2))
            columns.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), pa.string()))
            continue
        kind = draw(st.sampled_from(list(BOUNDS)))
        least, most = BOUNDS[kind]
        numbers = [st.integers(-2 if least else 0, 2), st.sampled_from([least, most, most - 1])]
        some = st.one_of(*numbers[: draw(st.integers(1, 2))], *draw(st.sampled_from([[], [st.none()]])))
        found = draw(st.lists(some, min_size=rows, max_size=rows))
        whole = pa.int64() if kind != pa.uint64() else kind
        raw = pa.array(found, whole).cast(pa.int32() if kind == pa.date32() else whole)
        columns.append(raw.cast(kind))
    return columns


@given(key_columns())
def test_the_order_is_arrows(columns):
    names = [f"k{number}" for number in range(len(columns))]
    keys = pa.table([*columns, pa.array(range(len(columns[0])), pa.int64())], names=[*names, "row"])
    wanted = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    assert stable_order(columns).tolist() == wanted.to_pylist()


@given(key_columns(), st.data())
def test_a_part_of_the_rows_is_ordered_alike(columns, data):
    rows = len(columns[0])
    start = data.draw(st.integers(0, rows))
    parts = [column[start:] for column in columns]
    place = {row: at for at, row in enumerate(stable_order(columns).tolist())}
    assert stable_order(parts).tolist() == sorted(range(rows - start), key=lambda row: place[row + start])
