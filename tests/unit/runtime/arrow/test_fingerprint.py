from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from parquetry.runtime.arrow.fingerprint import MODULUS, fingerprint

PIECE = 512
PLACES = (0, 1, 2, 3, 4, 5, 6, 7)


def of_text(pieces: list[bytes]) -> int:
    return fingerprint(pa.record_batch({"s": pa.array([b"".join(pieces)], pa.binary())}))


def test_long_texts_whose_pieces_changed_places_differ():
    rng = np.random.default_rng(1)
    first, second = rng.bytes(PIECE), rng.bytes(PIECE)
    texts = {
        tuple(first if place in chosen else second for place in PLACES) for chosen in permutations(PLACES, 2)
    }
    assert len({of_text(list(text)) for text in texts}) == len(texts) == 28


def test_pairs_of_pieces_at_even_steps_do_not_balance_each_other():
    rng = np.random.default_rng(2)
    first, second, other = (rng.bytes(PIECE) for _ in range(3))
    for places in ([0, 1, 2, 3], [0, 2, 4, 6], [1, 3, 5, 7]):
        one, two = [other] * 8, [other] * 8
        for place, ahead, behind in zip(places, "abba", "baab", strict=True):
            one[place] = first if ahead == "a" else second
            two[place] = first if behind == "a" else second
        assert of_text(one) != of_text(two)


def test_a_short_text_is_told_alike_alone_and_beside_a_long_one():
    texts = [b"", b"0", bytes(8), bytes(PIECE), b"x" * (PIECE + 1)]
    whole = fingerprint(pa.record_batch({"s": pa.array(texts, pa.binary())}))
    assert whole == sum(of_text([text]) for text in texts) % MODULUS


BORDERS = (1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(size, marks=pytest.mark.long if size in (PIECE - 1, PIECE) or size > PIECE + 1 else ())
        for size in BORDERS
    ],
)
def test_every_bit_of_a_text_changes_it(size):
    text = np.random.default_rng(size).bytes(size)
    changed = [
        bytes(byte ^ (1 << bit) if at == place else byte for at, byte in enumerate(text))
        for place in range(size)
        for bit in (0, 7)
    ]
    found = fingerprint(pa.record_batch({"s": pa.array([text], pa.binary())}))
    assert found not in {of_text([other]) for other in changed}
    assert len({of_text([other]) for other in changed}) == len(changed)


def test_texts_of_zero_bytes_differ_by_their_length_and_from_null():
    texts = [None, *(bytes(size) for size in (0, *BORDERS))]
    found = {fingerprint(pa.record_batch({"s": pa.array([text], pa.binary())})) for text in texts}
    assert len(found) == len(texts)


def two_texts(rows: list[tuple[str | None, str | None]]) -> int:
    one, other = zip(*rows, strict=True)
    return fingerprint(pa.record_batch({"one": pa.array(one), "other": pa.array(other)}))


def test_columns_that_are_alike_are_told_apart_once_they_differ():
    same = [("a", "a"), ("b", "b"), (None, None), ("", "")]
    different = [
        same,
        [("a", "b"), ("b", "a"), *same[2:]],
        [*same[:2], (None, ""), ("", None)],
        [("a", "c"), *same[1:]],
        [("c", "a"), *same[1:]],
        [("c", "c"), *same[1:]],
    ]
    assert len({two_texts(rows) for rows in different}) == len(different)
    assert two_texts(same) == two_texts(same[::-1]) == sum(two_texts([row]) for row in same) % MODULUS


KINDS = {
    "number": (pa.int64(), [0, -1, 2**62]),
    "short": (pa.int32(), [0, -1, 2**30]),
    "flag": (pa.bool_(), [True, False, True]),
    "real": (pa.float64(), [0.0, -0.0, float("nan")]),
    "narrow": (pa.float32(), [0.0, -1.5, 3.25]),
    "day": (pa.date32(), [date(2026, 1, 1), date(1970, 1, 1), date(1, 1, 1)]),
    "price": (pa.decimal128(12, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal(0)]),
    "wide": (pa.decimal256(60, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal(0)]),
    "bytes": (pa.binary(7), [b"1234567", bytes(7), b"7654321"]),
    "none": (pa.null(), [None, None, None]),
    "text": (pa.string(), ["", "x", "a text of more than thirty-two bytes, so that it has two blocks"]),
}


def many_rows(rows: int, *, nulls: bool) -> pa.RecordBatch:
    rng = np.random.default_rng(7)
    columns = {}
    for name, (kind, values) in KINDS.items():
        some = pa.array([*values, None] if nulls else values, kind)
        columns[name] = some.take(pa.array(rng.integers(0, len(some), rows)))
    columns["entry"] = columns["text"].dictionary_encode()
    return pa.record_batch(columns)


@pytest.mark.parametrize("nulls", [False, True])
def test_parts_of_any_size_sum_up_to_the_whole(nulls):
    rows = many_rows(10_000, nulls=nulls)
    whole = fingerprint(rows)
    for size in (1, 777, 4096, 9999):
        starts = range(0, 3 * size if size == 1 else rows.num_rows, size)
        parts = [fingerprint(rows.slice(start, size)) for start in starts]
        assert sum(parts) % MODULUS == (fingerprint(rows.slice(0, 3)) if size == 1 else whole)
    order = pa.array(np.random.default_rng(8).permutation(rows.num_rows))
    assert fingerprint(rows.take(order)) == whole


@pytest.mark.parametrize("name", [*sorted(KINDS.keys() - {"none"}), "entry"])
def test_a_column_of_any_kind_counts(name):
    rows = many_rows(5000, nulls=True)
    number = rows.schema.get_field_index(name)
    changed = rows.set_column(number, name, pa.concat_arrays([rows[number][1:], rows[number][:1]]))
    assert fingerprint(changed) != fingerprint(rows)
    assert fingerprint(rows.rename_columns([*map(str, range(rows.num_columns))])) != fingerprint(rows)
