"""Counts the failures of all tests of a table in one scan of its files.

Each row gives one record with a bit for each condition that it violates, and one record for each key that
must be unique or in another table. Equal records are counted together. Rows that pass everything become one
record per task before the shuffle, so only keys are shuffled. The driver receives one row with the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the customary name)

from parquetry.runtime.layout.model import FileSlice
from parquetry.runtime.spark.read.scan import scan_files
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.testing.checks import RowCheck
from parquetry.runtime.spec.meta_columns import META_COLUMNS
from parquetry.runtime.spec.table_spec import Column as TableColumn
from parquetry.runtime.table.handle import TableHandle
from parquetry.runtime.timeline.active import Timeline

_BITS: Final = 62
"""The number of conditions per bigint."""

_OF_CONDITIONS: Final = 0
"""The owner of records about conditions; a record about a key has its check's number, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedTable:
    """The files that the tests read, and the objects that read them."""

    __test__ = False

    spark: SparkSession
    handle: TableHandle
    timeline: Timeline
    columns: Sequence[TableColumn]
    files: Sequence[FileSlice]

    def rows(self, numbers: Sequence[int]) -> DataFrame:
        """Return the rows of the files with these numbers, with Hudi's columns and the table's."""
        files = [self.files[number] for number in numbers]
        return scan_files(self.spark, self.handle, self.timeline, files, self.columns, meta=META_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The failures of each check, in the order of its violations, and the number of rows that were read."""

    failures: tuple[tuple[int, ...], ...]
    rows: int


def count_failures(table: TestedTable, checks: Sequence[RowCheck]) -> Counted:
    """Count the failures of the checks, each in its own files; read each file once.

    Raises:
        InvalidDataError: If an expression cannot be computed for a row.
        CorruptTableError: If a file is damaged, as for any read.
        NotFoundError: If a file was removed.

    """
    records = _Records(checks)
    frames = [records.of(table.rows(numbers), wanted) for wanted, numbers in _files_by_checks(checks).items()]
    if not frames:
        return Counted(failures=tuple((0,) * max(1, len(check.violations)) for check in checks), rows=0)
    with failures_translated("tests of rows", of_table=True):
        found = records.counted(reduce(DataFrame.unionAll, frames)).first()
    assert found is not None, "an aggregation without keys has one row"
    counts = iter([value or 0 for value in found])
    rows = next(counts)
    return Counted(
        failures=tuple(tuple(next(counts) for _ in check.violations or (0,)) for check in checks), rows=rows
    )


def _files_by_checks(checks: Sequence[RowCheck]) -> Mapping[tuple[int, ...], list[int]]:
    """Return the numbers of the files by the checks that read them, which are given as indexes."""
    wanted: dict[int, list[int]] = {}
    for index, check in enumerate(checks):
        for number in check.test.files:
            wanted.setdefault(number, []).append(index)
    found: dict[tuple[int, ...], list[int]] = {}
    for number, indices in sorted(wanted.items()):
        found.setdefault(tuple(indices), []).append(number)
    return found


class _Records:
    """The records of rows, as columns in which Spark counts the failures of all checks at once.

    ``owner`` is 0 for a row's conditions, and otherwise one more than the index of a check. Columns of masks
    have a bit for each condition that is true. A slot is a column for one key of a check; checks with keys of
    the same type share slots.
    """

    def __init__(self, checks: Sequence[RowCheck]) -> None:
        self._checks = checks
        self._bits: dict[tuple[int, int], int] = {}
        for index, check in enumerate(checks):
            for number in range(len(check.violations)):
                self._bits[index, number] = len(self._bits)
        self._masks = [f"m{number}" for number in range(-(-len(self._bits) // _BITS))]
        most: Counter[str] = Counter()
        for check in checks:
            most |= Counter(check.key_types)
        self._slots = {f"k{n}": ddl for n, ddl in enumerate(sorted(most.elements()))}

    def of(self, rows: DataFrame, indices: Sequence[int]) -> DataFrame:
        """Return the records of these rows for the checks with the indexes ``indices``."""
        masks: list[Column] = [F.lit(0).cast("bigint")] * len(self._masks)
        for (index, number), bit in self._bits.items():
            if index in indices:
                broken = F.when(self._checks[index].violations[number], F.lit(1 << bit % _BITS)).otherwise(0)
                masks[bit // _BITS] = masks[bit // _BITS] + broken.cast("bigint")
        records = [self._record(_OF_CONDITIONS, masks, {})]
        none = [F.lit(0).cast("bigint")] * len(self._masks)
        for index in indices:
            check = self._checks[index]
            if not check.keys:
                continue
            whole = reduce(and_, (key.isNotNull() for key in check.keys))
            record = self._record(index + 1, none, self._in_slots(check, check.keys))
            records.append(F.when(whole, record))
        if len(records) == 1:
            return rows.select(records[0].alias("r")).select("r.*")
        return rows.select(F.inline(F.array(*records))).where("owner IS NOT NULL")

    def counted(self, records: DataFrame) -> DataFrame:
        """Return one row: the number of rows that were read, then the number of failures of each check."""
        grouped = records.groupBy("owner", *self._masks, *self._slots).agg(F.count(F.lit(1)).alias("n"))
        other_keys = self._others()
        if other_keys is not None:
            known = [F.col(name).eqNullSafe(F.col(f"{name}_there")) for name in self._slots]
            same = reduce(and_, known, F.col("owner") == F.col("owner_there"))
            grouped = grouped.join(other_keys, same, "left")
        return grouped.agg(*self._sums())

    def _sums(self) -> list[Column]:
        """Return the sums over grouped records: the rows that were read, then the failures of each check."""

        def total(condition: Column, value: Column) -> Column:
            return F.sum(F.when(condition, value).otherwise(F.lit(0).cast("bigint")))

        sums = [total(F.col("owner") == _OF_CONDITIONS, F.col("n"))]
        for index, check in enumerate(self._checks):
            for number in range(len(check.violations)):
                bit = self._bits[index, number]
                is_set = F.col(self._masks[bit // _BITS]).bitwiseAND(F.lit(1 << bit % _BITS)) != 0
                sums.append(total((F.col("owner") == _OF_CONDITIONS) & is_set, F.col("n")))
            own = F.col("owner") == index + 1
            if check.others is not None:
                sums.append(total(own & F.col("owner_there").isNull(), F.col("n")))
            elif check.keys:
                sums.append(total(own & (F.col("n") > 1), F.lit(1).cast("bigint")))
        return sums

    def _others(self) -> DataFrame | None:
        """Return the distinct keys of the other tables as records, or None if no check has another table.

        The names of their columns end in ``_there``.
        """
        frames = []
        for index, check in enumerate(self._checks):
            if check.others is not None:
                keys = [F.col(f"k{number}") for number in range(len(check.key_types))]
                record = self._record(index + 1, [], self._in_slots(check, keys))
                frames.append(check.others.select(record.alias("r")).select("r.*").distinct())
        if not frames:
            return None
        other_keys = reduce(DataFrame.unionAll, frames)
        return other_keys.select(*(F.col(name).alias(f"{name}_there") for name in ("owner", *self._slots)))

    def _in_slots(self, check: RowCheck, keys: Sequence[Column]) -> Mapping[str, Column]:
        """Return the keys of a check by slot. Each key gets the first free slot of its type."""
        free = dict(self._slots)
        slots = {}
        for key, ddl in zip(keys, check.key_types, strict=True):
            slot = next(name for name, kind in free.items() if kind == ddl)
            del free[slot]
            slots[slot] = key
        return slots

    def _record(self, owner: int, masks: Sequence[Column], keys: Mapping[str, Column]) -> Column:
        """Return the record as a struct of owner, masks and slots. Slots without a key are null."""
        bits = (mask.alias(name) for mask, name in zip(masks, self._masks, strict=False))
        slots = (keys.get(name, F.lit(None)).cast(ddl).alias(name) for name, ddl in self._slots.items())
        return F.struct(F.lit(owner).alias("owner"), *bits, *slots)
