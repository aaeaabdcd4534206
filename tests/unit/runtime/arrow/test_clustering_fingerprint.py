from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa

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
