"""Types of one column in the files of a batch, and the types that fields of JSON are read with."""

from __future__ import annotations

from itertools import permutations

import pytest
from pyspark.sql import types as T  # noqa: N812

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.read.source_types import as_texts, check_one_spelling, check_one_type


def in_files(*types):
    return [(T.StructType([T.StructField("a", kind)]), f"file{number}") for number, kind in enumerate(types)]


@pytest.mark.parametrize("types", list(permutations([T.NullType(), T.StringType(), T.LongType()])))
def test_a_column_of_nulls_hides_no_difference_of_the_others(types):
    named = [f"file{number}" for number, kind in enumerate(types) if kind != T.NullType()]
    with pytest.raises(InvalidDataError, match=rf"column 'a' is \w+ in {named[0]} and \w+ in {named[1]};"):
        check_one_type(in_files(*types))


@pytest.mark.parametrize("types", list(permutations([T.NullType(), T.IntegerType(), T.LongType()])))
def test_nulls_and_narrower_numbers_fit(types):
    check_one_type(in_files(*types))


NUMBER, TEXT, REAL = T.LongType(), T.StringType(), T.DoubleType()


def struct(**fields):
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def test_fields_have_the_names_of_the_file_and_those_that_only_it_has_are_kept_for_the_write_to_refuse():
    found = struct(A=REAL, more=NUMBER)
    wanted = struct(a=REAL)
    read = struct(A=TEXT, more=NUMBER)
    assert as_texts(found, wanted) == read
    assert as_texts(T.ArrayType(found), T.ArrayType(wanted)) == T.ArrayType(read)
    maps = struct(k=struct(A=NUMBER), l=found)
    assert as_texts(maps, T.MapType(TEXT, wanted)) == T.MapType(TEXT, read)
    assert as_texts(struct(k=NUMBER), T.MapType(TEXT, NUMBER)) == T.MapType(TEXT, TEXT)
    assert as_texts(struct(), T.MapType(TEXT, wanted)) == T.MapType(TEXT, struct(a=TEXT))


def test_what_the_files_have_only_nulls_of_is_read_as_declared():
    nested = T.ArrayType(struct(a=REAL, m=T.MapType(TEXT, NUMBER)))
    assert as_texts(TEXT, nested) == T.ArrayType(struct(a=TEXT, m=T.MapType(TEXT, TEXT)))


def test_undeclared_numbers_with_a_fraction_are_texts_and_others_what_they_are():
    found = struct(a=REAL, b=NUMBER, c=T.BooleanType(), d=T.ArrayType(REAL), e=T.DecimalType(20, 0))
    read = struct(a=TEXT, b=NUMBER, c=T.BooleanType(), d=T.ArrayType(TEXT), e=T.DecimalType(20, 0))
    assert as_texts(found, None) == read


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (struct(a=TEXT, A=TEXT), "'a' and 'A'"),
        (struct(n=T.ArrayType(struct(b=TEXT, B=TEXT))), "'n.element.b' and 'n.element.B'"),
        (struct(m=T.MapType(TEXT, struct(b=TEXT, B=TEXT))), "'m.value.b' and 'm.value.B'"),
    ],
)
def test_fields_whose_names_differ_in_case_alone_are_told(schema, names):
    with pytest.raises(
        InvalidDataError, match=f"the records have fields {names}, which are the same for Spark"
    ):
        check_one_spelling(schema)
