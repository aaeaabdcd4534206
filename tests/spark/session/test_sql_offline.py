"""What Spark's own parser takes, the check without Spark takes: no text is refused that would have worked."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from parquetry.project.diagnostics.model import Problem
from parquetry.project.sql.grammar import misfit
from parquetry.project.sql.guard import tokens
from tests.support.effort import examples
from tests.support.spark_sql import EXPRESSIONS, QUERIES, combined, mistaken

pytestmark = pytest.mark.spark


def _parser(spark):
    return spark._jsparkSession.sessionState().sqlParser()


def _spark_takes(parser, text, *, query):
    """Whether Spark parses the text, as an expression without a name."""
    try:
        parsed = parser.parseQuery(text) if query else parser.parseExpression(text)
    except PySparkException:
        return False
    named = not query and parsed.getClass().getName().endswith(("Alias", "MultiAlias"))
    return not named


def _taken_offline(text, *, query):
    try:
        return misfit(tokens(text), query=query) is None
    except Problem:
        return False


def _compared(spark, texts, *, query):
    """Texts that Spark takes and the offline check refuses, and how many each of the two refuses."""
    parser = _parser(spark)
    wrong, refused, by_spark = [], 0, 0
    for text in dict.fromkeys(texts):
        by = _spark_takes(parser, text, query=query)
        offline = _taken_offline(text, query=query)
        by_spark += not by
        refused += not offline
        if by and not offline:
            wrong.append(text)
    return wrong, refused, by_spark


def test_no_expression_of_spark_is_refused(spark):
    texts = [*EXPRESSIONS, *combined(EXPRESSIONS, count=examples(600), seed=1)]
    wrong, _, by_spark = _compared(spark, texts, query=False)
    assert wrong == []
    assert by_spark < len(texts) / 10


def test_mistakes_are_found_and_nothing_that_spark_takes(spark):
    wrong, refused, by_spark = _compared(
        spark, mistaken(EXPRESSIONS, count=examples(3000), seed=2), query=False
    )
    assert wrong == []
    assert refused > 0.9 * by_spark


def test_no_query_of_spark_is_refused(spark):
    wrong, _, by_spark = _compared(spark, QUERIES, query=True)
    assert wrong == []
    assert by_spark < 8


def test_mistakes_in_queries_are_found_and_nothing_that_spark_takes(spark):
    wrong, refused, by_spark = _compared(spark, mistaken(QUERIES, count=examples(2000), seed=3), query=True)
    assert wrong == []
    assert refused > 0.6 * by_spark
