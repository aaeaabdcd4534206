"""The Bloom filters of base files, in the format that Hudi's BLOOM index reads from the footer.

Hudi's ``DYNAMIC_V0`` filter is Hadoop's dynamic Bloom filter with Hadoop's MurmurHash. Its rows of 60,000
entries and the false positive rate of 1e-9 are Hudi's defaults.
"""

from __future__ import annotations

import base64
import math
import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.errors import InvalidDataError

TYPE_CODE = "DYNAMIC_V0"
"""The value of the footer key ``hoodie_bloom_filter_type_code``."""

ENTRIES_PER_ROW = 60_000
_FALSE_POSITIVE_RATE = 1e-9
_MAXIMUM_ENTRIES = 100_000
_BITS = math.ceil(ENTRIES_PER_ROW * -math.log(_FALSE_POSITIVE_RATE) / math.log(2) ** 2)
_HASHES = math.ceil(math.log(2) * _BITS / ENTRIES_PER_ROW)

_COUNTS = ">iii"

_VERSION = -1
_MURMUR = 1
_FACTOR = np.uint32(0x5BD1E995)
_CHUNK = 16_384

Words = npt.NDArray[np.uint32]
BitPositions = npt.NDArray[np.int64]


def _header(*, hashes: int, bits: int) -> bytes:
    return struct.pack(">iibi", _VERSION, hashes, _MURMUR, bits)


def _always_true() -> str:
    """Return a filter of 8 bits, all of them set, as text."""
    header = _header(hashes=1, bits=8)
    return base64.b64encode(header + struct.pack(_COUNTS, 1, 1, 1) + header + b"\xff").decode()


ALWAYS_TRUE = _always_true()
"""A valid filter of 39 bytes that has all bits set.

Hudi regards every key in a file's key range as a candidate and looks it up in the file. The results are
correct, and writers neither hash keys nor add 431 kB to the footer.
"""


def exact_text_bytes(keys: int) -> int:
    """Return the length of an exact filter's text: 421 KiB, or twice that for more than 60,000 keys."""
    rows = min(max(math.ceil(keys / ENTRIES_PER_ROW), 1), math.ceil(_MAXIMUM_ENTRIES / ENTRIES_PER_ROW))
    header = len(_header(hashes=_HASHES, bits=_BITS))
    stored = header + struct.calcsize(_COUNTS) + rows * (header + math.ceil(_BITS / 8))
    return 4 * math.ceil(stored / 3)


class ExactBloomFilter:
    """A filter of all record keys of one file, added in the order of its rows.

    Its bytes are those that Hudi writes for the same keys. It needs 2.6 MB of memory per row of 60,000
    entries and has at most two rows.
    """

    def __init__(self) -> None:
        self._rows = [np.zeros(_BITS, dtype=np.bool_)]
        self._in_current_row = 0
        self._round_robin: int | None = None

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add record keys (strings).

        Raises:
            InvalidDataError: If a key is null or empty.
        """
        chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
        for chunk in chunks:
            for start in range(0, len(chunk), _CHUNK):
                self._add(chunk.slice(start, _CHUNK))

    def text(self) -> str:
        """Return the value of the footer key ``org.apache.hudi.bloomfilter``."""
        header = _header(hashes=_HASHES, bits=_BITS)
        counts = struct.pack(_COUNTS, ENTRIES_PER_ROW, self._in_current_row, len(self._rows))
        rows = [header + np.packbits(row, bitorder="little").tobytes() for row in self._rows]
        return base64.b64encode(b"".join([header, counts, *rows])).decode()

    def _add(self, keys: pa.Array) -> None:
        positions = hash_positions(keys)
        start = 0
        while start < len(positions):
            if self._round_robin is not None:
                numbers = (self._round_robin + np.arange(len(positions) - start)) % len(self._rows)
                for number, row in enumerate(self._rows):
                    row[positions[start:][numbers == number].ravel()] = True
                self._round_robin += len(positions) - start
                self._in_current_row += len(positions) - start
                return
            start += self._fill_row(positions[start:])

    def _fill_row(self, positions: BitPositions) -> int:
        """Add keys to the current row, at most until it is full, and return the number of keys added.

        If the row is full already, a second row begins and no key is added. If both rows are full, one key
        goes to the first row.
        """
        row, count = self._rows[-1], ENTRIES_PER_ROW - self._in_current_row
        if count <= 0:
            if len(self._rows) * ENTRIES_PER_ROW < _MAXIMUM_ENTRIES:
                self._rows.append(np.zeros(_BITS, dtype=np.bool_))
                self._in_current_row = 0
                return 0
            # This key goes to the first row, and so does the next one.
            self._round_robin = 0
            row, count = self._rows[0], 1
        taken = positions[:count]
        row[taken.ravel()] = True
        self._in_current_row += len(taken)
        return len(taken)


def hash_positions(keys: pa.Array) -> BitPositions:
    """Return the bit positions of each key, with one row per key and one column per hash function.

    All hash functions are MurmurHash; the seed of each is the hash of the previous one.

    Raises:
        InvalidDataError: If a key is null or empty.
    """
    lengths = pc.binary_length(keys)
    if keys.null_count or pc.min(lengths).as_py() == 0:
        raise InvalidDataError("a record key is null or empty; give every row a key")
    positions = np.empty((len(keys), _HASHES), dtype=np.int64)
    by_length = lengths.to_numpy()
    for length in np.unique(by_length):
        chosen = np.flatnonzero(by_length == length)
        content = b"".join(keys.take(pa.array(chosen)).cast(pa.binary()).to_pylist())
        matrix = np.frombuffer(content, dtype=np.uint8).reshape(len(chosen), length)
        positions[chosen] = _positions_of_equal_length(matrix)
    return positions


def _positions_of_equal_length(keys: npt.NDArray[np.uint8]) -> BitPositions:
    length = keys.shape[1]
    whole = length // 4
    words = np.ascontiguousarray(keys[:, : whole * 4]).view("<u4").astype(np.uint32, copy=False)
    words = words * _FACTOR
    words ^= words >> np.uint32(24)
    words *= _FACTOR
    tail = _tail(keys, length - whole * 4)
    columns = np.ascontiguousarray(words.T)
    seed = np.zeros(len(keys), dtype=np.uint32)
    positions = np.empty((len(keys), _HASHES), dtype=np.int64)
    for number in range(_HASHES):
        seed = _murmur(seed ^ np.uint32(length), columns, tail)
        # Java's remainder has the sign of the dividend, and its magnitude counts.
        positions[:, number] = np.abs(seed.view(np.int32).astype(np.int64)) % _BITS
    return positions


def _tail(keys: npt.NDArray[np.uint8], count: int) -> Words | None:
    """Return the last ``count`` bytes of each key as one word, or None if ``count`` is 0.

    MurmurHash processes these one to three bytes after the whole words. Each byte is extended as a signed
    number, and the last byte of the key is the lowest.
    """
    if count == 0:
        return None
    signed = keys.view(np.int8).astype(np.int32)
    tail = np.zeros(len(keys), dtype=np.int32)
    for back in range(1, count + 1):
        tail ^= signed[:, -back] << np.int32(8 * (back - 1))
    return tail.view(np.uint32)


def _murmur(state: Words, words: Words, tail: Words | None) -> Words:
    for word in words:
        state = state * _FACTOR
        state ^= word
    if tail is not None:
        state = (state ^ tail) * _FACTOR
    state = state ^ (state >> np.uint32(13))
    state = state * _FACTOR
    mixed: Words = state ^ (state >> np.uint32(15))
    return mixed
