"""What failures inside Spark are told as, by their text alone."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from parquetry.runtime.errors import InvalidDataError
from parquetry.runtime.spark.session import failures_translated

CALLED = "An error occurred while calling o9.collectToPython.\n: org.apache.spark.SparkException: "


@pytest.mark.parametrize(
    "said",
    [
        "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery. SQLSTATE: 21000\n\tat a.b",
        "[MALFORMED_RECORD_IN_PARSING] Malformed records are detected: {.\nParse Mode: FAILFAST. SQLSTATE: 22023",
    ],
)
def test_states_of_sql_that_blame_the_data_are_its_fault(said):
    with pytest.raises(InvalidDataError) as caught, failures_translated("rows for t"):
        raise PySparkException(message=CALLED + said)
    assert str(caught.value).startswith("rows for t: Spark cannot compute the rows: org.apache.spark.Spark")
    assert said.splitlines()[0] in str(caught.value)


def test_a_file_that_cannot_be_read_is_not_the_querys_fault_whatever_caused_it():
    said = (
        "[FAILED_READ_FILE] Error while reading file s3a://b/x. SQLSTATE: KD001\nCaused by: a SQLSTATE: 22023"
    )
    with pytest.raises(PySparkException), failures_translated("rows for t"):
        raise PySparkException(message=CALLED + said)
