"""The key-value pairs that Hudi's writers expect in the footer of a base file.

Source: HoodieAvroWriteSupport and HoodieBloomFilterWriteSupport of Hudi 0.15.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from parquetry.runtime.base_file.base_file_keys import KeyRangeCollector
from parquetry.runtime.parquet.bloom import ALWAYS_TRUE, ENTRIES_PER_ROW, TYPE_CODE, ExactBloomFilter
from parquetry.runtime.parquet.footer import MAX_KEY, MIN_KEY
from parquetry.runtime.spec.table_spec import BloomFilter

AVRO_SCHEMA: Final = "parquet.avro.schema"
BLOOM_FILTER: Final = "org.apache.hudi.bloomfilter"
BLOOM_TYPE: Final = "hoodie_bloom_filter_type_code"
CALENDAR: Final = ("org.apache.spark.version", "3.0.0")
"""By this Spark knows the calendar; 3.x refuses days before 1582-10-15 and times before 1900 without."""

_EXACT_BYTES_PER_ROW: Final = 431_380
_EXACT_ROWS: Final = 2


class FooterKeys:
    """Collects what the footer says about the record keys of one file."""

    def __init__(self, avro_schema: str, bloom_filter: BloomFilter) -> None:
        self._avro_schema = avro_schema
        self._range = KeyRangeCollector()
        self._bloom = ExactBloomFilter() if bloom_filter is BloomFilter.EXACT else None
        self._keys = 0

    def add_keys(self, keys: pa.StringArray) -> None:
        """Take in the record keys of some rows."""
        self._range.add(keys)
        self._keys += len(keys)
        if self._bloom is not None:
            self._bloom.add(keys)

    def add_bounds(self, bounds: tuple[bytes, bytes] | None) -> bool:
        """Take in the keys of a copied row group by their range; False if every key is needed."""
        return bounds is not None and self._bloom is None and self._range.add_bounds(*bounds)

    @property
    def min_key(self) -> str | None:
        """The smallest key in UTF-16 order; None without rows."""
        return self._range.smallest

    @property
    def max_key(self) -> str | None:
        """The largest key in UTF-16 order; None without rows."""
        return self._range.largest

    @property
    def size_bytes(self) -> int:
        """About how long the pairs are."""
        bloom = len(ALWAYS_TRUE)
        if self._bloom is not None:
            bloom = _EXACT_BYTES_PER_ROW * min(1 + self._keys // ENTRIES_PER_ROW, _EXACT_ROWS)
        return len(self._avro_schema) + bloom + 2 * len((self.max_key or "").encode())

    def entries(self) -> dict[str, str]:
        """The pairs; a file without rows has no key range."""
        entries = {
            AVRO_SCHEMA: self._avro_schema,
            "writer.model.name": "avro",
            CALENDAR[0]: CALENDAR[1],
            BLOOM_TYPE: TYPE_CODE,
            BLOOM_FILTER: ALWAYS_TRUE if self._bloom is None else self._bloom.text(),
        }
        if self.min_key is not None and self.max_key is not None:
            entries |= {MIN_KEY: self.min_key, MAX_KEY: self.max_key}
        return entries
