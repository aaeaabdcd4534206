"""Types of Spark's rows against those of the table."""

from __future__ import annotations

import pytest

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session.conversion import check_type
from parquetry.runtime.spec.types import parse_type


@pytest.mark.parametrize(
    ("found", "wanted", "text"),
    [
        (
            "struct<a:int>",
            "struct<a:int,`b's`:int NOT NULL>",
            """column "c.b's" is missing from the rows and""",
        ),
        (
            "struct<a:int,`b's`:int>",
            "struct<a:int>",
            """column "c.b's" is not in the table, which has c: st""",
        ),
        ("struct<`b's`:int,`B's`:int>", "struct<a:int>", """the rows have two columns "c.B's", perhaps in"""),
        (
            "struct<a:string>",
            "struct<a:int>",
            "column 'c.a' is string in the rows and int in the table, which",
        ),
    ],
)
def test_a_field_that_does_not_fit_is_named_by_its_quoted_path(found, wanted, text):
    with pytest.raises(InvalidDataError) as caught:
        check_type(parse_type(found), parse_type(wanted), "c")
    assert str(caught.value).startswith(text)
