"""Conditions as Arrow expressions, against Spark's answers written out in Python."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal, localcontext

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquetry.runtime.arrow.schema import arrow_schema
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.read.row_filter import row_filter
from parquetry.runtime.spec.table_spec import Column
from tests.support.conditions import CONDITIONS, ROW_SCHEMA, ROWS, TYPES

COLUMNS = [Column(name=name, type=kind) for name, kind in TYPES.items()]
NESTED = Column(name="st", type="struct<name: string, deep: struct<n: int>>")


def passing(where, rows, columns=COLUMNS, schema=ROW_SCHEMA):
    """The numbers of the rows that pass."""
    found = row_filter(where, columns, UTC)
    table = pa.Table.from_pylist([*rows], schema).append_column("row", pa.array(range(len(rows))))
    return ds.dataset(table).to_table(filter=found.expression).column("row").to_pylist()


@given(st.lists(ROWS, max_size=5), CONDITIONS)
def test_a_row_passes_where_spark_holds_the_condition_or_all_is_refused(rows, condition):
    try:
        found = passing(condition.text, rows)
    except InvalidDataError:
        return
    assert found == [number for number, row in enumerate(rows) if condition.holds(row) is True]


@pytest.mark.parametrize(
    "where",
    [
        "i = 3 and not (s = 'a' or x > 1.5)",
        "i in (1, 2, 3)",
        "i not in (1, 2)",
        "dec between 1 and 2.555",
        "dec >= 1.005",
        "i < 99999999999999999999",
        "n > 3000000000",
        "x > 0.5",
        "x <> 'NaN'",
        "s like 'a%b_c'",
        "s like '%z'",
        "d >= '2020-01-01' and d < DATE '2020-02-01'",
        "ts < '2020-01-01 10:00:00'",
        "ts < TIMESTAMP '2020-01-01 10:00:00+02:00'",
        "b",
        "not b",
        "b is null",
        "I = 1",
        "`i` = 1",
        "s <=> 'a'",
        "i >= 2.5 and i <= 1e3",
    ],
)
def test_what_people_ask_is_evaluated(where):
    assert passing(where, []) == []


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("length(s) = 1", "Arrow does not evaluate"),
        ("i = n", "Arrow does not evaluate"),
        ("i + 1 = 2", "Arrow does not evaluate"),
        ("i = 1 and upper(s) = 'A'", "Arrow does not evaluate"),
        ("", "Arrow does not evaluate"),
        ("i = ", "Arrow does not evaluate"),
        ("s like 'a\\\\%'", "Arrow does not evaluate"),
        ("not s like 'a%'", "Arrow does not evaluate"),
        ("not (i <=> 1)", "Arrow does not evaluate"),
        ("true", "Arrow does not evaluate"),
        ("i like '1%'", "the column has type bigint"),
        ("i = 'one'", "Spark converts 'one' or the column, of type bigint"),
        ("dec = 1.5D", "of type decimal"),
        ("s = 5", "of type string"),
        ("other = 1", "has no columns 'other'"),
    ],
)
def test_what_it_cannot_evaluate_it_refuses(where, named):
    with pytest.raises(InvalidDataError) as refused:
        row_filter(where, COLUMNS, UTC)
    assert named in refused.value.in_full()


def test_fields_of_structs_are_asked_by_their_dotted_names():
    schema = pa.schema({"st": pa.struct({"name": pa.string(), "deep": pa.struct({"n": pa.int32()})})})
    rows = [
        {"st": {"name": "a", "deep": {"n": 1}}},
        {"st": {"name": None, "deep": None}},
        {"st": None},
        {"st": {"name": "b", "deep": {"n": 5}}},
    ]
    assert passing("st.deep.n > 0", rows, [NESTED], schema) == [0, 3]
    assert passing("st.name is null", rows, [NESTED], schema) == [1, 2]
    assert passing("st is null", rows, [NESTED], schema) == [2]
    assert row_filter("ST.Name = 'a'", [*COLUMNS, NESTED], UTC).columns == ("st",)


def test_names_that_two_columns_have_are_refused():
    columns = [Column(name="a.b", type="int"), Column(name="a", type="struct<b: int>")]
    with pytest.raises(InvalidDataError) as refused:
        row_filter("a.b = 1", columns, UTC)
    assert "has 2 columns" in refused.value.in_full()


@pytest.mark.parametrize(
    ("kind", "arrow", "most"), [("int", pa.int32(), 2**31 - 1), ("bigint", pa.int64(), 2**63 - 1)]
)
def test_numbers_beyond_a_type_are_larger_or_smaller_than_all_its_values(kind, arrow, most):
    rows = [{"v": most}, {"v": -most - 1}, {"v": None}]

    def found(where):
        return passing(where, rows, [Column(name="v", type=kind)], pa.schema({"v": arrow}))

    assert found(f"v < {most + 1}") == found(f"v <= {most + 1}") == found(f"v <> {most + 1}") == [0, 1]
    assert found(f"v > -{most + 2}") == found(f"v >= -{most + 2}") == [0, 1]
    assert found(f"v > {most + 1}") == found(f"v = {most + 1}") == found(f"v < -{most + 2}") == []
    assert found(f"v >= {most}") == [0]
    assert found(f"v <= -{most}.5") == [1]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("decimal(38,10)", "1234567890123456789012345678.1234567891"),
        ("decimal(38,0)", "-12345678901234567890123456789012345678"),
        ("decimal(38,38)", "0.12345678901234567890123456789012345678"),
    ],
)
def test_decimals_of_38_digits_are_compared_exactly(kind, text):
    column = Column(name="v", type=kind)
    schema = arrow_schema([column])
    scale = schema.field("v").type.scale
    value, step = Decimal(text), Decimal(f"1e-{scale}")
    with localcontext(prec=40):
        rows = [{"v": value - step}, {"v": value}, {"v": value + step}, {"v": None}]
    assert passing(f"v = {text}", rows, [column], schema) == [1]
    assert passing(f"v < {text}", rows, [column], schema) == [0]
    assert passing(f"v >= {text}", rows, [column], schema) == [1, 2]
