"""Which types of one column files of a batch may have."""

from __future__ import annotations

from itertools import permutations

import pytest
from pyspark.sql import types as T  # noqa: N812

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.read.source_types import check_one_type, with_undeclared_fields


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


def test_fields_that_only_the_file_has_are_kept_at_any_depth_for_the_write_to_refuse():
    def struct(**fields):
        return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])

    number, text = T.LongType(), T.StringType()
    found = struct(A=number, more=text)
    wanted = struct(a=number)
    both = struct(a=number, more=text)
    assert with_undeclared_fields(wanted, found) == both
    assert with_undeclared_fields(T.ArrayType(wanted), T.ArrayType(found)) == T.ArrayType(both)
    maps = struct(k=struct(a=number), l=found)
    assert with_undeclared_fields(T.MapType(text, wanted), maps) == T.MapType(text, both)
    assert with_undeclared_fields(T.MapType(text, number), struct(k=number)) == T.MapType(text, number)
