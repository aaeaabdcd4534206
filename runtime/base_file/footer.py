"""The key-value pairs that Hudi's writers expect in the footer of a base file.

Source: HoodieAvroWriteSupport and HoodieBloomFilterWriteSupport of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.parquet.bloom import ALWAYS_TRUE, TYPE_CODE, ExactBloomFilter, exact_text_bytes
from parquetry.runtime.parquet.footer import MAX_KEY, MIN_KEY
from parquetry.runtime.spec.table_spec import BloomFilter

_BEFORE_PRIVATE_USE = 0xEE

# String.compareTo compares UTF-16 code units, where the surrogates of U+10000 and above (first
# UTF-8 bytes F0 to F4) come before U+E000 to U+FFFF (first bytes EE and EF). First bytes are not
# continuation bytes, so exchanging the two groups turns byte order into Java's order.
_TO_JAVA_ORDER = np.arange(256, dtype=np.uint8)
_TO_JAVA_ORDER[0xF0:0xF5] = np.arange(0xEE, 0xF3, dtype=np.uint8)
_TO_JAVA_ORDER[0xEE:0xF0] = np.arange(0xF3, 0xF5, dtype=np.uint8)
_FROM_JAVA_ORDER = np.argsort(_TO_JAVA_ORDER).astype(np.uint8)

AVRO_SCHEMA: Final = "parquet.avro.schema"
BLOOM_FILTER: Final = "org.apache.hudi.bloomfilter"
BLOOM_TYPE: Final = "hoodie_bloom_filter_type_code"
CALENDAR: Final = ("org.apache.spark.version", "3.0.0")
"""Shows Spark which calendar was used.

Without it Spark 3 refuses days before 1582-10-15 and times before 1900.
"""

_BYTES_OF_A_PAIR: Final = 12
_BYTES_OF_OTHER_PAIRS: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedKeys:
    """Keys that a file would get: their number, and upper limits for the lengths of the extreme keys."""

    count: int = 0
    smallest_bytes: int = 0
    largest_bytes: int = 0

    @classmethod
    def of(
        cls, count: int, bounds: tuple[bytes, bytes] | None, columns: Callable[[], Iterable[pa.Array]]
    ) -> Self:
        """Return the number and the lengths of some keys.

        Args:
            count: The number of keys.
            bounds: The smallest and the largest key in UTF-8 order, if known.
            columns: Returns the keys. It is called only if the bounds do not settle the order in UTF-16.
        """
        if bounds is not None and _is_same_in_java_order(*bounds):
            return cls(count=count, smallest_bytes=len(bounds[0]), largest_bytes=len(bounds[1]))
        longest = max((pc.max(pc.binary_length(keys)).as_py() or 0 for keys in columns()), default=0)
        return cls(count=count, smallest_bytes=longest, largest_bytes=longest)


class FooterKeys:
    """Collects the entries of the footer about the record keys of one file.

    Without a ``bloom_filter``, the file stores no keys, and the footer has no entries about them.
    """

    def __init__(self, avro_schema: str, bloom_filter: BloomFilter | None) -> None:
        self._avro_schema = avro_schema
        self._has_keys = bloom_filter is not None
        self._range = KeyRangeCollector()
        self._bloom = ExactBloomFilter() if bloom_filter is BloomFilter.EXACT else None
        self._keys = 0

    def add_keys(self, keys: pa.StringArray) -> None:
        """Add the record keys of some rows."""
        self._range.add(keys)
        self._keys += len(keys)
        if self._bloom is not None:
            self._bloom.add(keys)

    def add_bounds(self, bounds: tuple[bytes, bytes] | None) -> bool:
        """Add the keys of a row group by their range; return False if every key is needed."""
        if not self._has_keys:
            return True
        return bounds is not None and self._bloom is None and self._range.add_bounds(*bounds)

    @property
    def min_key(self) -> str | None:
        """The smallest key in UTF-16 order; None without rows."""
        return self._range.smallest

    @property
    def max_key(self) -> str | None:
        """The largest key in UTF-16 order; None without rows."""
        return self._range.largest

    def size_bytes(self, more: AddedKeys) -> int:
        """Return the largest possible size of all key-value pairs, with ``more`` keys added."""
        filter_bytes = 0 if self._bloom is None else exact_text_bytes(self._keys + more.count)
        pairs = {name: len(value.encode()) for name, value in self._pairs().items()}
        if more.count:
            pairs[MIN_KEY] = max(pairs.get(MIN_KEY, 0), more.smallest_bytes)
            pairs[MAX_KEY] = max(pairs.get(MAX_KEY, 0), more.largest_bytes)
        own = sum(len(name) + size + _BYTES_OF_A_PAIR for name, size in pairs.items())
        return own + filter_bytes + _BYTES_OF_OTHER_PAIRS

    def entries(self) -> dict[str, str]:
        """Return the key-value pairs. A file without rows has no key range."""
        return self._pairs() | ({} if self._bloom is None else {BLOOM_FILTER: self._bloom.text()})

    def _pairs(self) -> dict[str, str]:
        """Return the pairs with a filter that matches every key."""
        pairs = {
            AVRO_SCHEMA: self._avro_schema,
            "writer.model.name": "avro",
            CALENDAR[0]: CALENDAR[1],
        }
        if self._has_keys:
            pairs |= {BLOOM_TYPE: TYPE_CODE, BLOOM_FILTER: ALWAYS_TRUE}
        if self.min_key is not None and self.max_key is not None:
            pairs |= {MIN_KEY: self.min_key, MAX_KEY: self.max_key}
        return pairs


class KeyRangeCollector:
    """Collects the range of record keys; ``smallest`` and ``largest`` are None without keys."""

    def __init__(self) -> None:
        self._smallest: bytes | None = None
        self._largest: bytes | None = None

    def add(self, keys: pa.Array) -> None:
        """Add a column of strings; nulls do not count."""
        extremes = pc.min_max(_in_java_order(keys))
        if not extremes["min"].is_valid:
            return
        self._include(extremes["min"].as_py(), extremes["max"].as_py())

    def _include(self, smallest: bytes, largest: bytes) -> None:
        self._smallest = smallest if self._smallest is None else min(self._smallest, smallest)
        self._largest = largest if self._largest is None else max(self._largest, largest)

    def add_bounds(self, smallest: bytes, largest: bytes) -> bool:
        """Add keys by their range in UTF-8 order; return False if the UTF-16 order may differ."""
        if not _is_same_in_java_order(smallest, largest):
            return False
        self._include(smallest, largest)
        return True

    @property
    def smallest(self) -> str | None:
        """The first key in UTF-16 code unit order."""
        return _decode(self._smallest)

    @property
    def largest(self) -> str | None:
        """The last key in UTF-16 code unit order."""
        return _decode(self._largest)


def _is_same_in_java_order(smallest: bytes, largest: bytes) -> bool:
    """Return whether bounds in UTF-8 order are also bounds in UTF-16 order.

    At the first byte where a key differs from a bound, the two orders can disagree only if the bound has a
    byte of EE or above there.
    """
    return max(smallest + largest, default=0) < _BEFORE_PRIVATE_USE


def _in_java_order(keys: pa.Array) -> pa.Array:
    """Return the keys as binary values whose byte order is the UTF-16 order of the keys."""
    as_binary = pa.Array.from_buffers(
        pa.binary(), len(keys), keys.buffers(), null_count=keys.null_count, offset=keys.offset
    )
    content = _content(as_binary)
    if not len(content) or int(content.max()) < _BEFORE_PRIVATE_USE:
        return as_binary
    validity, offsets, _ = as_binary.buffers()
    reordered = pa.py_buffer(_TO_JAVA_ORDER[np.frombuffer(as_binary.buffers()[2], np.uint8)])
    return pa.Array.from_buffers(
        pa.binary(), len(keys), [validity, offsets, reordered], null_count=keys.null_count, offset=keys.offset
    )


def _content(strings: pa.Array) -> npt.NDArray[np.uint8]:
    _, offsets, values = strings.buffers()
    if not len(strings) or values is None or not values.size:
        return np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32, len(strings) + 1, strings.offset * 4)
    return np.frombuffer(values, np.uint8)[bounds[0] : bounds[-1]]


def _decode(key: bytes | None) -> str | None:
    if key is None:
        return None
    return bytes(_FROM_JAVA_ORDER[np.frombuffer(key, np.uint8)]).decode()
