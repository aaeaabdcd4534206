"""What others write (rows, types of tables, reasons) is read in time that grows with its length, and not faster."""

from __future__ import annotations

import pytest

from parquetry.cli.bug_report import masked
from parquetry.cli.terminal.markdown import inline
from parquetry.message import Message
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.layout.skipping.condition import Opaque
from parquetry.runtime.layout.skipping.parser import parse_condition
from parquetry.runtime.spark.read.source_failures import explained
from parquetry.runtime.spec.table_spec import Source
from parquetry.runtime.spec.types import parse_type

LONG = 1_000_000
pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("piece", ["Cannot parse the field name x", " and the value [", "Caused by: a.b: "])
def test_a_long_value_in_what_spark_said(piece):
    said = "MALFORMED_RECORD_IN_PARSING Cannot parse the field name " + piece * (LONG // len(piece))
    explain = explained(Source(name="s", format="json", path="in/*"), [], (), {})
    assert isinstance(explain("in/a.json", said), Message)


@pytest.mark.parametrize("piece", ["a=", "a=/", "/", "a=b/", "=", "x.parquet ", "://a:"])
def test_a_long_line_in_a_report_of_a_bug(piece):
    text = piece * (LONG // len(piece))
    assert len(masked(text, {})) < 20_000
    assert masked(f"/t/day=2020/{'x' * 100}.parquet", {}).startswith("/t/day=***/")


@pytest.mark.parametrize("piece", [",", ".;", "`", "[", "://", "a_", ":a", "<!--"])
def test_a_long_reason_in_markdown(piece):
    assert len(inline(f"@x{piece * (LONG // len(piece))}y")) >= LONG


@pytest.mark.parametrize(
    "text", ["array<" * 5000, "struct<a:" * 5000, "map<string," * 5000, "array<" * 300 + "int" + ">" * 300]
)
def test_a_type_of_many_levels(text):
    with pytest.raises(InvalidDataError, match="a type has at most 100 levels") as caught:
        parse_type(text)
    assert len(str(caught.value)) < 1000
    assert str(parse_type("array<" * 50 + "int" + ">" * 50)).count("array") == 50


def test_a_type_of_many_digits():
    with pytest.raises(InvalidDataError, match="is not a number of digits"):
        parse_type(f"decimal({'1' * 5000})")


@pytest.mark.parametrize("text", ["a = " + "1" * 5000, "a = " + "1" * LONG, "a < " + "1" * 5000 + ".5"])
def test_a_number_of_many_digits_in_a_condition(text):
    assert parse_condition(text) is not None


@pytest.mark.parametrize("piece", ["(", "not ", "a = (", "a in (1) ", "'", "a and (", "case "])
def test_a_long_condition(piece):
    assert isinstance(parse_condition(piece * (200_000 // len(piece))), Opaque)
