"""Partitions that are deleted by values: what a value means for a column of another type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.write.partition_deletion import delete_partitions
from tests.support.handmade import COLUMNS, HandmadeTable, spec
from tests.support.small_table import FAST

LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def partitioned(folder, kind, *paths):
    id_, _, n = COLUMNS
    table = HandmadeTable(folder, spec(columns=(id_, Column(name="p", type=kind), n)))
    table.commit("1", {path: {f"f-{number}": [("k", 1)]} for number, path in enumerate((*paths, "p=other"))})
    return table


@pytest.mark.parametrize(
    ("kind", "path", "values"),
    [
        ("decimal(10,2)", "p=1.50", [Decimal("1.5"), Decimal("1.500"), "1.5", "1.50"]),
        ("decimal(10,2)", "p=-2.00", [-2, Decimal(-2), "-2"]),
        ("decimal(38,10)", "p=1E-10", [Decimal("0.0000000001")]),
        ("decimal(10,2)", "p=0.00", ["-0", Decimal("-0.0"), 0, np.int64(0)]),
        ("int", "p=7", [7, "7", "007", Decimal(7), Decimal("7.00"), np.int32(7)]),
        ("bigint", "p=-7", [-7, "-7"]),
        ("boolean", "p=true", [True, "true", "TRUE"]),
        ("date", "p=2026-01-02", [dt.date(2026, 1, 2), "2026-01-02", "2026-1-2"]),
        (
            "timestamp",
            "p=253402300799999999",
            [LAST, LAST.replace(tzinfo=dt.UTC), "253402300799999999", 253402300799999999],
        ),
        (
            "timestamp",
            "p=1700000000000000",
            [1700000000000000, np.int64(1700000000000000), Decimal(1700000000000000)],
        ),
        ("double", "p=1.0E10", ["1.0E10"]),
        ("string", "p=7", ["7", 7, Decimal(7), np.int64(7)]),
        ("string", "p=true", ["true", True]),
        ("string", "p=1.50", ["1.50", Decimal("1.50")]),
        ("string", "p=2026-01-02", ["2026-01-02", dt.date(2026, 1, 2)]),
        ("string", "p=a%2Fb", ["a/b"]),
        ("int", "p=__HIVE_DEFAULT_PARTITION__", [None]),
    ],
)
def test_a_value_means_the_folder_that_rows_of_it_lie_in(tmp_path, kind, path, values):
    for number, value in enumerate(values):
        table = partitioned(tmp_path / str(number), kind, path)
        delete_partitions(table.open(), [{"p": value}], timing=FAST)
        assert [p for p in table.view().partitions() if table.view().slices(p)] == ["p=other"], value


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (
            "decimal(10,2)",
            Decimal("1.555"),
            r"decimal\(10,2\) and cannot hold Decimal\('1.555'\) .*number that decimal",
        ),
        ("decimal(4,2)", 100, "a number that"),
        ("decimal(4,2)", Decimal("NaN"), "a number that"),
        ("decimal(4,2)", 1.5, "1.5 of type float; pass a number that"),
        ("int", "x", "int and cannot hold 'x' of type str; pass a whole number"),
        ("int", True, "pass a whole number"),
        ("int", Decimal("7.5"), "pass a whole number"),
        ("int", Decimal("NaN"), "pass a whole number"),
        ("int", 7.0, "pass a whole number"),
        ("date", dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "pass a date"),
        ("date", "2026", "pass a date"),
        ("timestamp", dt.date(2026, 1, 2), "pass a datetime, or microseconds since 1970 in UTC"),
        ("timestamp", True, "pass a datetime"),
        ("timestamp", "2026-01-02", "pass a datetime"),
        ("boolean", 1, "pass True or False"),
        ("double", 1.5, "the number's text in the folder's name"),
        ("string", LAST, "pass text, or give the partition by its path"),
        ("string", Decimal("1E+3"), "pass text"),
        ("string", Decimal("Infinity"), "pass text"),
        ("string", 1.5, "pass text"),
    ],
)
def test_a_value_of_another_type_is_refused(tmp_path, kind, value, says):
    table = partitioned(tmp_path, kind, "p=1")
    with pytest.raises(InvalidDataError, match=f"partition column 'p' is .*{says}"):
        delete_partitions(table.open(), [{"p": value}], timing=FAST)
    assert delete_partitions(table.open(), ["p=1"], timing=FAST).instant is not None
