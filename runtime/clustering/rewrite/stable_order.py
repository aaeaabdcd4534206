"""The stable order of rows by sort keys, for whole numbers faster than in Arrow.

Key values are packed into words together with the row numbers. Sorting the words in place with a vectorized
sort then also sorts the rows, and rows with equal keys keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Order = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]

_WORD_BITS: Final = 64
_SIGN: Final = np.uint64(1 << 63)


def stable_order(keys: Sequence[pa.Array]) -> Order:
    """Return the row numbers in ascending order of the keys, the first key first, with nulls last."""
    rows = len(keys[0])
    if not rows:
        return np.empty(0, np.int64)
    bits = max(rows - 1, 1).bit_length()
    words = np.zeros(rows, np.uint64)
    used = 0
    for key in keys:
        packed = _numbers(key)
        if packed is None:
            break
        numbers, width = packed
        if used + width + bits > _WORD_BITS:
            words, used = _rank_in_place(words), bits
            if used + width + bits > _WORD_BITS:
                numbers, width = _rank_in_place(numbers), bits
            if used + width + bits > _WORD_BITS:
                break
        words <<= np.uint64(width)
        words |= numbers
        used += width
    else:
        return _sorted_numbers(words, bits)
    columns = {str(number): key for number, key in enumerate(keys)}
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns])
    by_arrow: Order = order.to_numpy().astype(np.int64)
    return by_arrow


def _numbers(key: pa.Array) -> tuple[_Words, int] | None:
    """Return the values of a key as numbers from 0 up, and the number of bits that they need.

    The result is None if the values are not whole numbers, or if nulls leave too few bits.
    """
    kind = key.type
    if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)) or pa.types.is_interval(kind):
        return None
    nulls = key.is_null() if key.null_count else None
    if key.null_count == len(key):
        return np.zeros(len(key), np.uint64), 0
    words = _raw(key)
    if nulls is None:
        words -= words.min()
        return words, int(words.max()).bit_length()
    is_null = nulls.to_numpy(zero_copy_only=False)
    words -= words[~is_null].min()
    words[is_null] = 0
    behind = int(words.max()) + 1
    if behind.bit_length() > _WORD_BITS:
        return None
    words[is_null] = behind
    return words, behind.bit_length()


def _raw(key: pa.Array) -> _Words:
    """Return the values as unsigned words that keep their order."""
    width = key.type.bit_width
    unsigned = pa.types.is_unsigned_integer(key.type)
    buffer = key.buffers()[1]
    kind = np.dtype(f"<{'u' if unsigned else 'i'}{width // 8}")
    values = np.frombuffer(buffer, kind, len(key), key.offset * kind.itemsize)
    if unsigned:
        return values.astype(np.uint64)
    return values.astype(np.int64, copy=False).view(np.uint64) ^ _SIGN


def _sorted_numbers(words: _Words, bits: int) -> Order:
    """Return the row numbers in the order of the words.

    The row numbers are put into ``bits`` free bits of them.
    """
    words <<= np.uint64(bits)
    words |= np.arange(len(words), dtype=np.uint64)
    words.sort()
    words &= np.uint64((1 << bits) - 1)
    return words.view(np.int64)


def _rank_in_place(words: _Words) -> _Words:
    """Replace each word by the number of distinct smaller words."""
    order = np.argsort(words)
    ordered = words[order]
    changes = ordered[1:] != ordered[:-1]
    ordered[0] = 0
    np.cumsum(changes, out=ordered[1:])
    words[order] = ordered
    return words
