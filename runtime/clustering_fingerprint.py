"""A number that tells the content of rows, whatever their order and however they are encoded.

It is the sum, modulo 2^64, over all cells of a hash of the value times a hash of the row's key: a row
that is lost, doubled or changed alters it, and so do two cells that changed places. Mixing is that of
SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parquetry.runtime.meta_columns import COMMIT_SEQNO, RECORD_KEY

Hashes = npt.NDArray[np.uint64]

MODULUS: Final = 2**64

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0xD6E8FEB86659FD93)
_WORD: Final = 8
_OFFSET_BYTES: Final = 4
_ROWS_AT_ONCE: Final = 16_384


def fingerprint(rows: pa.RecordBatch) -> int:
    """The fingerprint of rows with ``_hoodie_record_key`` and ``_hoodie_commit_seqno``; sums add up."""
    starts = range(0, rows.num_rows, _ROWS_AT_ONCE)
    return sum(_fingerprint(rows.slice(start, _ROWS_AT_ONCE)) for start in starts) % MODULUS


def _fingerprint(rows: pa.RecordBatch) -> int:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    keys = cell_hashes(columns[RECORD_KEY]) + _mixed(cell_hashes(columns[COMMIT_SEQNO]))
    factors = _mixed(keys) | np.uint64(1)
    total = 0
    for name, column in columns.items():
        seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=_WORD).digest(), "little")
        cells = _mixed(cell_hashes(column) ^ np.uint64(seed)) * factors
        total += int(cells.sum(dtype=np.uint64))
    return total


def cell_hashes(array: pa.Array) -> Hashes:
    """A hash of each value, the same for a dictionary and the values it stands for."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        hashes = _of_dictionary(array)
    elif pa.types.is_struct(kind):
        hashes = np.full(len(array), np.uint64(kind.num_fields))
        for index in range(kind.num_fields):
            hashes = _mixed(hashes * _FIRST + cell_hashes(array.field(index)))
    elif pa.types.is_map(kind):
        entries = _mixed(_sliced(array.keys, array)) + _sliced(array.items, array)
        hashes = _sums(_mixed(entries), _offsets(array))
    elif pa.types.is_list(kind):
        hashes = _sums(_sliced(array.values, array), _offsets(array))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashes = _of_bytes(array)
    elif pa.types.is_null(kind):
        hashes = np.zeros(len(array), np.uint64)
    else:
        hashes = _of_fixed(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _mixed(values: Hashes) -> Hashes:
    mixed = values + _GAMMA
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _of_dictionary(array: pa.DictionaryArray) -> Hashes:
    if not len(array.dictionary):
        return np.zeros(len(array), np.uint64)
    hashes: Hashes = cell_hashes(array.dictionary)[array.indices.fill_null(0).to_numpy()]
    return hashes


def _of_fixed(array: pa.Array) -> Hashes:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.uint64)
    if width <= _WORD and width & (width - 1) == 0:
        words = np.frombuffer(buffer, f"<u{width}", len(array), array.offset * width).astype(np.uint64)
        return _mixed(words)
    cells = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width).reshape(-1, width)
    padded = np.zeros((len(array), -(-width // _WORD) * _WORD), np.uint8)
    padded[:, :width] = cells
    hashes = np.zeros(len(array), np.uint64)
    for word in padded.view("<u8").T:
        hashes = _mixed(hashes * _FIRST + word)
    return hashes


def _of_bytes(array: pa.Array) -> Hashes:
    """Hashes of texts, eight bytes at a time."""
    offsets = _offsets(array).astype(np.int64)
    lengths = np.diff(offsets)
    buffer = array.buffers()[2]
    content = np.zeros(int(offsets[-1] - offsets[0]) + _WORD, np.uint8)
    if buffer is not None and buffer.size:
        content[:-_WORD] = np.frombuffer(buffer, np.uint8)[offsets[0] : offsets[-1]]
    counts = (lengths + _WORD - 1) // _WORD
    ends = np.cumsum(counts)
    numbers = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    starts = np.repeat(offsets[:-1] - offsets[0], counts) + _WORD * numbers
    words = np.ndarray((len(content) - _WORD + 1,), "<u8", content.data, strides=(1,))[starts]
    left = np.minimum(np.repeat(lengths, counts) - _WORD * numbers, _WORD).astype(np.uint64)
    words &= np.uint64(MODULUS - 1) >> (np.uint64(_WORD) * (np.uint64(_WORD) - left))
    words = _mixed(words + numbers.astype(np.uint64) * _SECOND)
    return _mixed(_between(words, np.concatenate([[0], ends])) + lengths.astype(np.uint64) * _GAMMA)


def _sliced(child: pa.Array, parent: pa.Array) -> Hashes:
    offsets = _offsets(parent)
    return cell_hashes(child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))


def _sums(elements: Hashes, offsets: npt.NDArray[np.int32]) -> Hashes:
    """Hashes of lists from those of their elements, which lie between the offsets."""
    starts = offsets.astype(np.int64) - int(offsets[0])
    lengths = np.diff(starts)
    numbers = np.arange(len(elements)) - np.repeat(starts[:-1], lengths)
    placed = _mixed(elements + numbers.astype(np.uint64) * _SECOND)
    return _mixed(_between(placed, starts) + lengths.astype(np.uint64) * _GAMMA)


def _between(values: Hashes, bounds: npt.NDArray[np.int64]) -> Hashes:
    """The sums, modulo 2^64, of the values between consecutive bounds."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    sums: Hashes = running[bounds[1:]] - running[bounds[:-1]]
    return sums


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * _OFFSET_BYTES)
