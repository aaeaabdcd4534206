"""Space-filling curves over ranks of column values: one sort key per row.

Columns are mapped to ranks first, because the raw bits of values make no useful curve if the columns differ
in magnitude or skew. The Hilbert curve follows J. Skilling, Programming the Hilbert curve (AIP Conference
Proceedings 707, 2004). The Z-order curve is Morton's.
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
    """Return how many bits of each of ``columns`` columns fit into an index of 64 bits, at most 16."""
    return min(_MOST_BITS, _INDEX_BITS // columns)


def z_index(ranks: Sequence[Ranks], *, bits: int) -> Ranks:
    """Return the positions of rows on the Z-order curve.

    Args:
        ranks: One array for each column, with the rank of each row below ``2**bits``. Of bits with the same
            weight, that of the first column is the most significant.
        bits: The number of bits of each column that go into the index.

    """
    index = np.zeros_like(ranks[0], dtype=np.uint64)
    one = np.uint64(1)
    for bit in reversed(range(bits)):
        for rank in ranks:
            index = (index << one) | ((rank >> np.uint64(bit)) & one)
    return index


def hilbert_index(ranks: Sequence[Ranks], *, bits: int) -> Ranks:
    """Return the positions of rows on the Hilbert curve.

    Each tuple of ranks has its own position, and neighbours on the curve differ by one in one column.

    Args:
        ranks: One array for each column, with the rank of each row below ``2**bits``.
        bits: The number of bits of each column that go into the index.

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
