"""A fingerprint of the content of rows, whatever their order and encoding.

It is the sum, modulo 2^64, of a hash of each row. So a row that is lost, duplicated or changed alters it,
and so do two cells that are swapped. The hash of a row is a sum of the hashes of its cells, each times an
odd number of its column (multilinear hashing; Lemire, Kaser: Strongly universal string hashing is fast,
The Computer Journal, 2014), mixed as in SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom
number generators, OOPSLA 2014).

A clustering compares the fingerprint of the rows that it reads with that of the rows that it writes. The
hash was a fifth of its CPU time while texts were gathered 8 bytes at a time, so 32 bytes are gathered at
once, which costs no more, entries of a dictionary are hashed once a batch, and numbers are hashed 4,096
rows at a time, which stay in the cache of a core. xxhash has no call for many values, and polars would be
a large package for one function. Fingerprints are compared within one run of one version: their values
are no format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]
CellWords = npt.NDArray[np.unsignedinteger[Any]]
Offsets = npt.NDArray[np.int64]

MODULUS: Final = 2**64

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST_NUMBER: Final = 0xBF58476D1CE4E5B9
_FIRST: Final = np.uint64(_FIRST_NUMBER)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0xD6E8FEB86659FD93)
_HALF: Final = np.uint64(32)
_WORD: Final = 8
_PIECE_BYTES: Final = 512
_BLOCK_BYTES: Final = 32
"""The number of bytes of each text that are gathered at once, at the cost of a single word."""

_OFFSET_BYTES: Final = 4
_ROWS_AT_ONCE: Final = 4096


def fingerprint(rows: pa.RecordBatch) -> int:
    """Return the fingerprint of rows.

    The fingerprints of parts of the rows add up to that of all rows, modulo :data:`MODULUS`.
    """
    columns = _columns_of(rows)
    most = min(rows.num_rows, _ROWS_AT_ONCE)
    sums, room = np.empty(most, np.uint64), np.empty(most, np.uint64)
    total = 0
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        part = slice(start, min(start + _ROWS_AT_ONCE, rows.num_rows))
        hashes, free = sums[: part.stop - start], room[: part.stop - start]
        hashes.fill(0)
        for column in columns:
            hashes += column.cells(part, free)
        total += int(_mixed(hashes).sum(dtype=np.uint64))
    return total % MODULUS


class _Column(Protocol):
    """A column of a batch."""

    def cells(self, part: slice, room: Hashes) -> Hashes:
        """Return the hashes of the cells of the rows ``part``, each multiplied by the column's factor.

        ``room`` is a buffer with an element per row, which the function may fill and return.
        """
        ...


def _columns_of(rows: pa.RecordBatch) -> list[_Column]:
    columns: list[_Column] = []
    texts: list[_Cells] = []
    for name, array in zip(rows.schema.names, rows.columns, strict=True):
        factor = _factor(name)
        if pa.types.is_dictionary(array.type):
            columns.append(_Entries(array, factor))
        elif _is_text(array.type):
            # The record key is often equal to a column of the table: both are hashed once.
            same = next((text for text in texts if text.values.equals(array)), None)
            if same is not None:
                same.factor += factor
            else:
                texts.append(_Cells(array, factor))
        elif array.null_count or not (words := _words_of(array)):
            columns.append(_Cells(array, factor))
        else:
            columns.append(_Words(words, factor))
    return columns + texts


class _Words:
    """Cells without nulls that have a fixed number of words."""

    def __init__(self, words: Sequence[CellWords], factor: int) -> None:
        factors = [factor * _FIRST_NUMBER**index % MODULUS for index in reversed(range(len(words)))]
        self._words = [(word, np.uint64(by)) for word, by in zip(words, factors, strict=True)]

    def cells(self, part: slice, room: Hashes) -> Hashes:
        """Return the hashes of the cells of some rows; see :meth:`_Column.cells`."""
        (first, factor), *others = self._words
        _product(first[part], factor, room)
        for words, factor in others:
            room += _product(words[part], factor, np.empty_like(room))
        return room


def _product(words: CellWords, factor: np.uint64, room: Hashes) -> Hashes:
    if words.itemsize == _WORD:
        np.right_shift(words, _HALF, out=room)
        np.bitwise_xor(room, words, out=room)
        return np.multiply(room, factor, out=room)
    return np.multiply(words, factor, out=room, dtype=np.uint64)


class _Entries:
    """Cells of a dictionary column. Each entry of the dictionary is hashed once."""

    def __init__(self, array: pa.DictionaryArray, factor: int) -> None:
        entries = cell_hashes(array.dictionary)
        self._hashes = np.append(entries, _NULL) * np.uint64(factor)
        indices = array.indices
        if array.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(entries))
        self._indices = indices.to_numpy()

    def cells(self, part: slice, room: Hashes) -> Hashes:
        """Return the hashes of the cells of some rows; see :meth:`_Column.cells`."""
        return self._hashes.take(self._indices[part], out=room, mode="clip")


class _Cells:
    """Cells of any kind."""

    def __init__(self, values: pa.Array, factor: int) -> None:
        self.values = values
        self.factor = factor

    def cells(self, part: slice, room: Hashes) -> Hashes:
        """Return the hashes of the cells of some rows; see :meth:`_Column.cells`."""
        cells = cell_hashes(self.values[part])
        return np.multiply(cells, np.uint64(self.factor % MODULUS), out=room)


@cache
def _factor(name: str) -> int:
    """Return the odd number by which the hashes of a column are multiplied."""
    digest = hashlib.blake2b(name.encode(), digest_size=_WORD).digest()
    return int.from_bytes(digest, "little") | 1


def cell_hashes(array: pa.Array) -> Hashes:
    """Return a hash of each value. A dictionary has the same hashes as its decoded values.

    Raises:
        TypeError: If the type has no hash.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        hashes = _of_entries(array)
    elif pa.types.is_struct(kind):
        hashes = np.full(len(array), np.uint64(kind.num_fields))
        for index in range(kind.num_fields):
            hashes = _mixed(hashes * _FIRST + cell_hashes(array.field(index)))
    elif pa.types.is_map(kind):
        entries = _mixed(_sliced(array.keys, array)) + _sliced(array.items, array)
        hashes = _sums(_mixed(entries), _offsets(array))
    elif pa.types.is_list(kind):
        hashes = _sums(_sliced(array.values, array), _offsets(array))
    elif _is_text(kind):
        hashes = _of_bytes(array)
    elif pa.types.is_null(kind):
        hashes = np.zeros(len(array), np.uint64)
    else:
        hashes = _of_fixed(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _mixed(values: Hashes) -> Hashes:
    """Return well-distributed hashes of 64-bit numbers."""
    mixed = values + _GAMMA
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _folded(words: Hashes) -> Hashes:
    """Return the words with their upper halves mixed into the lower ones."""
    return words ^ (words >> _HALF)


def _of_entries(array: pa.DictionaryArray) -> Hashes:
    if not len(array.dictionary):
        return np.zeros(len(array), np.uint64)
    indices = array.indices.fill_null(0) if array.null_count else array.indices
    hashes: Hashes = cell_hashes(array.dictionary).take(indices.to_numpy())
    return hashes


def _of_fixed(array: pa.Array) -> Hashes:
    words = _words_of(array)
    if not words:
        if len(array) and not _takes_no_bytes(array.type):
            raise TypeError(f"no hash for {array.type}")
        return np.zeros(len(array), np.uint64)
    hashes = _folded(words[0]) if words[0].itemsize == _WORD else words[0].astype(np.uint64)
    for word in words[1:]:
        hashes *= _FIRST
        hashes += _folded(word)
    return hashes


def _words_of(array: pa.Array) -> list[CellWords]:
    """Return values of a fixed width as arrays of words: one array, or several if the values are wider.

    The list is empty for other types, for values without bytes, and if there are no values.
    """
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = _width_of(array.type)
    buffer = array.buffers()[1] if width else None
    if buffer is None or not len(array):
        return []
    if width <= _WORD and width & (width - 1) == 0:
        return [np.frombuffer(buffer, f"<u{width}", len(array), array.offset * width)]
    if width % _WORD == 0:
        words = np.frombuffer(buffer, "<u8", len(array) * width // _WORD, array.offset * width)
        return list(words.reshape(len(array), -1).T)
    cells = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width).reshape(-1, width)
    padded = np.zeros((len(array), -(-width // _WORD) * _WORD), np.uint8)
    padded[:, :width] = cells
    return list(padded.view("<u8").T)


def _takes_no_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_null(kind) or (pa.types.is_fixed_size_binary(kind) and not kind.byte_width)


def _width_of(kind: pa.DataType) -> int:
    """Return the number of bytes of each value, or 0 if the width is not fixed."""
    is_fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    return kind.bit_width // 8 if is_fixed else 0


def _of_bytes(array: pa.Array) -> Hashes:
    """Return the hashes of texts.

    A long text is hashed in pieces, so that a few long texts do not slow down the others.
    """
    offsets = _offsets(array).astype(np.int64)
    offsets, first = offsets - offsets[0], int(offsets[0])
    starts, lengths = offsets[:-1], np.diff(offsets)
    buffer = array.buffers()[2]
    content = np.zeros(int(offsets[-1]) + _BLOCK_BYTES, np.uint8)
    if buffer is not None and buffer.size:
        content[:-_BLOCK_BYTES] = np.frombuffer(buffer, np.uint8)[first : first + int(offsets[-1])]
    if lengths.max(initial=0) <= _PIECE_BYTES:
        return _of_pieces(content, starts, lengths)
    counts = np.maximum(-(-lengths // _PIECE_BYTES), 1)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    numbers = _numbers(bounds)
    starts = np.repeat(starts, counts) + _PIECE_BYTES * numbers
    lengths = np.minimum(np.repeat(lengths, counts) - _PIECE_BYTES * numbers, _PIECE_BYTES)
    pieces = _of_pieces(content, starts, lengths)
    # With factors at equal steps, a swap of pairs would go unnoticed. The factor of the first piece is
    # 1, so that a short text has the same hash among long ones.
    factors = (_mixed(numbers.astype(np.uint64)) ^ _FACTORS_SEED) | np.uint64(1)
    return _between(pieces * factors, bounds)


def _of_pieces(content: npt.NDArray[np.uint8], starts: Offsets, lengths: Offsets) -> Hashes:
    """Return the hashes of texts that have at most ``_PIECE_BYTES`` bytes each.

    Args:
        content: The bytes of the texts, with at least ``_BLOCK_BYTES`` further bytes at the end.
        starts: The position of each text.
        lengths: The number of bytes of each text.

    """
    hashes = lengths.astype(np.uint64) * _GAMMA
    longest = int(lengths.max(initial=0))
    hashes += _of_blocks(content, starts, lengths, number=0, longest=longest)
    for number in range(1, -(-longest // _BLOCK_BYTES)):
        at = number * _BLOCK_BYTES
        longer = np.flatnonzero(lengths > at)
        hashes[longer] += _of_blocks(
            content, starts[longer] + at, lengths[longer] - at, number=number, longest=longest - at
        )
    return hashes


def _of_blocks(
    content: npt.NDArray[np.uint8], starts: Offsets, lengths: Offsets, *, number: int, longest: int
) -> Hashes:
    """Return the amount that block ``number`` of each text adds to the hash of the text.

    Args:
        content: The bytes of the texts.
        starts: The position of the block in each text.
        lengths: The number of bytes from the block to the end of each text.
        number: The number of the block.
        longest: The largest of the lengths.

    """
    count = min(-(-longest // _WORD), _BLOCK_WORDS)
    if count == 0:
        return np.zeros(len(starts), np.uint64)
    size = count * _WORD
    blocks = np.ndarray((len(content) - size + 1,), f"V{size}", content.data, strides=(1,))
    words: Hashes = blocks[starts].view("<u8").reshape(-1, count)
    words &= _MASKS[count].take(np.minimum(lengths, size), axis=0, mode="clip")
    words ^= words >> _HALF
    factors = _WORD_FACTORS[number * _BLOCK_WORDS :]
    sums: Hashes = words[:, 0] * factors[0]
    for index in range(1, count):
        sums += words[:, index] * factors[index]
    return sums


def _sliced(child: pa.Array, parent: pa.Array) -> Hashes:
    offsets = _offsets(parent)
    return cell_hashes(child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))


def _sums(elements: Hashes, offsets: npt.NDArray[np.int32]) -> Hashes:
    """Return the hashes of lists, given the hashes of their elements and the offsets of the lists."""
    bounds = offsets.astype(np.int64) - int(offsets[0])
    positioned = _mixed(elements + _numbers(bounds).astype(np.uint64) * _SECOND)
    return _mixed(_between(positioned, bounds) + np.diff(bounds).astype(np.uint64) * _GAMMA)


def _numbers(bounds: Offsets) -> Offsets:
    """Return the numbers 0, 1, 2 and so on, beginning again with 0 at each of the bounds."""
    numbers: Offsets = np.arange(bounds[-1]) - np.repeat(bounds[:-1], np.diff(bounds))
    return numbers


def _between(values: Hashes, bounds: Offsets) -> Hashes:
    """Return the sum, modulo 2^64, of the values between each bound and the next."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    sums: Hashes = running[bounds[1:]] - running[bounds[:-1]]
    return sums


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * _OFFSET_BYTES)


_FACTORS_SEED: Final = _mixed(np.zeros(1, np.uint64))
_WORD_FACTORS: Final = _mixed(np.arange(_PIECE_BYTES // _WORD, dtype=np.uint64)) | np.uint64(1)
_BLOCK_WORDS: Final = _BLOCK_BYTES // _WORD
_MASKS: Final = [
    np.array(
        [
            [2 ** (8 * min(max(taken - _WORD * word, 0), _WORD)) - 1 for word in range(count)]
            for taken in range(_WORD * count + 1)
        ],
        np.uint64,
    )
    for count in range(_BLOCK_WORDS + 1)
]
"""The masks by number of words and by how many of their bytes belong to a text."""


class Tally:
    """Counts the rows of a stream and sums up their fingerprints."""

    def __init__(self) -> None:
        self.rows = 0
        self.fingerprint = 0

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches. Each one is counted before it is yielded."""
        for batch in batches:
            self.rows += batch.num_rows
            self.add(batch)
            yield batch

    def add(self, columns: pa.RecordBatch) -> None:
        """Add the fingerprint of columns without counting their rows, which another call counts."""
        self.fingerprint = (self.fingerprint + fingerprint(columns)) % MODULUS

    def add_all(self, other: Tally) -> None:
        """Add the counts of another tally."""
        self.rows += other.rows
        self.fingerprint = (self.fingerprint + other.fingerprint) % MODULUS
