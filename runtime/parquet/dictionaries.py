"""The conditions that no value of a row group's dictionaries fulfils. Spark skips such row groups.

If all data pages of a column chunk refer to its dictionary, the chunk has no other values. So a row group has
no row for ``column = value`` if the dictionary lacks the value (DictionaryFilter of parquet-mr). For a range,
a dictionary shows no more than the smallest and the largest value do.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import isnan
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parquetry.runtime.layout.skipping.files import Types, may_match
from parquetry.runtime.layout.skipping.predicate import (
    Comparison,
    Predicate,
    StartsWith,
    ValueCondition,
    value_conditions,
)
from parquetry.runtime.layout.skipping.statistics import FileStatistics
from parquetry.runtime.parquet.assembly import ParquetParts, PartChunk
from parquetry.runtime.parquet.fields import (
    CODECS,
    DICTIONARY_ENCODINGS,
    ColumnMetaData,
    PageEncodingStats,
    PageHeader,
    PageType,
)
from parquetry.runtime.parquet.page_index import MOST_FILES, UNREADABLE, FileEnd, read_footer
from parquetry.runtime.parquet.thrift import STRUCT, List, ThriftStruct, decode_struct, field_value
from parquetry.runtime.storage.model import ObjectStore
from parquetry.runtime.storage.parallel import map_each

_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_OF_FILE: Final = 1024 * 1024
_LAYOUTS: Final = {"INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}


def with_dictionaries(
    store: ObjectStore,
    files: Mapping[str, FileStatistics],
    predicates: Iterable[Predicate],
    types: Types,
    *,
    most_files: int = MOST_FILES,
) -> dict[str, FileStatistics]:
    """Return the files, in their order, with the conditions that no dictionary value of a row group fulfils.

    Only row groups that may match a predicate are read, of at most ``most_files`` files: those with the most
    such rows. The dictionaries have at most about 64 MiB, or 1 MiB per file if that is more. For other row
    groups, and for files that are encrypted or unreadable, nothing is known.

    Args:
        store: The store of the table.
        files: The statistics of the files, by path.
        predicates: The filters of the queries.
        types: The Spark types of the columns, by name.
        most_files: The largest number of files to open.
    """
    asking = [predicate for predicate in predicates if value_conditions(predicate)]
    conditions = frozenset[ValueCondition]().union(*map(value_conditions, asking))
    ranked: list[tuple[int, str, list[int]]] = []
    for file in files.values() if asking else ():
        groups = [] if file.encrypted else list(enumerate(file.row_groups))
        numbers = [number for number, group in groups if group.rows and may_match(group, asking, types)]
        if numbers:
            ranked.append((sum(file.row_groups[number].rows for number in numbers), file.path, numbers))
    ranked.sort(key=lambda one: (-one[0], one[1]))
    chosen = ranked[:most_files]
    most_bytes = max(_MOST_BYTES // max(len(chosen), 1), _MOST_OF_FILE)
    read = map_each(
        chosen,
        lambda one: (
            one[1],
            _lacking(store, files[one[1]], one[2], conditions, types, most_bytes=most_bytes),
        ),
    )
    found = dict(files)
    for path, lacking in read:
        found[path] = replace(
            files[path],
            row_groups=tuple(
                replace(group, lacking=lacking.get(number))
                for number, group in enumerate(files[path].row_groups)
            ),
        )
    return found


def _lacking(
    store: ObjectStore,
    file: FileStatistics,
    numbers: Sequence[int],
    conditions: Iterable[ValueCondition],
    types: Types,
    *,
    most_bytes: int,
) -> dict[int, frozenset[ValueCondition]]:
    """Return the conditions that no value of a row group fulfils, by the number of the row group.

    A column that is stored in another type counts as a column without a dictionary, because readers do not
    use its dictionary.
    """
    found: dict[int, frozenset[ValueCondition]] = {}
    try:
        with store.open_input(file.path) as content:
            source = FileEnd(content)
            parts = ParquetParts(source)
            schema = read_footer(source, parts.footer_bytes).schema
            # The statistics omit row groups without rows.
            stored = [number for number in range(len(parts.groups)) if parts.rows(number)]
            for number in numbers:
                group = file.row_groups[number]
                if parts.rows(stored[number]) != group.rows:
                    continue
                lacking: set[ValueCondition] = set()
                for index, chunk in enumerate(parts.chunks(stored[number])):
                    of_column = [one for one in conditions if one.column == chunk.name]
                    column = group.columns.get(chunk.name) if of_column else None
                    size = 0 if column is None else _dictionary_bytes(chunk)
                    if column is None or column.type != types[chunk.name] or not 0 < size <= most_bytes:
                        continue
                    most_bytes -= size
                    values = _values(source.read_at(size, chunk.start), chunk)
                    lacking |= {one for one in of_column if _lacks(values, one, schema.column(index))}
                found[number] = frozenset(lacking)
    except UNREADABLE:
        return {}
    return found


def _dictionary_bytes(chunk: PartChunk) -> int:
    """Return the size of the chunk's dictionary, or 0 if a data page does not use it."""
    if field_value(chunk.metadata, ColumnMetaData.DICTIONARY_PAGE, 0) <= 0:
        return 0
    counted: list[ThriftStruct] = field_value(
        chunk.metadata, ColumnMetaData.ENCODING_STATS, List(STRUCT, [])
    ).items
    encodings = {
        field_value(pages, PageEncodingStats.ENCODING)
        for pages in counted
        if field_value(pages, PageEncodingStats.PAGE_TYPE) != PageType.DICTIONARY_PAGE
    }
    if not encodings or not encodings <= DICTIONARY_ENCODINGS:
        return 0
    return int(field_value(chunk.metadata, ColumnMetaData.DATA_PAGE)) - chunk.start


def _values(page: bytes, chunk: PartChunk) -> bytes:
    """Return the values of a dictionary page, concatenated in parquet's plain encoding."""
    header, begin = decode_struct(page)
    codec = CODECS[field_value(chunk.metadata, ColumnMetaData.CODEC)].lower()
    if codec == "none":
        return page[begin:]
    size = field_value(header, PageHeader.UNCOMPRESSED_BYTES)
    if not 0 <= size <= _MOST_BYTES:
        raise ValueError("its dictionary is too large to decompress")
    stored = page[begin : begin + field_value(header, PageHeader.COMPRESSED_BYTES)]
    values: bytes = pa.decompress(stored, decompressed_size=size, codec=codec, asbytes=True)
    return values


def _lacks(values: bytes, condition: ValueCondition, column: pq.ColumnSchema) -> bool:
    """Return whether no value of a dictionary page fulfils the condition; False if that is unknown."""
    logical = json.loads(column.logical_type.to_json())
    match condition, column.physical_type, logical["Type"]:
        case StartsWith(prefix=prefix), "BYTE_ARRAY", _:
            return prefix.encode() not in values
        case Comparison(value=str(text)), "BYTE_ARRAY", _:
            raw = text.encode()
            return struct.pack("<I", len(raw)) + raw not in values
        case Comparison(value=Decimal() as number), _, "Decimal":
            unscaled = Fraction(number) * 10 ** logical["scale"]
            return unscaled == int(unscaled) and not _contains(values, int(unscaled), column)
        case Comparison(value=int(number)), "INT64", "Timestamp" if logical["timeUnit"] != "microseconds":
            return False
        case Comparison(value=int(number) | float(number)), _, "None" | "Int" | "Date" | "Timestamp":
            return not _contains(values, number, column)
    return False


def _contains(values: bytes, number: float, column: pq.ColumnSchema) -> bool:
    """Return whether a number is among the values of a dictionary page; True if that is unknown."""
    layout = _LAYOUTS.get(column.physical_type)
    if isnan(number):
        return True
    if layout is not None:
        return bool((np.frombuffer(values, layout) == number).any())
    if column.physical_type != "FIXED_LEN_BYTE_ARRAY" or not isinstance(number, int):
        return True
    width = column.length
    if number.bit_length() >= 8 * width:
        return False
    return number.to_bytes(width, "big", signed=True) in {
        values[at : at + width] for at in range(0, len(values), width)
    }
