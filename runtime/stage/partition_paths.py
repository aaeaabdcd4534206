"""Partition paths, computed from Arrow columns; each distinct path of a batch is encoded once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.spec.types import parse_type
from parquetry.runtime.table.partition_path import KeyRules, path_of_texts

SAME_TEXT_TYPES: Final = frozenset({"string", "tinyint", "smallint", "int", "bigint", "boolean", "date"})
"""The types whose text in keys and partition paths is the same here and in Java."""

_EPOCH = dt.date(1970, 1, 1)
_DAYS_OF_400_YEARS: Final = 146_097


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPaths:
    """The rules by which tasks compute the partition paths of rows."""

    rules: KeyRules

    @classmethod
    def of(cls, rules: KeyRules, columns: Sequence[Column]) -> Self | None:
        """Return the rules, or None if only Spark can produce the text of a partition column.

        That is so for columns within structs, and for types other than :data:`SAME_TEXT_TYPES`.
        """
        kinds = {column.name: str(parse_type(column.type)) for column in columns}
        has_same_text = all(kinds.get(field) in SAME_TEXT_TYPES for field in rules.partition_by)
        return cls(rules=rules) if has_same_text else None

    def of_rows(self, rows: pa.RecordBatch) -> pa.DictionaryArray:
        """Return the partition path of each row, as a dictionary array."""
        codes = pa.array(np.zeros(rows.num_rows, np.int32))
        values: list[tuple[tuple[str | None, bool], ...]] = [()]
        for field in self.rules.partition_by:
            column = rows.column(field).dictionary_encode(null_encoding="encode")
            texts, is_text = _texts(column.dictionary), not pa.types.is_primitive(column.type.value_type)
            if values == [()]:
                codes, values = column.indices, [((text, is_text),) for text in texts]
                continue
            # The codes are renumbered after each column, so that the product of many columns does not
            # overflow.
            codes = pc.add(pc.multiply(pc.cast(codes, pa.int64()), len(texts)), column.indices)
            numbered = codes.dictionary_encode()
            codes = numbered.indices
            values = [
                (*values[number // len(texts)], (texts[number % len(texts)], is_text))
                for number in numbered.dictionary.to_pylist()
            ]
        # Null and an empty text have the same path.
        paths = pa.array(
            [path_of_texts(self.rules, texts) for texts in values], pa.string()
        ).dictionary_encode()
        return pa.DictionaryArray.from_arrays(paths.indices.take(codes), paths.dictionary)


def _texts(values: pa.Array) -> list[str | None]:
    """Return the text of each value as Java writes it, with None for null."""
    if pa.types.is_date32(values.type):
        days = pc.cast(values, pa.int32()).to_pylist()
        return [None if day is None else _date_text(day) for day in days]
    texts: list[str | None] = pc.cast(values, pa.string()).to_pylist()
    return texts


def _date_text(days: int) -> str:
    """Return a day in ISO form, also for years that Python's dates lack.

    The calendar repeats after 400 years.
    """
    periods, rest = divmod(days, _DAYS_OF_400_YEARS)
    day = _EPOCH + dt.timedelta(days=rest)
    year = day.year + 400 * periods
    sign = "-" if year < 0 else "+" if year > dt.MAXYEAR else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"
