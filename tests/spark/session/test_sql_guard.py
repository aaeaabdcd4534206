"""Specs' SQL on real Spark: what reads, runs or writes anything else is refused, and ordinary SQL is not."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql import functions as F  # noqa: N812

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.prepare.rows import prepare_matches, prepare_rows
from parquetry.runtime.spark.session.failures import failures_translated
from parquetry.runtime.spark.session.sql_guard import ALLOWED_FUNCTIONS, check_expression, check_query
from parquetry.runtime.spec.table_spec import Column
from parquetry.runtime.table.partition_path import KeyRules
from tests.support.effort import in_full
from tests.support.functions_of_spark import unlisted_functions
from tests.support.hostile_sql import (
    HOSTILE_EXPRESSIONS,
    HOSTILE_QUERIES,
    HOSTILE_QUERIES_OF_SPARK_4,
    ORDINARY_EXPRESSIONS,
    ORDINARY_FOR_SPARK_ALONE,
    ORDINARY_QUERIES,
    ORDINARY_QUERIES_OF_SPARK_4,
)

pytestmark = pytest.mark.spark

BRACKETS = 10_000 if in_full() else 2_000
"""Spark's parser gives up on both, and takes ten seconds for the first."""

IS_4 = not pyspark.__version__.startswith("3.")


@pytest.fixture(scope="module")
def views(spark):
    """Views of the session that have the names which the attacks read."""
    for name in ("source", "foo", "bar"):
        spark.range(1).createOrReplaceTempView(name)
    yield
    for name in ("source", "foo", "bar"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("text", HOSTILE_EXPRESSIONS)
def test_hostile_expressions_are_refused(spark, views, text):
    with pytest.raises(InvalidDataError, match=r"^x: "):
        check_expression(spark, text, place="x")


@pytest.mark.parametrize("text", [*HOSTILE_QUERIES, *HOSTILE_QUERIES_OF_SPARK_4])
def test_hostile_queries_are_refused(spark, views, text):
    with pytest.raises(InvalidDataError, match=r"^x: "):
        check_query(spark, text, place="x")


@pytest.mark.parametrize("text", ORDINARY_EXPRESSIONS)
def test_ordinary_expressions_pass(spark, text):
    check_expression(spark, text, place="x")


@pytest.mark.parametrize(
    "text",
    [*ORDINARY_QUERIES, *ORDINARY_FOR_SPARK_ALONE, *(ORDINARY_QUERIES_OF_SPARK_4 if IS_4 else ())],
)
def test_ordinary_queries_pass(spark, text):
    check_query(spark, text, place="x")


def test_a_scope_ends_with_its_query(spark):
    check_query(spark, "select * from (with foo as (select 1) select * from foo) x", place="x")
    with pytest.raises(InvalidDataError, match="may not read 'foo'"):
        check_query(spark, "select * from (with foo as (select 1) select * from foo) x, foo", place="x")


def test_names_keep_their_case_where_the_session_does(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidDataError, match="may not read 'SOURCE'"):
            check_query(spark, "select * from SOURCE", place="x")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_function_of_the_session_is_called_where_the_session_lists_it(spark):
    spark.udf.register("doubled", lambda number: number * 2)
    with pytest.raises(
        InvalidDataError, match=f"'doubled' is not one that SQL may call.*{ALLOWED_FUNCTIONS}"
    ):
        check_expression(spark, "doubled(id) = '4'", place="x")
    spark.conf.set(ALLOWED_FUNCTIONS, "Doubled, tripled")
    try:
        check_expression(spark, "doubled(id) = '4' and `DOUBLED`(1) = '2'", place="x")
        with pytest.raises(InvalidDataError, match="has a function 'tripled'"):
            check_expression(spark, "tripled(id) = '4'", place="x")
        with pytest.raises(InvalidDataError, match="it can fetch what an XML text names"):
            check_expression(spark, "xpath(name, 'a') is null", place="x")
    finally:
        spark.conf.unset(ALLOWED_FUNCTIONS)


def test_every_function_of_spark_is_on_a_list(spark):
    assert unlisted_functions(spark) == set()


@pytest.mark.parametrize(
    "text",
    [
        "(" * BRACKETS + "1" + ")" * BRACKETS,
        "case when a then " * 10_000 + "1" + " end" * 10_000,
        "not " * 10_000 + "a",
        "1" + " + 1" * 20_000,
        "1" + " + 1" * 200_000,
        "a in (" + "1, " * 200_000 + "1)",
    ],
    ids=["brackets", "cases", "negations", "sum", "long sum", "long list"],
)
def test_sql_that_spark_cannot_read_is_an_error_of_the_sql(spark, text):
    with pytest.raises(InvalidDataError, match=r"^x: .*(cannot parse|nested too deeply|characters)"):
        check_expression(spark, text, place="x")


def test_sql_that_spark_cannot_analyse_is_an_error_of_the_sql(spark):
    column = F.col("id") > 1
    for _ in range(5000):
        column = ~column
    with pytest.raises(InvalidDataError, match=r"^x: the SQL is nested too deeply"), failures_translated("x"):
        spark.range(1).select(column)


def test_conditions_of_callers_are_held_against_the_same_rules(spark, views):
    columns, condition = [Column(name="id", type="bigint")], "exists (table foo)"
    with pytest.raises(InvalidDataError, match=r"^delete_when: an expression reads no other rows"):
        prepare_matches(spark.range(1), columns, ["id"], delete_when=condition)
    rules = KeyRules(record_key=("id",), partition_by=(), hive_style=True, url_encode=False, named_key=False)
    with pytest.raises(InvalidDataError, match=r"^delete_when: an expression reads no other rows"):
        prepare_rows(spark.range(1), columns, rules, delete_when=condition)
