"""The record keys of stored rows: those that files contain, or the texts of their key columns.

Source of the spelling: Hudi's ``KeyGenUtils``. The SQL of ``spark.session.keys`` spells the same keys.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parquetry.runtime.arrow.conform import conform
from parquetry.runtime.layout.skipping.statistics import ColumnStatistics
from parquetry.runtime.parquet.bounds import column_statistics
from parquetry.runtime.spec.key_generator import EMPTY_KEY_PART, NULL_KEY_PART
from parquetry.runtime.spec.meta_columns import RECORD_KEY
from parquetry.runtime.table.partition_path import KeyRules

_EPOCH: Final = dt.date(1970, 1, 1)
_FOUR_DIGITS: Final = ((dt.date(1, 1, 1) - _EPOCH).days, (dt.date(9999, 12, 31) - _EPOCH).days)
_LAST_CHARACTER: Final = "\U0010ffff"
_WHOLE_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKeys:
    """The origin of the record keys of stored rows.

    Without ``rules``, files store the keys. With rules, a key is the text of the key columns, spelled as the
    keys of incoming rows are; keys that files happen to store are not used. So two rows have the same key if
    and only if their texts are equal, in both cases. ``schema`` has the columns of the table.
    """

    schema: pa.Schema
    rules: KeyRules | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read, those within structs by their dotted path."""
        return (RECORD_KEY,) if self.rules is None else self.rules.record_key

    @property
    def are_spelled_here(self) -> bool:
        """True if :meth:`of_rows` spells the keys as Java does; otherwise only Spark can."""
        return self.rules is None or all(
            _is_spelled_alike(_values(self.schema.empty_table(), path).type) for path in self.rules.record_key
        )

    def of_rows(self, rows: pa.Table) -> pa.Array:
        """Return the record key of each row, from the ``columns`` of a file."""
        if self.rules is None:
            return rows.column(RECORD_KEY).combine_chunks()
        empty = self.schema.empty_table()
        return record_keys(
            self.rules,
            [conform(_values(rows, path), _values(empty, path).type) for path in self.rules.record_key],
        )

    def bounds_in(self, columns: Mapping[str, ColumnStatistics]) -> tuple[str, str] | None:
        """Return texts that no key of some rows is below or above, or None if these are unknown.

        Args:
            columns: The statistics of these rows by column, those within structs by their dotted path. The
                first of ``columns`` is enough.
        """
        known = columns.get(self.columns[0])
        bounds = None if known is None else _text_bounds(known)
        if bounds is None or self.rules is None or not self.rules.named_key:
            return bounds
        low, high = bounds
        texts = [low, high]
        if known is None or known.nulls != 0:
            texts.append(NULL_KEY_PART)
        if low == "":
            texts.append(EMPTY_KEY_PART)
        # A comma follows the text of the first field. If a key is shorter than ``high``, it is compared with
        # a character of that, which may be smaller.
        least = min(texts)
        greatest = "".join(_while_above_comma(max(texts)))
        field = self.rules.record_key[0]
        return f"{field}:{least}", f"{field}:{greatest}{_LAST_CHARACTER}"

    def bounds_of_group(self, metadata: pq.FileMetaData, number: int) -> tuple[str, str] | None:
        """Return :meth:`bounds_in` of a row group."""
        group, path = metadata.row_group(number), self.columns[0]
        for index in range(group.num_columns):
            if group.column(index).path_in_schema == path:
                known = column_statistics(group.column(index), metadata.schema.column(index))
                return None if known is None else self.bounds_in({path: known})
        return None


def record_keys(rules: KeyRules, values: Sequence[pa.Array]) -> pa.Array:
    """Return ``_hoodie_record_key`` of each row, which is null if all fields of the key are null or empty."""
    texts = [_texts(array) for array in values]
    if not rules.named_key:
        (text,) = texts
        return pc.if_else(pc.equal(text, ""), None, text)
    parts = []
    lacking = None
    for name, text in zip(rules.record_key, texts, strict=True):
        empty = pc.fill_null(pc.equal(text, ""), fill_value=True)
        lacking = empty if lacking is None else pc.and_(lacking, empty)
        present = pc.if_else(pc.equal(text, ""), EMPTY_KEY_PART, text)
        spelled = pc.if_else(pc.is_null(text), NULL_KEY_PART, present)
        parts.append(pc.binary_join_element_wise(f"{name}:", spelled, ""))
    joined = pc.binary_join_element_wise(*parts, ",")
    return pc.if_else(lacking, pa.scalar(None, pa.string()), joined)


def _is_spelled_alike(kind: pa.DataType) -> bool:
    """Return whether :func:`record_keys` spells values of the type as Java does."""
    tests = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32)
    is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
    return is_instant or any(test(kind) for test in tests)


def _texts(array: pa.Array) -> pa.Array:
    """Return the values as texts in Java's spelling."""
    if pa.types.is_string(array.type):
        return array
    if pa.types.is_timestamp(array.type):
        return pc.cast(pc.cast(array, pa.int64()), pa.string())
    if not pa.types.is_date32(array.type):
        return pc.cast(array, pa.string())
    days = pc.min_max(pc.cast(array, pa.int32())).as_py()
    if days["min"] is None or _FOUR_DIGITS[0] <= days["min"] <= days["max"] <= _FOUR_DIGITS[1]:
        return pc.cast(array, pa.string())
    numbers = array.cast(pa.int32()).fill_null(0).to_numpy()
    texts = pa.array(np.datetime_as_string(numbers.astype("datetime64[D]")))
    digits = pc.utf8_lpad(pc.utf8_ltrim(texts, "-"), 10, "0")
    minus = pc.if_else(pc.starts_with(texts, "-"), "-", "")
    signs = pc.if_else(pa.array(numbers > _FOUR_DIGITS[1]), "+", minus)
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise(signs, digits, ""), None)


def _values(rows: pa.Table, path: str) -> pa.Array:
    """Return the values of a column, or of a field within structs by its dotted path."""
    name, *fields = path.split(".")
    values = rows.column(name).combine_chunks()
    for field in fields:
        values = pc.struct_field(values, [values.type.get_field_index(field)])
    return values


def _text_bounds(known: ColumnStatistics) -> tuple[str, str] | None:
    """Return the least and the greatest text of values, by the bounds of the values."""
    low, high = known.minimum, known.maximum
    match low, high:
        case str(), str():
            return low, high
        case bool(), bool():
            return str(low).lower(), str(high).lower()
        case int(), int() if known.type in _WHOLE_NUMBERS:
            return text_bounds_of_numbers(low, high)
        case int(), int() if known.type == "date" and _FOUR_DIGITS[0] <= low <= high <= _FOUR_DIGITS[1]:
            days = (_EPOCH + dt.timedelta(days=low), _EPOCH + dt.timedelta(days=high))
            return days[0].isoformat(), days[1].isoformat()
    return None


def text_bounds_of_numbers(low: int, high: int) -> tuple[str, str]:
    """Return the least and the greatest decimal text of the whole numbers from ``low`` to ``high``.

    Numbers of the same sign and number of digits have the order of their texts, or the reverse order. So the
    extreme texts are those of numbers at the ends of such ranges.
    """
    tens = [10**digits for digits in range(20)]
    ends = [low, high, *(n for ten in tens for n in (ten - 1, ten, 1 - ten, -ten) if low <= n <= high)]
    texts = [str(number) for number in ends]
    return min(texts), max(texts)


def _while_above_comma(text: str) -> Iterator[str]:
    """Yield the characters of a text before the first that is not greater than a comma."""
    for character in text:
        if character <= ",":
            return
        yield character
