"""Which types of one column files of a batch may have."""

from __future__ import annotations

from itertools import permutations

import pytest
from pyspark.sql import types as T  # noqa: N812

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.source_types import check_one_type


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
