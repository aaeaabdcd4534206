"""What Spark's guard takes, the check without Spark takes: no text is refused that would have worked."""

from __future__ import annotations

from itertools import chain

import pytest
from pyspark.errors import PySparkException

from parquetry.project.sql import guard
from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session import sql_guard
from tests.support.effort import examples
from tests.support.hostile_sql import (
    HOSTILE_EXPRESSIONS,
    HOSTILE_QUERIES,
    ORDINARY_EXPRESSIONS,
    ORDINARY_QUERIES,
)
from tests.support.spark_sql import EXPRESSIONS, QUERIES, combined, mistaken

pytestmark = pytest.mark.spark

OF_SOURCE = [
    query.replace(" t ", " source ").replace(" t)", " source)").replace(" u ", " source ")
    for query in QUERIES
]
KEYWORDS_AS_NAMES = ("as", "from", "select")
"""The check takes them for keywords in places where Spark can tell that they are columns."""


def _spark_takes(spark, text, *, query):
    check = sql_guard.check_query if query else sql_guard.check_expression
    try:
        check(spark, text, place="x")
    except (InvalidDataError, PySparkException):
        return False
    return True


def _offline(text, *, query):
    """``ok``, ``warning``, or the code of the error."""
    try:
        return "warning" if (guard.check_select if query else guard.check_expression)(text).refusal else "ok"
    except guard.SqlProblem as problem:
        return problem.code


def _compared(spark, texts, *, query):
    """Texts that Spark takes and the offline check refuses, how many get a warning, and how many Spark takes."""
    refused, warned, taken = [], 0, 0
    for text in dict.fromkeys(texts):
        if query and not text.lower().startswith(("select", "with")):
            continue
        if _spark_takes(spark, text, query=query):
            offline = _offline(text, query=query)
            taken += 1
            warned += offline == "warning"
            if offline.startswith("PQ"):
                refused.append(text)
    return refused, warned, taken


def test_no_expression_of_spark_is_refused(spark):
    texts = [*EXPRESSIONS, *ORDINARY_EXPRESSIONS, *combined(EXPRESSIONS, count=examples(600), seed=1)]
    refused, warned, taken = _compared(spark, texts, query=False)
    assert refused == []
    assert warned < taken / 6


def test_no_query_of_spark_is_refused(spark):
    refused, warned, taken = _compared(spark, [*OF_SOURCE, *ORDINARY_QUERIES], query=True)
    assert refused == []
    assert warned < taken / 10


@pytest.mark.parametrize("query", [False, True])
def test_mistaken_texts_that_spark_takes_are_not_refused(spark, query):
    ordinary = [*OF_SOURCE, *ORDINARY_QUERIES] if query else [*EXPRESSIONS, *ORDINARY_EXPRESSIONS]
    hostile = HOSTILE_QUERIES if query else HOSTILE_EXPRESSIONS
    texts = chain(
        mistaken(ordinary, count=examples(1500), seed=2), mistaken(hostile, count=examples(1000), seed=3)
    )
    refused, _, _ = _compared(spark, texts, query=query)
    assert [
        text for text in refused if not any(word in text.lower().split() for word in KEYWORDS_AS_NAMES)
    ] == []
