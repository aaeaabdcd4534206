"""The numbers of parquet.thrift in apache/parquet-format: fields by struct, and values of enums."""

from __future__ import annotations

from typing import Final


class FileMetaData:
    """Fields of the footer."""

    SCHEMA: Final = 2
    ROWS: Final = 3
    ROW_GROUPS: Final = 4
    KEY_VALUES: Final = 5


class KeyValue:
    """Fields of a key-value pair of the footer."""

    KEY: Final = 1
    VALUE: Final = 2


class SchemaElement:
    """Fields of an element of the schema."""

    TYPE: Final = 1
    REPETITION: Final = 3
    CHILDREN: Final = 5
    CONVERTED_TYPE: Final = 6
    SCALE: Final = 7
    PRECISION: Final = 8
    FIELD_ID: Final = 9
    LOGICAL_TYPE: Final = 10


class PhysicalType:
    """Values of the enum Type."""

    BOOLEAN: Final = 0
    INT32: Final = 1
    INT64: Final = 2
    FLOAT: Final = 4
    DOUBLE: Final = 5
    BYTE_ARRAY: Final = 6
    FIXED_LEN_BYTE_ARRAY: Final = 7


class Repetition:
    """Values of the enum FieldRepetitionType."""

    REPEATED: Final = 2


class ConvertedType:
    """Values of the enum ConvertedType."""

    DECIMAL: Final = 5
    UINT_8: Final = 11
    UINT_16: Final = 12
    UINT_32: Final = 13
    UINT_64: Final = 14
    INTERVAL: Final = 21


class LogicalType:
    """Fields of the union LogicalType."""

    STRING: Final = 1
    ENUM: Final = 4
    DECIMAL: Final = 5
    INTEGER: Final = 10
    JSON: Final = 12
    BSON: Final = 13
    UUID: Final = 14


class IntType:
    """Fields of the logical type of integers."""

    IS_SIGNED: Final = 2


class RowGroup:
    """Fields of a RowGroup."""

    COLUMNS: Final = 1
    BYTES: Final = 2
    ROWS: Final = 3
    SORTING: Final = 4
    FILE_OFFSET: Final = 5
    COMPRESSED_BYTES: Final = 6
    ORDINAL: Final = 7


class SortingColumn:
    """Fields of a column that the rows of a row group are sorted by."""

    COLUMN: Final = 1
    DESCENDING: Final = 2
    NULLS_FIRST: Final = 3


class ColumnChunk:
    """Fields of a column chunk."""

    FILE_OFFSET: Final = 2
    METADATA: Final = 3
    OFFSET_INDEX: Final = 4
    OFFSET_INDEX_BYTES: Final = 5
    COLUMN_INDEX: Final = 6
    COLUMN_INDEX_BYTES: Final = 7
    CRYPTO_METADATA: Final = 8


class ColumnMetaData:
    """Fields of the footer's metadata of a column chunk."""

    TYPE: Final = 1
    ENCODINGS: Final = 2
    PATH: Final = 3
    CODEC: Final = 4
    VALUES: Final = 5
    BYTES: Final = 6
    COMPRESSED_BYTES: Final = 7
    DATA_PAGE: Final = 9
    INDEX_PAGE: Final = 10
    DICTIONARY_PAGE: Final = 11
    STATISTICS: Final = 12
    ENCODING_STATS: Final = 13
    BLOOM_FILTER: Final = 14
    BLOOM_FILTER_BYTES: Final = 15
    SIZE_STATISTICS: Final = 16


CODECS: Final = ("NONE", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
"""The values of the enum CompressionCodec, in order, as pyarrow names them."""


class Encoding:
    """Values of the enum Encoding."""

    PLAIN_DICTIONARY: Final = 2
    RLE_DICTIONARY: Final = 8


DICTIONARY_ENCODINGS: Final = frozenset({Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY})
"""The encodings of pages that refer to the dictionary of their chunk."""


class Statistics:
    """Fields of the statistics of a column chunk."""

    DEPRECATED_MAX: Final = 1
    DEPRECATED_MIN: Final = 2
    NULL_COUNT: Final = 3
    MAX_VALUE: Final = 5
    MIN_VALUE: Final = 6
    MAX_IS_EXACT: Final = 7
    MIN_IS_EXACT: Final = 8


class SizeStatistics:
    """Fields of the size statistics of a column chunk."""

    UNENCODED_BYTES: Final = 1
    REPETITION_LEVELS: Final = 2
    DEFINITION_LEVELS: Final = 3


class PageHeader:
    """Fields of the header of a page."""

    UNCOMPRESSED_BYTES: Final = 2
    COMPRESSED_BYTES: Final = 3


class PageType:
    """Values of the enum PageType."""

    DICTIONARY_PAGE: Final = 2


class PageEncodingStats:
    """Fields of the count of pages of one encoding."""

    PAGE_TYPE: Final = 1
    ENCODING: Final = 2
    COUNT: Final = 3


class OffsetIndex:
    """Fields of an offset index."""

    PAGE_LOCATIONS: Final = 1
    UNENCODED_BYTES: Final = 2


class PageLocation:
    """Fields of a page's entry in the offset index."""

    OFFSET: Final = 1
    COMPRESSED_BYTES: Final = 2
    FIRST_ROW: Final = 3


class ColumnIndex:
    """Fields of a column index."""

    NULL_PAGES: Final = 1
    MIN_VALUES: Final = 2
    MAX_VALUES: Final = 3
    BOUNDARY_ORDER: Final = 4
    NULL_COUNTS: Final = 5
    REPETITION_LEVELS: Final = 6
    DEFINITION_LEVELS: Final = 7


class BoundaryOrder:
    """Values of the enum BoundaryOrder."""

    UNORDERED: Final = 0
    ASCENDING: Final = 1
    DESCENDING: Final = 2
