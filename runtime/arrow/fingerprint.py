"""A number that tells the content of rows, whatever their order and however they are encoded.

It is the sum, modulo 2^64, over all rows of a hash of the whole row: a row that is lost, doubled or
changed alters it, and so do two cells that changed places. A row is a sum of its cells' hashes, each
times an odd number of the column's own (multilinear hashing; Lemire, Kaser: Strongly universal string
hashing is fast, The Computer Journal, 2014), mixed as in SplitMix64 (Steele, Lea, Flood: Fast
splittable pseudorandom number generators, OOPSLA 2014).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

MODULUS: Final = 2**64

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0xD6E8FEB86659FD93)
_WORD: Final = 8
_PIECE_BYTES: Final = 512
_OFFSET_BYTES: Final = 4
_ROWS_AT_ONCE: Final = 16_384


def fingerprint(rows: pa.RecordBatch) -> int:
    """The fingerprint of rows; those of all parts add up to that of the whole."""
    starts = range(0, rows.num_rows, _ROWS_AT_ONCE)
    return sum(_fingerprint(rows.slice(start, _ROWS_AT_ONCE)) for start in starts) % MODULUS


def _fingerprint(rows: pa.RecordBatch) -> int:
    whole = np.zeros(rows.num_rows, np.uint64)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        cells = cell_hashes(column)
        cells *= _factor(name)
        whole += cells
    return int(_mixed(whole).sum(dtype=np.uint64))


@cache
def _factor(name: str) -> np.uint64:
    """The odd number that is a column's own."""
    digest = hashlib.blake2b(name.encode(), digest_size=_WORD).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)


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


def _folded(words: Hashes) -> Hashes:
    """The words with what only their upper halves tell in the lower ones, too."""
    return words ^ (words >> np.uint64(32))


def _of_dictionary(array: pa.DictionaryArray) -> Hashes:
    if not len(array.dictionary):
        return np.zeros(len(array), np.uint64)
    indices = array.indices.fill_null(0) if array.null_count else array.indices
    hashes: Hashes = cell_hashes(array.dictionary).take(indices.to_numpy())
    return hashes


def _of_fixed(array: pa.Array) -> Hashes:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.uint64)
    if width <= _WORD and width & (width - 1) == 0:
        words = np.frombuffer(buffer, f"<u{width}", len(array), array.offset * width)
        return _folded(words) if width == _WORD else words.astype(np.uint64)
    if width % _WORD == 0:
        per_cell = width // _WORD
        words = np.frombuffer(buffer, "<u8", len(array) * per_cell, array.offset * width)
        return _of_words(words.reshape(-1, per_cell))
    cells = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width).reshape(-1, width)
    padded = np.zeros((len(array), -(-width // _WORD) * _WORD), np.uint8)
    padded[:, :width] = cells
    return _of_words(padded.view("<u8"))


def _of_words(cells: Hashes) -> Hashes:
    """Hashes of cells of several words, a row each."""
    hashes = _folded(cells[:, 0])
    for word in cells.T[1:]:
        hashes *= _FIRST
        hashes += _folded(word)
    return hashes


def _of_bytes(array: pa.Array) -> Hashes:
    """Hashes of texts: long ones in pieces, so that a few do not keep the others waiting."""
    offsets = _offsets(array).astype(np.int64)
    offsets, first = offsets - offsets[0], int(offsets[0])
    starts, lengths = offsets[:-1], np.diff(offsets)
    buffer = array.buffers()[2]
    content = np.zeros(int(offsets[-1]) + _WORD, np.uint8)
    if buffer is not None and buffer.size:
        content[:-_WORD] = np.frombuffer(buffer, np.uint8)[first : first + int(offsets[-1])]
    words = np.ndarray((len(content) - _WORD + 1,), "<u8", content.data, strides=(1,))
    if lengths.max(initial=0) <= _PIECE_BYTES:
        return _of_pieces(words, starts, lengths)
    counts = np.maximum(-(-lengths // _PIECE_BYTES), 1)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    numbers = _numbers(bounds)
    starts = np.repeat(starts, counts) + _PIECE_BYTES * numbers
    lengths = np.minimum(np.repeat(lengths, counts) - _PIECE_BYTES * numbers, _PIECE_BYTES)
    pieces = _of_pieces(words, starts, lengths)
    # Factors at even steps would let pieces change places in pairs. The first piece's is 1, so that a
    # short text is told alike among long ones.
    factors = (_mixed(numbers.astype(np.uint64)) ^ _PLACES_BEGIN) | np.uint64(1)
    return _between(pieces * factors, bounds)


def _of_pieces(words: Hashes, starts: Places, lengths: Places) -> Hashes:
    """Hashes of texts of at most a piece; ``words`` are the eight bytes from each byte on.

    The last word of a text reaches back into the one before it, where there is one.
    """
    ends = lengths - _WORD
    hashes = lengths.astype(np.uint64) * _GAMMA
    hashes += _folded(words[starts] & _MASKS[np.minimum(lengths, _WORD)]) * _PLACES[0]
    for number in range(1, _PIECE_BYTES // _WORD):
        longer = np.flatnonzero(ends > _WORD * (number - 1))
        if not len(longer):
            break
        at = starts[longer] + np.minimum(ends[longer], _WORD * number)
        hashes[longer] += _folded(words[at]) * _PLACES[number]
    return hashes


def _sliced(child: pa.Array, parent: pa.Array) -> Hashes:
    offsets = _offsets(parent)
    return cell_hashes(child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))


def _sums(elements: Hashes, offsets: npt.NDArray[np.int32]) -> Hashes:
    """Hashes of lists from those of their elements, which lie between the offsets."""
    bounds = offsets.astype(np.int64) - int(offsets[0])
    placed = _mixed(elements + _numbers(bounds).astype(np.uint64) * _SECOND)
    return _mixed(_between(placed, bounds) + np.diff(bounds).astype(np.uint64) * _GAMMA)


def _numbers(bounds: Places) -> Places:
    """0, 1, 2 and so on from each of the bounds to the next."""
    numbers: Places = np.arange(bounds[-1]) - np.repeat(bounds[:-1], np.diff(bounds))
    return numbers


def _between(values: Hashes, bounds: Places) -> Hashes:
    """The sums, modulo 2^64, of the values between consecutive bounds."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    sums: Hashes = running[bounds[1:]] - running[bounds[:-1]]
    return sums


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * _OFFSET_BYTES)


_PLACES_BEGIN: Final = _mixed(np.zeros(1, np.uint64))
_PLACES: Final = _mixed(np.arange(_PIECE_BYTES // _WORD, dtype=np.uint64)) | np.uint64(1)
_MASKS: Final = np.array([2 ** (8 * taken) - 1 for taken in range(_WORD + 1)], np.uint64)


class Tally:
    """Counts rows on their way, and sums up what they contain."""

    def __init__(self) -> None:
        self.rows = 0
        self.fingerprint = 0

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches, each counted when it is taken."""
        for batch in batches:
            self.rows += batch.num_rows
            self.add(batch)
            yield batch

    def add(self, columns: pa.RecordBatch) -> None:
        """Sum up some columns of rows that are counted elsewhere."""
        self.fingerprint = (self.fingerprint + fingerprint(columns)) % MODULUS

    def add_all(self, other: Tally) -> None:
        """Take over what another one has counted."""
        self.rows += other.rows
        self.fingerprint = (self.fingerprint + other.fingerprint) % MODULUS
