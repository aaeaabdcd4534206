"""Space-filling curves over columns that were mapped to ranks: one number per row to sort by.

Raw bits of values make no curve as soon as the columns differ in magnitude or skew; ranks do. The
Hilbert curve is that of J. Skilling, Programming the Hilbert curve (AIP Conference Proceedings 707,
2004); the Z curve is Morton's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.uint64]

_INDEX_BITS: Final = 64
_MOST_BITS: Final = 16


def bits_per_column(columns: int) -> int:
    """How many bits of each of so many columns fit into an index of 64 bits, 16 at most."""
    return min(_MOST_BITS, _INDEX_BITS // columns)


def z_index(ranks: Sequence[Ranks], *, bits: int) -> Ranks:
    """The places on the Z curve of rows whose columns have these ranks below ``2**bits``.

    Of columns with the same bit the first is the most significant.
    """
    index = np.zeros_like(ranks[0], dtype=np.uint64)
    one = np.uint64(1)
    for bit in reversed(range(bits)):
        for rank in ranks:
            index = (index << one) | ((rank >> np.uint64(bit)) & one)
    return index


def hilbert_index(ranks: Sequence[Ranks], *, bits: int) -> Ranks:
    """The places on the Hilbert curve of rows whose columns have these ranks below ``2**bits``.

    Every rank tuple has its own place, and neighbours on the curve differ by one in one column.
    """
    axes = [np.array(rank, dtype=np.uint64) for rank in ranks]
    bit = 1 << (bits - 1)
    while bit > 1:
        q, below = np.uint64(bit), np.uint64(bit - 1)
        for axis in axes:
            is_set = (axis & q) != 0
            swap = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & below)
            np.bitwise_xor(axes[0], np.where(is_set, below, swap), out=axes[0])
            np.bitwise_xor(axis, swap, out=axis)
        bit >>= 1
    for before, axis in pairwise(axes):
        np.bitwise_xor(axis, before, out=axis)
    turn = np.zeros_like(axes[0])
    bit = 1 << (bits - 1)
    while bit > 1:
        turn ^= np.where((axes[-1] & np.uint64(bit)) != 0, np.uint64(bit - 1), np.uint64(0))
        bit >>= 1
    return z_index([axis ^ turn for axis in axes], bits=bits)
