"""Numbered jobs and the environment of Python processes, which all threads of a session share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from parquetry.runtime.spark.session.numbered import run_numbered


class Session:
    """A session that says which environment a job got, and calls ``meanwhile`` at its start and its end."""

    def __init__(self, simplified: str = "true") -> None:
        self.conf = SimpleNamespace(get=lambda _, default: simplified or default)
        self.sparkContext = SimpleNamespace(environment={"A": "1", "B": "2"}, parallelize=lambda *_: self)
        self.meanwhile = lambda: None
        self.got: list[dict[str, str]] = []

    def mapPartitions(self, _):  # noqa: N802 - Spark's name
        return self

    def id(self) -> int:
        self.got.append(dict(self.sparkContext.environment))
        self.meanwhile()
        return 7

    def collect(self):
        self.meanwhile()
        return []


@pytest.mark.parametrize(("simplified", "added"), [("true", ["SPARK_SIMPLIFIED_TRACEBACK"]), ("false", [])])
def test_a_job_gets_the_environment_of_spark_sql(simplified, added):
    spark = Session(simplified)
    run_numbered(spark, lambda _: iter(()), 1)
    assert sorted(spark.got[0]) == ["A", "B", *added]
    assert spark.sparkContext.environment == {"A": "1", "B": "2"}


def test_what_the_application_has_set_stays():
    spark = Session()
    spark.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] = ""
    run_numbered(spark, lambda _: iter(()), 1)
    assert spark.got == [spark.sparkContext.environment]


def test_another_thread_can_go_through_the_environment_meanwhile():
    spark = Session()
    names = iter(spark.sparkContext.environment)
    found = []
    spark.meanwhile = lambda: found.append(next(names))
    run_numbered(spark, lambda _: iter(()), 1)
    assert found == ["A", "B"]
