"""Laws of curves, orders and fingerprints."""

from __future__ import annotations

from math import isnan

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from parquetry.runtime.arrow.fingerprint import MODULUS, fingerprint
from parquetry.runtime.clustering.rewrite.order import OrderKeys, RowOrder, boundaries_of, split_starts
from parquetry.runtime.clustering.rewrite.runs import sort_range
from parquetry.runtime.clustering.rewrite.strategies import ranks_in
from parquetry.runtime.layout.curves import bits_per_column, hilbert_index, z_index
from tests.support.effort import examples

SHAPES = st.sampled_from([(1, 8), (2, 1), (2, 5), (3, 3), (4, 2)])


def all_ranks(columns: int, bits: int) -> list[np.ndarray]:
    grid = np.indices((1 << bits,) * columns, dtype=np.uint64)
    return [axis.ravel() for axis in grid]


@given(SHAPES)
def test_hilbert_is_a_bijection_with_unit_steps(shape):
    columns, bits = shape
    ranks = all_ranks(columns, bits)
    index = hilbert_index(ranks, bits=bits)
    assert sorted(index.tolist()) == list(range(1 << bits * columns))
    walk = np.stack(ranks).astype(np.int64)[:, np.argsort(index)]
    assert (np.abs(np.diff(walk, axis=1)).sum(axis=0) == 1).all()


@given(SHAPES)
def test_the_z_curve_is_a_bijection_that_grows_with_every_column(shape):
    columns, bits = shape
    ranks = all_ranks(columns, bits)
    index = z_index(ranks, bits=bits)
    assert sorted(index.tolist()) == list(range(1 << bits * columns))
    cube = index.reshape((1 << bits,) * columns).astype(np.int64)
    assert all((np.diff(cube, axis=axis) > 0).all() for axis in range(columns))


@given(st.integers(1, 12))
def test_an_index_has_64_bits(columns):
    bits = bits_per_column(columns)
    assert 1 <= bits * columns <= 64
    largest = [np.full(1, (1 << bits) - 1, np.uint64)] * columns
    assert z_index(largest, bits=bits)[0] == (1 << bits * columns) - 1


TEXTS = st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=30)


@given(TEXTS, TEXTS)
def test_ranks_follow_the_order_of_values(values, known):
    sample = pa.array(known, pa.string())
    sample = sample.take(pa.compute.sort_indices(sample))
    ranks = ranks_in(pa.array(values, pa.string()), sample, bits=6).tolist()
    assert all(0 <= rank < 64 for rank in ranks)
    ordered = sorted(
        zip([(v is None, (v or "").encode()) for v in values], ranks, strict=True), key=lambda pair: pair[0]
    )
    for (one, lower), (other, upper) in zip(ordered, ordered[1:], strict=False):
        assert lower <= upper
        if one == other:
            assert lower == upper


ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.one_of(st.none(), st.sampled_from("abc"))),
    max_size=40,
)


@given(ROWS, ROWS, st.integers(1, 9))
def test_ranges_divide_the_order(rows, sampled, ranges):
    def table(content):
        numbers, texts = zip(*content, strict=True) if content else ((), ())
        return pa.table({"a": pa.array(numbers, pa.int32()), "b": pa.array(texts, pa.string())})

    keys = OrderKeys(RowOrder(strategy="sort", columns=("a", "b")), table(sampled))
    boundaries = boundaries_of(keys.of(table(sampled)), ranges)
    order, starts = boundaries.divide(keys.of(table(rows)))
    assert sorted(order.tolist()) == list(range(len(rows)))
    assert len(starts) == boundaries.ranges + 1
    assert starts[0] == 0
    assert starts[-1] == len(rows)
    rank = {
        row: n
        for n, row in enumerate(
            sorted({*rows}, key=lambda r: [(v is None, v or 0) for v in r[:1]] + [(r[1] is None, r[1] or "")])
        )
    }
    in_order = [rank[rows[number]] for number in order]
    assert in_order == sorted(in_order)
    for number in boundaries.shared_ranges:
        assert len({rows[n] for n in order[starts[number] : starts[number + 1]]}) <= 1


FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("inf"), float("nan"), -float("nan")]))
PIECES = st.lists(st.lists(st.tuples(FLOATS, st.integers(0, 400)), max_size=9), max_size=9)


@settings(max_examples=examples(50))
@given(PIECES, st.integers(1, 2000))
def test_a_range_of_any_size_comes_sorted_and_rows_with_equal_keys_as_they_were(pieces, run_bytes):
    numbers = iter(range(100))
    batches = [
        pa.RecordBatch.from_pydict(
            {
                "x": pa.array([x for x, _ in piece], pa.float64()),
                "wide": pa.array([b"w" * width for _, width in piece], pa.binary()),
                "at": pa.array([next(numbers) for _ in piece], pa.int64()),
            }
        )
        for piece in pieces
    ]
    order = RowOrder(strategy="sort", columns=("x",), split_by=("x",))
    keys = OrderKeys(order, pa.table({"x": pa.array([], pa.float64())}))
    sorted_batches = list(sort_range(iter(batches), keys, run_bytes=run_bytes, encrypt_spills=False))
    if not sorted_batches:
        assert not sum(map(len, pieces))
        return
    came = pa.Table.from_batches(batches)
    found = pa.Table.from_batches(sorted_batches)
    wanted = came.sort_by([("x", "ascending"), ("at", "ascending")])
    assert found.column("at").to_pylist() == wanted.column("at").to_pylist()
    assert found.column("wide").equals(wanted.column("wide"))
    whole = found.combine_chunks().to_batches()[0] if found.num_rows else sorted_batches[0]
    different = {"none" if x is None else "nan" if isnan(x) else x for x in found.column("x").to_pylist()}
    assert len(split_starts(whole, None, order)) == max(len(different) - 1, 0)


LONG_TEXTS = st.builds(
    lambda text, times: text * times, st.text(min_size=1, max_size=9), st.sampled_from([60, 520, 1500])
)
CELLS = st.fixed_dictionaries(
    {
        "number": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "text": st.one_of(st.none(), st.text(max_size=20), LONG_TEXTS),
        "real": st.one_of(st.none(), st.floats()),
        "list": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=3)),
        "record": st.one_of(
            st.none(), st.fixed_dictionaries({"u": st.booleans(), "v": st.binary(max_size=9)})
        ),
    }
)
SCHEMA = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("_hoodie_commit_seqno", pa.string()),
        ("number", pa.int64()),
        ("text", pa.string()),
        ("real", pa.float64()),
        ("list", pa.list_(pa.string())),
        ("record", pa.struct([("u", pa.bool_()), ("v", pa.binary())])),
    ]
)


def batch(rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def keyed(cells):
    return [
        {"_hoodie_record_key": f"k{n}", "_hoodie_commit_seqno": f"1_{n}"} | row for n, row in enumerate(cells)
    ]


@given(st.lists(CELLS, max_size=12), st.randoms(use_true_random=False), st.integers(0, 12))
def test_a_fingerprint_knows_neither_order_nor_batches_nor_dictionaries(cells, rnd, cut):
    rows = keyed(cells)
    whole = fingerprint(batch(rows))
    assert (fingerprint(batch(rows).slice(0, cut)) + fingerprint(batch(rows).slice(cut))) % MODULUS == whole
    rnd.shuffle(rows)
    shuffled = batch(rows)
    assert fingerprint(shuffled) == whole
    assert fingerprint(shuffled.set_column(3, "text", shuffled.column(3).dictionary_encode())) == whole


@given(st.lists(CELLS, min_size=2, max_size=8), st.data())
def test_a_fingerprint_knows_every_cell(cells, data):
    rows = keyed(cells)
    whole = fingerprint(batch(rows))
    assert fingerprint(batch(rows[1:])) != whole
    assert fingerprint(batch([*rows, rows[0]])) != whole
    column = data.draw(st.sampled_from(["number", "text", "list", "record"]))
    one, other = rows[0][column], rows[1][column]
    if one != other:
        rows[0][column] = other
        assert fingerprint(batch(rows)) != whole
        rows[1][column] = one
        assert fingerprint(batch(rows)) != whole


@given(LONG_TEXTS, st.data())
def test_a_fingerprint_knows_every_letter_of_a_long_text(text, data):
    place = data.draw(st.integers(0, len(text) - 1))
    row = {"_hoodie_record_key": "k", "_hoodie_commit_seqno": "1", "text": text}
    other = "b" if text[place] == "a" else "a"
    changed = row | {"text": f"{text[:place]}{other}{text[place + 1 :]}"}
    assert fingerprint(batch([row])) != fingerprint(batch([changed]))
